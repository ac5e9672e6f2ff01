import CRdkafka
import Glibc

/// A member of a consumer group that splits its assignment into one queue for each partition.
///
/// Everything is done on one thread: librdkafka 2.0.2 may lose messages when reading, assigning, seeking and pausing
/// run concurrently. `serve` is to be called after every wake-up and at least once a second: rebalances and errors
/// arrive there, and it feeds `max.poll.interval.ms`.
@safe package final class Consumer {
    private let client: ClientHandle
    private let mainQueue: OpaquePointer
    private let buffer: MessageBuffer
    private let sink = ConsumerSink()
    private let wakeUpDescriptor: Int32
    /// Of what librdkafka reads for us.
    private var queues: [TopicPartition: PartitionQueue] = [:]
    private var knownToBeCooperative: Bool?
    /// What `revoked` named and `unassign` is to answer.
    private var revoked: [TopicPartition] = []

    /// Makes a client; nothing is sent before `subscribe`, and no broker needs to be there.
    ///
    /// `wakeUpDescriptor`: an eventfd(2) that gets 1 added whenever the main queue or a partition's queue has something
    /// after it was empty; non-blocking; kept open until the consumer is gone. -1: none.
    package init(_ settings: ConsumerSettings, wakeUpDescriptor: Int32 = -1) throws(KafkaError) {
        let properties = settings.all
        client = try ClientHandle(
            .consumer, properties,
            events: RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG | RD_KAFKA_EVENT_STATS)
        buffer = MessageBuffer(waker: FetchWaker(client, properties))
        self.wakeUpDescriptor = wakeUpDescriptor
        guard let queue = unsafe rd_kafka_queue_get_consumer(client.raw) else { throw KafkaError(.wrongState) }
        unsafe mainQueue = queue
        // Everything else that the client has to say comes to the same queue.
        try check(unsafe rd_kafka_poll_set_consumer(client.raw))
        unsafe try client.sendLog(to: queue)
        if wakeUpDescriptor >= 0 { unsafe enableWakeUps(of: queue, descriptor: wakeUpDescriptor) }
    }

    /// Without a `startClosing` that came to its end, the group notices after the session timeout, as after a crash.
    deinit {
        for queue in queues.values { queue.close() }
        unsafe rd_kafka_queue_io_event_enable(mainQueue, -1, nil, 0)
        unsafe rd_kafka_queue_destroy(mainQueue)
    }

    /// Joins the group for these topics; a name that begins with `^` is a pattern.
    package func subscribe(to topics: [String]) throws(KafkaError) {
        let list = PartitionList(topics.map { TopicPartition($0, -1) })
        try check(unsafe rd_kafka_subscribe(client.raw, list.raw))
    }

    /// Leaves the group and joins it again, so that what is assigned is given out anew: first it is revoked by an
    /// event.
    package func rejoin(_ topics: [String]) throws(KafkaError) {
        try check(unsafe rd_kafka_unsubscribe(client.raw))
        try subscribe(to: topics)
    }

    // MARK: Events

    /// Hands what has happened to `handler`, waiting at most `timeoutMs` for the first event; returns how many there
    /// were.
    @discardableResult
    package func serve(timeoutMs: Int32 = 0, _ handler: (ConsumerEvent) -> Void) -> Int {
        var count = 0
        var timeoutMs = timeoutMs
        while let event = unsafe QueueEvent(polling: mainQueue, timeoutMs: timeoutMs) {
            timeoutMs = 0
            count += 1
            if event.type == RD_KAFKA_EVENT_FETCH {
                unsafe keepStray(event.release())
            } else if let event = translate(event) {
                handler(event)
            }
        }
        if !sink.halted.isEmpty { seekBack() }
        if !sink.pending.isEmpty {
            let pending = sink.pending
            sink.pending = []
            for event in pending { handler(event) }
            count += pending.count
        }
        return count
    }

    /// Goes back to batches that librdkafka skipped, since it could not read them.
    private func seekBack() {
        let halted = sink.halted
        sink.halted = []
        for queue in halted where !queue.isClosed {
            guard let halt = queue.halt, halt.untilMs <= Stopwatch.nowMs else {
                if queue.halt != nil { sink.halted.append(queue) }
                continue
            }
            do throws(KafkaError) {
                try seek(queue.partition, to: halt.offset, timeoutMs: 200)
            } catch {
                queue.prolongHalt()
                sink.halted.append(queue)
            }
        }
    }

    private func translate(_ event: borrowing QueueEvent) -> ConsumerEvent? {
        switch event.type {
        case RD_KAFKA_EVENT_REBALANCE:
            let partitions = unsafe event.partitions?.partitions ?? []
            if event.code == KafkaCode(RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) { return .assigned(partitions) }
            revoked = partitions
            return .revoked(partitions, lost: isAssignmentLost)
        case RD_KAFKA_EVENT_OFFSET_COMMIT:
            return .committed(commitReply(event))
        default:
            guard let event = event.clientEvent(of: client) else { return nil }
            if case .log(_, let facility, let text) = event, let reset = OffsetReset(inLog: text, facility: facility) {
                return .offsetReset(reset)
            }
            return .client(event)
        }
    }

    /// Records that came over the main queue although their partition's queue was split off; none are expected.
    package private(set) var strayCount = 0

    /// A record on the main queue belongs to a partition whose queue was not split off in time, or that was given up.
    private func keepStray(_ event: OpaquePointer) {
        guard let list = unsafe rd_kafka_event_topic_partition(event) else {
            unsafe rd_kafka_event_destroy(event)
            return
        }
        let partition = unsafe list.pointee.identity
        unsafe rd_kafka_topic_partition_destroy(list)
        guard let queue = queues[partition] else {
            unsafe rd_kafka_event_destroy(event)
            return
        }
        strayCount += 1
        if let message = unsafe Message(adoptingEvent: event) { queue.takeStray(message.keep()) }
    }

    // MARK: Assignment

    /// Whether what is assigned was lost: another member may own it, and commits are refused.
    package var isAssignmentLost: Bool { unsafe rd_kafka_assignment_lost(client.raw) != 0 }

    /// Whether partitions move one by one (cooperative) and not all at once (eager).
    ///
    /// librdkafka's main thread is asked until it has joined the group, and waited for; then that does not change any
    /// more.
    package var isCooperative: Bool {
        if let knownToBeCooperative { return knownToBeCooperative }
        let word = unsafe rd_kafka_rebalance_protocol(client.raw).map { unsafe String(cString: $0) }
        if word == "COOPERATIVE" || word == "EAGER" { knownToBeCooperative = word == "COOPERATIVE" }
        return word == "COOPERATIVE"
    }

    /// Answers `assigned`: starts reading the partitions, each into its own queue, in the order given.
    package func assign(_ starts: [PartitionStart]) throws(KafkaError) -> [PartitionQueue] {
        let list = PartitionList(capacity: starts.count)
        var added: [PartitionQueue] = []
        for start in starts {
            let split = PartitionQueue(
                start.partition, client: client, buffer: buffer, sink: sink, wakeUpDescriptor: wakeUpDescriptor)
            guard let split else { throw KafkaError(.unknownTopicOrPartition, "\(start.partition): no such partition") }
            added.append(split)
            list.add(start.partition, offset: start.offset ?? Int64(RD_KAFKA_OFFSET_BEGINNING))
        }
        if isCooperative {
            unsafe try check(rd_kafka_incremental_assign(client.raw, list.raw))
        } else {
            try check(unsafe rd_kafka_assign(client.raw, list.raw))
        }
        for queue in added { queues.updateValue(queue, forKey: queue.partition)?.close() }
        return added
    }

    /// Answers `revoked`: gives the partitions up; their queues are closed. To be called again when it throws.
    package func unassign() throws(KafkaError) {
        if isCooperative {
            // The group may have given more than was assigned, and takes that back, too: librdkafka refuses to give up
            // any while one is among them that it does not read (rdkafka_assignment.c).
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

    /// Reads a partition on from another offset; what was fetched of it and not read is dropped. Waits for librdkafka's
    /// own threads, not for brokers. When it throws, it is open where reading goes on: call it again.
    func seek(_ partition: TopicPartition, to offset: Int64, timeoutMs: Int32) throws(KafkaError) {
        let list = PartitionList(capacity: 1)
        list.add(partition, offset: offset)
        unsafe try check(rd_kafka_seek_partitions(client.raw, list.raw, timeoutMs))
        unsafe try check(list.raw.pointee.elems[0].err)
        queues[partition]?.restart()
    }

    /// Whether `serve` has something to say already.
    package var hasUnservedEvents: Bool { unsafe rd_kafka_queue_length(mainQueue) > 0 }

    // MARK: Offsets

    /// What the group has committed for these partitions; waits for the brokers, at most `timeoutMs`.
    package func committed(_ partitions: [TopicPartition], timeoutMs: Int32) throws(KafkaError) -> [CommittedOffset] {
        try client.committed(partitions, timeoutMs: timeoutMs)
    }

    /// The offset that the next record of each partition gets, as its leader says (of read-committed records); `nil`:
    /// it did not say. Waits for the brokers, at most `timeoutMs`.
    package func ends(of partitions: [TopicPartition], timeoutMs: Int32) -> [Int64?] {
        (try? client.offsets(.end, of: partitions, timeoutMs: timeoutMs)) ?? partitions.map { _ in nil }
    }

    /// The first offset that each partition holds, and the end of what can be read of it; throws where one of the
    /// leaders does not answer within `timeoutMs`.
    package func bounds(
        of partitions: [TopicPartition], timeoutMs: Int32
    ) throws(KafkaError) -> [TopicPartition: Range<Int64>] {
        try client.bounds(of: partitions, timeoutMs: timeoutMs)
    }

    /// The first offset that each partition holds, in the order given; waits for their leaders, at most `timeoutMs`.
    package func starts(of partitions: [TopicPartition], timeoutMs: Int32) throws(KafkaError) -> [Int64?] {
        try client.offsets(.start, of: partitions, timeoutMs: timeoutMs)
    }

    /// The ids of these topics, which a topic that is recreated does not keep: of those that brokers told within
    /// `timeoutMs`, and none with a librdkafka older than 2.3.0.
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

    /// Sends a commit; the answer comes as `committed` with this tag. Throws when nothing could be sent.
    package func commit(_ entries: [CommitEntry], tag: UInt64) throws(KafkaError) {
        let list = PartitionList(capacity: entries.count)
        for entry in entries { list.add(entry) }
        // Not through rd_kafka_offsets_store, which drops metadata before 2.2.0.
        try check(
            unsafe rd_kafka_commit_queue(
                client.raw, list.raw, mainQueue, nil, UnsafeMutableRawPointer(bitPattern: UInt(tag))))
    }

    private func commitReply(_ event: borrowing QueueEvent) -> CommitReply {
        let whole = event.code
        var results: [CommitResult] = []
        unsafe event.partitions?.forEach { element in
            unsafe results.append(
                CommitResult(element.identity, offset: element.offset, code: KafkaCode(element.err)))
        }
        // An error of the whole request stands on each partition; make sure of it for one that stands on none.
        if whole != .none, results.allSatisfy({ $0.code == .none }) {
            results = results.map { CommitResult($0.partition, offset: $0.offset, code: whole) }
        }
        let code = whole != .none ? whole : results.first { $0.code != .none }?.code ?? .none
        let tag = UInt64(UInt(bitPattern: unsafe rd_kafka_event_opaque(event.raw)))
        return CommitReply(tag: tag, code: code, results: results)
    }

    /// The first offset there is and the next that will be written, as far as the last fetch told; -1: not known yet.
    /// For metrics; asks no broker.
    package func watermarks(of partition: TopicPartition) -> (low: Int64, high: Int64) {
        var low: Int64 = -1
        var high: Int64 = -1
        let code = unsafe partition.topic.withCString {
            unsafe rd_kafka_get_watermark_offsets(client.raw, $0, partition.partition, &low, &high)
        }
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { return (-1, -1) }
        return (max(low, -1), max(high, -1))
    }

    // MARK: Leaving

    /// Begins to leave: what is assigned is revoked once more by an event, and after its answer `isClosed` becomes
    /// true, while `serve` is called. A static member leaves its group by its session timeout only.
    package func startClosing() throws(KafkaError) {
        unsafe try check(rd_kafka_consumer_close_queue(client.raw, mainQueue))
    }

    package var isClosed: Bool { unsafe rd_kafka_consumer_closed(client.raw) != 0 }
}
