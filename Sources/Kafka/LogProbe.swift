import CRdkafka

/// What the brokers say of a partition's log when they are asked by themselves.
package enum LogState: Hashable, Sendable {
    /// No broker knows the topic, or this partition of it.
    case gone
    /// The first offset it holds, and the one that its next record gets.
    case there(first: Int64, end: Int64)
}

/// A client that only asks whether a log is there and which offsets it has, records of open transactions included: what
/// one broker's answer to a reader or to a commit is checked against. It joins no group, fetches nothing, and changes
/// nothing. One thread.
@safe package final class LogProbe {
    private let client: ClientHandle
    /// Those asked for, kept because librdkafka asks for those it knows.
    private var topics: [String: OpaquePointer] = unsafe [:]

    package init(_ cluster: ClusterSettings) throws(KafkaError) {
        var cluster = cluster
        cluster.clientID += "-log"
        cluster.statisticsIntervalMs = 0
        client = try ClientHandle(
            .consumer,
            cluster.all(
                ours: [
                    KafkaProperty("reconnect.backoff.ms", "100"), KafkaProperty("reconnect.backoff.max.ms", "1000"),
                ], users: cluster.properties.consumer,
                fixed: [
                    KafkaProperty("isolation.level", "read_uncommitted"),
                    KafkaProperty("enable.auto.commit", "false"), KafkaProperty("enable.auto.offset.store", "false"),
                    KafkaProperty("allow.auto.create.topics", "false"),
                    // Nobody reads it.
                    KafkaProperty("log_level", "0"),
                ]), events: 0)
    }

    deinit { unsafe topics.values.forEach { unsafe rd_kafka_topic_destroy($0) } }

    /// Asks three questions, each of which waits at most `timeoutMs`; `nil`: nobody told.
    package func look(at partition: TopicPartition, timeoutMs: Int32) -> LogState? {
        if unsafe topics[partition.topic] == nil {
            unsafe topics[partition.topic] = rd_kafka_topic_new(client.raw, partition.topic, nil)
        }
        guard let metadata = try? Metadata(of: client, onlyKnown: true, timeoutMs: timeoutMs),
            let topic = metadata.topics[partition.topic]
        else { return nil }
        if topic.code.isUnknownTopic { return .gone }
        guard topic.code == .none else { return nil }
        guard Int(partition.partition) < topic.partitions else { return .gone }
        // In this order: what retention takes in between makes the first offset too low, and no log too short.
        guard let first = offset(.start, of: partition, timeoutMs), let end = offset(.end, of: partition, timeoutMs)
        else { return nil }
        return .there(first: first, end: end)
    }

    private func offset(_ place: LogPlace, of partition: TopicPartition, _ timeoutMs: Int32) -> Int64? {
        (try? client.offsets(place, of: [partition], timeoutMs: timeoutMs))?.first ?? nil
    }
}
