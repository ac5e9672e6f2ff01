import CRdkafka
import Glibc

/// The records of one assigned partition, from its assignment until its revocation. Unread records stay in librdkafka,
/// which stops fetching at its limits (backpressure). Use it on the consumer's thread only.
@safe package final class PartitionQueue {
    package let partition: TopicPartition
    private let client: ClientHandle
    /// librdkafka's queue, or `nil` after `close`.
    private var queue: OpaquePointer?
    /// The messages taken from `queue`, then unused space. The messages at the indices `first..<takenCount` are unread,
    /// and this object owns them.
    private var taken: [UnsafeMutablePointer<rd_kafka_message_t>?] = unsafe []
    private var takenCount = 0
    private var first = 0
    private static let mostTaken = 512
    /// The next offset to read, set when `read` reaches the log's end. The caller sets it back to `nil`.
    package var end: Int64?

    /// Detaches the partition's queue from the consumer's queue, which must happen before the assignment.
    /// rd_kafka_queue_forward sets a flag that stops librdkafka from forwarding the partition's records to the
    /// consumer's queue (rdkafka_partition.c, rd_kafka_toppar_op_fetch_start).
    init?(_ partition: TopicPartition, _ client: ClientHandle) {
        guard let queue = unsafe rd_kafka_queue_get_partition(client.raw, partition.topic, partition.partition)
        else { return nil }
        self.partition = partition
        self.client = client
        unsafe self.queue = queue
        unsafe rd_kafka_queue_forward(queue, nil)
        // Drop unread errors that an earlier assignment left in the queue.
        while hasTaken(upTo: .max) { dropTaken() }
        unsafe client.enableWakeUps(of: queue)
    }

    deinit { close() }

    package var isClosed: Bool { unsafe queue == nil }

    /// An upper bound for the number of records that are ready, because librdkafka also counts control messages (one
    /// per assignment). librdkafka sends another wake-up only after the reader has emptied the queue (count 0).
    package var count: Int {
        guard let queue = unsafe queue else { return 0 }
        return unsafe takenCount - first + rd_kafka_queue_length(queue)
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
            let message = unsafe Message(adopting: taken[first]!)
            if message.isEnd {
                end = message.offset
            } else if let problem = message.problem {
                client.partitionFailures.append(.partitionFailed(partition, problem))
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
        client.took(bytes)
        return count
    }

    /// Takes up to `limit` messages from librdkafka's queue if all taken messages have been read. Returns whether a
    /// message is ready.
    private func hasTaken(upTo limit: Int) -> Bool {
        if first < takenCount { return true }
        first = 0
        takenCount = 0
        guard let queue = unsafe queue else { return false }
        // Request only messages that are ready, because rd_kafka_consume_batch_queue waits until the array is full.
        // Even a timeout of 0 costs a timed wait.
        let size = unsafe min(rd_kafka_queue_length(queue), limit, Self.mostTaken)
        guard size > 0 else { return false }
        if unsafe taken.count < size { unsafe taken += Array(repeating: nil, count: size - taken.count) }
        takenCount = unsafe max(0, rd_kafka_consume_batch_queue(queue, 0, &taken, size))
        return takenCount > 0
    }

    private func dropTaken() {
        while first < takenCount {
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

/// A consumed record. The key, value and headers are valid as long as the message exists. The message keeps
/// librdkafka's whole fetch buffer in memory.
@safe package struct Message: ~Copyable {
    private let raw: UnsafeMutablePointer<rd_kafka_message_t>

    init(adopting raw: UnsafeMutablePointer<rd_kafka_message_t>) { unsafe self.raw = raw }

    deinit { unsafe rd_kafka_message_destroy(raw) }

    consuming func release() { discard self }

    /// librdkafka's error if this message is not a record.
    var problem: KafkaError? {
        guard unsafe raw.pointee.err != RD_KAFKA_RESP_ERR_NO_ERROR else { return nil }
        return unsafe KafkaError(KafkaCode(raw.pointee.err), String(cString: rd_kafka_message_errstr(raw)))
    }

    /// Whether this message reports the end of the partition. `offset` is then the next offset to read, above any
    /// transaction markers.
    var isEnd: Bool { unsafe raw.pointee.err == RD_KAFKA_RESP_ERR__PARTITION_EOF }

    package var offset: Int64 { unsafe raw.pointee.offset }

    package var partition: Int32 { unsafe raw.pointee.partition }

    /// The topic's handle, which the message does not own.
    var topic: OpaquePointer { unsafe raw.pointee.rkt }

    /// The record's timestamp in milliseconds since the epoch, or -1 if it has none.
    package var timestampMs: Int64 { unsafe rd_kafka_message_timestamp(raw, nil) }

    /// The key. A `nil` base address means null.
    package var key: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: raw.pointee.key, count: raw.pointee.key_len)
    }

    /// The value. A `nil` base address means null (a tombstone).
    package var value: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: raw.pointee.payload, count: raw.pointee.len)
    }

    /// Whether librdkafka cannot parse the record's headers, because the headers are corrupt or number more than
    /// 100,000. `forEachHeader` then passes no headers.
    package var hasUnreadableHeaders: Bool {
        var headers: OpaquePointer?
        let code = unsafe rd_kafka_message_headers(raw, &headers)
        return code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR__NOENT
    }

    /// Calls `body` with the name and value of each header in the record's order. The bytes are valid as long as the
    /// message exists.
    package func forEachHeader(_ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Void) {
        var headers: OpaquePointer?
        // librdkafka parses and copies the headers on first access. The message owns them (rdkafka.h).
        guard unsafe rd_kafka_message_headers(raw, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR else { return }
        unsafe forEach(in: headers, body)
    }
}

func forEach(
    in headers: OpaquePointer?, _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Void
) {
    guard unsafe headers != nil else { return }
    var index = 0
    var name: UnsafePointer<CChar>?
    var value: UnsafeRawPointer?
    var size = 0
    while unsafe rd_kafka_header_get_all(headers, index, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR {
        unsafe body(
            UnsafeRawBufferPointer(start: name, count: name.map { unsafe strlen($0) } ?? 0),
            UnsafeRawBufferPointer(start: value, count: value == nil ? 0 : size))
        index += 1
    }
}
