import Foundation
import Kafka
import TestSupport
import Testing

struct TopicsTests {
    @Test func `Nobody there is an error in time`() throws {
        let topics = try Topics(
            ClusterSettings(bootstrapServers: "127.0.0.1:\(KafkaBroker.freePorts(1)[0])"))
        let begin = Date()
        let error = #expect(throws: KafkaError.self) { try topics.all(timeoutMs: 700) }
        #expect(error?.code == .timedOut || error?.code == .transport)
        #expect(Date().timeIntervalSince(begin) < 5)
        // Why is among the events.
        let said = topics.events().map { "\($0)" }.joined()
        #expect(said.contains("refused"))
    }

    @Test func `The mock's topics are listed`() throws {
        let cluster = try Cluster(.mock, partitions: 3)
        let topics = try Topics(ClusterSettings(bootstrapServers: cluster.servers)).all(timeoutMs: 10_000)
        #expect(topics[cluster.topic]?.partitions == 3)
        #expect(topics[cluster.topic]?.code == KafkaCode.none)
        #expect(topics["missing"] == nil)
    }

    @Test func `Partitions without a leader are told of a topic that has no error itself`() throws {
        let cluster = try Cluster(.mock, partitions: 4)
        let mock = try #require(cluster.mock)
        let topics = try Topics(ClusterSettings(bootstrapServers: cluster.servers))
        func leaderless() throws -> [Int32]? {
            let told = try topics.all(timeoutMs: 10_000)[cluster.topic]
            #expect(told?.code == KafkaCode.none && told?.partitions == 4)
            return told?.leaderless.sorted()
        }
        #expect(try leaderless() == [])
        for number in [3, 1] as [Int32] { try mock.setLeader(of: cluster.partition(number), broker: nil) }
        #expect(try leaderless() == [1, 3])
        for number in [3, 1] as [Int32] { try mock.setLeader(of: cluster.partition(number), broker: 1) }
        #expect(try leaderless() == [])
    }

    @Test func `A pattern fits no topic that is to be left out`() throws {
        let cluster = try Cluster(.mock)
        let mock = try #require(cluster.mock)
        for name in ["__consumer_offsets", "__consumer_offsets.mine", "__share_group_state"] {
            try mock.create(name, partitions: 1)
        }
        var settings = try cluster.settings()
        settings.ignoredTopics = ["__consumer_offsets", "__share_group_state"]
        let member = try Member(settings, topics: ["^__.*", cluster.topic])
        try member.run("an assignment") { member.assignments > 0 }
        #expect(Set(member.queues.keys.map(\.topic)) == ["__consumer_offsets.mine", cluster.topic])
        try member.close()
    }

    /// librdkafka drops the answers of all leaders where one does not answer in time.
    @Test func `A leader that does not answer hides nothing of the others`() throws {
        let mock = try MockCluster(brokers: 2)
        let topic = KafkaBroker.uniqueName("halves")
        try mock.create(topic, partitions: 4)
        let all = (0..<4 as Range<Int32>).map { TopicPartition(topic, $0) }
        for partition in all { try mock.setLeader(of: partition, broker: partition.partition < 2 ? 1 : 2) }
        let settings = ClusterSettings(bootstrapServers: mock.bootstrapServers)
        let told = try Topics(settings).all(timeoutMs: 10_000)
        #expect(told[topic]?.leaders == [1, 1, 2, 2])
        let consumer = try Consumer(ConsumerSettings(cluster: settings, role: .requests, groupID: topic))
        #expect(consumer.bounds(of: all, in: told.values, timeoutMs: 10_000).count == 4)
        try mock.setRoundTrip(milliseconds: 60_000, broker: 2)
        #expect(Set(consumer.bounds(of: all, in: told.values, timeoutMs: 1_000).keys) == Set(all.prefix(2)))
    }

    @Test(.needsBroker) func `Topics are created, found and described`() throws {
        let broker = try #require(KafkaBroker.shared)
        let topics = try Topics(ClusterSettings(bootstrapServers: broker.bootstrapServers))
        let requests = KafkaBroker.uniqueName("requests")
        let dead = KafkaBroker.uniqueName("dead")
        let new = [
            NewTopic(
                requests, partitions: 3, replicationFactor: 1, configuration: [KafkaProperty("retention.ms", "12345")]),
            NewTopic(
                dead, partitions: 1, replicationFactor: 1,
                configuration: [
                    KafkaProperty("cleanup.policy", "compact,delete"), KafkaProperty("retention.ms", "-1"),
                ]),
        ]
        #expect(try topics.create(new, timeoutMs: 20_000).mapValues(\.code) == [requests: .none, dead: .none])
        #expect(try topics.create([new[0]], timeoutMs: 20_000)[requests]?.code == .topicAlreadyExists)
        let bad = NewTopic(KafkaBroker.uniqueName("bad"), partitions: 1, replicationFactor: 9)
        #expect(try topics.create([bad], timeoutMs: 20_000)[bad.name]?.isFatal == false)

        let deadline = Date(timeIntervalSinceNow: 20)
        var all = try topics.all(timeoutMs: 10_000)
        while all[requests] == nil || all[dead] == nil, Date() < deadline { all = try topics.all(timeoutMs: 10_000) }
        #expect(all[requests]?.partitions == 3)
        #expect(all[bad.name] == nil)
        let missing = KafkaBroker.uniqueName("missing")
        let found = try topics.configurations(of: [requests, dead, missing], timeoutMs: 20_000)
        #expect(found[requests] == TopicConfiguration(cleanupPolicies: ["delete"], retentionMs: 12345))
        #expect(found[requests]?.isCompacted == false)
        #expect(found[dead]?.isCompacted == true)
        #expect(found[dead]?.retentionMs == nil)
        #expect(found[missing] == nil)
        // Asking created nothing.
        #expect(try topics.all(timeoutMs: 10_000)[missing] == nil)
    }
}
