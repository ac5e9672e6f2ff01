import CRdkafka

/// Asks the coordinators of groups whether these groups may be used, and which topics they may read. Joins no group,
/// and changes nothing.
///
/// A coordinator is asked to commit a partition that does not exist, which it always refuses. Before that it checks the
/// right to read the group, and then the right to read the topic. (Its other answers need the right to describe them
/// only.) One commit is sent for each topic: librdkafka 2.0.2 copies one partition's error onto all.
@safe package final class GroupRights {
    package enum Missing: Hashable, Sendable {
        case group
        case topics([String])
    }

    private let client: ClientHandle
    private let replies: OpaquePointer
    /// Topics whose answer is missing, by the commit's tag.
    private var asked: [UInt64: String] = [:]
    private var denied: [String] = []
    private var isGroupDenied = false

    private static let noPartition = Int32.max - 1

    package init(_ cluster: ClusterSettings, groupID: String, topics: [String]) throws(KafkaError) {
        client = try ClientHandle(
            RD_KAFKA_CONSUMER,
            cluster.all(
                users: cluster.properties.consumer,
                fixed: KafkaProperty.list([
                    "group.id": groupID, "enable.auto.commit": "false", "enable.auto.offset.store": "false",
                    // As in `OffsetReader`.
                    "session.timeout.ms": "1",
                ])))
        unsafe replies = rd_kafka_queue_new(client.raw)
        for (index, topic) in topics.enumerated() {
            let tag = UInt64(index + 1)
            let list = PartitionList([CommitEntry(TopicPartition(topic, Self.noPartition), offset: 0)])
            let code = unsafe rd_kafka_commit_queue(
                client.raw, list.raw, replies, nil, UnsafeMutableRawPointer(bitPattern: UInt(tag)))
            if code == RD_KAFKA_RESP_ERR_NO_ERROR { asked[tag] = topic }
        }
    }

    deinit { unsafe rd_kafka_queue_destroy(replies) }

    /// Returns what the group lacks, or `nil`. Waits at most `timeoutMs`; a right about which no answer came in time is
    /// not missing.
    package func missing(timeoutMs: Int32) -> Missing? {
        let deadlineMs = Stopwatch.nowMs + Int64(timeoutMs)
        while !asked.isEmpty, !isGroupDenied {
            let leftMs = deadlineMs - Stopwatch.nowMs
            guard leftMs > 0 else { break }
            if let event = unsafe QueueEvent(polling: replies, timeoutMs: Int32(min(leftMs, 50))),
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
