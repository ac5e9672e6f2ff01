import Glibc
import Synchronization

/// A sink that writes to a file descriptor with write(2). It has no buffer, so that a crash loses no lines.
///
/// A slow or missing reader must not block the threads that log. In every period of ten seconds, the sink waits for the
/// reader for at most 100 ms in total.
package final class DescriptorSink: Sendable {
    private struct State {
        var isCut = false
        /// The start of the current ten-second period (monotonic), and the time that the sink may still wait in that
        /// period.
        var periodBeganNs = Int64.min / 2
        var leftNs: Int64 = 0
    }

    private let descriptor: Int32
    private let state = Mutex(State())

    package init(_ descriptor: Int32) { self.descriptor = descriptor }

    package static let standardError = DescriptorSink(STDERR_FILENO)

    /// The number of bytes that a pipe accepts in one write if poll(2) reports that it is writable (pipe(7), PIPE_BUF).
    private static let pieceLimit = 4_096
    private static let waitNs: Int64 = 100_000_000
    private static let periodNs: Int64 = 10_000_000_000

    /// Writes lines. Drops the bytes that the descriptor does not accept in time, even if the descriptor is in blocking
    /// mode. After an error, such as a closed pipe, drops the rest of the lines. Returns false if any byte was dropped.
    package func write(_ lines: [UInt8]) -> Bool {
        state.withLock { state in write(state.isCut ? [UInt8(ascii: "\n")] + lines : lines, &state) }
    }

    private func write(_ lines: [UInt8], _ state: inout State) -> Bool {
        var written = 0
        while written < lines.count {
            guard isReady(withinMs: 0) || waits(&state) else { return false }
            let size = min(lines.count - written, Self.pieceLimit)
            let count = unsafe lines.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress! + written, size) }
            if count > 0 {
                written += count
                state.isCut = written < lines.count
            } else if errno != EINTR, errno != EAGAIN {
                return false
            }
        }
        return true
    }

    /// Waits for the reader, for at most the remaining time of this period. Returns whether the descriptor is writable.
    private func waits(_ state: inout State) -> Bool {
        var nowNs = Self.monotonicNs
        if nowNs - state.periodBeganNs >= Self.periodNs { (state.periodBeganNs, state.leftNs) = (nowNs, Self.waitNs) }
        while state.leftNs > 0 {
            let beganNs = nowNs
            let isReady = isReady(withinMs: Int32(clamping: (state.leftNs + 999_999) / 1_000_000))
            nowNs = Self.monotonicNs
            state.leftNs -= nowNs - beganNs
            if isReady { return true }
        }
        return false
    }

    /// Returns whether the descriptor is writable within the timeout. A signal may end the wait early.
    private func isReady(withinMs timeoutMs: Int32) -> Bool {
        var poller = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return unsafe poll(&poller, 1, timeoutMs) > 0
    }

    static var monotonicNs: Int64 { nanoseconds(CLOCK_MONOTONIC) }
}
