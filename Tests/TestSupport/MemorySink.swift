import Synchronization

/// Stores log lines, as the `sink` of a `Logger`.
package final class MemorySink: Sendable {
    private let bytes = Mutex<[UInt8]>([])

    package init() {}

    package func write(_ lines: [UInt8]) -> Bool {
        bytes.withLock { $0.append(contentsOf: lines) }
        return true
    }

    package var lines: [String] {
        bytes.withLock { $0.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) } }
    }
}
