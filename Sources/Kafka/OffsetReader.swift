import CRdkafka

/// Reads committed records of any partitions from any offset, and can seek at any time, which a consumer of a group
/// cannot do reliably (<doc:KafkaFacts>, Reading). It joins no group and commits nothing. Use it on one thread.
///
/// All partitions share one queue and one limit for records read ahead. Reading 1,000 single records at random offsets
/// of eight partitions took 0.5 s (librdkafka 2.0.2, one local broker).
@safe package final class OffsetReader: OffsetClient {
    private let queue: OpaquePointer
    /// How long to wait for a record before waking librdkafka's broker threads, which can sleep for up to a second
    /// before they fetch from a new offset.
    private let wakeEveryMs: Int32
    /// The handles of the topics used so far. The reader keeps them, because librdkafka requests metadata only for
    /// topics with a handle.
    private var topics: [String: OpaquePointer] = unsafe [:]
    private var partitions: Set<TopicPartition> = []

    /// Creates a client. No broker needs to be reachable.
    ///
    /// - Parameters:
    ///   - group: the group whose committed offsets `committed(_:timeoutMs:)` returns, or `nil`. Only that call needs a
    ///     permission on the group.
    ///   - fetchKilobytes: the maximum size of one fetch from a partition. A broker exceeds it if the first batch is
    ///     larger. Choose a small size to read single records, and a large size to read whole logs.
    ///   - idleMs: the time that a broker waits for new records before it answers a fetch with none
    ///     (`fetch.wait.max.ms`). Choose a short time if the reader seeks often.
    package init(
        _ cluster: ClusterSettings, group: String? = nil, fetchKilobytes: Int, idleMs: Int32 = 10
    ) throws(KafkaError) {
        wakeEveryMs = idleMs / 2
        var fixed = KafkaProperty.list([
            "max.partition.fetch.bytes": "\(fetchKilobytes << 10)", "queued.min.messages": "20000",
            "queued.max.messages.kbytes": "4096",
            // A broker answers a connection's fetches in order, so a fetch that waits at a partition's end delays later
            // fetches.
            "fetch.min.bytes": "1", "fetch.wait.max.ms": "\(idleMs)", "fetch.error.backoff.ms": "100",
            // Read from leaders. A follower may lack the newest records and would report the end too early.
            "client.rack": "", "isolation.level": "read_committed", "enable.partition.eof": "true",
            "auto.offset.reset": "error", "enable.auto.commit": "false", "enable.auto.offset.store": "false",
            "allow.auto.create.topics": "false",
            // The reader joins no group, so its session timeout has no effect. Set the minimum, because librdkafka
            // rejects a user's `max.poll.interval.ms` that is shorter than the session timeout.
            "session.timeout.ms": "1",
        ])
        if let group { fixed.append(KafkaProperty("group.id", group)) }
        // librdkafka rejects a user's `receive.message.max.bytes` below `fetch.max.bytes` + 512, and the default of
        // `fetch.max.bytes` is above 4 MB.
        let ours = KafkaProperty.list(["fetch.max.bytes": "1048576"])
        let client = try ClientHandle(
            RD_KAFKA_CONSUMER, cluster.all(ours: ours, users: cluster.properties.consumer, fixed: fixed))
        unsafe queue = rd_kafka_queue_new(client.raw)
        super.init(client)
    }

    deinit {
        for partition in partitions { stop(partition) }
        unsafe topics.values.forEach { unsafe rd_kafka_topic_destroy($0) }
        unsafe rd_kafka_queue_destroy(queue)
    }

    package func events() -> [ClientEvent] { client.clientEvents() }

    // MARK: Metadata

    /// Returns descriptions of these topics without creating any. A description's `code` is the reason why the topic
    /// cannot be used, such as `.topicAuthorizationFailed`.
    ///
    /// - Parameter names: at most a few hundred. librdkafka keeps the names and searches the whole list for each one.
    package func topics(named names: [String], timeoutMs: Int32) throws(KafkaError) -> [String: TopicDescription] {
        for name in names { _ = try unsafe topic(name) }
        return try client.describeTopics(onlyKnown: true, timeoutMs: timeoutMs)
    }

    // MARK: Reading

    /// The offset with which `start` reads from the oldest record.
    package static let beginning = Int64(RD_KAFKA_OFFSET_BEGINNING)

    /// Reads a partition from this offset on, and drops records that were read ahead from other offsets.
    package func start(_ partition: TopicPartition, at offset: Int64) throws(KafkaError) {
        stop(partition)
        let topic = try unsafe topic(partition.topic)
        guard unsafe rd_kafka_consume_start_queue(topic, partition.partition, offset, queue) == 0 else {
            throw KafkaError.last("\(partition)")
        }
        partitions.insert(partition)
        client.wakeFetchers()
    }

    /// Stops reading a partition and drops its records that were read ahead.
    package func stop(_ partition: TopicPartition) {
        guard let topic = unsafe topics[partition.topic], partitions.remove(partition) != nil else { return }
        // The call waits for librdkafka's main thread, but not for a broker, because the reader stores no offset.
        // Records in the queue then have an outdated version, and librdkafka skips them (rdkafka_queue.c).
        unsafe rd_kafka_consume_stop(topic, partition.partition)
    }

    /// Passes the next record to `record`, or an error reported instead of a record to `trouble`, with its offset.
    /// Returns `false` if neither arrived within `timeoutMs`.
    ///
    /// - `.partitionEnd`: no record exists at this offset or above yet. Reading continues.
    /// - `.offsetOutOfRange`, `.autoOffsetReset`: the partition does not have the requested offset. Reading stops.
    /// - `.badCompression`, `.badMessage`: the batch or record cannot be read. librdkafka fetches it again and again.
    package func next(
        timeoutMs: Int32, record: (TopicPartition, borrowing Message) -> Void,
        trouble: (TopicPartition, KafkaError, _ offset: Int64) -> Void
    ) -> Bool {
        let deadlineMs = Stopwatch.nowMs + Int64(timeoutMs)
        while true {
            let leftMs = Int32(clamping: max(0, deadlineMs - Stopwatch.nowMs))
            guard let raw = unsafe rd_kafka_consume_queue(queue, min(leftMs, wakeEveryMs)) else {
                guard leftMs > 0 else { return false }
                client.wakeFetchers()
                continue
            }
            let message = unsafe Message(adopting: raw)
            let partition = unsafe TopicPartition(
                String(cString: rd_kafka_topic_name(message.topic)), message.partition)
            guard partitions.contains(partition) else { continue }
            if let problem = message.problem {
                trouble(partition, problem, message.offset)
            } else {
                record(partition, message)
                client.took(unsafe message.key.count + message.value.count)
            }
            return true
        }
    }

    private func topic(_ name: String) throws(KafkaError) -> OpaquePointer {
        if let topic = unsafe topics[name] { return unsafe topic }
        let topic = try unsafe client.makeTopic(name)
        unsafe topics[name] = topic
        return unsafe topic
    }
}

extension OffsetReader {
    /// Returns whether the user lacks READ on the group, and the topics on which the user lacks READ. Joins no group
    /// and changes nothing. Waits up to `timeoutMs`. A permission for which no answer arrives in time does not count as
    /// missing.
    ///
    /// The method sends the coordinator a commit for a partition that does not exist. The coordinator always rejects
    /// such a commit, but first checks READ on the group and READ on the topic. (For an OffsetFetch it checks only
    /// DESCRIBE.) Each topic has its own commit, because librdkafka 2.0.2 copies one partition's error to all
    /// partitions.
    package func missingRights(to topics: [String], timeoutMs: Int32) -> (group: Bool, topics: [String]) {
        let replies: OpaquePointer = unsafe rd_kafka_queue_new(client.raw)
        defer { unsafe rd_kafka_queue_destroy(replies) }
        // The topics whose commit has no answer yet, by the commit's tag.
        var asked: [UInt64: String] = [:]
        for (topic, tag) in zip(topics, (1 as UInt64)...) {
            let list = PartitionList([CommitEntry(TopicPartition(topic, .max - 1), offset: 0)])
            let code = unsafe rd_kafka_commit_queue(
                client.raw, list.raw, replies, nil, UnsafeMutableRawPointer(bitPattern: UInt(tag)))
            if code == RD_KAFKA_RESP_ERR_NO_ERROR { asked[tag] = topic }
        }
        var denied: [String] = []
        var isGroupDenied = false
        let deadlineMs = Stopwatch.nowMs + Int64(timeoutMs)
        while !asked.isEmpty, !isGroupDenied, Stopwatch.nowMs < deadlineMs {
            if let event = unsafe QueueEvent(polling: replies, timeoutMs: 50),
                let topic = asked.removeValue(forKey: event.tag)
            {
                if event.code == .groupAuthorizationFailed { isGroupDenied = true }
                if event.code == .topicAuthorizationFailed { denied.append(topic) }
            }
            // Without DESCRIBE on the group, brokers do not name its coordinator, and the client reports the error.
            client.poll(timeoutMs: 0) { if $0.code == .groupAuthorizationFailed { isGroupDenied = true } }
        }
        return (isGroupDenied, denied.sorted())
    }
}
