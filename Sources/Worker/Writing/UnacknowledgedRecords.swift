/// Since when, at least, a record has been waiting for its acknowledgement, by topic. Decides only; no clock, no I/O.
///
/// A partition that takes nothing is found among others that do at the cost of a comparison for each record: of each
/// topic one record is followed, the first that is handed over while none is. One that is acknowledged gives its place
/// up to the next; one in a partition that takes nothing keeps it. What was handed over beside the last one that was
/// followed shows once nothing of the topic is acknowledged any more.
struct UnacknowledgedRecords {
    private struct Topic {
        var outstanding = 0
        var followed: (tag: UInt64, sinceNs: Int64)?
        /// When the last report came, or a record was handed over while none was outstanding (monotonic).
        var quietSinceNs: Int64 = 0
    }

    /// How long one may wait before that is named. A broker that takes records acknowledges them in milliseconds; one
    /// whose leader moves, in some seconds.
    static let namedNs: Int64 = 10_000_000_000

    /// By the index of the producers' topics.
    private var topics: [Topic]

    init(topics count: Int) { topics = Array(repeating: Topic(), count: count) }

    /// A producer took a record of the topic.
    @inline(__always)
    mutating func handedOver(_ tag: UInt64, topic: Int, nowNs: Int64) {
        if topics[topic].outstanding == 0 { topics[topic].quietSinceNs = nowNs }
        topics[topic].outstanding += 1
        if topics[topic].followed == nil { topics[topic].followed = (tag, nowNs) }
    }

    /// Its report came, whatever it says.
    @inline(__always)
    mutating func reported(_ tag: UInt64, topic: Int, nowNs: Int64) {
        precondition(topics[topic].outstanding > 0, "what is reported was handed over")
        topics[topic].outstanding -= 1
        topics[topic].quietSinceNs = nowNs
        if topics[topic].followed?.tag == tag { topics[topic].followed = nil }
    }

    /// Since when one of the topic's records has been waiting (monotonic); `nil`: none has for long.
    func overdueSinceNs(topic: Int, nowNs: Int64) -> Int64? {
        guard topics[topic].outstanding > 0 else { return nil }
        let sinceNs = min(topics[topic].followed?.sinceNs ?? .max, topics[topic].quietSinceNs)
        return nowNs - sinceNs >= Self.namedNs ? sinceNs : nil
    }
}

/// Dead letters that are not acknowledged, by what each takes in memory. Decides only; no clock, no I/O.
struct UnacknowledgedLetters {
    /// In bytes, by their tags.
    private var sizes: [UInt64: Int] = [:]
    private var bytes = 0

    /// Above this many bytes a partition whose next record is a dead letter waits.
    static let limit = 8 << 20

    /// Bytes that the next one may have. Where none is under way, one of any size.
    var room: Int { bytes == 0 ? .max : max(0, Self.limit - bytes) }

    mutating func add(_ tag: UInt64, bytes size: Int) {
        sizes[tag] = size
        bytes += size
    }

    mutating func acknowledged(_ tag: UInt64) {
        if let size = sizes.removeValue(forKey: tag) { bytes -= size }
    }
}
