@testable import Configuration
import EventLoop
import Kafka
import Observability
import TestSupport
import Testing

@testable import Worker

@Suite(.waiting) struct RemovedRetryTopicsTests {
    /// The topics that are read in addition, and the last list of all topics.
    private final class Told {
        var reads: [[String]] = []
        var existing: Set<String>?
    }

    private func removed(
        _ configuration: WorkerConfiguration, _ loop: Loop, _ told: Told
    ) throws -> RemovedRetryTopics {
        RemovedRetryTopics(
            configuration, try configuration.cluster(), loop: loop, logger: Logger(sink: MemorySink().write),
            onChange: { told.reads.append($0) }, onTopics: { told.existing = $0 })
    }

    @Test func `A removed retry topic is read from when it is found until it is deleted`() throws {
        let told = Told()
        let removed = try removed(
            WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: "127.0.0.1:1"), apps: []), Loop(), told)
        removed.take(found: ["a", "b"], existing: ["a", "b", "other"])
        // An empty retry topic stays subscribed: it may receive records again, and a change would rebalance the group.
        removed.take(found: ["b"], existing: ["a", "b"])
        removed.take(found: [], existing: ["b"])
        removed.take(found: ["c"], existing: ["b", "c"])
        #expect(told.reads == [["a", "b"], ["b"], ["b", "c"]])
    }

    /// Replicas with another configuration write to a tier that this configuration does not name.
    @Test(.timeLimit(.minutes(5)))
    func `The search finds a topic with retry records of the group and ignores other topics`() throws {
        let mock = try MockCluster()
        var configuration = WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: mock.bootstrapServers), apps: [])
        configuration.requestTopics = [RequestTopic(name: "requests")]
        try mock.create("requests", partitions: 1)
        for output in configuration.outputTopics { try mock.create(output.name, partitions: 1) }
        let cluster = try configuration.cluster()
        let loop = try Loop()
        let told = Told()
        let removed = try removed(configuration, loop, told)
        /// Searches until a search is answered: librdkafka's first lookup of the coordinator may be too early.
        func look() {
            told.existing = nil
            while told.existing == nil {
                if !removed.reads.isBusy { removed.search() }
                loop.runOnce(timeoutNs: 50_000_000)
            }
        }
        look()
        #expect(told.existing?.contains("requests") == true && told.reads.isEmpty)

        let producer = try Producer(ProducerSettings(cluster: cluster))
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        for name in ["left", "foreign"] {
            try mock.create(name, partitions: 1)
            let topic = try producer.topic(name)
            "push-retry-request".utf8.withContiguousStorageIfAvailable {
                let header = MessageHeader(name: UnsafeRawBufferPointer($0), value: none)
                let code = producer.produce(
                    to: topic, key: none, value: none, headers: name == "left" ? [header] : [], tag: 1)
                #expect(code == .none)
            }
        }
        #expect(producer.flush(timeoutMs: 20_000, report: { _ in }, event: { _ in }) == 0)
        let member = try Consumer(configuration.consumer(.retries, of: cluster))
        try member.commit(["left", "foreign"].map { CommitEntry(TopicPartition($0, 0), offset: 0) }, tag: 1)
        var isCommitted = false
        while !isCommitted {
            member.serve(timeoutMs: 50) { event in
                if case .committed(let reply) = event { isCommitted = reply.code == .none }
            }
        }
        look()
        #expect(removed.topics == ["left"] && told.reads == [["left"]])
    }
}
