import CRdkafka
import Glibc

/// A member of a consumer group. It has one queue for each assigned partition.
///
/// Use it on one thread only: librdkafka 2.0.2 may lose messages if reading, assigning and pausing run concurrently.
/// Call `serve` after every wake-up and at least once a second. `serve` delivers rebalances and errors, and resets the
/// timer of `max.poll.interval.ms`.
@safe package final class Consumer: OffsetClient {
    private var queues: [TopicPartition: PartitionQueue] = [:]
    /// Whether rebalances are cooperative, so that only partitions that change their owner are revoked.
    package let isCooperative: Bool
    /// The partitions of the last `revoked` event, which `unassign` releases.
    private var revoked: [TopicPartition] = []

    /// Creates a consumer, which joins the group only after `subscribe`. No broker needs to be reachable.
    ///
    /// - Parameter wakeUpDescriptor: a non-blocking eventfd(2) to which librdkafka adds 1 when the queue of events or a
    ///   partition's queue is no longer empty, or -1 for none. Keep it open as long as the consumer exists.
    package init(_ settings: ConsumerSettings, wakeUpDescriptor: Int32 = -1) throws(KafkaError) {
        isCooperative = settings.assignment == .cooperative
        super.init(
            try ClientHandle(
                RD_KAFKA_CONSUMER, settings.all, events: RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_STATS,
                wakeUpDescriptor: wakeUpDescriptor))
    }

    /// Closes the queues. If `startClosing` has not completed, the group removes the member after the session timeout,
    /// as after a crash.
    deinit { for queue in queues.values { queue.close() } }

    /// Joins the group and subscribes to these topics. A name that begins with `^` is a pattern.
    package func subscribe(to topics: [String]) throws(KafkaError) {
        let list = PartitionList(topics.map { TopicPartition($0, -1) })
        try check(unsafe rd_kafka_subscribe(client.raw, list.raw))
    }

    /// Leaves and rejoins the group to get a new assignment. A `revoked` event is delivered first.
    package func rejoin(_ topics: [String]) throws(KafkaError) {
        try check(unsafe rd_kafka_unsubscribe(client.raw))
        try subscribe(to: topics)
    }

    // MARK: Events

    /// Passes events to `handler`, and waits up to `timeoutMs` for the first one.
    package func serve(timeoutMs: Int32 = 0, _ handler: (ConsumerEvent) -> Void) {
        client.poll(timeoutMs: timeoutMs) { if let event = translate($0) { handler(event) } }
        let failures = client.partitionFailures
        client.partitionFailures = []
        for failure in failures { handler(failure) }
    }

    private func translate(_ event: borrowing QueueEvent) -> ConsumerEvent? {
        switch event.type {
        case RD_KAFKA_EVENT_REBALANCE:
            let partitions = unsafe event.partitions?.map { unsafe $0.identity } ?? []
            if event.code == KafkaCode(RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) { return .assigned(partitions) }
            revoked = partitions
            return .revoked(partitions, lost: isAssignmentLost)
        case RD_KAFKA_EVENT_OFFSET_COMMIT:
            return .committed(commitReply(event))
        case RD_KAFKA_EVENT_FETCH:
            // No record should arrive in the group's queue, because each partition has its own queue before reading
            // begins.
            return .client(.fatal(KafkaError(.inconsistent, "a record arrived outside its partition's queue")))
        default:
            return event.clientEvent(of: client).map { .client($0) }
        }
    }

    // MARK: Assignment

    /// The offset with which `assign` reads from the log's end.
    package static let end = Int64(RD_KAFKA_OFFSET_END)

    /// Whether the assignment was lost: another member may own the partitions, and brokers reject commits for them.
    package var isAssignmentLost: Bool { unsafe rd_kafka_assignment_lost(client.raw) != 0 }

    /// Answers an `assigned` event: librdkafka begins to fetch the partitions at these offsets. Returns each
    /// partition's queue in the order of `starts`. A partition without an offset is read from its oldest record.
    package func assign(
        _ starts: [(partition: TopicPartition, offset: Int64?)]
    ) throws(KafkaError) -> [PartitionQueue] {
        let list = PartitionList(capacity: starts.count)
        var added: [PartitionQueue] = []
        for (partition, offset) in starts {
            guard let queue = PartitionQueue(partition, client) else {
                throw KafkaError(.unknownTopicOrPartition, "\(partition): no such partition")
            }
            added.append(queue)
            list.add(partition, offset: offset ?? Int64(RD_KAFKA_OFFSET_BEGINNING))
        }
        if isCooperative {
            unsafe try check(rd_kafka_incremental_assign(client.raw, list.raw))
        } else {
            try check(unsafe rd_kafka_assign(client.raw, list.raw))
        }
        for queue in added { queues.updateValue(queue, forKey: queue.partition)?.close() }
        return added
    }

    /// Answers a `revoked` event. Releases the partitions and closes their queues. After an error, call this method
    /// again.
    package func unassign() throws(KafkaError) {
        if isCooperative {
            // Leave out partitions that were never passed to `assign`. If the list contained one of them, librdkafka
            // would release no partition (rdkafka_assignment.c).
            let ours = revoked.filter { queues[$0] != nil }
            for partition in ours { queues[partition]?.close() }
            let list = PartitionList(ours)
            unsafe try check(rd_kafka_incremental_unassign(client.raw, list.raw))
            for partition in ours { queues[partition] = nil }
        } else {
            for queue in queues.values { queue.close() }
            try check(unsafe rd_kafka_assign(client.raw, nil))
            queues = [:]
        }
        revoked = []
    }

    // MARK: Offsets

    /// Returns the ids of these topics. Omits topics for which no broker returned an id. A recreated topic has a new
    /// id. With librdkafka before 2.3.0 the result is empty.
    package func topicIDs(of topics: Set<String>, timeoutMs: Int32) -> [String: TopicID] {
        guard KafkaLibrary.tellsTopicIDs, !topics.isEmpty else { return [:] }
        final class Found { var ids: [String: TopicID] = [:] }
        let found = Found()
        let names = unsafe topics.map { unsafe strdup($0) }
        defer { unsafe names.forEach { unsafe free($0) } }
        var pointers = unsafe names.map { unsafe UnsafePointer($0) }
        unsafe crdkafka_topic_ids(
            client.raw, &pointers, pointers.count, timeoutMs, Unmanaged.passUnretained(found).toOpaque()
        ) { context, name, high, low in
            guard let context = unsafe context, let name = unsafe name else { return }
            let found = unsafe Unmanaged<Found>.fromOpaque(context).takeUnretainedValue()
            unsafe found.ids[String(cString: name)] = TopicID(high: high, low: low)
        }
        return found.ids
    }

    /// Sends a commit. A `committed` event with this tag delivers the result. Throws if the commit could not be sent.
    package func commit(_ entries: [CommitEntry], tag: UInt64) throws(KafkaError) {
        let list = PartitionList(entries)
        // rd_kafka_offsets_store is not used, because it drops metadata before librdkafka 2.2.0.
        try check(
            unsafe rd_kafka_commit_queue(
                client.raw, list.raw, client.queue, nil, UnsafeMutableRawPointer(bitPattern: UInt(tag))))
    }

    private func commitReply(_ event: borrowing QueueEvent) -> CommitReply {
        let whole = event.code
        var codes: [TopicPartition: KafkaCode] = [:]
        unsafe event.partitions?.forEach { element in unsafe codes[element.identity] = KafkaCode(element.err) }
        // librdkafka may report an error of the whole request without setting it on any partition.
        if whole != .none, codes.values.allSatisfy({ $0 == .none }) { codes = codes.mapValues { _ in whole } }
        let code = whole != .none ? whole : codes.values.first { $0 != .none } ?? .none
        return CommitReply(tag: event.tag, code: code, codes: codes)
    }

    /// Returns the log end offset according to the last fetch, or `nil` before the first fetch. Sends no request.
    package func logEnd(of partition: TopicPartition) -> Int64? {
        var (low, high): (Int64, Int64) = (-1, -1)
        let code = unsafe rd_kafka_get_watermark_offsets(
            client.raw, partition.topic, partition.partition, &low, &high)
        return code == RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0 ? high : nil
    }

    // MARK: Leaving

    /// Begins to leave the group. Answer the last `revoked` event with `unassign`, and call `serve` until `isClosed` is
    /// true. A static member stays in the group until its session times out.
    package func startClosing() throws(KafkaError) {
        unsafe try check(rd_kafka_consumer_close_queue(client.raw, client.queue))
    }

    package var isClosed: Bool { unsafe rd_kafka_consumer_closed(client.raw) != 0 }
}
