import CRdkafka

extension Topics {
    /// How many records of each topic a group has not committed; of the topics in which it has committed something.
    /// Those that do not exist any more are left out. Any group id may be asked for; one that nobody knows has none.
    package func lag(of group: String, timeoutMs: Int32) throws(KafkaError) -> [String: Int64] {
        let committed = try committed(by: group, timeoutMs: timeoutMs)
        guard !committed.isEmpty else { return [:] }
        let known = Set(committed.keys.map(\.topic))
        let partitions = try all(timeoutMs: timeoutMs).values.filter { known.contains($0.name) && $0.code == .none }
            .flatMap { topic in (0..<Int32(clamping: topic.partitions)).map { TopicPartition(topic.name, $0) } }
        guard !partitions.isEmpty else { return [:] }
        let starts = try offsets(.start, of: partitions, timeoutMs: timeoutMs)
        let ends = try offsets(.end, of: partitions, timeoutMs: timeoutMs)
        var lag: [String: Int64] = [:]
        for (partition, (start, end)) in zip(partitions, zip(starts, ends)) {
            guard let end = end else { continue }
            lag[partition.topic, default: 0] += max(0, end - max(committed[partition] ?? 0, start ?? 0))
        }
        return lag
    }

    private func offsets(
        _ place: LogPlace, of partitions: [TopicPartition], timeoutMs: Int32
    ) throws(KafkaError) -> [Int64?] {
        try client.offsets(place, of: partitions, timeoutMs: timeoutMs)
    }

    /// Every offset that a group has committed.
    private func committed(by group: String, timeoutMs: Int32) throws(KafkaError) -> [TopicPartition: Int64] {
        let request = AdminRequest(client, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS, timeoutMs: timeoutMs)
        // No list of partitions: all that the group has (rdkafka_admin.c, rd_kafka_ListConsumerGroupOffsets_new).
        var list: [OpaquePointer?] = unsafe [rd_kafka_ListConsumerGroupOffsets_new(group, nil)]
        defer { unsafe rd_kafka_ListConsumerGroupOffsets_destroy_array(&list, list.count) }
        unsafe rd_kafka_ListConsumerGroupOffsets(client.raw, &list, list.count, request.options, request.queue)
        let event = try request.wait(timeoutMs: timeoutMs)
        var count = 0
        let groups = unsafe rd_kafka_ListConsumerGroupOffsets_result_groups(
            rd_kafka_event_ListConsumerGroupOffsets_result(event.raw), &count)
        var offsets: [TopicPartition: Int64] = [:]
        for index in 0..<count {
            guard let result = unsafe groups?[index] else { continue }
            if let error = unsafe rd_kafka_group_result_error(result) {
                let code = unsafe KafkaCode(rd_kafka_error_code(error))
                guard code == .none else { throw KafkaError(code, "group \(group): \(code.text)") }
            }
            guard let partitions = unsafe rd_kafka_group_result_partitions(result) else { continue }
            unsafe partitions.forEach { element in
                if let offset = unsafe element.committed.offset { unsafe offsets[element.identity] = offset }
            }
        }
        return offsets
    }
}

/// A place in a partition that brokers know by a special time (Kafka protocol, ListOffsets).
enum LogPlace: Int64 {
    case end = -1
    case start = -2
}

extension ClientHandle {
    /// Asks the partitions' leaders, waiting at most `timeoutMs`; `nil` where one does not tell.
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
}
