import CLinux
import CRdkafka
import Configuration
import Glibc
import Kafka

/// What the process of the Kafka floor is told.
struct KafkaFloorOptions: Sendable {
    /// The first argument that makes `apns-bench` this process.
    static let command = "kafka-floor"

    var bootstrapServers = ""
    var requests = ""
    var results = ""
    var partitions = 1
    var count = 0
    var timeoutSeconds = 600

    static let table = OptionTable<KafkaFloorOptions>(
        command: "apns-bench \(command)", usage: ["OPTIONS"],
        about: ["A bare librdkafka loop: consumes requests, produces a result for each. apns-bench measures it."],
        options: [
            .init("bootstrap-servers", value: "HOST:PORT", "The broker.") { $0.bootstrapServers = $1 },
            .init("requests", value: "TOPIC", "What it consumes.") { $0.requests = $1 },
            .init("results", value: "TOPIC", "What it produces to.") { $0.results = $1 },
            .init("partitions", value: "N", "Partitions of the request topic.") { options, text throws(UsageError) in
                options.partitions = try OptionValue.integer(text, 1...1_000)
            },
            .init("count", value: "N", "Records in the request topic.") { options, text throws(UsageError) in
                options.count = try OptionValue.integer(text, 1...50_000_000)
            },
            .init("timeout", value: "SECONDS", "The longest it may take.") { options, text throws(UsageError) in
                options.timeoutSeconds = try OptionValue.integer(text, 1...86_400)
            },
        ])
}

/// `apns-bench kafka-floor`: prints the milliseconds from the first record to the last acknowledgement.
func runKafkaFloor(_ arguments: [String]) -> Int32 {
    runChild(KafkaFloorOptions.table, arguments, KafkaFloorOptions()) { say("\(try KafkaFloor($0).run())\n") }
}

/// The least that a program in C does with librdkafka for what the worker does with Kafka: take each record with its
/// headers, format its result, produce it, wait for its acknowledgement. No ledger, no commit, nothing sent.
///
/// Written as C would be: raw pointers, reused memory, one thread.
private final class KafkaFloor {
    private static let batchLimit = 1_000

    private let options: KafkaFloorOptions
    private let consumer: RawClient
    private let producer: RawClient
    private let results: OpaquePointer
    private let batch = UnsafeMutablePointer<UnsafeMutablePointer<rd_kafka_message_t>?>.allocate(
        capacity: KafkaFloor.batchLimit)
    private let format: FloorResult
    private var acknowledged = 0

    init(_ options: KafkaFloorOptions) throws(BenchFailure) {
        self.options = options
        // The worker's own properties, so that both wait and compress alike.
        let properties = ProducerSettings(cluster: ClusterSettings(bootstrapServers: options.bootstrapServers)).all
            .filter { $0.name != "log.queue" }
        producer = try RawClient(
            RD_KAFKA_PRODUCER, options.bootstrapServers, properties.map { ($0.name, $0.value) })
        results = rd_kafka_topic_new(producer.raw, options.results, nil)
        consumer = try RawClient.reader(
            of: options.requests, partitions: options.partitions, options.bootstrapServers)
        format = FloorResult(requestTopic: options.requests)
    }

    deinit {
        rd_kafka_topic_destroy(results)
        batch.deallocate()
    }

    /// Milliseconds from the first record to the last acknowledgement.
    func run() throws(BenchFailure) -> Int64 {
        let deadline = Deadline(seconds: options.timeoutSeconds)
        var consumed = 0
        var startNs: Int64 = 0
        while acknowledged < options.count {
            var taken = 0
            if consumed < options.count {
                // Returns when the array is full or the time is over, whichever is first.
                taken = rd_kafka_consume_batch_queue(consumer.queue, 10, batch, Self.batchLimit)
                if taken > 0, startNs == 0 { startNs = Clocks.monotonicNs }
                format.nowMs = Clocks.wallMs
                for index in 0..<max(0, taken) {
                    let message = batch[index]!
                    if message.pointee.err == RD_KAFKA_RESP_ERR_NO_ERROR {
                        try answer(message)
                        consumed += 1
                    }
                    rd_kafka_message_destroy(message)
                }
            }
            try takeReports(timeoutMs: consumed < options.count ? 0 : 100)
            guard !deadline.isOver else {
                throw BenchFailure("not done in time: \(consumed) consumed, \(acknowledged) acknowledged")
            }
        }
        return (Clocks.monotonicNs - startNs) / 1_000_000
    }

    private func answer(_ message: UnsafeMutablePointer<rd_kafka_message_t>) throws(BenchFailure) {
        format.write(message)
        while true {
            let headers = rd_kafka_headers_new(1)
            rd_kafka_header_add(headers, "outcome", 7, "accepted", 8)
            let code = crdkafka_produce(
                producer.raw, results, -1, message.pointee.key, message.pointee.key_len, format.value,
                format.valueSize, headers, 0, 0)
            if code == RD_KAFKA_RESP_ERR_NO_ERROR { return }
            rd_kafka_headers_destroy(headers)
            guard code == RD_KAFKA_RESP_ERR__QUEUE_FULL else {
                throw BenchFailure("a result was not produced: \(String(cString: rd_kafka_err2str(code)))")
            }
            try takeReports(timeoutMs: 10)
        }
    }

    private func takeReports(timeoutMs: Int32) throws(BenchFailure) {
        var timeoutMs = timeoutMs
        while let event = rd_kafka_queue_poll(producer.queue, timeoutMs) {
            timeoutMs = 0
            defer { rd_kafka_event_destroy(event) }
            guard rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR else { continue }
            while let message = rd_kafka_event_message_next(event) {
                guard message.pointee.err == RD_KAFKA_RESP_ERR_NO_ERROR else {
                    throw BenchFailure(
                        "a result was not written: \(String(cString: rd_kafka_err2str(message.pointee.err)))")
                }
                acknowledged += 1
            }
        }
    }
}
