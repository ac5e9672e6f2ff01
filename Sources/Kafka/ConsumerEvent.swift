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
    /// A broker said that an offset is out of range, and reading goes on at the log's beginning: retention overtook the
    /// group, or the topic was recreated.
    case offsetReset(OffsetReset)
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

/// An offset of a partition that a broker refused.
package struct OffsetReset: Sendable, Hashable {
    package let partition: TopicPartition
    /// What was asked for; `nil`: the sentence does not say.
    package let refused: Int64?
    /// librdkafka's sentence.
    package let text: String

    /// Reads `TOPIC [PARTITION]: offset reset (at offset N…` of librdkafka's log (rdkafka_offset.c,
    /// rd_kafka_offset_reset: logged as a warning of the facility OFFSET, and only when the offset asked for was
    /// refused).
    init?(inLog text: String, facility: String) {
        guard facility == "OFFSET", let end = text.firstRange(of: "]: offset reset (at offset ") else { return nil }
        // The client's name stands before the topic's: `[thrd:main]: topic [3]`.
        let place = text[..<end.lowerBound]
        guard let bracket = place.lastIndex(of: "["), let number = Int32(place[place.index(after: bracket)...]),
            let topic = place[..<bracket].split(separator: " ").last
        else { return nil }
        partition = TopicPartition(String(topic), number)
        refused = Int64(text[end.upperBound...].prefix { $0.isNumber })
        self.text = text
    }
}

/// By what brokers tell a topic from another one that had its name before.
package struct TopicID: Sendable, Hashable {
    let high: Int64
    let low: Int64

    package init(high: Int64, low: Int64) {
        self.high = high
        self.low = low
    }
}
