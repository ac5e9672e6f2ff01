internal import Configuration
internal import Kafka

/// Retry topics that the configuration no longer names and that still hold records: they are read until they are empty.
///
/// They are known by the offsets that the retry group has committed. (Asked for topic by topic, as a member would: the
/// admin API of librdkafka 2.0.2, which could list them, was seen not to answer on a fresh cluster.)
struct LeftTiers {
    /// The longest that a tier can have: nobody knows theirs any more, so what each record says counts.
    static let delayMs: Int64 = 168 * 3_600_000

    struct Tier: Sendable {
        let topic: String
        /// Not committed by the group.
        let records: Int64
    }

    let found: [Tier]

    /// Asks the brokers, each question for at most `timeoutMs`.
    init(_ configuration: WorkerConfiguration, _ cluster: ClusterSettings, timeoutMs: Int32) throws(KafkaError) {
        let named = Set(configuration.outputTopics.map(\.name)).union(configuration.requestTopics.map(\.name))
        let others = try Topics(cluster).all(timeoutMs: timeoutMs).values.filter {
            $0.code == .none && !named.contains($0.name) && !$0.name.hasPrefix("__")
        }
        let partitions = others.flatMap { topic in
            (0..<Int32(clamping: topic.partitions)).map { TopicPartition(topic.name, $0) }
        }
        // Joins nothing.
        let consumer = try Consumer(configuration.consumer(.retries, of: cluster))
        let committed = partitions.isEmpty ? [] : try consumer.committed(partitions, timeoutMs: timeoutMs)
        let topics = Set(committed.filter { $0.offset != nil }.map(\.partition.topic))
        let places = committed.filter { topics.contains($0.partition.topic) }
        guard !places.isEmpty else {
            found = []
            return
        }
        let ends = consumer.ends(of: places.map(\.partition), timeoutMs: timeoutMs)
        let starts = try consumer.starts(of: places.map(\.partition), timeoutMs: timeoutMs)
        var records: [String: Int64] = [:]
        for (place, (start, end)) in zip(places, zip(starts, ends)) {
            guard let end else { throw KafkaError(.timedOut, "\(place.partition): its end is not known") }
            records[place.partition.topic, default: 0] += max(0, end - max(place.offset ?? 0, start ?? 0))
        }
        found = records.filter { $0.value > 0 }.map { Tier(topic: $0.key, records: $0.value) }
            .sorted { $0.topic < $1.topic }
    }
}
