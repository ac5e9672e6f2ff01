import CRdkafka
import Glibc

extension Topics {
    /// All topics of the cluster, once these are among them or the time is over.
    package func all(
        showing names: [String], withinMs: Int64, timeoutMs: Int32
    ) throws(KafkaError) -> [String: TopicDescription] {
        let deadlineMs = Stopwatch.nowMs + withinMs
        while true {
            let found = try all(timeoutMs: timeoutMs)
            if names.allSatisfy({ found[$0]?.code == KafkaCode.none }) || Stopwatch.nowMs >= deadlineMs { return found }
            usleep(50_000)
        }
    }

    /// The offsets a partition has now: the first there is, and the next that will be written. Asks the partition's
    /// leader, and waits for one that is just being chosen.
    package func range(of partition: TopicPartition, timeoutMs: Int32) throws(KafkaError) -> Range<Int64> {
        var low: Int64 = 0
        var high: Int64 = 0
        for attempt in 0... {
            let code = unsafe partition.topic.withCString {
                unsafe rd_kafka_query_watermark_offsets(client.raw, $0, partition.partition, &low, &high, timeoutMs)
            }
            if code == RD_KAFKA_RESP_ERR_NO_ERROR { break }
            let hasNoLeader =
                code == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION || code == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE
            guard hasNoLeader, attempt < timeoutMs / 100 else {
                throw KafkaError(KafkaCode(code), "\(partition): \(KafkaCode(code).text)")
            }
            usleep(100_000)
        }
        return low..<max(low, high)
    }
}
