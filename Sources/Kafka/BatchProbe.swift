import CRdkafka

/// A client that tells what stands at an offset, by fetching from there. It joins no group, needs only the right to
/// read the topic, and changes nothing. One thread.
@safe package final class BatchProbe {
    /// What comes first when a partition is read from an offset on.
    package enum RecordAt: Hashable, Sendable {
        /// `timeMs`: its timestamp; -1: it has none.
        case record(offset: Int64, timeMs: Int64)
        /// No record up to the log's end.
        case end(offset: Int64)
    }

    private let client: ClientHandle
    private let username: String
    private let password: String
    private var topics: [String: OpaquePointer] = unsafe [:]

    /// How long an answer is waited for before the broker's thread is woken.
    private static let wakeEveryMs: Int32 = 20

    package init(_ cluster: ClusterSettings) throws(KafkaError) {
        var cluster = cluster
        cluster.clientID += "-batch"
        cluster.statisticsIntervalMs = 0
        let properties = cluster.all(
            ours: [
                KafkaProperty("reconnect.backoff.ms", "100"), KafkaProperty("reconnect.backoff.max.ms", "1000"),
            ], users: cluster.properties.consumer,
            fixed: [
                // Of a partition's first batch a broker sends all, however small the limit.
                KafkaProperty("max.partition.fetch.bytes", "1"), KafkaProperty("queued.min.messages", "1"),
                KafkaProperty("queued.max.messages.kbytes", "1"),
                KafkaProperty("fetch.min.bytes", "1"), KafkaProperty("fetch.wait.max.ms", "100"),
                KafkaProperty("fetch.error.backoff.ms", "20"),
                // The leader, whose high watermark bounds what is asked for.
                KafkaProperty("client.rack", ""),
                // What a transaction keeps from readers has its place in the log, too.
                KafkaProperty("isolation.level", "read_uncommitted"),
                KafkaProperty("enable.partition.eof", "true"), KafkaProperty("auto.offset.reset", "error"),
                KafkaProperty("enable.auto.commit", "false"), KafkaProperty("enable.auto.offset.store", "false"),
                KafkaProperty("allow.auto.create.topics", "false"),
                // Nobody reads it.
                KafkaProperty("log_level", "0"),
            ])
        func value(_ name: String) -> String { properties.last { $0.name == name }?.value ?? "" }
        username = value("sasl.username")
        password = value("sasl.password")
        client = try ClientHandle(.consumer, properties, events: 0)
    }

    deinit { unsafe topics.values.forEach { unsafe rd_kafka_topic_destroy($0) } }

    /// What is found from `offset` on, which is to be below the log's end; `nil`: nothing was told within `timeoutMs`, or
    /// the log does not have the offset, or its batch cannot be unpacked.
    package func record(at offset: Int64, of partition: TopicPartition, timeoutMs: Int32) -> RecordAt? {
        first(at: offset, of: partition, timeoutMs: timeoutMs) { message in
            guard let problem = message.problem else {
                return .record(offset: message.offset, timeMs: message.timestampMs)
            }
            return problem.code == .partitionEnd ? .end(offset: message.offset) : nil
        }
    }

    /// The first message of which `take` makes something.
    private func first<R>(
        at offset: Int64, of partition: TopicPartition, timeoutMs: Int32, _ take: (borrowing Message) -> R?
    ) -> R? {
        // A queue for each look: nothing of another one comes.
        guard let topic = unsafe topic(partition.topic), let queue = unsafe rd_kafka_queue_new(client.raw) else {
            return nil
        }
        defer { unsafe rd_kafka_queue_destroy(queue) }
        guard unsafe rd_kafka_consume_start_queue(topic, partition.partition, offset, queue) == 0 else { return nil }
        // Answered by the client's own main thread: there is no offset to be stored.
        defer { unsafe rd_kafka_consume_stop(topic, partition.partition) }
        let deadlineMs = Stopwatch.nowMs + Int64(timeoutMs)
        while true {
            let leftMs = Int32(clamping: max(0, deadlineMs - Stopwatch.nowMs))
            if let raw = unsafe rd_kafka_consume_queue(queue, min(leftMs, Self.wakeEveryMs)) {
                // Else it is a broker's trouble, which may pass.
                if let taken = take(unsafe Message(adopting: raw)) { return taken }
            } else {
                // The broker's thread may sleep a second before it looks what is to be fetched (`FetchWaker`).
                try? unsafe check(rd_kafka_sasl_set_credentials(client.raw, username, password))
            }
            guard leftMs > 0 else { return nil }
        }
    }

    private func topic(_ name: String) -> OpaquePointer? {
        if let topic = unsafe topics[name] { return unsafe topic }
        guard let topic = unsafe rd_kafka_topic_new(client.raw, name, nil) else { return nil }
        unsafe topics[name] = topic
        return unsafe topic
    }
}
