import CRdkafka
@testable import Kafka
import Testing

struct KafkaPropertiesTests {
    @Test(arguments: [
        "enable.auto.commit", "auto.commit.enable", "enable.auto.offset.store", "auto.offset.reset", "group.id",
        "group.instance.id", "partition.assignment.strategy", "acks", "request.required.acks", "enable.idempotence",
        "message.timeout.ms", "delivery.timeout.ms", "isolation.level", "delivery.report.only.error",
        "transactional.id",
        "bootstrap.servers", "metadata.broker.list", "topic.blacklist", "plugin.library.paths", "interceptors",
        "log_level", "allow.auto.create.topics", "enable.partition.eof", "enabled_events",
        "internal.termination.signal", "enable.gapless.guarantee", "group.protocol.type", "api.version.request",
        "broker.version.fallback", "check.crcs", "topic.acks", "topic.auto.offset.reset",
    ])
    func `A property that only the worker may set is rejected in every section, by name`(name: String) {
        let property = [KafkaProperty(name, "1")]
        for section in KafkaProperties.Section.allCases {
            let refusal = #expect(throws: RefusedProperty.self) {
                _ = try KafkaProperties(
                    common: section == .common ? property : [], consumer: section == .consumer ? property : [],
                    producer: section == .producer ? property : [])
            }
            #expect(refusal?.section == section)
            #expect(refusal?.description.hasPrefix("\(section.key): \(name) cannot be set: ") == true)
        }
    }

    @Test(arguments: ["consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"])
    func `A partitioner that hashes the key is accepted, and the random partitioner is rejected`(name: String) throws {
        _ = try KafkaProperties(producer: [KafkaProperty("partitioner", name)])
        for random in ["partitioner", "topic.partitioner"] {
            let refusal = #expect(throws: RefusedProperty.self) {
                try KafkaProperties(producer: [KafkaProperty(random, "random")])
            }
            #expect(refusal?.description.contains("use a partitioner that hashes the key") == true)
        }
    }

    @Test(
        arguments: [
            (["coordinator.query.interval.ms": "2147483"], true), (["coordinator.query.interval.ms": "2147484"], false),
            (["queue.buffering.max.kbytes": "9765"], false), (["queue.buffering.max.kbytes": "9766"], true),
            (["queue.buffering.max.kbytes": "1024", "message.max.bytes": "1048576"], true),
            (["message.max.bytes": "67108865"], false),
        ] as [(KeyValuePairs<String, String>, Bool)])
    func `A value that makes librdkafka hang or overflow is rejected`(
        properties: KeyValuePairs<String, String>, isTaken: Bool
    ) {
        let taken = try? KafkaProperties(producer: KafkaProperty.list(properties))
        #expect((taken != nil) == isTaken)
    }

    @Test(arguments: ["max.poll.interval.ms": "35000", "receive.message.max.bytes": "2000000"])
    func `A reader that joins no consumer group can be created with settings for the worker's consumers`(
        name: String, value: String
    ) throws {
        let properties = try KafkaProperties(consumer: [KafkaProperty(name, value)])
        let cluster = ClusterSettings(bootstrapServers: "127.0.0.1:1", properties: properties)
        #expect(throws: Never.self) { try OffsetReader(cluster, group: "g", fetchKilobytes: 64) }
    }

    /// A librdkafka without OIDC rejects `sasl.oauthbearer.method: oidc`, so its users get other advice.
    @Test func `OAUTHBEARER without a token source is rejected with advice that fits the librdkafka in use`() {
        let mechanism = [KafkaProperty("sasl.mechanism", "OAUTHBEARER")]
        let refusal = #expect(throws: RefusedProperty.self) { try KafkaProperties(producer: mechanism) }
        #expect(refusal?.section == .producer && refusal?.name == "sasl.mechanism")
        func reason(_ more: KafkaProperty?, _ libraryVersion: Int32, hasOIDC: Bool) -> String? {
            let properties = [KafkaProperty("sasl.mechanisms", "oauthbearer")] + (more.map { [$0] } ?? [])
            return KafkaProperties.tokenRefusal(properties, libraryVersion: libraryVersion, hasOIDC: hasOIDC)?.reason
        }
        let oidc = KafkaProperty("sasl.oauthbearer.method", "oidc")
        let unsecure = KafkaProperty("enable.sasl.oauthbearer.unsecure.jwt", "true")
        #expect(reason(oidc, 0x0200_02FF, hasOIDC: true) == nil)
        #expect(reason(nil, 0x0200_02FF, hasOIDC: true)?.contains("set sasl.oauthbearer.method: oidc") == true)
        for more in [oidc, nil] {
            #expect(reason(more, 0x020A_00FF, hasOIDC: false)?.contains("was built without OIDC") == true)
        }
        #expect(reason(unsecure, 0x0201_01FF, hasOIDC: true)?.contains("before 2.2 crashes") == true)
        #expect(reason(unsecure, 0x0202_00FF, hasOIDC: false) == nil)
        #expect(throws: Never.self) { try KafkaProperties(tokenCommand: "true").validate() }
    }

    @Test func `All other properties are passed to librdkafka`() throws {
        let patient = KafkaProperty("socket.timeout.ms", "60000")
        let properties = try KafkaProperties(
            common: [KafkaProperty("security.protocol", "PLAINTEXT"), patient],
            consumer: [KafkaProperty("queued.max.messages.kbytes", "4096")],
            producer: [KafkaProperty("compression.type", "zstd")])
        try properties.validate()
        let cluster = ClusterSettings(bootstrapServers: "127.0.0.1:1", properties: properties)
        let consumer = ConsumerSettings(cluster: cluster, role: .requests, groupID: "g").all
        // librdkafka uses the last value of a property.
        for all in [consumer, ProducerSettings(cluster: cluster).all] {
            #expect(all.last { $0.name == patient.name } == patient)
        }
        #expect(consumer.last { $0.name == "queued.max.messages.kbytes" }?.value == "4096")
        #expect(consumer.contains(KafkaProperty("security.protocol", "PLAINTEXT")))
        #expect(!consumer.contains { $0.name == "compression.type" })
    }

    @Test(arguments: [(0, "1024"), (1, "1024"), (8, "128"), (1_000, "64")])
    func `The prefetch limit is divided among the partitions`(partitions: Int, kilobytes: String) {
        let consumer = ConsumerSettings(
            cluster: ClusterSettings(bootstrapServers: "h:1"), role: .requests, groupID: "g", partitions: partitions)
        #expect(consumer.all.last { $0.name == "queued.max.messages.kbytes" }?.value == kilobytes)
    }

    @Test(arguments: [("no.such.property", "1"), ("linger.ms", "soon"), ("security.protocol", "carrier-pigeon")])
    func `The error names the property that librdkafka rejects`(name: String, value: String) throws {
        let properties = try KafkaProperties(common: [KafkaProperty(name, value)])
        let error = #expect(throws: InvalidProperty.self) { try properties.validate() }
        #expect(error?.description.contains(name) == true)
    }

    /// When creation fails this late, librdkafka has already freed a part of the configuration.
    @Test func `Creating a client with a missing CA file throws an error, however often it is tried`() {
        let properties = [
            KafkaProperty("bootstrap.servers", "h:1"), KafkaProperty("security.protocol", "ssl"),
            KafkaProperty("ssl.ca.location", "/nowhere/ca.pem"), KafkaProperty("log_level", "0"),
        ]
        for _ in 0..<20 {
            let error = #expect(throws: KafkaError.self) { _ = try ClientHandle(RD_KAFKA_PRODUCER, properties) }
            #expect(error?.text.contains("/nowhere/ca.pem") == true || error?.text.contains("ssl.ca") == true)
        }
    }

    @Test func `Without user properties, the consumer and the producer get the worker's settings`() throws {
        var cluster = ClusterSettings(bootstrapServers: "h:1")
        cluster.waitsForMore = true
        let requests = ConsumerSettings(cluster: cluster, role: .requests, groupID: "worker").all
        for (name, value) in [("fetch.wait.max.ms", "40"), ("fetch.min.bytes", "16384")] {
            #expect(requests.last { $0.name == name }?.value == value)
        }
        var tuned = cluster
        tuned.properties = try KafkaProperties(consumer: [KafkaProperty("fetch.wait.max.ms", "500")])
        let all = ConsumerSettings(cluster: tuned, role: .requests, groupID: "worker").all
        #expect(!all.contains { $0.name == "fetch.min.bytes" }, "A request would wait for 500 ms")
        let consumer = ConsumerSettings(
            cluster: cluster, role: .retries, groupID: "worker", groupInstanceID: "w-1", sessionTimeoutMs: 6000,
            assignment: .cooperative)
        let expected = [
            "bootstrap.servers": "h:1", "group.id": "worker.retry", "group.instance.id": "w-1",
            "session.timeout.ms": "6000", "heartbeat.interval.ms": "2000",
            "partition.assignment.strategy": "cooperative-sticky", "enable.auto.commit": "false",
            "enable.auto.offset.store": "false", "auto.offset.reset": "error", "isolation.level": "read_committed",
            "queued.max.messages.kbytes": "256", "queued.min.messages": "100", "log.queue": "true",
            "socket.timeout.ms": "10000",
        ]
        for (name, value) in expected { #expect(consumer.all.last { $0.name == name }?.value == value, "\(name)") }
        #expect(!consumer.all.contains { $0.name.starts(with: "fetch.wait") }, "Only readers of requests wait for more")
        let producer = ProducerSettings(cluster: cluster).all
        for (name, value) in [
            "acks": "all", "enable.idempotence": "true", "message.timeout.ms": "0", "message.max.bytes": "10000000",
            "compression.type": "lz4", "linger.ms": "50", "partitioner": "murmur2_random", "socket.timeout.ms": "10000",
        ] { #expect(producer.last { $0.name == name }?.value == value, "\(name)") }
    }
}
