/// Since when, at least, a record of one topic has been waiting for its acknowledgement. Decides only; no clock, no
/// I/O.
///
/// At the cost of a comparison for each record it also finds a partition that takes nothing among others that do. One
/// record is followed at a time: the first that is handed over while none is. An acknowledged one makes room for the
/// next; one in a partition that takes nothing keeps its place. Records that were handed over before the followed one
/// show once nothing of the topic is acknowledged.
struct AcknowledgementWatch {
    private var outstanding = 0
    private var followed: (tag: UInt64, sinceNs: Int64)?
    /// When the last report came, or a record was handed over while none was outstanding (monotonic).
    private var quietSinceNs: Int64 = 0

    /// How long a record may wait before that is a problem. A broker that takes records acknowledges them in
    /// milliseconds, or in a few seconds while a leader moves.
    static let namedNs: Int64 = 10_000_000_000

    /// Notes that a producer took a record.
    @inline(__always)
    mutating func handedOver(_ tag: UInt64, nowNs: Int64) {
        if outstanding == 0 { quietSinceNs = nowNs }
        outstanding += 1
        if followed == nil { followed = (tag, nowNs) }
    }

    /// Notes a record's report, whatever it says.
    @inline(__always)
    mutating func reported(_ tag: UInt64, nowNs: Int64) {
        precondition(outstanding > 0, "what is reported was handed over")
        outstanding -= 1
        quietSinceNs = nowNs
        if followed?.tag == tag { followed = nil }
    }

    /// Since when a record has been waiting (monotonic), or `nil` if none has for long.
    func overdueSinceNs(nowNs: Int64) -> Int64? {
        guard outstanding > 0 else { return nil }
        let sinceNs = min(followed?.sinceNs ?? .max, quietSinceNs)
        return nowNs - sinceNs >= Self.namedNs ? sinceNs : nil
    }
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
