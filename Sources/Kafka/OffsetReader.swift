import CRdkafka

/// Reads partitions of any topics from offsets of one's own choice, and goes to others at any time: what a consumer of
/// a group cannot do without losing track (<doc:KafkaFacts>, Reading). It is no member, commits nothing, and sees
/// committed records only. One thread.
///
/// All partitions that are read share one queue, and what librdkafka reads ahead is bounded for all of them together.
/// With eight of them at a time 1,000 single records at random places took 0.5 s (librdkafka 2.0.2, one broker beside
/// it).
@safe package final class OffsetReader {
    /// What is told of a partition in the place of a record.
    package enum Trouble: Hashable, Sendable {
        /// Nothing stands at or behind this offset now. It is read on: what comes is told.
        case end(offset: Int64)
        /// The log has no such offset, or not any more. It is not read on.
        case outOfRange
        /// A batch that begins here, or the record at this offset, cannot be read; it is asked for again and again.
        case unreadable(offset: Int64, KafkaError)
        /// It is tried again and again.
        case failed(KafkaError)
    }

    /// A partition by the address of its topic's handle, which messages have.
    private struct Key: Hashable {
        var topic: UInt
        var partition: Int32

        init(_ topic: OpaquePointer, _ partition: Int32) {
            self.topic = UInt(bitPattern: topic)
            self.partition = partition
        }
    }

    private let client: ClientHandle
    private let queue: OpaquePointer
    private let mainQueue: OpaquePointer
    private let waker: FetchWaker?
    private let username: String
    private let password: String
    /// Those asked for, kept because librdkafka asks for those it knows.
    private var topics: [String: OpaquePointer] = unsafe [:]
    /// Those that are read.
    private var partitions: [Key: TopicPartition] = [:]

    /// Makes a client; no broker needs to be there.
    ///
    /// - Parameters:
    ///   - group: whose commits `committed(_:timeoutMs:)` tells; `nil`: none, and no right to it is needed.
    ///   - fetchKilobytes: what is fetched of a partition at once, at least one batch: little where one goes from place
    ///     to place, much where all is read.
    ///   - idleMs: how long a broker keeps a fetch for which nothing waits: little where one goes to other places, more
    ///     where one waits for what comes.
    package init(
        _ cluster: ClusterSettings, group: String? = nil, fetchKilobytes: Int, idleMs: Int32 = 10
    ) throws(KafkaError) {
        wakeEveryMs = idleMs / 2
        var fixed = [
            KafkaProperty("max.partition.fetch.bytes", "\(fetchKilobytes << 10)"),
            KafkaProperty("queued.min.messages", "20000"), KafkaProperty("queued.max.messages.kbytes", "4096"),
            // A request without an answer yet keeps those behind it waiting, also where one is at its log's end.
            KafkaProperty("fetch.min.bytes", "1"), KafkaProperty("fetch.wait.max.ms", "\(idleMs)"),
            KafkaProperty("fetch.error.backoff.ms", "100"),
            // The leader: another one may not have what it is asked for yet, and would seem to have none.
            KafkaProperty("client.rack", ""),
            KafkaProperty("isolation.level", "read_committed"), KafkaProperty("enable.partition.eof", "true"),
            KafkaProperty("auto.offset.reset", "error"), KafkaProperty("enable.auto.commit", "false"),
            KafkaProperty("enable.auto.offset.store", "false"), KafkaProperty("allow.auto.create.topics", "false"),
        ]
        if let group { fixed.append(KafkaProperty("group.id", group)) }
        let properties = cluster.all(ours: [], users: cluster.properties.consumer, fixed: fixed)
        func value(_ name: String) -> String { properties.last { $0.name == name }?.value ?? "" }
        username = value("sasl.username")
        password = value("sasl.password")
        client = try ClientHandle(.consumer, properties, events: RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG)
        waker = FetchWaker(client, properties)
        guard let queue = unsafe rd_kafka_queue_new(client.raw), let main = unsafe rd_kafka_queue_get_main(client.raw)
        else { throw KafkaError(.wrongState) }
        unsafe self.queue = queue
        unsafe mainQueue = main
        try unsafe client.sendLog(to: main)
    }

    deinit {
        for partition in partitions.values { stop(partition) }
        unsafe topics.values.forEach { unsafe rd_kafka_topic_destroy($0) }
        unsafe rd_kafka_queue_destroy(queue)
        unsafe rd_kafka_queue_destroy(mainQueue)
    }

    /// What the client has to say since the last call.
    package func events() -> [ClientEvent] {
        var events: [ClientEvent] = []
        while let event = unsafe QueueEvent(polling: mainQueue, timeoutMs: 0) {
            if let event = event.clientEvent(of: client) { events.append(event) }
        }
        return events
    }

    // MARK: Questions; each waits at most `timeoutMs`

    /// These topics: `code` says why one cannot be used, `.topicAuthorizationFailed` among others. Creates none.
    ///
    /// - Parameter names: librdkafka keeps them, and looks for each among all that it keeps: some hundred, not
    ///   thousands.
    package func topics(named names: [String], timeoutMs: Int32) throws(KafkaError) -> [String: TopicDescription] {
        for name in names { _ = try unsafe topic(name) }
        return try Metadata(of: client, onlyKnown: true, timeoutMs: timeoutMs).topics
    }

    /// The first offset that each partition holds, and the end of what can be read of it; throws where one of the
    /// leaders does not answer.
    package func bounds(
        of partitions: [TopicPartition], timeoutMs: Int32
    ) throws(KafkaError) -> [TopicPartition: Range<Int64>] {
        try client.bounds(of: partitions, timeoutMs: timeoutMs)
    }

    /// For each partition the first record with this timestamp (milliseconds since the epoch) or a later one;
    /// partitions that have none are left out.
    package func offsets(
        of partitions: [TopicPartition], fromMs timestampMs: Int64, timeoutMs: Int32
    ) throws(KafkaError) -> [TopicPartition: Int64] {
        try client.offsets(of: partitions, fromMs: timestampMs, timeoutMs: timeoutMs)
    }

    /// What the group has committed; a partition with a transaction that is not at its end yet has the code
    /// RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT.
    package func committed(_ partitions: [TopicPartition], timeoutMs: Int32) throws(KafkaError) -> [CommittedOffset] {
        try client.committed(partitions, timeoutMs: timeoutMs)
    }

    // MARK: Reading

    /// Where `start` begins with the first record that there is then.
    package static let beginning = Int64(RD_KAFKA_OFFSET_BEGINNING)

    /// Reads a partition from this offset on; of one that is being read nothing from elsewhere comes any more.
    package func start(_ partition: TopicPartition, at offset: Int64) throws(KafkaError) {
        stop(partition)
        let topic = try unsafe topic(partition.topic)
        guard unsafe rd_kafka_consume_start_queue(topic, partition.partition, offset, queue) == 0 else {
            throw KafkaError(KafkaCode(rd_kafka_last_error()), "\(partition): \(KafkaCode(rd_kafka_last_error()).text)")
        }
        unsafe partitions[Key(topic, partition.partition)] = partition
        wake()
    }

    /// Reads a partition no more; what was read ahead of it is dropped.
    package func stop(_ partition: TopicPartition) {
        guard let topic = unsafe topics[partition.topic],
            unsafe partitions.removeValue(forKey: Key(topic, partition.partition)) != nil
        else { return }
        // Answered by the client's own main thread: there is no offset to be stored. What stands in the queue is of an
        // older version then, and librdkafka passes it over (rdkafka_queue.c).
        unsafe rd_kafka_consume_stop(topic, partition.partition)
    }

    /// Lends the next record to `record`, or tells what stands in its place; false: nothing came within `timeoutMs`.
    package func next(
        timeoutMs: Int32, record: (TopicPartition, borrowing Message) -> Void,
        trouble: (TopicPartition, Trouble) -> Void
    ) -> Bool {
        let deadlineMs = Stopwatch.nowMs + Int64(timeoutMs)
        while true {
            let leftMs = Int32(clamping: max(0, deadlineMs - Stopwatch.nowMs))
            guard let raw = unsafe rd_kafka_consume_queue(queue, min(leftMs, wakeEveryMs)) else {
                guard leftMs > 0 else { return false }
                wake()
                continue
            }
            let message = unsafe Message(adopting: raw)
            guard let partition = unsafe partitions[Key(message.topic, message.partition)] else {
                continue
            }
            if let problem = message.problem {
                trouble(partition, Self.trouble(problem, at: message.offset))
            } else {
                record(partition, message)
                waker?.took(unsafe message.key.count + message.value.count)
            }
            return true
        }
    }

    private static func trouble(_ problem: KafkaError, at offset: Int64) -> Trouble {
        switch problem.code {
        case .partitionEnd: .end(offset: offset)
        case .offsetOutOfRange, .autoOffsetReset: .outOfRange
        case .badCompression, .badMessage: .unreadable(offset: offset, problem)
        default: .failed(problem)
        }
    }

    /// A broker's thread may sleep a second before it looks what is to be fetched (`FetchWaker`).
    private let wakeEveryMs: Int32

    private func wake() { try? unsafe check(rd_kafka_sasl_set_credentials(client.raw, username, password)) }

    private func topic(_ name: String) throws(KafkaError) -> OpaquePointer {
        if let topic = unsafe topics[name] { return unsafe topic }
        guard let topic = unsafe rd_kafka_topic_new(client.raw, name, nil) else {
            throw KafkaError(
                KafkaCode(rd_kafka_last_error()), "topic \(name): \(KafkaCode(rd_kafka_last_error()).text)")
        }
        unsafe topics[name] = topic
        return unsafe topic
    }
}
