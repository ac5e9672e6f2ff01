import CRdkafka
import Glibc
import Kafka

/// Where one round's results go.
struct RoundTopics {
    let floorResults: String
    let results: String
    let unregistered: String
    let deadLetters: String
    let retry: String
}

/// The topics of one run, with names of their own; deleted at its end where the broker stays.
final class RunTopics {
    let requests: String
    private let name = "apns-bench.\(getpid()).\(UInt32.random(in: 0...UInt32.max))"
    private let broker: Broker
    private let partitions: Int
    private var all: [String] = []
    private var rounds = 0

    init(_ broker: Broker, partitions: Int) throws {
        self.broker = broker
        self.partitions = partitions
        requests = "\(name).requests"
        try create([NewTopic(requests, partitions: partitions, replicationFactor: 1)])
    }

    /// Creates empty topics for one more round.
    func newRound() throws -> RoundTopics {
        rounds += 1
        let round = RoundTopics(
            floorResults: "\(name).\(rounds).floor-results", results: "\(name).\(rounds).results",
            unregistered: "\(name).\(rounds).unregistered", deadLetters: "\(name).\(rounds).dead-letters",
            retry: "\(name).\(rounds).retry.30s")
        try create(
            [round.floorResults, round.results].map { NewTopic($0, partitions: partitions, replicationFactor: 1) }
                + [round.unregistered, round.deadLetters, round.retry].map {
                    NewTopic($0, partitions: 1, replicationFactor: 1)
                })
        return round
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

/// Writes the requests: payload form, keyed by device, with the headers a producer would write. Ends when the broker has
/// acknowledged all of them.
func fill(_ topic: String, of broker: Broker, count: Int, _ traffic: Traffic) throws {
    let producer = try Producer(ProducerSettings(cluster: broker.cluster))
    let target = try producer.topic(topic)
    try producer.warmUp(timeoutMs: 10_000)
    var failure: String?
    func serve(timeoutMs: Int32) {
        producer.serve(
            timeoutMs: timeoutMs,
            report: { if $0.code != .none { failure = $0.code.text } },
            event: { if case .fatal(let error) = $0 { failure = error.text } })
    }
    let deadline = Deadline(seconds: 600)
    func checkProgress() throws {
        if let failure { throw BenchFailure("the requests cannot be written: \(failure)") }
        guard !deadline.isOver else { throw BenchFailure("the requests were not written in time") }
        try Interruption.pause(ms: 0)
    }
    var topicValue = Traffic.bundleID
    var typeValue = Traffic.pushType
    try topicValue.withUTF8 { topicValue in
        try typeValue.withUTF8 { typeValue in
            let headers = [
                MessageHeader(name: bytes("apns-topic"), value: UnsafeRawBufferPointer(topicValue)),
                MessageHeader(name: bytes("apns-push-type"), value: UnsafeRawBufferPointer(typeValue)),
            ]
            for number in 0..<count {
                var key = traffic.tokens[number % traffic.tokens.count]
                var value = Traffic.payload(number)
                while true {
                    let code = key.withUTF8 { key in
                        value.withUTF8 { value in
                            producer.produce(
                                to: target, key: UnsafeRawBufferPointer(key), value: UnsafeRawBufferPointer(value),
                                headers: headers, tag: 0)
                        }
                    }
                    if code == .none { break }
                    guard code == .queueFull else { throw BenchFailure("the requests cannot be written: \(code.text)") }
                    serve(timeoutMs: 20)
                    try checkProgress()
                }
                if number % 1_000 == 999 {
                    serve(timeoutMs: 0)
                    try checkProgress()
                }
            }
        }
    }
    while producer.outstanding > 0 {
        serve(timeoutMs: 100)
        try checkProgress()
    }
    try checkProgress()
}

/// A fixed text's bytes, which live as long as the program.
func bytes(_ text: StaticString) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
}
