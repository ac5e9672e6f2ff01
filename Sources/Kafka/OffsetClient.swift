import CRdkafka

/// A client that asks brokers for offsets. Each call waits at most `timeoutMs` for each answer.
@safe package class OffsetClient {
    let client: ClientHandle

    /// The special timestamps of ListOffsets (Kafka protocol): the log's end (of read-committed records) and its start.
    package static let (logEnd, logStart): (Int64, Int64) = (-1, -2)

    init(_ client: ClientHandle) { self.client = client }

    /// Returns the first offset that each partition holds, and the end of what can be read of it. Leaves out partitions
    /// whose leaders cannot tell. Throws as `offsets` does.
    package func bounds(
        of partitions: [TopicPartition], timeoutMs: Int32
    ) throws(KafkaError) -> [TopicPartition: Range<Int64>] {
        let ends = try offsets(of: partitions, fromMs: Self.logEnd, timeoutMs: timeoutMs)
        let starts = try offsets(of: partitions, fromMs: Self.logStart, timeoutMs: timeoutMs)
        var bounds: [TopicPartition: Range<Int64>] = [:]
        for (partition, start) in starts { bounds[partition] = ends[partition].map { start..<max(start, $0) } }
        return bounds
    }

    /// Returns the offset of the first record with this timestamp (milliseconds since the epoch) or a later one, or of
    /// the place `logEnd` or `logStart`. Leaves out partitions that have none.
    ///
    /// A leader that cannot tell is an error for a timestamp, and left out for a place. Throws if a leader does not
    /// answer in time or one partition has no leader: librdkafka drops the answers of all others then (rdkafka.c,
    /// rd_kafka_offsets_for_times).
    package func offsets(
        of partitions: [TopicPartition], fromMs time: Int64, timeoutMs: Int32
    ) throws(KafkaError) -> [TopicPartition: Int64] {
        let list = PartitionList(capacity: partitions.count)
        // Both directions use the field `offset` (rdkafka.h, rd_kafka_offsets_for_times, which passes the time
        // through).
        for partition in partitions { list.add(partition, offset: time) }
        try check(unsafe rd_kafka_offsets_for_times(client.raw, list.raw, timeoutMs))
        var found: [TopicPartition: Int64] = [:]
        var failure: KafkaError?
        unsafe UnsafePointer(list.raw).forEach { element in
            let code = unsafe KafkaCode(element.err)
            if code != .none {
                failure = unsafe KafkaError(code, "\(element.identity): \(code.text)")
            } else if unsafe element.offset >= 0 {
                unsafe found[element.identity] = element.offset
            }
        }
        if time >= 0, let failure { throw failure }
        return found
    }

    /// Returns what the group has committed. A partition with an unfinished transaction has the code
    /// RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT.
    package func committed(_ partitions: [TopicPartition], timeoutMs: Int32) throws(KafkaError) -> [CommittedOffset] {
        let list = PartitionList(partitions)
        try check(unsafe rd_kafka_committed(client.raw, list.raw, timeoutMs))
        var offsets: [CommittedOffset] = []
        unsafe UnsafePointer(list.raw).forEach { unsafe offsets.append($0.committed) }
        return offsets
    }
}
