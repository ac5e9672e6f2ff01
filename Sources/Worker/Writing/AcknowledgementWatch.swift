/// How long the records of one topic have been waiting without any acknowledgement. Decides only; no clock, no I/O.
struct AcknowledgementWatch {
    private var outstanding = 0
    /// When the last report came, or a record was handed over while none was outstanding (monotonic).
    private var quietSinceNs: Int64 = 0

    /// How long a topic may acknowledge nothing before that is a problem. A broker that takes records acknowledges them
    /// in milliseconds, or in a few seconds while a leader moves.
    static let namedNs: Int64 = 10_000_000_000

    @inline(__always)
    mutating func handedOver(nowNs: Int64) {
        if outstanding == 0 { quietSinceNs = nowNs }
        outstanding += 1
    }

    /// Notes a record's report, whatever it says.
    @inline(__always)
    mutating func reported(nowNs: Int64) {
        precondition(outstanding > 0, "what is reported was handed over")
        outstanding -= 1
        quietSinceNs = nowNs
    }

    func isOverdue(nowNs: Int64) -> Bool { outstanding > 0 && nowNs - quietSinceNs >= Self.namedNs }
}

/// The memory that unacknowledged dead letters take. Decides only; no clock, no I/O.
struct InFlightDeadLetters {
    /// In bytes, by tag.
    private var sizes: [UInt64: Int] = [:]
    private var bytes = 0

    /// Above this many bytes a partition whose next record is a dead letter waits.
    static let limit = 8 << 20

    /// Bytes that the next dead letter may have. One of any size may go alone.
    var budget: Int { bytes == 0 ? .max : max(0, Self.limit - bytes) }

    mutating func add(_ tag: UInt64, bytes size: Int) {
        sizes[tag] = size
        bytes += size
    }

    mutating func acknowledged(_ tag: UInt64) {
        if let size = sizes.removeValue(forKey: tag) { bytes -= size }
    }
}
