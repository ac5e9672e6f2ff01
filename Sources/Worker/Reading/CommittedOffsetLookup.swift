internal import Delivery
internal import Kafka

/// The offsets at which assigned partitions begin. It queries the brokers for topic ids, committed offsets, and the
/// first and last offsets of the logs.
struct CommittedOffsetLookup {
    /// The offset at which one partition is read, and the offsets that determine it.
    struct Start {
        var committed: CommittedOffset
        var logStart: Int64?
        var logEnd: Int64?
        /// The offset to read from, or `nil` for the log's beginning.
        var offset: Int64?
        /// Whether the log is read from its end, because the group has no committed offset.
        var isAtEnd = false
        /// Whether the topic has another id than at its last assignment.
        var isRecreated = false
    }

    let partitions: [TopicPartition]
    /// The ids of the partitions' topics, as far as the brokers reported them.
    let topicIDs: [String: TopicID]
    private var committed: [CommittedOffset] = []
    /// Partitions whose committed offset is unknown because their topic has an error.
    private(set) var failed: [(partition: TopicPartition, code: KafkaCode)] = []
    private var logStarts: [TopicPartition: Int64] = [:]
    private var logEnds: [TopicPartition: Int64] = [:]

    /// Whether a partition without a committed offset has a log whose end is unknown, as with a topic that was just
    /// created. Without the end, its records would be treated as if an earlier worker might have sent them.
    var hasUnknownNewLog: Bool { committed.contains { $0.offset == nil && logEnds[$0.partition] == nil } }

    static let timeoutMs: Int32 = 1_000

    /// Queries the brokers, and waits up to a second for each answer. Topic ids and log offsets may stay unknown.
    ///
    /// - Throws: `KafkaError` if the committed offsets cannot be read.
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
                // `noOffset` is a valid answer: the group has not committed this partition.
                let isKnown = answer.code == .none || answer.code == .noOffset
                if isKnown { committed.append(answer) } else { failed.append((answer.partition, answer.code)) }
            }
        } catch {
            guard error.code.isUnknownTopic || error.code == .topicAuthorizationFailed else { throw error }
            // librdkafka fails the whole query if one of its topics is denied, so each topic is queried separately.
            let topics = Set(batch.map(\.topic))
            guard topics.count > 1 else { return failed += batch.map { ($0, error.code) } }
            for topic in topics { try askCommitted(batch.filter { $0.topic == topic }, consumer) }
        }
    }

    /// Returns the start of each partition whose committed offset is known.
    ///
    /// - Parameter startingAtEnd: partitions that are read from their end if they have no committed offset.
    func starts(knownIDs: [TopicPartition: TopicID], startingAtEnd: Set<TopicPartition>) -> [Start] {
        committed.map { committed in
            let (partition, topic) = (committed.partition, committed.partition.topic)
            var start = Start(committed: committed, logStart: logStarts[partition], logEnd: logEnds[partition])
            // This end is the last stable offset, which an open transaction keeps below the committed offset. If the
            // committed offset really is beyond the log end, the fetch fails with an error.
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
            // The machine commits this start immediately, so that the partition has a committed offset from then on.
            if committed.offset == nil, !start.isRecreated {
                start.isAtEnd = startingAtEnd.contains(committed.partition)
                start.offset = start.isAtEnd ? start.logEnd ?? Consumer.end : start.logStart
            }
            return start
        }
    }
}
