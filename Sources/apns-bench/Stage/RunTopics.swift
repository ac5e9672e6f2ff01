import CRdkafka
import Glibc
import Kafka

/// Where one measurement's results go; the name of the first is its consumer group's too, so that each has a fresh one.
struct OutputTopics {
    let results: String
    let unregistered: String
    let deadLetters: String
    let retry: String
}

/// The topics of one run, with names of their own; deleted at its end where the broker stays.
final class RunTopics {
    private let name = "apns-bench.\(getpid()).\(UInt32.random(in: 0...UInt32.max))"
    private let broker: Broker
    private let partitions: Int
    private var all: [String] = []
    private var sets = 0

    init(_ broker: Broker, partitions: Int) {
        self.broker = broker
        self.partitions = partitions
    }

    /// Creates an empty topic for requests.
    ///
    /// - Parameter word: tells it from others of the run.
    func newRequests(_ word: String) throws -> String {
        let topic = "\(name).\(word).requests"
        try create([NewTopic(topic, partitions: partitions, replicationFactor: 1)])
        return topic
    }

    /// Creates empty topics for what one measurement produces.
    func newOutputs() throws -> OutputTopics {
        sets += 1
        let set = "\(name).\(sets)"
        let topics = OutputTopics(
            results: "\(set).results", unregistered: "\(set).unregistered", deadLetters: "\(set).dead-letters",
            retry: "\(set).retry.30s")
        try create(
            [NewTopic(topics.results, partitions: partitions, replicationFactor: 1)]
                + [topics.unregistered, topics.deadLetters, topics.retry].map {
                    NewTopic($0, partitions: 1, replicationFactor: 1)
                })
        return topics
    }

    private func create(_ new: [NewTopic]) throws {
        let topics = try Topics(broker.cluster)
        for (name, result) in try topics.create(new, timeoutMs: 20_000) where result.code != .none {
            throw BenchFailure("topic \(name) cannot be created: \(result.text)")
        }
        all += new.map(\.name)
        // The broker answers before every part of it knows a topic.
        let deadline = Deadline(seconds: 20)
        while true {
            let known = try topics.all(timeoutMs: 5_000)
            if new.allSatisfy({ known[$0.name]?.code == KafkaCode.none }) { return }
            guard !deadline.isOver else { throw BenchFailure("the topics that were created do not show") }
            try Interruption.pause(ms: 50)
        }
    }

    deinit {
        guard !broker.isOwn, let client = try? RawClient(RD_KAFKA_PRODUCER, broker.bootstrapServers) else { return }
        var list: [OpaquePointer?] = []
        for topic in all { list.append(rd_kafka_DeleteTopic_new(topic)) }
        let queue = rd_kafka_queue_new(client.raw)
        rd_kafka_DeleteTopics(client.raw, &list, list.count, nil, queue)
        if let event = rd_kafka_queue_poll(queue, 20_000) { rd_kafka_event_destroy(event) }
        rd_kafka_DeleteTopic_destroy_array(&list, list.count)
        rd_kafka_queue_destroy(queue)
    }
}
