internal import Delivery
internal import Kafka

/// Finds out where assigned partitions are read from: the ids of their topics, their committed offsets, and the first
/// and last offsets of their logs.
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
    /// The ids of the partitions' topics that brokers told.
    let topicIDs: [String: TopicID]
    private var committed: [CommittedOffset] = []
    /// Partitions whose committed offset is unknown because of their topic's error.
    private(set) var failed: [(partition: TopicPartition, code: KafkaCode)] = []
    private var logStarts: [TopicPartition: Int64] = [:]
    private var logEnds: [TopicPartition: Int64] = [:]

    static let timeoutMs: Int32 = 1_000

    /// Asks the brokers, and waits for each answer up to a second. Topic ids and log offsets may stay unknown.
    ///
    /// - Throws: why committed offsets are unknown.
    init(_ partitions: [TopicPartition], _ consumer: Consumer) throws(KafkaError) {
        self.partitions = partitions
        topicIDs = consumer.topicIDs(of: Set(partitions.map(\.topic)), timeoutMs: Self.timeoutMs)
        try askCommitted(partitions, consumer)
        guard !committed.isEmpty else { return }
        logStarts = offsets(Consumer.logStart, consumer)
        logEnds = offsets(Consumer.logEnd, consumer)
    }

    private func offsets(_ place: Int64, _ consumer: Consumer) -> [TopicPartition: Int64] {
        let partitions = committed.map(\.partition)
        return (try? consumer.offsets(of: partitions, fromMs: place, timeoutMs: Self.timeoutMs)) ?? [:]
    }

    private mutating func askCommitted(_ batch: [TopicPartition], _ consumer: Consumer) throws(KafkaError) {
        guard !batch.isEmpty else { return }
        do throws(KafkaError) {
            for answer in try consumer.committed(batch, timeoutMs: Self.timeoutMs) {
                // The coordinator may tell that there is none.
                let isKnown = answer.code == .none || answer.code == .noOffset
                if isKnown { committed.append(answer) } else { failed.append((answer.partition, answer.code)) }
            }
        } catch {
            guard error.code.isUnknownTopic || error.code == .topicAuthorizationFailed else { throw error }
            // librdkafka fails a question where one of its topics is denied, so each topic is asked for alone.
            let topics = Set(batch.map(\.topic))
            guard topics.count > 1 else { return failed += batch.map { ($0, error.code) } }
            for topic in topics { try askCommitted(batch.filter { $0.topic == topic }, consumer) }
        }
    }

    /// Returns where the partitions with known committed offsets are read from.
    ///
    /// - Parameter startingAtEnd: of these, those without a committed offset are read from their end.
    func starts(knownIDs: [TopicPartition: TopicID], startingAtEnd: Set<TopicPartition>) -> [Start] {
        committed.map { committed in
            let (partition, topic) = (committed.partition, committed.partition.topic)
            var start = Start(committed: committed, logStart: logStarts[partition], logEnd: logEnds[partition])
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
            if let known = knownIDs[committed.partition], let id = topicIDs[topic], known != id {
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
