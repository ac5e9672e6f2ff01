package enum ConsumerEvent: Sendable {
    /// The group has assigned these partitions. Answer now or later with `Consumer.assign`.
    case assigned([TopicPartition])
    /// The group has revoked these partitions. Answer now or later with `Consumer.unassign`. Heartbeats continue
    /// meanwhile. Until an assignment or revocation is answered, librdkafka pauses all partitions and drops unread
    /// records (rdkafka_cgrp.c, rd_kafka_rebalance_op), so no new records arrive on their queues. If `lost`, another
    /// member may own the partitions already, and brokers reject commits.
    case revoked([TopicPartition], lost: Bool)
    case committed(CommitReply)
    /// Reading a partition failed, and librdkafka retries. Exception: after the code `.autoOffsetReset`, librdkafka
    /// does not read the partition again until a new assignment. The code means that the log no longer has the next
    /// offset: retention deleted the record, or the log was truncated or recreated.
    case partitionFailed(TopicPartition, KafkaError)
    case client(ClientEvent)
}

package struct CommitReply: Sendable, Hashable {
    package let tag: UInt64
    /// The first error of the commit, or `.none` if every partition's offset was committed.
    package let code: KafkaCode
    /// The code of each partition in the commit, `.none` if the partition's offset was committed. If a broker rejects
    /// one offset (for example because of its metadata's size), librdkafka reports that code for the commit's other
    /// partitions too, although their offsets may have been committed. Commit those offsets again.
    package let codes: [TopicPartition: KafkaCode]
}

/// The id of a topic. A topic that was deleted and created again has a new id.
package struct TopicID: Sendable, Hashable {
    let high: Int64
    let low: Int64
}
