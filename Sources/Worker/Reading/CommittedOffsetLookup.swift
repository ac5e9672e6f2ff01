internal import Delivery
internal import Kafka

/// Finds out where assigned partitions are read from: the ids of their topics, their committed offsets, and the first
/// and last offsets of their logs.
///
/// Each call asks one question of the brokers and waits for up to a second, so that the core goes on in between.
struct CommittedOffsetLookup {
    /// Where one partition is read from.
    struct Start {
        var committed: CommittedOffset
        var logStart: Int64?
        var logEnd: Int64?
        /// The offset to read from, or `nil` for the log's beginning.
        var offset: Int64?
        /// The group has no offset, and the log is read from its end.
        var isAtEnd = false
        /// The topic has another id than when it was last assigned.
        var isRecreated = false
    }

    let partitions: [TopicPartition]
    /// The ids of the partitions' topics that brokers told, once they were asked.
    private(set) var topicIDs: [String: TopicID]?
    private var unasked: [TopicPartition]
    /// Each topic is asked for alone, since librdkafka fails a question where one of its topics is denied.
    private var isByTopic = false
    private var committed: [CommittedOffset] = []
    /// Partitions whose committed offset is unknown because of their topic's error.
    private(set) var failed: [(partition: TopicPartition, code: KafkaCode)] = []
    private var logStarts: [TopicPartition: Int64]?
    private var logEnds: [TopicPartition: Int64]?

    static let timeoutMs: Int32 = 1_000

    init(_ partitions: [TopicPartition]) {
        self.partitions = partitions
        unasked = partitions
    }

    /// Asks the next question; true when all were asked. Topic ids and log offsets may stay unknown.
    ///
    /// - Throws: why committed offsets are unknown; what was told stays.
    mutating func ask(_ consumer: Consumer) throws(KafkaError) -> Bool {
        if topicIDs == nil {
            topicIDs = consumer.topicIDs(of: Set(partitions.map(\.topic)), timeoutMs: Self.timeoutMs)
        } else if !unasked.isEmpty {
            try askCommitted(consumer)
        } else if logStarts == nil {
            logStarts = offsets(Consumer.logStart, consumer)
        } else {
            logEnds = offsets(Consumer.logEnd, consumer)
        }
        return unasked.isEmpty && (committed.isEmpty || logEnds != nil)
    }

    private func offsets(_ place: Int64, _ consumer: Consumer) -> [TopicPartition: Int64] {
        let partitions = committed.map(\.partition)
        return (try? consumer.offsets(of: partitions, fromMs: place, timeoutMs: Self.timeoutMs)) ?? [:]
    }

    private mutating func askCommitted(_ consumer: Consumer) throws(KafkaError) {
        let topic = unasked[0].topic
        let batch = isByTopic ? unasked.filter { $0.topic == topic } : unasked
        do throws(KafkaError) {
            for answer in try consumer.committed(batch, timeoutMs: Self.timeoutMs) {
                if answer.isKnown { committed.append(answer) } else { failed.append((answer.partition, answer.code)) }
            }
        } catch {
            guard error.code.isUnknownTopic || error.code == .topicAuthorizationFailed else { throw error }
            if !isByTopic, unasked.contains(where: { $0.topic != topic }) {
                isByTopic = true
                return
            }
            failed += batch.map { ($0, error.code) }
        }
        unasked.removeAll { !isByTopic || $0.topic == topic }
    }

    /// Returns where the partitions with known committed offsets are read from.
    ///
    /// - Parameter startingAtEnd: of these, those without a committed offset are read from their end.
    func starts(knownIDs: [TopicPartition: TopicID], startingAtEnd: Set<TopicPartition>) -> [Start] {
        committed.map { committed in
            let (partition, topic) = (committed.partition, committed.partition.topic)
            var start = Start(committed: committed, logStart: logStarts?[partition], logEnd: logEnds?[partition])
            // This end is the last stable offset, which an open transaction keeps below what was committed. An offset
            // that really is beyond the log's end is refused when it is read.
            if let end = start.logEnd, let offset = committed.offset, OffsetLimit.holds(offset), offset > end {
                start.logEnd = nil
            }
            if case .at(let offset) = ReadingStart(
                committed: committed.offset, logStart: start.logStart, logEnd: start.logEnd)
            {
                start.offset = offset
            }
            if let known = knownIDs[committed.partition], let id = topicIDs?[topic], known != id {
                start.isRecreated = true
                start.offset = nil
            }
            // The machine commits where a group without an offset starts at once, so that it has one from then on.
            if committed.offset == nil, !start.isRecreated {
                start.isAtEnd = startingAtEnd.contains(committed.partition)
                start.offset = start.isAtEnd ? start.logEnd ?? Consumer.end : start.logStart
            }
            return start
        }
    }
}

extension CommittedOffset {
    /// Whether the coordinator told it, be it that there is none.
    var isKnown: Bool { code == .none || code == .noOffset }
}
