/// What a consumer has to say besides records.
package enum ConsumerEvent: Sendable {
    /// The group gave us partitions: to be answered, now or later, by `Consumer.assign`.
    case assigned([TopicPartition])
    /// The group takes partitions away: to be answered, now or later, by `Consumer.unassign`. Heartbeats go on
    /// meanwhile; until an assignment or revocation is answered, librdkafka pauses all partitions and drops what was
    /// not read (rdkafka_cgrp.c, rd_kafka_rebalance_op), so nothing new arrives on their queues. `lost`: another member
    /// may own them already; nothing can be committed.
    case revoked([TopicPartition], lost: Bool)
    /// The answer to `Consumer.commit`.
    case committed(CommitReply)
    /// A broker said that an offset of a partition does not exist, and reading went to the log's beginning: records may
    /// have been skipped (retention overtook the group) or come again (the topic was made anew, or the broker is
    /// wrong). `text` is librdkafka's sentence.
    case offsetReset(TopicPartition, text: String)
    /// Reading a partition failed; librdkafka goes on trying.
    case partitionFailed(TopicPartition, KafkaError)
    case client(ClientEvent)
}

/// The answer to one commit.
package struct CommitReply: Sendable, Hashable {
    /// What the caller gave to `Consumer.commit`.
    package let tag: UInt64
    /// Something that went wrong; `.none`: every partition was committed.
    package let code: KafkaCode
    /// One for each partition of the commit. `.none`: it was committed. When one partition is refused (its metadata is
    /// too large), librdkafka gives the others its code, although they may have been committed: commit them again.
    package let results: [CommitResult]

    package init(tag: UInt64, code: KafkaCode, results: [CommitResult]) {
        self.tag = tag
        self.code = code
        self.results = results
    }
}

/// Reads `TOPIC [PARTITION]: offset reset (at offset …` of librdkafka's log (rdkafka_offset.c, rd_kafka_offset_reset:
/// logged as a warning of the facility OFFSET, and only when the offset asked for was refused).
func offsetReset(inLog text: String, facility: String) -> TopicPartition? {
    guard facility == "OFFSET", let end = text.firstRange(of: "]: offset reset (at offset ") else { return nil }
    // The client's name stands before the topic's: `[thrd:main]: topic [3]`.
    let place = text[..<end.lowerBound]
    guard let bracket = place.lastIndex(of: "["), let partition = Int32(place[place.index(after: bracket)...]) else {
        return nil
    }
    let words = place[..<bracket].split(separator: " ")
    guard let topic = words.last else { return nil }
    return TopicPartition(String(topic), partition)
}
