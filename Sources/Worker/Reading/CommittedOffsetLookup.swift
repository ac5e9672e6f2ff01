internal import Delivery
internal import Kafka

/// Determines the offset at which to start consuming each assigned partition. Queries the brokers for topic ids,
/// committed offsets, and log start and end offsets.
struct CommittedOffsetLookup {
    /// The offset at which to start consuming one partition, and the offsets from which it was determined.
    struct Start {
        var committed: CommittedOffset
        var logStart: Int64?
        var logEnd: Int64?
        /// The offset at which to start consuming, or `nil` for the log start offset.
        var offset: Int64?
        /// Whether consuming starts at the log end, because the group has no committed offset and `delivery.start` is
        /// `latest`.
        var isAtEnd = false
        /// Whether the topic's id differs from its id at the partition's last assignment.
        var isRecreated = false
    }

    let partitions: [TopicPartition]
    /// The ids of the partitions' topics, as far as the brokers reported them.
    let topicIDs: [String: TopicID]
    private var committed: [CommittedOffset] = []
    /// The partitions whose committed offset is unknown, with the error.
    private(set) var failed: [(partition: TopicPartition, code: KafkaCode)] = []
    /// The partitions without a committed offset in a topic whose first partition has one: they were added to the topic
    /// later.
    private(set) var added: Set<TopicPartition> = []
    private var logStarts: [TopicPartition: Int64] = [:]
    private var logEnds: [TopicPartition: Int64] = [:]

    /// Whether the log end of a partition without a committed offset is unknown, as for a topic that was just created.
    /// Without the log end, the partition's records would be treated as if an earlier worker might have sent them.
    var hasUnknownNewLog: Bool { committed.contains { $0.offset == nil && logEnds[$0.partition] == nil } }

    static let timeoutMs: Int32 = 1_000

    /// Queries the brokers, and waits up to a second for each answer. Topic ids and log offsets may remain unknown.
    ///
    /// - Throws: `KafkaError` if the brokers do not return the committed offsets.
    init(_ partitions: [TopicPartition], _ consumer: Consumer) throws(KafkaError) {
        self.partitions = partitions
        topicIDs = consumer.topicIDs(of: Set(partitions.map(\.topic)), timeoutMs: Self.timeoutMs)
        try askCommitted(partitions, consumer)
        guard !committed.isEmpty else { return }
        findAdded(consumer)
        logStarts = offsets(Consumer.logStart, consumer)
        logEnds = offsets(Consumer.logEnd, consumer)
    }

    private func offsets(_ place: Int64, _ consumer: Consumer) -> [TopicPartition: Int64] {
        let partitions = committed.map(\.partition)
        return (try? consumer.offsets(of: partitions, fromMs: place, timeoutMs: Self.timeoutMs)) ?? [:]
    }

    private mutating func findAdded(_ consumer: Consumer) {
        let unset = committed.filter { $0.offset == nil && $0.partition.partition > 0 }.map(\.partition)
        let firsts = Set(unset.map { TopicPartition($0.topic, 0) })
        guard !firsts.isEmpty, let answers = try? consumer.committed(Array(firsts), timeoutMs: Self.timeoutMs) else {
            return
        }
        let read = Set(answers.filter { $0.offset != nil }.map(\.partition.topic))
        added = Set(unset.filter { read.contains($0.topic) })
    }

    private mutating func askCommitted(_ batch: [TopicPartition], _ consumer: Consumer) throws(KafkaError) {
        guard !batch.isEmpty else { return }
        do throws(KafkaError) {
            for answer in try consumer.committed(batch, timeoutMs: Self.timeoutMs) {
                // `noOffset` is a valid answer: the group has not committed an offset for this partition.
                let isKnown = answer.code == .none || answer.code == .noOffset
                if isKnown { committed.append(answer) } else { failed.append((answer.partition, answer.code)) }
            }
        } catch {
            guard error.code.isUnknownTopic || error.code == .topicAuthorizationFailed else { throw error }
            // librdkafka fails the whole query if one topic is unknown or access to it is denied, so each topic is
            // queried separately.
            let topics = Set(batch.map(\.topic))
            guard topics.count > 1 else { return failed += batch.map { ($0, error.code) } }
            for topic in topics { try askCommitted(batch.filter { $0.topic == topic }, consumer) }
        }
    }

    /// Returns the offset at which to start consuming each partition whose committed offset is known.
    ///
    /// - Parameter startingAtEnd: The partitions to read from their log end if they have no committed offset.
    func starts(knownIDs: [TopicPartition: TopicID], startingAtEnd: Set<TopicPartition>) -> [Start] {
        committed.map { committed in
            let (partition, topic) = (committed.partition, committed.partition.topic)
            var start = Start(committed: committed, logStart: logStarts[partition], logEnd: logEnds[partition])
            // `start.logEnd` is the last stable offset, which an open transaction may keep below the committed offset.
            // The log end is unknown in this case. If the committed offset really is beyond the log end, the fetch
            // fails with an error.
            if let end = start.logEnd, let offset = committed.offset, OffsetLimit.holds(offset), offset > end {
                start.logEnd = nil
            }
            if case .at(let offset) = AssignmentStart(
                committed: committed.offset, logStart: start.logStart, logEnd: start.logEnd)
            {
                start.offset = offset
            }
            if let known = knownIDs[committed.partition], let id = topicIDs[topic], known != id {
                start.isRecreated = true
                start.offset = nil
            }
            // If there is no committed offset, the delivery machine commits the start offset immediately, so that the
            // partition has a committed offset from then on.
            if committed.offset == nil, !start.isRecreated {
                start.isAtEnd = startingAtEnd.contains(committed.partition)
                start.offset = start.isAtEnd ? start.logEnd ?? Consumer.end : start.logStart
            }
            return start
        }
    }
}
