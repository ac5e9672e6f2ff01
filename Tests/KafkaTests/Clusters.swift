import Kafka
import TestSupport
import Testing

/// The kind of cluster that a test runs on.
enum Place: String, Sendable {
    case mock, broker

    static var available: [Place] { KafkaBroker.isAvailable ? [.mock, .broker] : [.mock] }
}

/// A cluster with a topic that only one test uses.
struct Cluster {
    let servers: String
    let topic: String
    let group = KafkaBroker.uniqueName("group")
    /// Keeps the mock cluster running while the test uses it.
    let mock: MockCluster?

    init(_ place: Place, partitions: Int = 1, configuration: [KafkaProperty] = []) throws {
        topic = KafkaBroker.uniqueName("requests")
        switch place {
        case .mock:
            let mock = try MockCluster()
            try mock.create(topic, partitions: partitions)
            servers = mock.bootstrapServers
            self.mock = mock
        case .broker:
            let broker = try #require(KafkaBroker.shared)
            try broker.create([
                NewTopic(topic, partitions: partitions, replicationFactor: 1, configuration: configuration)
            ])
            servers = broker.bootstrapServers
            mock = nil
        }
    }

    func settings(
        _ role: ConsumerSettings.Role = .requests, assignment: ConsumerSettings.Assignment = .eager,
        instance: String = "", properties: [KafkaProperty] = []
    ) throws -> ConsumerSettings {
        ConsumerSettings(
            cluster: ClusterSettings(bootstrapServers: servers, properties: try KafkaProperties(consumer: properties)),
            role: role, groupID: group, groupInstanceID: instance, sessionTimeoutMs: 6000, assignment: assignment)
    }

    func member(
        _ role: ConsumerSettings.Role = .requests, assignment: ConsumerSettings.Assignment = .eager,
        instance: String = "", properties: [KafkaProperty] = []
    ) throws -> Member {
        try Member(settings(role, assignment: assignment, instance: instance, properties: properties), topics: [topic])
    }

    func partition(_ number: Int32) -> TopicPartition { TopicPartition(topic, number) }
}

extension Trait where Self == ConditionTrait {
    /// Skips the test, with the reason, if no real broker is available.
    static var needsBroker: Self { .enabled(if: KafkaBroker.isAvailable, Comment(rawValue: KafkaBroker.reason)) }
}
