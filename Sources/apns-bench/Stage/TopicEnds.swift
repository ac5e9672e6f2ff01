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

    /// Asks the broker about each partition; again where it is not there yet, as right after a topic was created.
    func byPartition() throws(BenchFailure) -> [Int] {
        var counts: [Int] = []
        let deadline = Deadline(seconds: 20)
        while counts.count < partitions {
            var low: Int64 = 0
            var high: Int64 = 0
            let code = rd_kafka_query_watermark_offsets(client.raw, topic, Int32(counts.count), &low, &high, 10_000)
            switch code {
            case RD_KAFKA_RESP_ERR_NO_ERROR: counts.append(Int(high - low))
            case RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
                RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, RD_KAFKA_RESP_ERR__TIMED_OUT:
                guard !deadline.isOver else { fallthrough }
                try Interruption.pause(ms: 50)
            default:
                throw BenchFailure("\(topic) cannot be looked at: \(String(cString: rd_kafka_err2str(code)))")
            }
        }
        return counts
    }

    /// All of them together.
    func count() throws(BenchFailure) -> Int { try byPartition().reduce(0, +) }
}
