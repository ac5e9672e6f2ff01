import CRdkafka

/// The records of one assigned partition, from its assignment until its revocation. What is not read stays in
/// librdkafka, which stops fetching at its own limits: that is the back-pressure. Used on the consumer's thread.
@safe package final class PartitionQueue {
    package let partition: TopicPartition
    private let client: ClientHandle
    private let buffer: MessageBuffer
    private let sink: ConsumerSink
    /// `nil` once the partition was given up.
    private var queue: OpaquePointer?
    /// Events of records that reached the main queue before this one was split off; older than all that is in `queue`.
    private var strays: [StrayRecord] = []

    /// Splits the partition's queue off the main queue. To be called before the partition is assigned: the mark that
    /// the application forwards this queue keeps the assignment from forwarding it again (rdkafka_partition.c,
    /// rd_kafka_toppar_op_fetch_start), so that no record goes to the main queue.
    init?(
        _ partition: TopicPartition, client: ClientHandle, buffer: MessageBuffer, sink: ConsumerSink,
        wakeUpDescriptor: Int32
    ) {
        guard let queue = unsafe rd_kafka_queue_get_partition(client.raw, partition.topic, partition.partition) else {
            return nil
        }
        self.partition = partition
        self.client = client
        self.buffer = buffer
        self.sink = sink
        unsafe self.queue = queue
        unsafe rd_kafka_queue_forward(queue, nil)
        if wakeUpDescriptor >= 0 { unsafe enableWakeUps(of: queue, descriptor: wakeUpDescriptor) }
    }

    deinit { close() }

    /// Whether the partition was given up; then nothing is read any more.
    package var isClosed: Bool { unsafe queue == nil }

    /// At most how many records may be read without waiting: librdkafka counts marks of its own too (one at each
    /// assignment and seek). A queue that was not read until this is 0 wakes nobody again: whoever leaves something behind
    /// comes back by itself.
    package var count: Int {
        guard let queue = unsafe queue else { return 0 }
        return unsafe strays.count + rd_kafka_queue_length(queue)
    }

    /// Lends at most `max` records to `body`, in offset order, each only for its call, without waiting; returns how many.
    /// Consuming, assigning, seeking and pausing are not to be done from `body`.
    @discardableResult
    package func read(max: Int, _ body: (borrowing Message) -> Void) -> Int {
        guard max > 0, let queue = unsafe queue else { return 0 }
        var count = 0
        if !strays.isEmpty { count += readStrays(max: max, body) }
        while count < max, !isClosed {
            // Asking for no more than there is spares a timed wait that would be over at once.
            let waiting = unsafe rd_kafka_queue_length(queue)
            guard waiting > 0 else { break }
            count += unsafe buffer.fill(from: queue, max: min(waiting, max - count)) { message in
                if message.isRecord {
                    body(message)
                    return true
                }
                report(message)
                return false
            }
        }
        return count
    }

    private func report(_ message: borrowing Message) {
        guard let problem = message.problem, problem.code != .partitionEnd else { return }
        sink.pending.append(.partitionFailed(partition, problem))
    }

    // MARK: For the consumer

    var raw: OpaquePointer? { unsafe queue }

    /// Keeps a record that came over the main queue, and splits the queue off again.
    func takeStray(_ record: StrayRecord) {
        guard let queue = unsafe queue else { return }
        strays.append(record)
        unsafe rd_kafka_queue_forward(queue, nil)
    }

    private func readStrays(max: Int, _ body: (borrowing Message) -> Void) -> Int {
        let taken = Array(strays.prefix(max))
        strays.removeFirst(taken.count)
        var count = 0
        for record in taken {
            guard let message = record.take() else { continue }
            if message.isRecord {
                body(message)
                count += 1
            } else {
                report(message)
            }
        }
        return count
    }

    func dropStrays() {
        strays = []
    }

    /// Lets go of librdkafka's queue; records not read are dropped.
    func close() {
        guard let queue = unsafe queue else { return }
        dropStrays()
        unsafe rd_kafka_queue_io_event_enable(queue, -1, nil, 0)
        unsafe rd_kafka_queue_destroy(queue)
        unsafe self.queue = nil
    }
}

/// An event with a record that came over the main queue.
@safe final class StrayRecord {
    private var event: OpaquePointer?

    init(adopting event: OpaquePointer) { unsafe self.event = event }

    deinit { if let event = unsafe event { unsafe rd_kafka_event_destroy(event) } }

    /// The record; `nil` when it was taken before.
    func take() -> Message? {
        guard let event = unsafe event else { return nil }
        unsafe self.event = nil
        return unsafe Message(adoptingEvent: event)
    }
}

/// Where rd_kafka_consume_batch_queue puts messages; one for all queues of a consumer.
@safe final class MessageBuffer {
    private static let capacity = 512
    private let slots: UnsafeMutablePointer<UnsafeMutablePointer<rd_kafka_message_t>?>
    private var isLent = false

    init() {
        unsafe slots = .allocate(capacity: Self.capacity)
        unsafe slots.initialize(repeating: nil, count: Self.capacity)
    }

    deinit { unsafe slots.deallocate() }

    /// Takes at most `max` messages off `queue` without waiting and lends each to `body`, which returns whether it counts;
    /// returns how many counted.
    func fill(from queue: OpaquePointer, max: Int, _ body: (borrowing Message) -> Bool) -> Int {
        precondition(!isLent, "a partition's queue was read while another was being read")
        isLent = true
        defer { isLent = false }
        // It waits until the array is full or the timeout is over, hence no timeout (kafka.md).
        let taken = unsafe rd_kafka_consume_batch_queue(queue, 0, slots, min(max, Self.capacity))
        var count = 0
        for index in 0..<Swift.max(0, taken) {
            let message = unsafe Message(adopting: slots[index]!)
            if body(message) { count += 1 }
        }
        return count
    }
}

/// What queues of partitions have to say, until the consumer is served.
final class ConsumerSink {
    var pending: [ConsumerEvent] = []
}
