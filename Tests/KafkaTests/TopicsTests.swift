import TestSupport
import Testing

@testable import Kafka

struct TopicsTests {
    @Test(.timeLimit(.minutes(5)))
    func `While no broker is reachable, each error names its broker, and the summary is only logged`() throws {
        let port = Ports.claim()
        let topics = try Topics(ClusterSettings(bootstrapServers: "127.0.0.1:\(port)"))
        var errors: [KafkaError] = []
        var log: [String] = []
        while !log.contains("ALLDOWN") {
            #expect(throws: KafkaError.self) { try topics.client.describeTopics(onlyKnown: false, timeoutMs: 100) }
            for event in topics.client.clientEvents() {
                switch event {
                case .error(let error): errors.append(error)
                case .log(_, let facility, _): log.append(facility)
                default: break
                }
            }
        }
        #expect(!errors.isEmpty && errors.allSatisfy { $0.text.contains("127.0.0.1:\(port)") }, "\(errors)")
    }

    @Test func `A topic pattern does not match an ignored topic`() throws {
        let cluster = try Cluster(.mock)
        let mock = try #require(cluster.mock)
        for name in ["__consumer_offsets", "__consumer_offsets.mine", "__share_group_state"] {
            try mock.create(name, partitions: 1)
        }
        var settings = try cluster.settings()
        settings.ignoredTopics = ["__consumer_offsets", "__share_group_state"]
        let member = try Member(settings, topics: ["^__.*", cluster.topic])
        try member.run("an assignment") { !member.queues.isEmpty }
        #expect(Set(member.queues.keys.map(\.topic)) == ["__consumer_offsets.mine", cluster.topic])
        try member.close()
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
        #expect(try topics.create([bad], timeoutMs: 20_000)[bad.name] != nil)

        var all = try topics.all(timeoutMs: 10_000)
        while all[requests] == nil || all[dead] == nil { all = try topics.all(timeoutMs: 10_000) }
        #expect(all[requests]?.partitions == 3)
        #expect(all[bad.name] == nil)
        let missing = KafkaBroker.uniqueName("missing")
        let found = try topics.configurations(of: [requests, dead, missing], timeoutMs: 20_000)
        #expect(found[requests]?.cleanupPolicies == ["delete"])
        #expect(found[requests]?.retentionMs == 12345)
        #expect(found[requests]?.maxMessageBytes == 1_048_588)
        #expect(found[requests]?.isCompacted == false)
        #expect(found[dead]?.isCompacted == true)
        #expect(found[dead]?.retentionMs == nil)
        #expect(found[missing] == nil)
        // The request for the configuration of a missing topic did not create the topic.
        #expect(try topics.all(timeoutMs: 10_000)[missing] == nil)
    }
}
