import CRdkafka

/// The records of one assigned partition, from its assignment until its revocation. Records that are not read stay in
/// librdkafka, which stops fetching at its own limits (backpressure). Consumer's thread.
@safe package final class PartitionQueue {
    package let partition: TopicPartition
    private let shared: SharedQueueState
    /// `nil` once the partition was given up.
    private var queue: OpaquePointer?
    /// Messages that were taken off `queue`. Those from `first` on are owned and not read yet.
    private var taken: [UnsafeMutablePointer<rd_kafka_message_t>] = unsafe []
    private var first = 0
    /// The offset that is read next, where `read` met the log's end, for its caller to take.
    package var end: Int64?

    /// Splits the partition's queue off the consumer's. Call it before the partition is assigned: the mark that the
    /// application forwards this queue keeps the assignment from forwarding it again (rdkafka_partition.c,
    /// rd_kafka_toppar_op_fetch_start), so that no record goes to the consumer's queue.
    init?(_ partition: TopicPartition, _ shared: SharedQueueState) {
        guard
            let queue = unsafe rd_kafka_queue_get_partition(
                shared.client.raw, partition.topic, partition.partition)
        else { return nil }
        self.partition = partition
        self.shared = shared
        unsafe self.queue = queue
        unsafe rd_kafka_queue_forward(queue, nil)
        // An error that was not read in an earlier assignment is still there.
        while hasTaken(upTo: .max) { dropTaken() }
        if shared.wakeUpDescriptor >= 0 { unsafe enableWakeUps(of: queue, descriptor: shared.wakeUpDescriptor) }
    }

    deinit { close() }

    package var isClosed: Bool { unsafe queue == nil }

    /// The most records that can be read without waiting. librdkafka also counts marks of its own (one at each
    /// assignment). A queue wakes its reader again only after it was read until this was 0.
    package var count: Int {
        guard let queue = unsafe queue else { return 0 }
        return unsafe taken.count - first + rd_kafka_queue_length(queue)
    }

    /// Lends at most `max` records to `body` in offset order, each for its call, without waiting. Returns how many it
    /// took.
    ///
    /// `body` returns false for a record that it does not take. That record comes again with the next call. `body` must
    /// not consume or assign.
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

    /// Whether a message can be read. Takes at most `limit` off librdkafka's queue if none is left.
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

    /// Releases librdkafka's queue. Records that were not read are dropped.
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
    /// Errors of partitions, until the consumer is served.
    var events: [ConsumerEvent] = []
    /// Where rd_kafka_consume_batch_queue puts messages.
    private var slots: [UnsafeMutablePointer<rd_kafka_message_t>?] = unsafe Array(repeating: nil, count: 512)

    init(_ client: ClientHandle, waker: FetchWaker?, wakeUpDescriptor: Int32) {
        self.client = client
        self.waker = waker
        self.wakeUpDescriptor = wakeUpDescriptor
    }

    /// Takes messages off a queue without waiting.
    func take(
        from queue: OpaquePointer, atMost limit: Int, into list: inout [UnsafeMutablePointer<rd_kafka_message_t>]
    ) {
        // The call waits until the array is full or the timeout is over, and even a timeout of 0 costs a timed wait.
        let size = unsafe min(rd_kafka_queue_length(queue), limit, slots.count)
        guard size > 0 else { return }
        let count = unsafe rd_kafka_consume_batch_queue(queue, 0, &slots, size)
        for index in 0..<max(0, count) { if let message = unsafe slots[index] { unsafe list.append(message) } }
    }
}
