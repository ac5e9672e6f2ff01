package enum ConsumerEvent: Sendable {
    /// The group gave us partitions: to be answered, now or later, by `Consumer.assign`.
    case assigned([TopicPartition])
    /// The group takes partitions away: to be answered, now or later, by `Consumer.unassign`. Heartbeats go on
    /// meanwhile; until an assignment or revocation is answered, librdkafka pauses all partitions and drops what was
    /// not read (rdkafka_cgrp.c, rd_kafka_rebalance_op), so nothing new arrives on their queues. `lost`: another member
    /// may own them already; nothing can be committed.
    case revoked([TopicPartition], lost: Bool)
    case committed(CommitReply)
    /// Reading a partition failed, and librdkafka tries again. After `.autoOffsetReset` it does not: retention
    /// overtook the group, or the topic was recreated. Only a new assignment reads the partition then.
    case partitionFailed(TopicPartition, KafkaError)
    case client(ClientEvent)
}

package struct CommitReply: Sendable, Hashable {
    package let tag: UInt64
    /// Something that went wrong; `.none`: every partition was committed.
    package let code: KafkaCode
    /// The code of each partition of the commit, `.none` if it was committed. When one partition is refused (its
    /// metadata is too large), librdkafka gives the others its code, although they may have been committed: commit them
    /// again.
    package let codes: [TopicPartition: KafkaCode]
}

/// The id of a topic. A topic that is deleted and created again has another one.
package struct TopicID: Sendable, Hashable {
    let high: Int64
    let low: Int64
}
