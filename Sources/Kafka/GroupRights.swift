import CRdkafka

/// Asks the coordinators of groups whether these groups may be used, and which topics they may read. Joins no group,
/// and changes nothing.
///
/// A coordinator is asked to commit a partition that does not exist, which it always refuses. Before that it checks the
/// right to read the group, and then the right to read the topic. (Its other answers need the right to describe them
/// only.) One commit is sent for each topic: librdkafka 2.0.2 copies one partition's error onto all.
@safe package final class GroupRights {
    /// The rights that are missing.
    package enum Missing: Hashable, Sendable {
        case group
        case topics([String])
    }

    private let client: ClientHandle
    private let queue: OpaquePointer
    private let replies: OpaquePointer
    /// Topics whose answer is missing, by the commit's tag.
    private var asked: [UInt: String] = [:]
    private var denied: [String] = []
    private var isGroupDenied = false

    /// A partition that no topic has.
    private static let noPartition = Int32.max - 1

    /// Makes a client, and asks.
    package init(_ cluster: ClusterSettings, groupID: String, topics: [String]) throws(KafkaError) {
        client = try ClientHandle(
            .consumer,
            cluster.all(
                ours: [], users: cluster.properties.consumer,
                fixed: [
                    KafkaProperty("group.id", groupID), KafkaProperty("enable.auto.commit", "false"),
                    KafkaProperty("enable.auto.offset.store", "false"),
                ]),
            events: RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG)
        guard let queue = unsafe rd_kafka_queue_get_consumer(client.raw),
            let replies = unsafe rd_kafka_queue_new(client.raw)
        else { throw KafkaError(.wrongState) }
        unsafe self.queue = queue
        unsafe self.replies = replies
        try check(unsafe rd_kafka_poll_set_consumer(client.raw))
        unsafe try client.sendLog(to: queue)
        for (index, topic) in topics.enumerated() {
            let tag = UInt(index + 1)
            let list = PartitionList(capacity: 1)
            list.add(CommitEntry(TopicPartition(topic, Self.noPartition), offset: 0))
            let code = unsafe rd_kafka_commit_queue(
                client.raw, list.raw, replies, nil, UnsafeMutableRawPointer(bitPattern: tag))
            if code == RD_KAFKA_RESP_ERR_NO_ERROR { asked[tag] = topic }
        }
    }

    deinit {
        unsafe rd_kafka_queue_destroy(replies)
        unsafe rd_kafka_queue_destroy(queue)
    }

    /// Returns what the group lacks, or `nil`; waits at most `timeoutMs`. What was not answered in time is taken for
    /// granted.
    package func missing(timeoutMs: Int32) -> Missing? {
        let deadlineMs = Stopwatch.nowMs + Int64(timeoutMs)
        while !asked.isEmpty, !isGroupDenied {
            let leftMs = deadlineMs - Stopwatch.nowMs
            guard leftMs > 0 else { break }
            if let event = unsafe QueueEvent(polling: replies, timeoutMs: Int32(min(leftMs, 50))) { take(event) }
            // A group that may not even be described has no coordinator to answer; that is an error of the client.
            while let event = unsafe QueueEvent(polling: queue, timeoutMs: 0) {
                if event.code == .groupAuthorizationFailed { isGroupDenied = true }
            }
        }
        if isGroupDenied { return .group }
        return denied.isEmpty ? nil : .topics(denied.sorted())
    }

    private func take(_ event: borrowing QueueEvent) {
        guard event.type == RD_KAFKA_EVENT_OFFSET_COMMIT,
            let topic = asked.removeValue(forKey: UInt(bitPattern: unsafe rd_kafka_event_opaque(event.raw)))
        else { return }
        if event.code == .groupAuthorizationFailed { isGroupDenied = true }
        if event.code == .topicAuthorizationFailed { denied.append(topic) }
    }
}
