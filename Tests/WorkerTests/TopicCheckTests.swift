@testable import Configuration
import Testing

@testable import Kafka
@testable import Worker

/// The errors and warnings about a cluster's topics.
struct TopicCheckTests {
    private var configuration: WorkerConfiguration {
        WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: "kafka:9092"), apps: [])
    }

    private func described(_ names: [String]) -> [String: TopicDescription] {
        Dictionary(uniqueKeysWithValues: names.map { ($0, TopicDescription(name: $0, partitions: 4, code: .none)) })
    }

    private let all = [
        "apns.requests", "apns.results", "apns.unregistered", "apns.dead-letters", "apns.retry.30s", "apns.retry.15m",
        "apns.retry.2h",
    ]

    @Test func `Every topic of the configuration is expected, and patterns add no topic`() {
        var configuration = configuration
        configuration.requestTopics = [RequestTopic(name: "apns.requests"), RequestTopic(name: "^more\\.")]
        #expect(TopicCheck(configuration).expected.map(\.name) == all)
    }

    @Test func `Missing topics are listed with their configuration keys and advice`() {
        #expect(
            TopicCheck(configuration).missingLine(
                in: described(all.filter { $0 != "apns.results" && $0 != "apns.retry.2h" }))
                == "topics do not exist at kafka:9092: create them, or set kafka.create_topics: true (on a cluster of one "
                + "broker {partitions: 8, replication_factor: 1}): apns.results (results.topic), apns.retry.2h "
                + "(retry.tiers.2h)")
        #expect(TopicCheck(configuration).missingLine(in: described(all)) == nil)
    }

    @Test func `The printed ACLs have quotes where the shell needs them, and a comment for a pattern`() {
        var configuration = configuration
        configuration.kafka.groupID = "it's"
        configuration.requestTopics = [RequestTopic(name: "^more")]
        let lines = RequiredPermissions(configuration).commands(grantedTo: "User:CN=push", servers: "[::1]:9092")
        let start = "kafka-acls.sh --bootstrap-server '[::1]:9092' --add --allow-principal User:CN=push --operation "
        #expect(lines.first == start + #"Read --group 'it'\''s'"#)
        #expect(lines.suffix(2).first?.hasPrefix("# An ACL cannot contain the pattern ^more. ") == true)
    }

    @Test(arguments: [1, 3])
    func `Created topics are durable, and fit what the worker writes to them`(replicas: Int) throws {
        var how = KafkaSettings.TopicCreation()
        how.replicationFactor = replicas
        let new = TopicCheck(configuration).creations(in: [:], how)
        #expect(new.map(\.name) == all)
        #expect(new.allSatisfy { $0.partitions == 8 && $0.replicationFactor == replicas })
        func settings(_ name: String) throws -> [String] {
            try #require(new.first { $0.name == name }).configuration.map { "\($0.name)=\($0.value)" }
        }
        let durable = replicas == 3 ? ["min.insync.replicas=2"] : []
        #expect(try settings("apns.requests") == durable)
        let compacted = ["cleanup.policy=compact,delete", "retention.ms=2592000000"]
        #expect(try settings("apns.unregistered") == compacted + durable)
        #expect(
            try settings("apns.retry.2h") == [
                "message.timestamp.type=LogAppendTime", "retention.ms=\(7_200_000 + 7 * 86_400_000)",
            ] + durable)
    }

    @Test func `Topics with too few replicas cause a warning if the cluster has three brokers`() {
        var topics = described(all)
        #expect(TopicCheck(configuration).warningLines(told(), in: topics).isEmpty)
        for name in all { topics[name]?.replicas = 3 }
        var some = told()
        some["apns.results"]?.minInSyncReplicas = 1
        topics["apns.requests"]?.replicas = 2
        let lines = TopicCheck(configuration).warningLines(some, in: topics)
        #expect(lines.count == 2)
        #expect(lines.contains { $0.contains("topic apns.requests (requests.topics) has only 2 replicas") }, "\(lines)")
        #expect(lines.contains { $0.contains("apns.results") && $0.contains("min.insync.replicas=1") }, "\(lines)")
    }

    @Test func `Topics that the brokers do not create are listed with the reason and advice`() {
        let few = KafkaError(.invalidReplicationFactor, "Only 1 broker(s) are registered.")
        let lines = TopicCheck(configuration).uncreatedLines([
            "b": few, "a": few, "c": KafkaError(.none), "d": KafkaError(.topicAlreadyExists),
            "e": KafkaError(.policyViolation, "no"),
        ])
        #expect(
            lines == [
                "the brokers did not create topic e (kafka.create_topics): no (POLICY_VIOLATION): set kafka.create_topics "
                    + "to values that the brokers' create.topic.policy.class.name accepts",
                "the brokers did not create topics a, b (kafka.create_topics): Only 1 broker(s) are registered "
                    + "(INVALID_REPLICATION_FACTOR): set kafka.create_topics.replication_factor to at most the number of "
                    + "brokers (for one broker: {partitions: 8, replication_factor: 1}), or start more brokers",
            ])
        #expect(TopicCheck(configuration).uncreatedLines([:]).isEmpty)
    }

    @Test func `Topics that do not exist yet are not reported as unreadable`() {
        #expect(TopicCheck(configuration).warningLines([:], unmade: all).isEmpty)
        #expect(TopicCheck(configuration).warningLines([:], unmade: Array(all.dropFirst())).count == 1)
        var inProcess = configuration
        inProcess.kafka.tellsTopicConfigurations = false
        #expect(TopicCheck(inProcess).warningLines(nil).isEmpty)
    }

    @Test func `Compaction is refused on topics where it would lose records`() {
        let compacted = TopicConfiguration(cleanupPolicies: ["compact", "delete"], retentionMs: nil)
        let found = Dictionary(uniqueKeysWithValues: all.map { ($0, compacted) })
        let topics = all.filter { $0 != "apns.unregistered" }
        let lines = TopicCheck(configuration).unsafeLines(found)
        #expect(lines.count == topics.count)
        for (line, topic) in zip(lines, topics) {
            #expect(line.hasPrefix("topic \(topic) (") && line.contains(" has cleanup.policy=compact"))
        }
    }

    @Test(arguments: [
        (Int64?(30_000 + 86_400_000), true), (30_000 + 86_400_000 - 1, false), (nil, true), (60_000, false),
    ])
    func `A retry topic must keep its records for its delay plus one day`(retentionMs: Int64?, isFine: Bool) {
        let found = ["apns.retry.30s": TopicConfiguration(cleanupPolicies: ["delete"], retentionMs: retentionMs)]
        #expect(TopicCheck(configuration).unsafeLines(found).isEmpty == isFine)
    }

    private func told(retentionBytes: Int64? = nil) -> [String: TopicConfiguration] {
        let sound = TopicConfiguration(cleanupPolicies: ["delete"], retentionMs: nil, retentionBytes: retentionBytes)
        return Dictionary(uniqueKeysWithValues: all.map { ($0, sound) })
    }

    @Test func `Only retry topics cause a warning about a retention limit in bytes`() {
        #expect(TopicCheck(configuration).warningLines(told()).isEmpty)
        let lines = TopicCheck(configuration).warningLines(told(retentionBytes: 1_000))
        #expect(lines.count == 3)
        #expect(lines.allSatisfy { $0.contains("apns.retry.") && $0.contains("retention.bytes=1000") })
        #expect(TopicCheck(configuration).unsafeLines(told(retentionBytes: 1_000)).isEmpty)
    }

    @Test func `A compacted topic that matches a pattern causes a warning and does not prevent the start`() {
        var configuration = configuration
        configuration.requestTopics.append(.init(name: "^shop[.].*"))
        let check = TopicCheck(configuration)
        let matched = check.matched(in: ["shop.a", "shop.b", "other", "apns.requests"])
        #expect(matched.map(\.name) == ["shop.a", "shop.b"])
        var some = told()
        some["shop.a"] = TopicConfiguration(cleanupPolicies: ["compact"], retentionMs: nil)
        some["shop.b"] = TopicConfiguration(cleanupPolicies: ["delete"], retentionMs: nil)
        let lines = check.warningLines(some, matched: matched)
        #expect(lines.count == 1 && lines[0].contains("topic shop.a ") && lines[0].contains("cleanup.policy=compact"))
        #expect(check.unsafeLines(some).isEmpty)
    }

    @Test func `A request topic with records too large to fetch causes a warning`() {
        var some = told()
        some["apns.requests"]?.maxMessageBytes = 150_000_000
        let lines = TopicCheck(configuration).warningLines(some)
        #expect(
            lines.count == 1 && lines[0].contains("apns.requests") && lines[0].contains("max.message.bytes=150000000"))
    }

    @Test func `A retry topic with a smaller message limit than a request topic causes a warning`() {
        var some = told()
        some["apns.requests"]?.maxMessageBytes = 2_000_000
        some["apns.retry.15m"]?.maxMessageBytes = 1_000_000
        let lines = TopicCheck(configuration).warningLines(some)
        #expect(lines.count == 1 && lines[0].contains("apns.retry.15m") && lines[0].contains("set it to 2000000"))
    }

    @Test func `A topic that allows unclean leader election causes a warning`() {
        var some = told()
        some["apns.requests"]?.electsUncleanLeaders = true
        let lines = TopicCheck(configuration).warningLines(some)
        #expect(lines.count == 1 && lines[0].contains("apns.requests") && lines[0].contains("unclean.leader"))
    }

    @Test func `A request topic that keeps requests for less than a day causes a warning`() {
        var some = told()
        some["apns.requests"]?.retentionMs = 86_399_999
        let lines = TopicCheck(configuration).warningLines(some)
        #expect(lines.count == 1 && lines[0].contains("apns.requests") && lines[0].contains("at least 86400000"))
    }

    @Test func `A retry topic whose timestamps are those of producers causes a warning`() {
        var some = told()
        for topic in all { some[topic]?.hasProducersTime = true }
        let lines = TopicCheck(configuration).warningLines(some)
        #expect(lines.count == configuration.retry.tiers.count, "\(lines)")
        #expect(lines.allSatisfy { $0.contains("topic apns.retry.") && $0.contains("set it to LogAppendTime") })
    }

    @Test func `Topics whose configuration is not readable are listed with the missing permission`() {
        var some = told()
        some["apns.retry.15m"] = nil
        let lines = TopicCheck(configuration).warningLines(some)
        #expect(lines.count == 1)
        #expect(lines.first?.contains("apns.retry.15m: grant DescribeConfigs") == true)
        #expect(TopicCheck(configuration).warningLines(nil).first?.contains("apns.requests, ") == true)
    }
}
