import CRdkafka

/// A bare producer for the bench's own requests, which counts what is not acknowledged.
final class RequestProducer {
    private let client: RawClient
    private let topic: OpaquePointer
    private var failure: String?
    /// From `produce` to the broker's acknowledgement, in microseconds; only where it is asked for.
    private(set) var acknowledgedUs: [Int32] = []

    /// - Parameters:
    ///   - lingerMs: 0 sends each record as soon as it is there.
    ///   - notesTimes: fill `acknowledgedUs`.
    init(_ topic: String, of broker: Broker, lingerMs: Int, notesTimes: Bool = false) throws(BenchFailure) {
        client = try RawClient(
            RD_KAFKA_PRODUCER, broker.bootstrapServers,
            [
                ("linger.ms", "\(lingerMs)"), ("acks", "all"), ("enable.idempotence", "true"),
                ("queue.buffering.max.messages", "200000"), ("queue.buffering.max.kbytes", "131072"),
                ("socket.nagle.disable", "true"), ("delivery.report.only.error", notesTimes ? "false" : "true"),
            ])
        self.topic = rd_kafka_topic_new(client.raw, topic, nil)
    }

    deinit { rd_kafka_topic_destroy(topic) }

    /// Hands a record to librdkafka, which copies it; waits where its queue is full.
    func produce(_ request: RequestText) throws(BenchFailure) {
        try produce(key: request.key, value: request.value, partition: request.partition) {
            guard request.hasHeaders else { return nil }
            return Self.headers(topic: request.topic, apnsID: request.apnsID)
        }
    }

    /// - Parameter partition: -1: by its key.
    func produce(
        key: [UInt8], value: [UInt8], partition: Int32 = -1, headers: () -> OpaquePointer?
    ) throws(BenchFailure) {
        while true {
            // librdkafka's once it took the record, else still ours.
            let list = headers()
            let code = key.withUnsafeBytes { key in
                value.withUnsafeBytes { value in
                    crdkafka_produce(
                        client.raw, topic, partition, key.isEmpty ? nil : key.baseAddress, key.count, value.baseAddress,
                        value.count, list, 0, 0)
                }
            }
            if code == RD_KAFKA_RESP_ERR_NO_ERROR { return }
            if let list { rd_kafka_headers_destroy(list) }
            guard code == RD_KAFKA_RESP_ERR__QUEUE_FULL else {
                throw BenchFailure("the requests cannot be written: \(String(cString: rd_kafka_err2str(code)))")
            }
            try serve(timeoutMs: 10)
        }
    }

    /// Those of a request in payload form.
    static func headers(topic: [UInt8], apnsID: [UInt8] = []) -> OpaquePointer? {
        let list = rd_kafka_headers_new(3)
        topic.withUnsafeBytes { _ = rd_kafka_header_add(list, "apns-topic", 10, $0.baseAddress, $0.count) }
        let type: StaticString = "alert"
        rd_kafka_header_add(list, "apns-push-type", 14, type.utf8Start, type.utf8CodeUnitCount)
        if !apnsID.isEmpty {
            apnsID.withUnsafeBytes { _ = rd_kafka_header_add(list, "apns-id", 7, $0.baseAddress, $0.count) }
        }
        return list
    }

    /// Takes reports of what failed.
    func serve(timeoutMs: Int32) throws(BenchFailure) {
        try Interruption.pause(ms: 0)
        var timeoutMs = timeoutMs
        while let event = rd_kafka_queue_poll(client.queue, timeoutMs) {
            timeoutMs = 0
            defer { rd_kafka_event_destroy(event) }
            guard rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR else { continue }
            while let message = rd_kafka_event_message_next(event) {
                let code = message.pointee.err
                if code != RD_KAFKA_RESP_ERR_NO_ERROR { failure = String(cString: rd_kafka_err2str(code)) }
                acknowledgedUs.append(Int32(clamping: rd_kafka_message_latency(message)))
            }
        }
        if let failure { throw BenchFailure("the requests cannot be written: \(failure)") }
    }

    /// Returns when the broker has acknowledged everything.
    func drain(until deadline: Deadline) throws(BenchFailure) {
        while rd_kafka_outq_len(client.raw) > 0 {
            try serve(timeoutMs: 10)
            guard !deadline.isOver else { throw BenchFailure("the requests were not written in time") }
        }
        try serve(timeoutMs: 0)
    }
}

/// Writes all of a topic's requests. Ends when the broker has acknowledged them.
func fill(_ topic: RequestTopic, of broker: Broker, _ traffic: Traffic) throws(BenchFailure) {
    let producer = try RequestProducer(topic.name, of: broker, lingerMs: 10)
    var request = RequestText(topic.form, traffic, partitions: topic.partitions)
    let deadline = Deadline(seconds: 600)
    for number in 0..<topic.records {
        request.set(record: number)
        try producer.produce(request)
        if number % 1_000 == 999 { try producer.serve(timeoutMs: 0) }
    }
    try producer.drain(until: deadline)
}
