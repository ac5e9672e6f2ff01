package import Kafka

/// The offsets that a partition's log has now: the first there is, and the end of what can be read.
package func logRange(of partition: TopicPartition, _ servers: String) throws -> Range<Int64> {
    let reader = try OffsetReader(ClusterSettings(bootstrapServers: servers), fetchKilobytes: 1)
    _ = try reader.topics(named: [partition.topic], timeoutMs: 10_000)
    guard let range = try reader.bounds(of: [partition], timeoutMs: 10_000)[partition] else {
        throw KafkaError(.unknownTopicOrPartition, "\(partition): its leader does not answer")
    }
    return range
}
