import CRdkafka

/// Reads partitions of any topics from any offsets, and moves to others at any time, which a consumer of a group cannot
/// do reliably (<doc:KafkaFacts>, Reading). It joins no group, commits nothing, and reads committed records only. One
/// thread.
///
/// All partitions that are read share one queue, and what librdkafka reads ahead is bounded for all of them together.
/// With eight partitions at a time 1,000 single records at random places took 0.5 s (librdkafka 2.0.2, one broker
/// beside it).
@safe package final class OffsetReader: OffsetClient {
    /// What is reported of a partition in the place of a record.
    package enum Trouble: Hashable, Sendable {
        /// Nothing stands at or behind this offset now. Records that come later are read.
        case end(offset: Int64)
        /// The log has no such offset, or not any more. Reading stops.
        case outOfRange
        /// A batch that begins here, or the record at this offset, cannot be read. It is fetched again and again.
        case unreadable(offset: Int64, KafkaError)
        case failed(KafkaError)

        fileprivate init(_ problem: KafkaError, at offset: Int64) {
            switch problem.code.c {
            case RD_KAFKA_RESP_ERR__PARTITION_EOF: self = .end(offset: offset)
            case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET: self = .outOfRange
            case RD_KAFKA_RESP_ERR__BAD_COMPRESSION, RD_KAFKA_RESP_ERR__BAD_MSG:
                self = .unreadable(offset: offset, problem)
            default: self = .failed(problem)
            }
        }
    }

    private let queue: OpaquePointer
    private var waker: FetchWaker?
    /// How long to wait for a record before the brokers' threads are woken, which may sleep a second before they find
    /// out that there is something else to fetch.
    private let wakeEveryMs: Int32
    /// The topics that were asked for. They are kept because librdkafka asks for those it knows.
    private var topics: [String: OpaquePointer] = unsafe [:]
    private var partitions: Set<TopicPartition> = []

    /// Makes a client. No broker needs to be there.
    ///
    /// - Parameters:
    ///   - group: the group whose commits `committed(_:timeoutMs:)` returns, if any. Only that needs a right to it.
    ///   - fetchKilobytes: how much is fetched of a partition at once (at least one batch): little for single records,
    ///     much for whole logs.
    ///   - idleMs: how long a broker keeps a fetch that finds nothing: short if the reader moves to other places.
    package init(
        _ cluster: ClusterSettings, group: String? = nil, fetchKilobytes: Int, idleMs: Int32 = 10
    ) throws(KafkaError) {
        wakeEveryMs = idleMs / 2
        var fixed = KafkaProperty.list([
            "max.partition.fetch.bytes": "\(fetchKilobytes << 10)", "queued.min.messages": "20000",
            "queued.max.messages.kbytes": "4096",
            // A request that is not answered yet delays those behind it, also where one waits at its log's end.
            "fetch.min.bytes": "1", "fetch.wait.max.ms": "\(idleMs)", "fetch.error.backoff.ms": "100",
            // Read from the leader: a follower may not have the records yet, and would report none.
            "client.rack": "", "isolation.level": "read_committed", "enable.partition.eof": "true",
            "auto.offset.reset": "error", "enable.auto.commit": "false", "enable.auto.offset.store": "false",
            "allow.auto.create.topics": "false",
            // It has no session. librdkafka would compare the default with the user's `max.poll.interval.ms`.
            "session.timeout.ms": "1",
        ])
        if let group { fixed.append(KafkaProperty("group.id", group)) }
        let properties = cluster.all(users: cluster.properties.consumer, fixed: fixed)
        let client = try ClientHandle(RD_KAFKA_CONSUMER, properties)
        waker = FetchWaker(client, properties)
        unsafe queue = rd_kafka_queue_new(client.raw)
        super.init(client)
    }

    deinit {
        for partition in partitions { stop(partition) }
        unsafe topics.values.forEach { unsafe rd_kafka_topic_destroy($0) }
        unsafe rd_kafka_queue_destroy(queue)
    }

    package func events() -> [ClientEvent] { client.clientEvents() }

    // MARK: Questions; each waits at most `timeoutMs`

    /// Describes these topics and creates none. `code` says why one cannot be used, `.topicAuthorizationFailed` among
    /// others.
    ///
    /// - Parameter names: some hundred at most. librdkafka keeps them, and searches all that it keeps for each.
    package func topics(named names: [String], timeoutMs: Int32) throws(KafkaError) -> [String: TopicDescription] {
        for name in names { _ = try unsafe topic(name) }
        return try client.describeTopics(onlyKnown: true, timeoutMs: timeoutMs)
    }

    // MARK: Reading

    /// The offset with which `start` begins at the oldest record.
    package static let beginning = Int64(RD_KAFKA_OFFSET_BEGINNING)

    /// Reads a partition from this offset on. Records from where it was read before do not come any more.
    package func start(_ partition: TopicPartition, at offset: Int64) throws(KafkaError) {
        stop(partition)
        let topic = try unsafe topic(partition.topic)
        guard unsafe rd_kafka_consume_start_queue(topic, partition.partition, offset, queue) == 0 else {
            throw KafkaError.last("\(partition)")
        }
        partitions.insert(partition)
        client.wakeFetchers()
    }

    /// Stops reading a partition and drops what was read ahead of it.
    package func stop(_ partition: TopicPartition) {
        guard let topic = unsafe topics[partition.topic], partitions.remove(partition) != nil else { return }
        // The client's main thread answers, since there is no offset to be stored. What stands in the queue has an
        // older version then, and librdkafka skips it (rdkafka_queue.c).
        unsafe rd_kafka_consume_stop(topic, partition.partition)
    }

    /// Lends the next record to `record`, or reports what stands in its place. Returns false if nothing came within
    /// `timeoutMs`.
    package func next(
        timeoutMs: Int32, record: (TopicPartition, borrowing Message) -> Void,
        trouble: (TopicPartition, Trouble) -> Void
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
                trouble(partition, Trouble(problem, at: message.offset))
            } else {
                record(partition, message)
                waker?.took(unsafe message.key.count + message.value.count)
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
    package enum MissingRights: Hashable, Sendable {
        case group
        case topics([String])
    }

    /// Returns which rights the client's group lacks, or `nil`: to use the group, or to read some of these topics.
    /// Joins no group, and changes nothing. Waits at most `timeoutMs`; a right about which no answer came in time is
    /// not missing.
    ///
    /// The coordinator is asked to commit a partition that does not exist, which it always refuses. Before that it
    /// checks the right to read the group, and then the right to read the topic. (Its other answers need the right to
    /// describe them only.) One commit is sent for each topic: librdkafka 2.0.2 copies one partition's error onto all.
    package func missingRights(to topics: [String], timeoutMs: Int32) -> MissingRights? {
        let replies: OpaquePointer = unsafe rd_kafka_queue_new(client.raw)
        defer { unsafe rd_kafka_queue_destroy(replies) }
        // Topics whose answer is missing, by the commit's tag.
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
            // A group that may not even be described has no coordinator to answer. That is an error of the client.
            client.poll(timeoutMs: 0) { if $0.code == .groupAuthorizationFailed { isGroupDenied = true } }
        }
        if isGroupDenied { return .group }
        return denied.isEmpty ? nil : .topics(denied.sorted())
    }
}
