internal import Configuration
internal import Kafka

/// Retry topics that the configuration no longer names and that still hold records: they are read until they are empty
/// (those for which `<group>.retry` has committed offsets).
struct LeftTiers {
    /// The longest that a tier can have: nobody knows theirs any more, so what each record says counts.
    static let delayMs: Int64 = 168 * 3_600_000

    struct Tier {
        let topic: String
        /// Not committed by the group.
        let records: Int64
    }

    let found: [Tier]

    /// Asks the brokers, each question for at most `timeoutMs`.
    init(_ configuration: WorkerConfiguration, _ topics: Topics, timeoutMs: Int32) throws(KafkaError) {
        let lag = try topics.lag(of: ConsumerSettings.retryGroup(of: configuration.kafka.groupID), timeoutMs: timeoutMs)
        let named = Set(configuration.outputTopics.map(\.name)).union(configuration.requestTopics.map(\.name))
        found = lag.filter { $0.value > 0 && !named.contains($0.key) }
            .map { Tier(topic: $0.key, records: $0.value) }.sorted { $0.topic < $1.topic }
    }
}
