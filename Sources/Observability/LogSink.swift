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

    /// Waits for a reader that lags, at most 100 ms a time where the descriptor does not block, then drops the rest;
    /// an error (a closed pipe) drops the line.
    package func write(_ lines: [UInt8]) {
        var written = 0
        while written < lines.count {
            let count = lines.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress! + written, $0.count - written) }
            if count > 0 {
                written += count
            } else if errno == EAGAIN {
                var poller = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                if poll(&poller, 1, 100) <= 0 { return }
            } else if errno != EINTR {
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
