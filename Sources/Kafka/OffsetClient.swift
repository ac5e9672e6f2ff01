import CRdkafka

/// A client that requests offsets from brokers. A call waits up to `timeoutMs`, and `bounds` up to twice as long.
@safe package class OffsetClient {
    let client: ClientHandle

    /// The special timestamps with which ListOffsets (Kafka protocol) requests the last stable offset and the log start
    /// offset.
    package static let (logEnd, logStart): (Int64, Int64) = (-1, -2)

    init(_ client: ClientHandle) { self.client = client }

    /// Returns each partition's log start offset and last stable offset (the end of its readable records). Omits
    /// partitions for which the leader returns no offset. Throws in the same cases as `offsets`.
    package func bounds(
        of partitions: [TopicPartition], timeoutMs: Int32
    ) throws(KafkaError) -> [TopicPartition: Range<Int64>] {
        let ends = try offsets(of: partitions, fromMs: Self.logEnd, timeoutMs: timeoutMs)
        let starts = try offsets(of: partitions, fromMs: Self.logStart, timeoutMs: timeoutMs)
        var bounds: [TopicPartition: Range<Int64>] = [:]
        for (partition, start) in starts { bounds[partition] = ends[partition].map { start..<max(start, $0) } }
        return bounds
    }

    /// Returns for each partition the offset of the first record with this timestamp (milliseconds since the epoch) or
    /// a later one, or the offset of `logEnd` or `logStart`. Omits partitions without such an offset.
    ///
    /// If a leader returns an error, a call with a timestamp throws, and a call with `logEnd` or `logStart` omits the
    /// partition. Throws if a leader does not answer in time or a partition has no leader, because librdkafka then
    /// drops all other answers (rdkafka.c, rd_kafka_offsets_for_times).
    package func offsets(
        of partitions: [TopicPartition], fromMs time: Int64, timeoutMs: Int32
    ) throws(KafkaError) -> [TopicPartition: Int64] {
        let list = PartitionList(capacity: partitions.count)
        // The field `offset` carries the time in the request and the offset in the answer (rdkafka.h,
        // rd_kafka_offsets_for_times).
        for partition in partitions { list.add(partition, offset: time) }
        try check(unsafe rd_kafka_offsets_for_times(client.raw, list.raw, timeoutMs))
        var found: [TopicPartition: Int64] = [:]
        var failure: KafkaError?
        unsafe list.raw.elements.forEach { element in
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

    /// Returns the group's committed offsets. A partition whose offset belongs to an unfinished transaction has the
    /// code RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT.
    package func committed(_ partitions: [TopicPartition], timeoutMs: Int32) throws(KafkaError) -> [CommittedOffset] {
        let list = PartitionList(partitions)
        try check(unsafe rd_kafka_committed(client.raw, list.raw, timeoutMs))
        return unsafe list.raw.elements.map { unsafe $0.committed }
    }
}
