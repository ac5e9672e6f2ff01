import Configuration
import Kafka
import Testing

@testable import Worker

/// What a configuration and a cluster's topics lead to.
struct TopicCheckTests {
    private var configuration: WorkerConfiguration {
        WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: "kafka:9092"), apps: [])
    }

    private func described(_ names: [String]) -> [String: TopicDescription] {
        Dictionary(
            uniqueKeysWithValues: names.map { ($0, TopicDescription(name: $0, partitions: 4, code: .none)) })
    }

    private let all = [
        "apns.requests", "apns.results", "apns.unregistered", "apns.dead-letters", "apns.retry.30s", "apns.retry.15m",
        "apns.retry.2h",
    ]

    @Test func `Every topic of the configuration is expected, patterns name none`() {
        var configuration = configuration
        configuration.requestTopics = [RequestTopic(name: "apns.requests"), RequestTopic(name: "^more\\.")]
        #expect(TopicCheck(configuration).expected.map(\.name) == all)
    }

    @Test func `A missing topic is named with its key and what to do`() {
        let lines = TopicCheck(configuration).missingLines(in: described(all.filter { $0 != "apns.results" }))
        #expect(
            lines == [
                "topic apns.results (results.topic) does not exist at kafka:9092: create it, or set kafka.create_topics"
            ])
        #expect(TopicCheck(configuration).missingLines(in: described(all)).isEmpty)
    }

    @Test func `Created dead tokens are compacted, retry topics outlive their tier`() throws {
        let new = TopicCheck(configuration).creations(in: [:], KafkaSettings.TopicCreation())
        #expect(new.map(\.name) == all)
        #expect(new.allSatisfy { $0.partitions == 8 && $0.replicationFactor == 3 })
        let deadTokens = try #require(new.first { $0.name == "apns.unregistered" })
        #expect(deadTokens.configuration == [Kafka.KafkaProperty("cleanup.policy", "compact")])
        let hours = try #require(new.first { $0.name == "apns.retry.2h" })
        #expect(hours.configuration == [Kafka.KafkaProperty("retention.ms", "\(7_200_000 + 7 * 86_400_000)")])
        #expect(try #require(new.first).configuration.isEmpty)
    }

    @Test(arguments: ["apns.requests", "apns.results", "apns.dead-letters", "apns.retry.15m"])
    func `Compaction is refused where it loses records`(topic: String) {
        let found = [topic: TopicConfiguration(cleanupPolicies: ["compact", "delete"], retentionMs: nil)]
        let lines = TopicCheck(configuration).unsafeLines(found)
        #expect(lines.count == 1)
        #expect(lines.first?.contains("topic \(topic) ") == true)
        #expect(lines.first?.contains("cleanup.policy=compact") == true)
    }

    @Test func `Dead tokens may be compacted`() {
        let found = ["apns.unregistered": TopicConfiguration(cleanupPolicies: ["compact"], retentionMs: nil)]
        #expect(TopicCheck(configuration).unsafeLines(found).isEmpty)
    }

    @Test(arguments: [
        (Int64?(30_000 + 86_400_000), true), (30_000 + 86_400_000 - 1, false), (nil, true), (60_000, false),
    ])
    func `A retry topic keeps its records for its tier and a day`(retentionMs: Int64?, isFine: Bool) {
        let found = ["apns.retry.30s": TopicConfiguration(cleanupPolicies: ["delete"], retentionMs: retentionMs)]
        #expect(TopicCheck(configuration).unsafeLines(found).isEmpty == isFine)
    }
}
