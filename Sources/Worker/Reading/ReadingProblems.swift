internal import Delivery
internal import Kafka

/// The topics and partitions of a group that cannot be read, according to the errors of its consumer.
///
/// librdkafka reports failed fetches, but not that fetches succeed again. The end of a problem depends on its error:
///
/// - librdkafka repeats most errors at every fetch (`fetch.error.backoff.ms`, half a second). Such a problem ends after
///   `namedNs` without a report.
/// - librdkafka reports only once that a topic is unknown or denied (rdkafka_fetcher.c,
///   rd_kafka_fetch_reply_handle_partition_error). Such a problem ends at the next assignment. A partition's problem
///   also ends when records arrive, and a topic's problem when the topic exists again.
struct ReadingProblems {
    static let namedNs: Int64 = 20_000_000_000

    private let group: String
    /// The problems, with the time at which each ends unless the error is reported again (monotonic).
    private var entries: [Problem.Subject: (problem: Problem, endNs: Int64)] = [:]
    /// The partitions to which the group's current problem with committed offsets applies.
    private var offsetPartitions: Set<TopicPartition> = []

    init(ofGroup group: String) { self.group = group }

    /// Returns the current problems. Drops problems that have ended, and those whose subject does not satisfy `counts`.
    mutating func all(
        _ now: DeliveryTime, where counts: (Problem.Subject) -> Bool = { _ in true }
    ) -> [Problem] {
        if !entries.isEmpty { entries = entries.filter { $0.value.endNs > now.ns && counts($0.key) } }
        return entries.values.map(\.problem)
    }

    /// Adds the problem that a topic or partition cannot be read.
    ///
    /// - Parameter isOfFetch: Whether the error is that of a fetch. If librdkafka repeats the error at every fetch, the
    ///   problem ends once the reports stop. Any other problem lasts until `forget` or `exist` ends it.
    mutating func note(_ subject: Problem.Subject, _ code: KafkaCode, isOfFetch: Bool, _ now: DeliveryTime) {
        let topic =
            switch subject {
            case .partition(let partition): partition.topic
            case .topic(let name): name
            default: "\(subject)"
            }
        let advice = Advice.reading(topic, group: group, code)
        let isRepeated = isOfFetch && code != .topicAuthorizationFailed && !code.isUnknownTopic
        entries[subject] = (Problem(subject, .reading, code, advice), isRepeated ? now.ns + Self.namedNs : .max)
    }

    /// Adds the problem that another program has committed an offset in the worker's group.
    mutating func noteForeignCommit(_ partition: TopicPartition, _ committed: Int64, _ now: DeliveryTime) {
        note(
            .foreignCommit, of: partition, now,
            "another program committed offset \(committed) of \(partition) in the group: this may skip or repeat records",
            "if the offsets were not reset on purpose, find the other consumer with kafka-consumer-groups.sh --describe "
                + "--members --group \(group), and give it another group id")
    }

    /// Adds the problem that the group has no committed offset for a partition that contains records.
    mutating func noteMissingOffset(_ partition: TopicPartition, _ now: DeliveryTime) {
        // A foreign commit may skip records, so it is reported instead.
        guard entries[.group(group)]?.problem.kind != .foreignCommit else { return }
        note(
            .missingOffsets, of: partition, now,
            "the group had no committed offset for \(partition): existing records are read, and marked in doubt",
            "if the group is not new, find out who deleted its offsets, or why they expired; the log has the number of "
                + "records of each partition")
    }

    /// Adds a problem of a partition's committed offset. The text ends with the number of further partitions, if any.
    private mutating func note(
        _ kind: Problem.Kind, of partition: TopicPartition, _ now: DeliveryTime, _ text: String, _ advice: String
    ) {
        if entries[.group(group)]?.problem.kind != kind { offsetPartitions = [] }
        offsetPartitions.insert(partition)
        let more = offsetPartitions.count > 1 ? " (further partitions: \(offsetPartitions.count - 1))" : ""
        entries[.group(group)] = (Problem(.group(group), kind, text + more, advice), now.ns + Problem.lossNs)
    }

    mutating func forget(_ subject: Problem.Subject) {
        if !entries.isEmpty { entries[subject] = nil }
    }

    /// Ends the problems of topics that exist. `topics` contains all topics of the cluster.
    mutating func exist(_ topics: Set<String>) {
        for topic in unavailableTopics where topics.contains(topic) { entries[.topic(topic)] = nil }
    }

    /// The topics that are unknown or denied as a whole, so that their partitions are unknown, too.
    var unavailableTopics: [String] {
        entries.keys.compactMap { if case .topic(let name) = $0 { name } else { nil } }
    }

    /// Returns the topic of librdkafka's error about an unavailable subscribed topic (rdkafka_topic.c,
    /// rd_kafka_propagate_consumer_topic_errors).
    static func unavailableTopic(in text: String) -> String? {
        guard let start = text.firstRange(of: "Subscribed topic not available: ")?.upperBound else { return nil }
        return text[start...].firstIndex(of: ":").map { String(text[start..<$0]) }
    }
}

/// The number of offsets of each partition that were deleted, also with the topic, before the worker settled them. A
/// partition's problem lasts for `Problem.lossNs` after its last loss. A value type without a clock or I/O.
struct LostRecords {
    private var losses: [TopicPartition: (offsets: Int64, lastNs: Int64, byDeletion: Bool)] = [:]

    /// Counts skipped offsets of a partition, including those of transaction markers and compacted records.
    /// `byDeletion` tells whether the topic was deleted or its log truncated.
    mutating func note(_ partition: TopicPartition, offsets: Int64, byDeletion: Bool = false, nowNs: Int64) {
        guard offsets > 0 else { return }
        let before = losses[partition].flatMap { nowNs - $0.lastNs < Problem.lossNs ? $0.offsets : nil }
        losses[partition] = ((before ?? 0) &+ offsets, nowNs, byDeletion)
    }

    func problems(nowNs: Int64) -> [Problem] {
        losses.filter { nowNs - $0.value.lastNs < Problem.lossNs }.sorted { "\($0.key)" < "\($1.key)" }.map { loss in
            let (offsets, topic) = (loss.value.offsets, loss.key.topic)
            var text = "\(offsets) offsets were deleted before they were read: their records are lost"
            var advice = "raise retention.ms of topic \(topic), and set its retention.bytes to -1"
            if loss.value.byDeletion {
                text = "up to \(offsets) offsets were lost when topic \(topic) was deleted or truncated"
                advice = "send their notifications again; delete a topic only when its lag is 0"
            }
            return Problem(.partition(loss.key), .recordsLost, text, advice)
        }
    }
}
