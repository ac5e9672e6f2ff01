import CRdkafka

/// A bare librdkafka client with its main queue; one thread. For the floor and for looking at topics, where the
/// worker's own wrappers would be judged by themselves.
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
