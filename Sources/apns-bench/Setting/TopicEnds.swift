import CRdkafka

/// How many records a topic's partitions have.
final class TopicEnds {
    private let topic: String
    private let partitions: Int
    private let client: RawClient

    init(_ topic: String, partitions: Int, of broker: Broker) throws(BenchFailure) {
        self.topic = topic
        self.partitions = partitions
        client = try RawClient(RD_KAFKA_PRODUCER, broker.bootstrapServers)
    }

    /// Asks the broker about each partition.
    func byPartition() throws(BenchFailure) -> [Int] {
        var counts: [Int] = []
        for partition in 0..<Int32(partitions) {
            var low: Int64 = 0
            var high: Int64 = 0
            let code = rd_kafka_query_watermark_offsets(client.raw, topic, partition, &low, &high, 10_000)
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                throw BenchFailure("\(topic) cannot be looked at: \(String(cString: rd_kafka_err2str(code)))")
            }
            counts.append(Int(high - low))
        }
        return counts
    }

    /// All of them together.
    func count() throws(BenchFailure) -> Int { try byPartition().reduce(0, +) }
}
