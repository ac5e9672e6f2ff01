import CRdkafka

/// The special timestamps of ListOffsets (Kafka protocol): the log's end and its start.
enum LogPlace {
    static let end: Int64 = -1
    static let start: Int64 = -2
}

extension ClientHandle {
    /// Returns the first offset that each partition holds, and the end of what can be read of it. Leaves out partitions
    /// whose leaders cannot tell. Waits at most `timeoutMs` for each of two answers, and throws as `offsets` does.
    func bounds(
        of partitions: [TopicPartition], timeoutMs: Int32
    ) throws(KafkaError) -> [TopicPartition: Range<Int64>] {
        let ends = try offsets(of: partitions, at: LogPlace.end, timeoutMs: timeoutMs)
        let starts = try offsets(of: partitions, at: LogPlace.start, timeoutMs: timeoutMs)
        var bounds: [TopicPartition: Range<Int64>] = [:]
        for (partition, start) in starts { bounds[partition] = ends[partition].map { start..<max(start, $0) } }
        return bounds
    }

    /// Returns the offset of the first record with this timestamp (milliseconds since the epoch) or a later one, or of
    /// a `LogPlace`. Leaves out partitions that have none.
    ///
    /// A leader that cannot tell is an error for a timestamp, and left out for a place. Throws if a leader does not
    /// answer within `timeoutMs` or one partition has no leader: librdkafka drops the answers of all others then
    /// (rdkafka.c, rd_kafka_offsets_for_times).
    func offsets(
        of partitions: [TopicPartition], at time: Int64, timeoutMs: Int32
    ) throws(KafkaError) -> [TopicPartition: Int64] {
        let list = PartitionList(capacity: partitions.count)
        // Both directions use the field `offset` (rdkafka.h, rd_kafka_offsets_for_times, which passes the time
        // through).
        for partition in partitions { list.add(partition, offset: time) }
        try check(unsafe rd_kafka_offsets_for_times(raw, list.raw, timeoutMs))
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

    /// Returns what the client's group has committed.
    func committed(_ partitions: [TopicPartition], timeoutMs: Int32) throws(KafkaError) -> [CommittedOffset] {
        let list = PartitionList(partitions)
        try check(unsafe rd_kafka_committed(raw, list.raw, timeoutMs))
        var offsets: [CommittedOffset] = []
        unsafe UnsafePointer(list.raw).forEach { unsafe offsets.append($0.committed) }
        return offsets
    }
}
