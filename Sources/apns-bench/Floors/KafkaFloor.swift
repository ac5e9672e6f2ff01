import CLinux
import CRdkafka
import Glibc
import Kafka

/// The least that a program in C does with librdkafka for what the worker does with Kafka: take each record with its
/// headers, format its result, produce it, wait for its acknowledgement. No ledger, no commit, nothing sent.
///
/// Written as C would be: raw pointers, reused memory, one thread.
///
/// `apns-bench kafka-floor SERVERS REQUESTS RESULTS PARTITIONS COUNT` prints the milliseconds from the first record to
/// the last acknowledgement.
final class KafkaFloor {
    private static let batchLimit = 1_000

    private let count: Int
    private let consumer: RawClient
    private let producer: RawClient
    private let results: OpaquePointer
    private let batch = UnsafeMutablePointer<UnsafeMutablePointer<rd_kafka_message_t>?>.allocate(
        capacity: KafkaFloor.batchLimit)
    private let format: FloorResult
    private var acknowledged = 0

    init(_ words: [String]) throws(BenchFailure) {
        guard words.count == 5, let partitions = Int(words[3]), let count = Int(words[4]) else {
            throw BenchFailure("kafka-floor takes five arguments")
        }
        self.count = count
        // The worker's own properties, so that both wait and compress alike.
        let properties = ProducerSettings(cluster: ClusterSettings(bootstrapServers: words[0])).all
            .filter { $0.name != "log.queue" }
        producer = try RawClient(
            RD_KAFKA_PRODUCER, words[0], properties.map { ($0.name, $0.value) })
        results = rd_kafka_topic_new(producer.raw, words[2], nil)
        consumer = try RawClient.reader(
            of: words[1], partitions: partitions, words[0])
        format = FloorResult(requestTopic: words[1])
    }

    deinit {
        rd_kafka_topic_destroy(results)
        batch.deallocate()
    }

    /// Milliseconds from the first record to the last acknowledgement.
    func run() throws(BenchFailure) -> Int64 {
        var consumed = 0
        var startNs: Int64 = 0
        while acknowledged < count {
            var taken = 0
            if consumed < count {
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
            try takeReports(timeoutMs: consumed < count ? 0 : 100)
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

/// Formats results of the worker's shape (`apns.results`), member by member, as a program in C would: constant pieces
/// and numbers into one buffer.
final class FloorResult {
    private static let idSize = 36

    /// The JSON value.
    let value = UnsafeMutableRawPointer.allocate(byteCount: 4_096, alignment: 16)
    private(set) var valueSize = 0
    /// The apns-id.
    private let id = UnsafeMutableRawPointer.allocate(byteCount: FloorResult.idSize, alignment: 16)
    var nowMs: Int64 = 0

    private let requestTopic: UnsafeMutablePointer<CChar>
    private let requestTopicSize: Int
    private var at: UnsafeMutableRawPointer

    init(requestTopic: String) {
        self.requestTopic = strdup(requestTopic)
        requestTopicSize = strlen(self.requestTopic)
        at = value
    }

    deinit {
        value.deallocate()
        id.deallocate()
        free(requestTopic)
    }

    /// Writes `value` of a record. Sizes are not checked: it only ever sees the bench's own records.
    func write(_ message: UnsafeMutablePointer<rd_kafka_message_t>) {
        let partition = Int64(message.pointee.partition)
        let offset = message.pointee.offset
        let requestedAtMs = rd_kafka_message_timestamp(message, nil)
        let topic = header("apns-topic", of: message)
        writeID(partition, offset)
        at = value
        put("{\"outcome\":\"accepted\",\"status\":200,\"apns_id\":\"")
        put(UnsafeRawBufferPointer(start: id, count: Self.idSize))
        put("\",\"device_token\":\"")
        put(UnsafeRawBufferPointer(start: message.pointee.key, count: message.pointee.key_len))
        put("\",\"apns_topic\":\"")
        put(topic)
        put("\",\"app\":\"bench\",\"environment\":\"production\",\"attempts\":1,\"in_doubt\":0,\"requested_at_ms\":")
        put(requestedAtMs)
        put(",\"sent_at_ms\":")
        put(nowMs)
        put(",\"settled_at_ms\":")
        put(nowMs)
        put(",\"request\":{\"topic\":\"")
        put(UnsafeRawBufferPointer(start: requestTopic, count: requestTopicSize))
        put("\",\"partition\":")
        put(partition)
        put(",\"offset\":")
        put(offset)
        put(",\"index\":0}}")
        valueSize = at - value
    }

    /// Looks at every header, as a worker must. Returns an empty value if none has the name.
    private func header(
        _ wanted: StaticString, of message: UnsafeMutablePointer<rd_kafka_message_t>
    ) -> UnsafeRawBufferPointer {
        var headers: OpaquePointer?
        var found = UnsafeRawBufferPointer(start: nil, count: 0)
        guard rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR else { return found }
        var index = 0
        var name: UnsafePointer<CChar>?
        var bytes: UnsafeRawPointer?
        var size = 0
        while rd_kafka_header_get_all(headers, index, &name, &bytes, &size) == RD_KAFKA_RESP_ERR_NO_ERROR {
            if strcmp(name!, UnsafeRawPointer(wanted.utf8Start).assumingMemoryBound(to: CChar.self)) == 0 {
                found = UnsafeRawBufferPointer(start: bytes, count: size)
            }
            index += 1
        }
        return found
    }

    private func writeID(_ partition: Int64, _ offset: Int64) {
        var digit = 0
        for index in 0..<Self.idSize {
            if index == 8 || index == 13 || index == 18 || index == 23 {
                id.storeBytes(of: UInt8(ascii: "-"), toByteOffset: index, as: UInt8.self)
                continue
            }
            let word = digit < 16 ? offset : partition
            let nibble = UInt8(truncatingIfNeeded: word >> Int64(60 - (digit & 15) * 4)) & 15
            id.storeBytes(of: nibble < 10 ? 48 + nibble : 87 + nibble, toByteOffset: index, as: UInt8.self)
            digit += 1
        }
    }

    private func put(_ text: StaticString) {
        memcpy(at, text.utf8Start, text.utf8CodeUnitCount)
        at += text.utf8CodeUnitCount
    }

    private func put(_ bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress else { return }
        memcpy(at, base, bytes.count)
        at += bytes.count
    }

    private func put(_ number: Int64) {
        var rest = UInt64(number)
        var count = 1
        var bound: UInt64 = 10
        while rest >= bound {
            count += 1
            bound *= 10
        }
        for place in stride(from: count - 1, through: 0, by: -1) {
            at.storeBytes(of: 48 + UInt8(truncatingIfNeeded: rest % 10), toByteOffset: place, as: UInt8.self)
            rest /= 10
        }
        at += count
    }
}

/// A bare librdkafka client with its main queue; one thread. The worker's own wrappers would be
/// judged by themselves here.
final class RawClient {
    let raw: OpaquePointer
    /// The consumer's queue of messages, or the producer's of reports.
    let queue: OpaquePointer

    /// - Parameter properties: names and values as librdkafka has them.
    init(
        _ kind: rd_kafka_type_t, _ bootstrapServers: String, _ properties: [(name: String, value: String)] = []
    ) throws(BenchFailure) {
        let configuration = rd_kafka_conf_new()
        var text = [CChar](repeating: 0, count: 512)
        func failure() -> BenchFailure {
            BenchFailure(
                "librdkafka: " + String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
        }
        // Its own log lines would go to standard error: what matters comes as an error or as a deadline.
        for (name, value) in properties + [("bootstrap.servers", bootstrapServers), ("log_level", "0")] {
            guard rd_kafka_conf_set(configuration, name, value, &text, text.count) == RD_KAFKA_CONF_OK else {
                rd_kafka_conf_destroy(configuration)
                throw failure()
            }
        }
        if kind == RD_KAFKA_PRODUCER {
            rd_kafka_conf_set_events(configuration, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR)
        }
        // On success the client owns the configuration, else it is still ours (rdkafka.h, rd_kafka_new).
        guard let raw = rd_kafka_new(kind, configuration, &text, text.count) else {
            rd_kafka_conf_destroy(configuration)
            throw failure()
        }
        self.raw = raw
        if kind == RD_KAFKA_CONSUMER {
            rd_kafka_poll_set_consumer(raw)
            queue = rd_kafka_queue_get_consumer(raw)
        } else {
            queue = rd_kafka_queue_get_main(raw)
        }
    }

    deinit {
        rd_kafka_queue_destroy(queue)
        rd_kafka_destroy_flags(raw, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE)
    }

    /// A consumer that reads all partitions of a topic from their beginning, and commits nothing.
    static func reader(
        of topic: String, partitions: Int, _ bootstrapServers: String
    ) throws(BenchFailure) -> RawClient {
        let client = try RawClient(
            RD_KAFKA_CONSUMER, bootstrapServers,
            [("group.id", "apns-bench"), ("enable.auto.commit", "false"), ("socket.nagle.disable", "true")])
        let list = rd_kafka_topic_partition_list_new(Int32(partitions))
        defer { rd_kafka_topic_partition_list_destroy(list) }
        for partition in 0..<Int32(partitions) {
            let entry = rd_kafka_topic_partition_list_add(list, topic, partition)
            entry!.pointee.offset = Int64(RD_KAFKA_OFFSET_BEGINNING)
        }
        let code = rd_kafka_assign(client.raw, list)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
            throw BenchFailure("\(topic) cannot be read: \(String(cString: rd_kafka_err2str(code)))")
        }
        return client
    }
}
