import CRdkafka

/// The answer to where a log's records of some time begin.
package enum StampedRecord: Hashable, Sendable {
    /// No record of that time or later.
    case none
    case at(Int64)
}

/// A client that only asks: which topics there are, where they end, and whether a group may read them. It joins no
/// group, fetches nothing, creates nothing, and changes nothing. One thread.
@safe package final class ClusterProbe {
    private let client: ClientHandle
    private let queue: OpaquePointer
    private let replies: OpaquePointer
    /// Those asked for by name, kept because librdkafka asks for those it knows.
    private var topics: [String: OpaquePointer] = unsafe [:]
    /// Questions to the coordinator that were not answered yet, by their tag.
    private var asked: [UInt: String] = [:]
    private var lastTag: UInt = 0
    private var leaders = PartitionLeaders()
    /// What the client said last about brokers that cannot be used; librdkafka does not repeat itself.
    package private(set) var lastError: KafkaError?
    /// Whether the brokers do not even tell the group's coordinator, since `rights` was answered last.
    package private(set) var isGroupRefused = false

    /// A partition that no topic has: Kafka counts them from 0 by one.
    private static let noPartition = Int32.max - 1

    package init(_ cluster: ClusterSettings, groupID: String) throws(KafkaError) {
        var cluster = cluster
        cluster.clientID += "-watch"
        cluster.statisticsIntervalMs = 0
        client = try ClientHandle(
            .consumer,
            cluster.all(
                ours: [
                    // What is silent for longer is tried anew: the next question is to find a connection.
                    KafkaProperty("reconnect.backoff.ms", "100"), KafkaProperty("reconnect.backoff.max.ms", "1000"),
                    KafkaProperty("queued.min.messages", "1"), KafkaProperty("queued.max.messages.kbytes", "1"),
                ], users: cluster.properties.consumer,
                fixed: [
                    KafkaProperty("group.id", groupID), KafkaProperty("enable.auto.commit", "false"),
                    KafkaProperty("enable.auto.offset.store", "false"),
                    KafkaProperty("allow.auto.create.topics", "false"),
                    KafkaProperty("isolation.level", "read_committed"),
                ]),
            events: RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG)
        guard let queue = unsafe rd_kafka_queue_get_consumer(client.raw),
            let replies = unsafe rd_kafka_queue_new(client.raw)
        else { throw KafkaError(.wrongState) }
        unsafe self.queue = queue
        unsafe self.replies = replies
        try check(unsafe rd_kafka_poll_set_consumer(client.raw))
        unsafe try client.sendLog(to: queue)
    }

    deinit {
        unsafe topics.values.forEach { unsafe rd_kafka_topic_destroy($0) }
        unsafe rd_kafka_queue_destroy(replies)
        unsafe rd_kafka_queue_destroy(queue)
    }

    // MARK: Questions; each waits at most `timeoutMs`

    /// These topics, and those asked for before: `code` says why one cannot be used. Creates none.
    package func topics(named names: [String], timeoutMs: Int32) throws(KafkaError) -> [String: TopicDescription] {
        for name in names {
            guard unsafe topics[name] == nil else { continue }
            unsafe topics[name] = rd_kafka_topic_new(client.raw, name, nil)
        }
        let found = try Metadata(of: client, onlyKnown: true, timeoutMs: timeoutMs).topics
        leaders.beginRound(found.values)
        return found
    }

    /// Every topic that may be described.
    package func allTopics(timeoutMs: Int32) throws(KafkaError) -> [String: TopicDescription] {
        let found = try Metadata(of: client, onlyKnown: false, timeoutMs: timeoutMs).topics
        leaders.note(found.values)
        return found
    }

    // What follows is asked of the partitions' leaders. One that does not answer hides nothing of the others: each of
    // them is asked by itself then, and the silent one apart from them, once after each call of
    // `topics(named:timeoutMs:)`.

    /// The offset that the next record of each partition gets; those whose leaders did not tell are left out.
    package func ends(of partitions: [TopicPartition], timeoutMs: Int32) -> [TopicPartition: Int64] {
        client.offsets(.end, of: partitions, by: &leaders, timeoutMs: timeoutMs)
    }

    /// The first offset that each partition holds; those whose leaders did not tell are left out.
    package func starts(of partitions: [TopicPartition], timeoutMs: Int32) -> [TopicPartition: Int64] {
        client.offsets(.start, of: partitions, by: &leaders, timeoutMs: timeoutMs)
    }

    /// The first record of each partition that is stamped so (milliseconds since the epoch) or later; those whose
    /// leaders did not tell are left out.
    package func firstRecords(
        since times: [TopicPartition: Int64], timeoutMs: Int32
    ) -> [TopicPartition: StampedRecord] {
        leaders.ask(Array(times.keys)) { firstRecords(of: $0, since: times, timeoutMs: timeoutMs) }
    }

    private func firstRecords(
        of partitions: [TopicPartition], since times: [TopicPartition: Int64], timeoutMs: Int32
    ) -> [TopicPartition: StampedRecord]? {
        let list = PartitionList(capacity: partitions.count)
        // Both directions use the field `offset` (rdkafka.h, rd_kafka_offsets_for_times).
        for partition in partitions { list.add(partition, offset: times[partition]) }
        guard unsafe rd_kafka_offsets_for_times(client.raw, list.raw, timeoutMs) == RD_KAFKA_RESP_ERR_NO_ERROR else {
            return nil
        }
        var found: [TopicPartition: StampedRecord] = [:]
        unsafe UnsafePointer(list.raw).forEach { element in
            // What was not answered still has the time.
            guard unsafe element.err == RD_KAFKA_RESP_ERR_NO_ERROR, unsafe times[element.identity] != element.offset
            else { return }
            if unsafe element.offset >= 0 {
                unsafe found[element.identity] = .at(element.offset)
            } else if unsafe element.offset == Int64(RD_KAFKA_OFFSET_END) {
                unsafe found[element.identity] = StampedRecord.none
            }
        }
        return found
    }

    /// The configuration of these topics; those the brokers do not tell about are left out.
    package func configurations(
        of topics: [String], timeoutMs: Int32
    ) throws(KafkaError) -> [String: TopicConfiguration] {
        try client.configurations(of: topics, timeoutMs: timeoutMs)
    }

    /// Whether the group may read and commit these topics: `.none`, or why not; those that were not answered for are
    /// left out.
    ///
    /// Its coordinator is asked to commit a partition that does not exist. It refuses that whoever asks; but before, it
    /// looks at the right to read the group, and then at the one to read the topic. (Its other answers ask for the
    /// right to describe them only.) One question for each topic: librdkafka 2.0.2 copies one partition's error onto
    /// all.
    package func rights(to topics: [String], timeoutMs: Int32) -> [String: KafkaCode] {
        let waiting = Set(asked.values)
        for topic in topics where !waiting.contains(topic) {
            lastTag += 1
            let list = PartitionList(capacity: 1)
            list.add(CommitEntry(TopicPartition(topic, Self.noPartition), offset: 0))
            let code = unsafe rd_kafka_commit_queue(
                client.raw, list.raw, replies, nil, UnsafeMutableRawPointer(bitPattern: lastTag))
            if code == RD_KAFKA_RESP_ERR_NO_ERROR { asked[lastTag] = topic }
        }
        noteErrors()
        var found: [String: KafkaCode] = [:]
        let deadlineMs = Stopwatch.nowMs + Int64(timeoutMs)
        while !asked.isEmpty {
            let leftMs = Int32(clamping: max(0, deadlineMs - Stopwatch.nowMs))
            guard let event = unsafe QueueEvent(polling: replies, timeoutMs: leftMs) else { break }
            guard event.type == RD_KAFKA_EVENT_OFFSET_COMMIT,
                let topic = asked.removeValue(forKey: UInt(bitPattern: unsafe rd_kafka_event_opaque(event.raw)))
            else { continue }
            found[topic] = event.code == .unknownTopicOrPartition ? KafkaCode.none : event.code
        }
        if found.values.contains(where: { $0 != .groupAuthorizationFailed && $0.rawValue >= 0 }) {
            isGroupRefused = false
        }
        noteErrors()
        return found
    }

    /// Takes what the client has to say: call it after each round of questions.
    package func noteErrors() {
        while let event = unsafe QueueEvent(polling: queue, timeoutMs: 0) {
            guard case .error(let error)? = event.clientEvent(of: client) else { continue }
            if error.code == .groupAuthorizationFailed {
                isGroupRefused = true
            } else {
                lastError = error
            }
        }
    }
}
