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
        /// Not committed by the group, as far as the partitions' leaders told.
        let records: Int64
    }

    let found: [Tier]
    /// All topics of the cluster that are not in the configuration.
    let existing: Set<String>

    /// Asks the brokers, each question for at most `timeoutMs`.
    init(_ configuration: WorkerConfiguration, _ cluster: ClusterSettings, timeoutMs: Int32) throws(KafkaError) {
        let named = Set(configuration.outputTopics.map(\.name)).union(configuration.requestTopics.map(\.name))
        let topics = try Topics(cluster).all(timeoutMs: timeoutMs)
        existing = Set(topics.keys.filter { !named.contains($0) })
        let others = topics.values.filter {
            $0.code == .none && !named.contains($0.name) && !$0.name.hasPrefix("__")
        }
        let partitions = others.flatMap { topic in
            (0..<Int32(clamping: topic.partitions)).map { TopicPartition(topic.name, $0) }
        }
        // Joins nothing.
        let consumer = try Consumer(configuration.consumer(.retries, of: cluster))
        let committed = partitions.isEmpty ? [] : try consumer.committed(partitions, timeoutMs: timeoutMs)
        let read = Set(committed.filter { $0.offset != nil }.map(\.partition.topic))
        let places = committed.filter { read.contains($0.partition.topic) }
        guard !places.isEmpty else {
            found = []
            return
        }
        let bounds = consumer.bounds(of: places.map(\.partition), in: topics.values, timeoutMs: timeoutMs)
        var records: [String: Int64] = [:]
        // A partition whose leader does not tell may hold some: its topic is read, and what keeps it from that is named
        // there.
        var mayHold: Set<String> = []
        for place in places {
            let topic = place.partition.topic
            guard let (start, end) = bounds[place.partition] else {
                mayHold.insert(topic)
                continue
            }
            records[topic, default: 0] += max(0, end - max(place.offset ?? 0, start))
        }
        found = read.filter { records[$0, default: 0] > 0 || mayHold.contains($0) }
            .map { Tier(topic: $0, records: records[$0, default: 0]) }
            .sorted { $0.topic < $1.topic }
    }
}
