/// Measures how long a topic with outstanding records has received no delivery report. A value type without a clock or
/// I/O.
struct AcknowledgementWatch {
    private var outstanding = 0
    /// The time of the last delivery report, or of a record produced while none was outstanding (monotonic).
    private var quietSinceNs: Int64 = 0

    /// The time without a delivery report after which a topic has a problem. A broker normally acknowledges records in
    /// milliseconds, or in a few seconds while a partition's leadership moves.
    static let namedNs: Int64 = 10_000_000_000

    @inline(__always)
    mutating func handedOver(nowNs: Int64) {
        if outstanding == 0 { quietSinceNs = nowNs }
        outstanding += 1
    }

    /// Registers a delivery report, successful or not.
    @inline(__always)
    mutating func reported(nowNs: Int64) {
        precondition(outstanding > 0, "a delivery report must belong to an outstanding record")
        outstanding -= 1
        quietSinceNs = nowNs
    }

    func isOverdue(nowNs: Int64) -> Bool { outstanding > 0 && nowNs - quietSinceNs >= Self.namedNs }
}

/// The memory that unacknowledged dead letters use. A value type without a clock or I/O.
struct InFlightDeadLetters {
    /// The size of each unacknowledged dead letter in bytes, by tag.
    private var sizes: [UInt64: Int] = [:]
    private var bytes = 0

    /// The limit in bytes. A partition whose next dead letter would exceed the limit is not read further.
    static let limit = 8 << 20

    /// The maximum size of the next dead letter in bytes. Unlimited if Kafka has acknowledged all dead letters.
    var budget: Int { bytes == 0 ? .max : max(0, Self.limit - bytes) }

    mutating func add(_ tag: UInt64, bytes size: Int) {
        sizes[tag] = size
        bytes += size
    }

    mutating func acknowledged(_ tag: UInt64) {
        if let size = sizes.removeValue(forKey: tag) { bytes -= size }
    }
}
