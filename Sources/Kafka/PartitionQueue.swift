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
    /// Records that were taken off a queue and not read yet; older than all that is in `queue`.
    private var kept = KeptRecords()
    /// Where reading goes on after a batch that librdkafka could not read and skipped, and when (`Stopwatch`). Nothing
    /// is read until the consumer has sought there.
    private(set) var halt: (offset: Int64, untilMs: Int64)?
    /// Behind the last record that was lent and taken.
    private var next: Int64 = 0

    /// How long a batch that cannot be read is left alone before it is fetched again.
    private static let haltMs: Int64 = 1_000

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
    /// assignment and seek). A queue that was not read until this is 0 wakes nobody again: whoever leaves something
    /// behind comes back by itself.
    package var count: Int {
        guard halt == nil, let queue = unsafe queue else { return 0 }
        return unsafe kept.count + rd_kafka_queue_length(queue)
    }

    /// Lends at most `max` records to `body`, in offset order, each only for its call, without waiting; returns how
    /// many it took. `body` returns false for a record it does not take: that one and what follows are kept for the
    /// next call. Consuming and assigning are not to be done from `body`.
    @discardableResult
    package func read(max: Int, _ body: (borrowing Message) -> Bool) -> Int {
        guard max > 0, halt == nil, let queue = unsafe queue else { return 0 }
        var count = 0
        while count < max, let record = kept.popFirst() {
            let message = record.take()
            guard message.isRecord else {
                guard report(message) else { return count }
                continue
            }
            guard body(message) else {
                kept.push(message.keep())
                return count
            }
            next = message.offset + 1
            count += 1
        }
        while count < max, !isClosed {
            // Asking for no more than there is spares a timed wait that would be over at once.
            let waiting = unsafe rd_kafka_queue_length(queue)
            guard waiting > 0 else { break }
            let lent = unsafe buffer.read(from: queue, max: min(waiting, max - count), keep: &kept, report, body)
            count += lent.records
            if let last = lent.last { next = last + 1 }
            if halt != nil { kept = KeptRecords() }
            if lent.isRefused { break }
        }
        return count
    }

    /// False: nothing that follows is to be read.
    private func report(_ message: borrowing Message) -> Bool {
        guard let problem = message.problem, problem.code != .partitionEnd else { return true }
        sink.pending.append(.partitionFailed(partition, problem))
        guard problem.code.isOfSkippedBatch else { return true }
        halt = (Swift.max(next, message.offset), Stopwatch.nowMs + Self.haltMs)
        sink.halted.append(self)
        return false
    }

    // MARK: For the consumer

    var raw: OpaquePointer? { unsafe queue }

    /// Keeps a record that came over the main queue, and splits the queue off again.
    func takeStray(_ record: KeptRecord) {
        guard let queue = unsafe queue else { return }
        kept.append(record)
        unsafe rd_kafka_queue_forward(queue, nil)
    }

    /// Waits longer before the batch is fetched again.
    func prolongHalt() { halt?.untilMs = Stopwatch.nowMs + Self.haltMs }

    /// Reads on after librdkafka was told to seek, which drops what is in its queue.
    func restart() {
        kept = KeptRecords()
        halt = nil
    }

    /// Lets go of librdkafka's queue; records not read are dropped.
    func close() {
        guard let queue = unsafe queue else { return }
        kept = KeptRecords()
        unsafe rd_kafka_queue_io_event_enable(queue, -1, nil, 0)
        unsafe rd_kafka_queue_destroy(queue)
        unsafe self.queue = nil
    }
}

/// Records that wait outside librdkafka's queues, in order.
struct KeptRecords {
    private var records: [KeptRecord] = []
    private var first = 0

    var count: Int { records.count - first }

    mutating func popFirst() -> KeptRecord? {
        guard first < records.count else { return nil }
        defer {
            first += 1
            if first == records.count {
                records.removeAll(keepingCapacity: true)
                first = 0
            }
        }
        return records[first]
    }

    /// Puts back what `popFirst` gave.
    mutating func push(_ record: KeptRecord) {
        if first > 0 {
            first -= 1
            records[first] = record
        } else {
            records.insert(record, at: 0)
        }
    }

    mutating func append(_ record: KeptRecord) { records.append(record) }
}

/// Where rd_kafka_consume_batch_queue puts messages; one for all queues of a consumer.
@safe final class MessageBuffer {
    private static let capacity = 512
    private let slots: UnsafeMutablePointer<UnsafeMutablePointer<rd_kafka_message_t>?>
    private let waker: FetchWaker?
    private var isLent = false

    init(waker: FetchWaker?) {
        self.waker = waker
        unsafe slots = .allocate(capacity: Self.capacity)
        unsafe slots.initialize(repeating: nil, count: Self.capacity)
    }

    deinit { unsafe slots.deallocate() }

    struct Lent {
        /// Those that were taken.
        var records = 0
        /// The offset of the last of them.
        var last: Int64?
        var isRefused = false
    }

    /// Takes at most `max` messages off `queue` without waiting and lends each record to `body`, what is none to
    /// `report`; from the first on that one of them does not take they go to `kept`.
    func read(
        from queue: OpaquePointer, max: Int, keep kept: inout KeptRecords, _ report: (borrowing Message) -> Bool,
        _ body: (borrowing Message) -> Bool
    ) -> Lent {
        precondition(!isLent, "a partition's queue was read while another was being read")
        isLent = true
        defer { isLent = false }
        // It waits until the array is full or the timeout is over, hence no timeout.
        let taken = Swift.max(0, unsafe rd_kafka_consume_batch_queue(queue, 0, slots, min(max, Self.capacity)))
        var lent = Lent()
        var bytes = 0
        for index in 0..<taken {
            let message = unsafe Message(adopting: slots[index]!)
            unsafe bytes += message.key.count + message.value.count
            if lent.isRefused {
                kept.append(message.keep())
            } else if !message.isRecord {
                lent.isRefused = !report(message)
            } else if body(message) {
                lent.records += 1
                lent.last = message.offset
            } else {
                lent.isRefused = true
                kept.append(message.keep())
            }
        }
        waker?.took(bytes)
        return lent
    }
}

/// What queues of partitions have to say, until the consumer is served.
final class ConsumerSink {
    var pending: [ConsumerEvent] = []
    /// Queues at which librdkafka skipped a batch.
    var halted: [PartitionQueue] = []
}

/// Wakes the fetchers of a librdkafka older than 2.2.0 while records are taken out of their queues. Consumer's thread.
///
/// A broker's thread that finds the queues of all its partitions above their limits goes to sleep for up to a second,
/// however soon they are read (2.2.0 has `fetch.queue.backoff.ms` for that). Of all calls that wake it, setting the
/// SASL credentials is the one that asks nothing of a broker and touches nothing that was fetched (rdkafka.h: "will not
/// disconnect existing connections"): they are set to what they are.
@safe final class FetchWaker {
    /// What is taken between two calls: less than the queues of all partitions hold, so that they never run dry, and
    /// enough that waking the thread of each broker, a few hundred times a second at full load, costs next to nothing.
    private static let portionBytes = 128 << 10

    private let client: ClientHandle
    private let username: String
    private let password: String
    private let portionBytes: Int
    private var takenBytes = 0

    /// `nil` where librdkafka does not need it. `properties` are the client's.
    init?(_ client: ClientHandle, _ properties: [KafkaProperty]) {
        guard !KafkaLibrary.hasFetchQueueBackOff else { return nil }
        func value(_ name: String) -> String? { properties.last { $0.name == name }?.value }
        self.client = client
        username = value("sasl.username") ?? ""
        password = value("sasl.password") ?? ""
        let limit = value("queued.max.messages.kbytes").flatMap { Int($0) } ?? 65_536
        portionBytes = max(1, min(Self.portionBytes, (limit << 10) / 2))
    }

    /// `bytes` of keys and values were taken out of a partition's queue.
    func took(_ bytes: Int) {
        takenBytes += bytes
        guard takenBytes >= portionBytes else { return }
        takenBytes = 0
        // It refuses nothing but null.
        try? unsafe check(rd_kafka_sasl_set_credentials(client.raw, username, password))
    }
}
