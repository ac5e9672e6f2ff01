internal import Kafka

/// Which batches may be unpacked although there is no memory left (`kafka.unpack_memory`): of each topic of which
/// nothing lies unpacked, one. So whatever some topics leave unread, the others go on. That adds at most
/// `kafka.max_batch_bytes` for each topic to what is in use; small batches, and those of snappy or not compressed, ask
/// nobody (`room.c`). A topic's partitions take turns.
///
/// A value machine: it is told what librdkafka says of its tries, of which there is one in half a second.
struct UnpackingReserve {
    private struct Waiting {
        /// When it was put off last.
        var askedNs: Int64
        /// When its last turn began.
        var turnNs: Int64?
    }

    private var waiting: [TopicPartition: Waiting] = [:]
    /// Whose turn it is, and until when, by topic.
    private var turns: [String: (partition: TopicPartition, untilNs: Int64)] = [:]

    /// How long a turn lasts: librdkafka asks again after half a second, and the answer to a fetch may take as long.
    static let turnNs: Int64 = 5_000_000_000
    /// Who did not ask for so long waits no more.
    private static let patienceNs: Int64 = 3_000_000_000
    /// A topic was put off lately: some tries.
    private static let latelyNs: Int64 = 10_000_000_000

    var isEmpty: Bool { waiting.isEmpty }

    /// A batch of this partition was put off. Whether it may be unpacked all the same when it is asked for again.
    ///
    /// - Parameter isTopicEmpty: nothing of its topic lies unpacked and unread.
    mutating func grants(_ partition: TopicPartition, isTopicEmpty: Bool, nowNs: Int64) -> Bool {
        waiting[partition, default: Waiting(askedNs: nowNs)].askedNs = nowNs
        guard isTopicEmpty else { return false }
        if let turn = turns[partition.topic], turn.untilNs > nowNs { return turn.partition == partition }
        let mine = waiting[partition]?.turnNs ?? .min
        let isFirst = waiting.allSatisfy { other, state in
            other.topic != partition.topic || nowNs - state.askedNs > Self.patienceNs
                || (state.turnNs ?? .min) >= mine
        }
        guard isFirst else { return false }
        waiting[partition]?.turnNs = nowNs
        turns[partition.topic] = (partition, nowNs + Self.turnNs)
        return true
    }

    /// Records of it came: its turn is over.
    mutating func unpacked(_ partition: TopicPartition) {
        if turns[partition.topic]?.partition == partition { turns[partition.topic] = nil }
    }

    mutating func forget(_ partition: TopicPartition) {
        unpacked(partition)
        waiting[partition] = nil
    }

    /// Those of which batches were put off lately.
    func topics(nowNs: Int64) -> Set<String> {
        Set(waiting.filter { nowNs - $0.value.askedNs <= Self.latelyNs }.keys.map(\.topic))
    }
}
