import CRdkafka

/// The records of one assigned partition, from its assignment until its revocation. Unread records stay in librdkafka,
/// which stops fetching at its limits (backpressure). Used on the consumer's thread only.
@safe package final class PartitionQueue {
    package let partition: TopicPartition
    private let shared: SharedQueueState
    /// librdkafka's queue, or `nil` after `close`.
    private var queue: OpaquePointer?
    /// The messages taken from `queue`. The messages from index `first` on are unread, and this object owns them.
    private var taken: [UnsafeMutablePointer<rd_kafka_message_t>] = unsafe []
    private var first = 0
    /// The next offset to read, set when `read` reaches the log's end. The caller sets it back to `nil`.
    package var end: Int64?

    /// Detaches the partition's queue from the consumer's queue. Call it before the assignment. rd_kafka_queue_forward
    /// sets a flag that stops librdkafka from forwarding the partition's records to the consumer's queue
    /// (rdkafka_partition.c, rd_kafka_toppar_op_fetch_start).
    init?(_ partition: TopicPartition, _ shared: SharedQueueState) {
        guard
            let queue = unsafe rd_kafka_queue_get_partition(
                shared.client.raw, partition.topic, partition.partition)
        else { return nil }
        self.partition = partition
        self.shared = shared
        unsafe self.queue = queue
        unsafe rd_kafka_queue_forward(queue, nil)
        // Drop unread errors of an earlier assignment, which are still in the queue.
        while hasTaken(upTo: .max) { dropTaken() }
        if shared.wakeUpDescriptor >= 0 { unsafe enableWakeUps(of: queue, descriptor: shared.wakeUpDescriptor) }
    }

    deinit { close() }

    package var isClosed: Bool { unsafe queue == nil }

    /// The maximum number of records that can be read without waiting. librdkafka also counts control messages (one per
    /// assignment). A queue wakes its reader again only after the reader has emptied it (count 0).
    package var count: Int {
        guard let queue = unsafe queue else { return 0 }
        return unsafe taken.count - first + rd_kafka_queue_length(queue)
    }

    /// Passes up to `max` records to `body` in offset order without waiting. A record is valid only during the call of
    /// `body`. Returns how many records `body` took.
    ///
    /// If `body` returns `false` for a record, the next call starts with that record. `body` must not read from a queue
    /// of the consumer or change the assignment.
    @discardableResult
    package func read(max: Int, _ body: (borrowing Message) -> Bool) -> Int {
        var count = 0
        var bytes = 0
        while count < max, hasTaken(upTo: max - count) {
            let message = unsafe Message(adopting: taken[first])
            if message.isEnd {
                end = message.offset
            } else if let problem = message.problem {
                shared.events.append(.partitionFailed(partition, problem))
            } else {
                guard body(message) else {
                    message.release()
                    break
                }
                count += 1
                unsafe bytes += message.key.count + message.value.count
            }
            first += 1
        }
        shared.waker?.took(bytes)
        return count
    }

    /// Takes up to `limit` messages from librdkafka's queue if all taken messages have been read. Returns whether a
    /// message is ready.
    private func hasTaken(upTo limit: Int) -> Bool {
        if unsafe first < taken.count { return true }
        unsafe taken.removeAll(keepingCapacity: true)
        first = 0
        if let queue = unsafe queue { unsafe shared.take(from: queue, atMost: limit, into: &taken) }
        return unsafe !taken.isEmpty
    }

    private func dropTaken() {
        while unsafe first < taken.count {
            unsafe rd_kafka_message_destroy(taken[first])
            first += 1
        }
    }

    /// Releases librdkafka's queue. Unread records are dropped.
    package func close() {
        guard let queue = unsafe queue else { return }
        dropTaken()
        unsafe rd_kafka_queue_io_event_enable(queue, -1, nil, 0)
        unsafe rd_kafka_queue_destroy(queue)
        unsafe self.queue = nil
    }
}

@safe final class SharedQueueState {
    let client: ClientHandle
    let wakeUpDescriptor: Int32
    var waker: FetchWaker?
    /// Errors of partitions. The next call of `Consumer.serve` delivers them.
    var events: [ConsumerEvent] = []
    /// The buffer for messages of rd_kafka_consume_batch_queue.
    private var slots: [UnsafeMutablePointer<rd_kafka_message_t>?] = unsafe Array(repeating: nil, count: 512)

    init(_ client: ClientHandle, waker: FetchWaker?, wakeUpDescriptor: Int32) {
        self.client = client
        self.waker = waker
        self.wakeUpDescriptor = wakeUpDescriptor
    }

    /// Takes messages from a queue without waiting.
    func take(
        from queue: OpaquePointer, atMost limit: Int, into list: inout [UnsafeMutablePointer<rd_kafka_message_t>]
    ) {
        // rd_kafka_consume_batch_queue waits until the array is full or the timeout ends, and even a timeout of 0 costs
        // a timed wait.
        let size = unsafe min(rd_kafka_queue_length(queue), limit, slots.count)
        guard size > 0 else { return }
        let count = unsafe rd_kafka_consume_batch_queue(queue, 0, &slots, size)
        for index in 0..<max(0, count) { if let message = unsafe slots[index] { unsafe list.append(message) } }
    }
}
