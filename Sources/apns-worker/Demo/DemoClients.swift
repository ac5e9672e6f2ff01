import Configuration
import Kafka
import PushRecords
import Replay

/// A producer of the demo's requests: most in payload form, the rest as envelopes. Not thread-safe.
final class DemoProducer {
    private let producer: Producer
    private let topic: ProducerTopic
    private var traffic: DemoTraffic
    /// The next record to pass to librdkafka, or `nil` once librdkafka has accepted all records.
    private var next: DemoTraffic.Record?
    private(set) var failure: String?

    init(_ configuration: WorkerConfiguration, count: Int) throws(KafkaError) {
        traffic = DemoTraffic(count: count)
        next = traffic.record()
        producer = try Producer(
            ProducerSettings(
                cluster: ClusterSettings(
                    bootstrapServers: configuration.kafka.bootstrapServers, clientID: "demo-producer")))
        topic = try producer.topic(configuration.requestTopics[0].name)
        try producer.warmUp(timeoutMs: 10_000)
    }

    var isDone: Bool { next == nil && producer.outstanding == 0 }

    /// Produces records until `limit` notifications are produced or librdkafka's queue is full, and adds the
    /// notifications to the counts in `books`.
    func produce(upTo limit: Int, _ books: inout DemoBooks) {
        var code = KafkaCode.none
        while books.produced < limit, code == .none, let record = next {
            code = producer.produce(record.request, to: topic)
            guard code == .none else { break }
            books.noteProduced(record)
            next = traffic.record()
        }
        if code != .none, code != .queueFull { failure = "a request was not written: \(code.text)" }
        producer.serve(
            report: { if $0.code != .none { failure = "a request was not written: \($0.code.text)" } },
            event: { if case .fatal(let error) = $0 { failure = "the producer failed: \(error.text)" } })
    }
}

/// A consumer of results, dead tokens and dead letters. Not thread-safe.
struct DemoReader {
    private let results: TopicReader
    private let unregistered: TopicReader
    private let deadLetters: TopicReader
    /// Which result to leave out of the counts: 1 is the first result, and 0 leaves out none.
    private let withheld: Int
    private var count = 0

    init(_ configuration: WorkerConfiguration, _ cluster: ClusterSettings, withheld: Int) throws {
        self.withheld = withheld
        func reader(_ topic: String) throws -> TopicReader {
            let reader = try TopicReader(cluster, topic: topic, BrokerWait(cluster, until: Deadline(after: nil)))
            try reader.start(at: .beginning)
            return reader
        }
        results = try reader(configuration.results.topic)
        unregistered = try reader(configuration.unregistered.topic)
        deadLetters = try reader(configuration.deadLetters.topic)
    }

    var hasWithheld: Bool { withheld > 0 && count >= withheld }

    /// Adds the available records to the counts in `books`. Waits up to `timeoutMs` if there are no results.
    mutating func read(into books: inout DemoBooks, timeoutMs: Int32) throws {
        func number(_ key: UnsafeRawBufferPointer) -> Int? {
            DemoTraffic.number(inToken: String(decoding: key, as: UTF8.self))
        }
        try results.read(timeoutMs: timeoutMs) { _, message in
            count += 1
            guard count != withheld, let result = try? DeliveryResult(json: message.value) else { return true }
            books.update(number(message.key)) { entry in
                entry.results += 1
                entry.outcome = result.outcome
                entry.inDoubt += result.inDoubt
            }
            return true
        }
        try unregistered.read(timeoutMs: 0) { _, message in
            books.update(number(message.key)) { $0.deadTokens += 1 }
            return true
        }
        try deadLetters.read(timeoutMs: 0) { _, message in
            let value = String(decoding: message.value, as: UTF8.self)
            books.update(value.split(separator: " ").last.flatMap { Int($0) }) { $0.deadLetters += 1 }
            return true
        }
    }
}
