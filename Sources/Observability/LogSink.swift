import Glibc
import Synchronization

/// Where log lines go. `write` gets whole lines, in order, never two at a time.
package protocol LogSink: Sendable {
    func write(_ lines: [UInt8])
}

/// A file descriptor, written with write(2): no buffer that a crash could lose.
package struct DescriptorSink: LogSink {
    private let descriptor: Int32

    package init(_ descriptor: Int32) { self.descriptor = descriptor }

    package static let standardError = DescriptorSink(STDERR_FILENO)

    /// Bytes that a pipe takes at once when poll(2) says that it can be written (pipe(7), PIPE_BUF).
    private static let pieceLimit = 4_096
    /// How long a reader that lags is waited for.
    private static let waitMs: Int32 = 100

    /// Waits for a reader that lags, at most 100 ms, then drops the rest: whoever logs must not stand still with him.
    /// Also where the descriptor blocks. An error (a closed pipe) drops the line.
    package func write(_ lines: [UInt8]) {
        var written = 0
        while written < lines.count {
            var poller = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            let ready = poll(&poller, 1, Self.waitMs)
            if ready < 0, errno == EINTR { continue }
            guard ready > 0 else { return }
            let size = min(lines.count - written, Self.pieceLimit)
            let count = lines.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress! + written, size) }
            if count > 0 {
                written += count
            } else if errno != EINTR, errno != EAGAIN {
                return
            }
        }
    }
}

/// Keeps lines in memory, for tests.
package final class MemorySink: LogSink {
    private let bytes = Mutex<[UInt8]>([])

    package init() {}

    package func write(_ lines: [UInt8]) {
        bytes.withLock { $0.append(contentsOf: lines) }
    }

    /// What was written so far, without newlines.
    package var lines: [String] {
        bytes.withLock { bytes in
            bytes.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
        }
    }
}
