import CRdkafka

/// A place in a partition that brokers know by a special time (Kafka protocol, ListOffsets).
enum LogPlace: Int64 {
    case end = -1
    case start = -2
}

extension ClientHandle {
    /// The first offset that each partition holds, and the end of what can be read of it; partitions whose leaders
    /// cannot tell are left out. Waits at most `timeoutMs` for each of two answers, and throws as `offsets` does.
    func bounds(
        of partitions: [TopicPartition], timeoutMs: Int32
    ) throws(KafkaError) -> [TopicPartition: Range<Int64>] {
        let ends = try offsets(.end, of: partitions, timeoutMs: timeoutMs)
        let starts = try offsets(.start, of: partitions, timeoutMs: timeoutMs)
        var bounds: [TopicPartition: Range<Int64>] = [:]
        for (partition, (start, end)) in zip(partitions, zip(starts, ends)) {
            if let start, let end { bounds[partition] = start..<max(start, end) }
        }
        return bounds
    }

    /// Asks the partitions' leaders, waiting at most `timeoutMs`; `nil` where one says that it cannot tell. Throws
    /// where one of them does not answer in time, or one partition has no leader: librdkafka drops the answers of all
    /// others then (rdkafka.c, rd_kafka_offsets_for_times).
    func offsets(
        _ place: LogPlace, of partitions: [TopicPartition], timeoutMs: Int32
    ) throws(KafkaError) -> [Int64?] {
        let list = PartitionList(capacity: partitions.count)
        // Both directions use the field `offset` (rdkafka.h, rd_kafka_offsets_for_times, which hands the time through).
        for partition in partitions { list.add(partition, offset: place.rawValue) }
        try check(unsafe rd_kafka_offsets_for_times(raw, list.raw, timeoutMs))
        var found: [TopicPartition: Int64] = [:]
        unsafe UnsafePointer(list.raw).forEach { element in
            guard unsafe element.err == RD_KAFKA_RESP_ERR_NO_ERROR, unsafe element.offset >= 0 else { return }
            unsafe found[element.identity] = element.offset
        }
        return partitions.map { found[$0] }
    }

    /// For each partition the first record with this timestamp (milliseconds since the epoch) or a later one;
    /// partitions that have none are left out.
    func offsets(
        of partitions: [TopicPartition], fromMs timestampMs: Int64, timeoutMs: Int32
    ) throws(KafkaError) -> [TopicPartition: Int64] {
        let list = PartitionList(capacity: partitions.count)
        for partition in partitions { list.add(partition, offset: timestampMs) }
        // Both directions use the field `offset` (rdkafka.h, rd_kafka_offsets_for_times).
        try check(unsafe rd_kafka_offsets_for_times(raw, list.raw, timeoutMs))
        var found: [TopicPartition: Int64] = [:]
        var failure: KafkaError?
        unsafe UnsafePointer(list.raw).forEach { element in
            let code = unsafe KafkaCode(element.err)
            if code != .none { failure = unsafe KafkaError(code, "\(element.identity): \(code.text)") }
            unsafe found[element.identity] = element.offset >= 0 ? element.offset : nil
        }
        if let failure { throw failure }
        return found
    }

    /// What the client's group has committed; waits for the brokers, at most `timeoutMs`.
    func committed(_ partitions: [TopicPartition], timeoutMs: Int32) throws(KafkaError) -> [CommittedOffset] {
        let list = PartitionList(partitions)
        try check(unsafe rd_kafka_committed(raw, list.raw, timeoutMs))
        var offsets: [CommittedOffset] = []
        unsafe UnsafePointer(list.raw).forEach { unsafe offsets.append($0.committed) }
        return offsets
    }
}
