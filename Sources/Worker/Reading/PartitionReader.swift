internal import CLinux
internal import Delivery
internal import Kafka
internal import PushRecords

/// Receives records that become dead letters because no notification can be read from them.
protocol DeadLetterSink: AnyObject {
    var deadLetterBudget: Int { get }

    /// Produces a dead letter with the record's key, value and headers, plus the `push-dlq-` headers. Call it while the
    /// message is borrowed, and only if `deadLetterBudget` allows the record's size.
    func publishDeadLetter(
        of message: borrowing Message, at place: RequestPlace, id: NotificationID, reason: DeadLetterReason,
        detail: Detail, now: DeliveryTime)
}

/// Passes the records of one assigned partition to the delivery machine. Core thread.
///
/// The reader is a class, so that reading a record copies none of the reader's state. Its variables are private,
/// because Swift then omits the exclusivity checks (`swift_beginAccess`): seven per record, of about 100 instructions
/// each.
final class PartitionReader {
    let queue: PartitionQueue
    /// The delivery machine's identifier of this assignment.
    let id: PartitionID
    private let topic: [UInt8]
    private let context: Context
    /// Whether the queue may have records. librdkafka sends no further wake-up until all records of the queue have
    /// been read.
    private var mayHaveMore = true
    /// The time at which the next record of a retry partition is due (monotonic, because the wall clock may be set
    /// back). Until then the record stays in the queue: pausing and seeking back would discard fetched records.
    private var dueNs: Int64 = 0
    private let readFrom: Int64

    /// The longest wait before a retry record's due time is checked again.
    private static let longestWaitMs: Int64 = 3_600_000

    init(_ queue: PartitionQueue, id: PartitionID, readFrom: Int64, _ context: Context) {
        self.queue = queue
        self.id = id
        self.readFrom = readFrom
        self.context = context
        topic = Array(queue.partition.topic.utf8)
    }

    var partition: TopicPartition { queue.partition }

    /// Returns the monotonic time at which `read` must run even without a wake-up, or `nil` if no retry record waits.
    func nextDeadlineNs(nowNs: Int64) -> Int64? { dueNs > nowNs ? dueNs : nil }

    func position(_ machine: borrowing DeliveryMachine) -> Int64 {
        max(readFrom, (machine.status(of: id)?.highestReceived ?? -1) + 1)
    }

    // MARK: Records

    /// Marks the queue as possibly non-empty, after a wake-up.
    func markReadable() { mayHaveMore = true }

    /// Reads as many records as `machine` has room for, up to `DeliveryTurn.partitionRecords`. Returns their number,
    /// and whether more records can be read immediately.
    func read(
        into machine: inout DeliveryMachine, now: DeliveryTime, _ deadLetters: some DeadLetterSink
    ) -> (records: Int, hasMore: Bool) {
        guard mayHaveMore, dueNs <= now.ns else { return (0, false) }
        // Records for which the machine has no room stay in librdkafka's queue, where they need no further memory.
        let most = min(machine.room(for: id), DeliveryTurn.partitionRecords)
        guard most > 0 else { return (0, false) }
        var isWaiting = false
        let place = context.place
        place.pointee = machine.place(of: id)
        // Calling `room(for:)` once for several records is cheaper than calling it for each record.
        var room = 0
        // The array is moved into a local variable, so that no access to the property overlaps the read (exclusivity).
        var headers = context.headers
        context.headers = []
        defer { context.headers = headers }
        let records = queue.read(max: most) { message in
            if room == 0 { room = min(machine.room(for: id), DeliveryTurn.roomRecords) }
            guard room > 0 else { return false }
            room -= 1
            place.pointee.offset = message.offset
            crash_at(place)
            defer { crash_nowhere() }
            let isTaken = take(message, &headers, &machine, now, deadLetters)
            if !isTaken { isWaiting = true }
            return isTaken
        }
        if let end = queue.end {
            machine.reachedEnd(id, offset: end)
            queue.end = nil
        }
        mayHaveMore = queue.count > 0
        // A record that is not due, or that exceeds the dead-letter budget, is read in a later turn.
        return (records, mayHaveMore && !isWaiting && machine.room(for: id) > 0)
    }

    /// Passes a record to the machine. Returns false if the record must stay at the head of its queue.
    private func take(
        _ message: borrowing Message, _ headers: inout [RecordHeader], _ machine: inout DeliveryMachine,
        _ now: DeliveryTime, _ deadLetters: some DeadLetterSink
    ) -> Bool {
        let isCondemned =
            !context.condemned.isEmpty
            && context.condemned.contains(
                CrashHistory.Place(topic: partition.topic, partition: partition.partition, offset: message.offset))
        var unread: DeadLetterReason? = isCondemned ? .workerCrashed : nil
        headers.removeAll(keepingCapacity: true)
        if !isCondemned {
            message.forEachHeader { headers.append(RecordHeader(name: $0, value: $1)) }
            if headers.isEmpty, message.hasUnreadableHeaders { unread = .unreadableHeaders }
        }
        if let group = context.retryGroup, isForeign(headers, to: group, now) {
            machine.passOver(id, offset: message.offset)
            return true
        }
        let receipt = headers.withUnsafeBufferPointer {
            machine.receive(
                id, offset: message.offset, timestampMs: message.timestampMs, key: message.key,
                value: message.value, headers: $0, unread: unread,
                letterRoom: deadLetters.deadLetterBudget, now: now)
        }
        switch receipt {
        // librdkafka before 2.4.0 may rewind after a rebalance, so the delivery machine ignores records that it has
        // already received.
        case .taken, .ignored: return true
        case .deadLetter(let id, let reason, let detail):
            topic.withUnsafeBytes { topic in
                let place = RequestPlace(topic: topic, partition: message.partition, offset: message.offset, index: 0)
                deadLetters.publishDeadLetter(
                    of: message, at: place, id: id, reason: reason, detail: detail, now: now)
            }
            return true
        case .noLetterRoom: return false
        case .notDue(let untilMs):
            // The difference between now and a time in the far future may overflow.
            let (distance, isOver) = untilMs.subtractingReportingOverflow(now.wallMs)
            let waitMs = isOver ? Self.longestWaitMs : min(max(0, distance), Self.longestWaitMs)
            dueNs = now.ns + waitMs * 1_000_000
            return false
        }
    }

    /// Returns whether the headers are those of another group's retry record. If so, remembers that group in
    /// `context.foreign`.
    private func isForeign(_ headers: [RecordHeader], to retryGroup: [UInt8], _ now: DeliveryTime) -> Bool {
        guard let group = RetryWriter.group(in: headers), !group.elementsEqual(retryGroup) else { return false }
        context.foreign[partition.topic] = (String(decoding: group, as: UTF8.self), now.ns)
        return true
    }
}

extension PartitionReader {
    /// The state that the partition readers of one group share. Core thread.
    final class Context {
        /// The topic, partition and offset of the record that is being read, for the crash history.
        let place = UnsafeMutablePointer<CrashPlace>.allocate(capacity: 1)
        /// Records that become dead letters without being parsed, because the worker crashed while processing them.
        var condemned: Set<CrashHistory.Place> = []
        /// The group that retry records must name, or `nil` for a reader of request topics.
        fileprivate let retryGroup: [UInt8]?
        /// The group named in the last skipped retry record of each topic, and the time of the skip (monotonic).
        fileprivate(set) var foreign: [String: (group: String, ns: Int64)] = [:]
        /// A buffer that is reused for each record, to avoid allocations.
        fileprivate var headers: [RecordHeader] = []

        init(retryGroup: String? = nil) {
            place.initialize(to: CrashPlace())
            self.retryGroup = retryGroup.map { Array($0.utf8.prefix(RecordLimits.kafkaTopic)) }
        }

        deinit { place.deallocate() }

        /// Removes a partition's records from the crash history, because a recreated topic reuses their offsets.
        func forgetOffsets(of partition: TopicPartition) {
            condemned = condemned.filter { $0.topic != partition.topic || $0.partition != partition.partition }
            CrashHistory.forgetOffsets(topic: partition.topic, partition: partition.partition)
        }
    }
}
