import Glibc
import Synchronization

/// Where log lines go. `write` gets whole lines, in order, never two at a time.
package protocol LogSink: Sendable {
    /// False: what was given is lost, at least a part of it.
    @discardableResult func write(_ lines: [UInt8]) -> Bool
}

/// A file descriptor, written with write(2): no buffer that a crash could lose.
///
/// Whoever logs must not stand still with a reader that lags, or is gone: it is waited for 100 ms in ten seconds at
/// most, all lines together, and not at all while the last line could not be written.
package final class DescriptorSink: LogSink {
    private struct State {
        /// The last line could not be written.
        var isStuck = false
        /// A line was begun, and its rest is lost.
        var isCut = false
        /// When waiting was counted anew (monotonic), and what is left of it.
        var countedNs: Int64?
        var leftNs: Int64 = 0
    }

    private let descriptor: Int32
    private let state = Mutex(State())

    package init(_ descriptor: Int32) { self.descriptor = descriptor }

    package static let standardError = DescriptorSink(STDERR_FILENO)

    /// Bytes that a pipe takes at once when poll(2) says that it can be written (pipe(7), PIPE_BUF).
    private static let pieceLimit = 4_096
    private static let waitNs: Int64 = 100_000_000
    private static let waitEveryNs: Int64 = 10_000_000_000

    /// Drops what the descriptor does not take, also where it blocks. An error (a closed pipe) drops the line.
    @discardableResult package func write(_ lines: [UInt8]) -> Bool {
        state.withLock { state in
            let isWritten = write(state.isCut ? [UInt8(ascii: "\n")] + lines : lines, &state)
            state.isStuck = !isWritten
            return isWritten
        }
    }

    private func write(_ lines: [UInt8], _ state: inout State) -> Bool {
        var written = 0
        while written < lines.count {
            guard isReady(&state) else { return false }
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

    private func isReady(_ state: inout State) -> Bool {
        if isReady(withinMs: 0) { return true }
        guard !state.isStuck else { return false }
        let startNs = Self.monotonicNs
        if state.countedNs.map({ startNs - $0 >= Self.waitEveryNs }) ?? true {
            state.countedNs = startNs
            state.leftNs = Self.waitNs
        }
        var nowNs = startNs
        defer { state.leftNs -= nowNs - startNs }
        while nowNs - startNs < state.leftNs {
            let leftMs = (state.leftNs - (nowNs - startNs) + 999_999) / 1_000_000
            let isReady = isReady(withinMs: Int32(clamping: leftMs))
            nowNs = Self.monotonicNs
            if isReady { return true }
        }
        return false
    }

    /// A signal may end the wait early.
    private func isReady(withinMs timeoutMs: Int32) -> Bool {
        var poller = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return unsafe poll(&poller, 1, timeoutMs) > 0
    }

    private static var monotonicNs: Int64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// Keeps lines in memory, for tests.
package final class MemorySink: LogSink {
    private let bytes = Mutex<[UInt8]>([])

    package init() {}

    @discardableResult package func write(_ lines: [UInt8]) -> Bool {
        bytes.withLock { $0.append(contentsOf: lines) }
        return true
    }

    /// What was written so far, without newlines.
    package var lines: [String] {
        bytes.withLock { bytes in
            bytes.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
        }
    }
}
