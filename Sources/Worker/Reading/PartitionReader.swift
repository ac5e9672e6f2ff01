internal import CLinux
internal import Delivery
internal import Kafka
internal import Observability
internal import PushRecords

/// Takes the dead letters of records that no notification can be read from.
protocol DeadLetterSink: AnyObject {
    /// Bytes that the next dead letter may have now.
    var deadLetterBudget: Int { get }

    /// Produces a record as it is, before its bytes are given back. The budget must allow it.
    func publishDeadLetter(
        of message: borrowing Message, at place: RequestPlace, id: NotificationID, reason: DeadLetterReason,
        detail: Detail, now: DeliveryTime)
}

/// Reads one assigned partition into the machine. Core thread.
///
/// A class, so that a record copies nothing of it, and with private properties, which need no exclusivity checks
/// (`swift_beginAccess`, about 100 instructions each, seven a record).
final class PartitionReader {
    struct Outcome {
        var records = 0
        /// More can be read at once.
        var hasMore = false
    }

    let queue: PartitionQueue
    /// The machine's name for the assignment. It changes when the topic turns out to be recreated.
    private(set) var id: PartitionID
    private let topic: [UInt8]
    private let context: ReadingContext
    /// Whether records may be waiting. A queue that was not read until it was empty sends no further wake-up.
    private var mayHaveMore = true
    /// When the head of a retry topic's partition is due (monotonic: the wall clock may be set back by hours
    /// meanwhile). The queue keeps it. (Pausing and seeking back would throw away what was fetched.)
    private var dueNs: Int64 = 0
    /// Where reading began in this assignment: nothing comes from below in the same log.
    private var readFrom: Int64
    /// The offset that a broker refused as out of range, until a record shows why: retention deleted the records
    /// between, or the topic was recreated. librdkafka reads on from the beginning of the log.
    private var refusedOffset: Int64?

    /// A retry record that is due later is looked at again after so long.
    private static let longestWaitMs: Int64 = 3_600_000

    init(
        _ queue: PartitionQueue, id: PartitionID, readFrom: Int64, _ context: ReadingContext
    ) {
        self.queue = queue
        self.id = id
        self.readFrom = readFrom
        self.context = context
        topic = Array(queue.partition.topic.utf8)
    }

    var partition: TopicPartition { queue.partition }

    /// When `read` has something to do without a wake-up (monotonic).
    func nextDeadlineNs(nowNs: Int64) -> Int64? { dueNs > nowNs ? dueNs : nil }

    /// The offset that is read next.
    private func position(_ machine: borrowing DeliveryMachine) -> Int64 {
        max(readFrom, (machine.status(of: id)?.highestReceived ?? -1) + 1)
    }

    // MARK: Records

    /// After a wake-up the queue may have something.
    func markReadable() { mayHaveMore = true }

    /// Reads as much as there is room for.
    ///
    /// - Parameter headers: a buffer that it reuses, so that nothing is allocated.
    func read(
        _ headers: inout [RecordHeader], into machine: inout DeliveryMachine, now: DeliveryTime,
        _ deadLetters: some DeadLetterSink
    ) -> Outcome {
        var outcome = Outcome()
        guard mayHaveMore, dueNs <= now.ns else { return outcome }
        // What there is no room for stays in librdkafka's queue, where it costs nothing.
        let most = min(machine.room(for: id), DeliveryTurn.partitionRecords)
        guard most > 0 else { return outcome }
        var isWaiting = false
        let place = context.place
        place.pointee = machine.place(of: id)
        // Asked for a few records at once, of the assignment of now.
        var (id, room) = (id, 0)
        outcome.records = queue.read(max: most) { message in
            if room == 0 || id != self.id {
                (id, room) = (self.id, min(machine.room(for: self.id), DeliveryTurn.roomRecords))
            }
            guard room > 0 else { return false }
            room -= 1
            place.pointee.offset = message.offset
            crash_at(place)
            defer { crash_nowhere() }
            let isTaken = take(message, &headers, &machine, now, deadLetters)
            if !isTaken { isWaiting = true }
            return isTaken
        }
        mayHaveMore = queue.count > 0
        // A record that waits for its time, or for room among the dead letters, is looked at in a later turn.
        outcome.hasMore = mayHaveMore && !isWaiting && machine.room(for: self.id) > 0
        return outcome
    }

    /// Gives a record to the machine; false when it stays the head of its queue.
    private func take(
        _ message: borrowing Message, _ headers: inout [RecordHeader], _ machine: inout DeliveryMachine,
        _ now: DeliveryTime, _ deadLetters: some DeadLetterSink
    ) -> Bool {
        if refusedOffset != nil || message.offset < readFrom {
            switch arrival(at: message.offset, &machine, now) {
            case .take: break
            case .wait: return false
            case .drop: return true
            }
        }
        let isCondemned = !context.condemned.isEmpty && context.isCondemned(partition, message.offset)
        var unread: DeadLetterReason? = isCondemned ? .workerCrashed : nil
        headers.removeAll(keepingCapacity: true)
        if !isCondemned {
            message.forEachHeader { headers.append(RecordHeader(name: $0, value: $1)) }
            if headers.isEmpty, message.hasUnreadableHeaders { unread = .unreadableHeaders }
        }
        let receipt = headers.withUnsafeBufferPointer {
            machine.receive(
                id, offset: message.offset, timestampMs: message.timestampMs, key: message.key,
                value: message.value, headers: $0, unread: unread,
                letterRoom: deadLetters.deadLetterBudget, now: now)
        }
        switch receipt {
        case .taken, .known, .unassigned: return true
        case .below:
            let before = id
            let arrival = arrival(at: message.offset, &machine, now)
            // Nothing was read, and the record lies below the offset at which the log began when the partition was
            // assigned. So the topic was recreated since.
            if arrival == .take, id == before { restart(at: message.offset, &machine, now) }
            return arrival == .drop
        case .deadLetter(let id, let reason, let detail):
            topic.withUnsafeBytes { topic in
                let place = RequestPlace(topic: topic, partition: message.partition, offset: message.offset, index: 0)
                deadLetters.publishDeadLetter(
                    of: message, at: place, id: id, reason: reason, detail: detail, now: now)
            }
            return true
        case .noLetterRoom: return false
        case .notDue(let untilMs):
            // A time far away overflows.
            let (distance, isOver) = untilMs.subtractingReportingOverflow(now.wallMs)
            let waitMs = isOver ? Self.longestWaitMs : min(max(0, distance), Self.longestWaitMs)
            dueNs = now.ns + waitMs * 1_000_000
            return false
        }
    }

    // MARK: Offsets out of range

    /// A broker refused an offset as out of range, and librdkafka goes on at the beginning of the log. The first record
    /// from there shows why.
    func offsetRefused(_ reset: OffsetReset, _ machine: borrowing DeliveryMachine) {
        let offset = reset.refused ?? position(machine)
        refusedOffset = offset
        context.logger.warning(
            .kafka, "offset out of range, reading on from the beginning of the log", about: "\(partition)",
            ["partition": "\(partition)", "offset": "\(offset)", "reason": "\(reset.text)"])
    }

    private enum Arrival { case take, wait, drop }

    /// Decides about a record that comes after an offset was refused, or from below the position.
    private func arrival(
        at offset: Int64, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) -> Arrival {
        let next = position(machine)
        guard let refusedOffset else {
            guard offset < next else { return .take }
            // librdkafka logs a refused offset before it reads on elsewhere. Without such a line it only rewound (as
            // before 2.4.0 after a rebalance), and the record is known.
            return context.consumer.hasUnservedEvents ? .wait : .drop
        }
        if offset < next {
            restart(at: offset, &machine, now)
        } else if offset >= refusedOffset {
            self.refusedOffset = nil
            // librdkafka drops what it had fetched below the refused offset, so this counts from what was read.
            if offset > next {
                context.logger.error(
                    .kafka, "records deleted before they were read, reading on at the first that is left",
                    about: "\(partition)",
                    ["partition": "\(partition)", "offsets": "\(offset - next)", "first": "\(offset)"])
                context.onSkipped(partition, offset - next)
            }
        }
        return .take
    }

    /// Begins anew at the first record of a recreated topic: what was read before was of another log.
    private func restart(at offset: Int64, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        context.forgetOffsets(of: partition)
        let end = context.consumer.watermarks(of: partition).high
        let before = id
        id = machine.beginAnew(before, logEnd: end < 0 ? nil : end, now: now)
        context.onRenamed(self, before)
        context.place.pointee = machine.place(of: id)
        readFrom = offset
        refusedOffset = nil
    }
}

/// What the readers of one group's partitions share. Core thread.
final class ReadingContext {
    let consumer: Consumer
    let logger: Logger
    /// The record that is being read, for the crash history.
    let place = UnsafeMutablePointer<CrashPlace>.allocate(capacity: 1)
    /// Records that become dead letters unparsed, because the worker died at them.
    var condemned: Set<CrashHistory.Place> = []
    /// The topic of a partition was recreated.
    var onRecreated: (TopicPartition) -> Void = { _ in }
    /// A reader got another id in the place of this one.
    var onRenamed: (PartitionReader, PartitionID) -> Void = { _, _ in }
    /// So many offsets were skipped, since their records were deleted before they were read.
    var onSkipped: (TopicPartition, Int64) -> Void = { _, _ in }

    init(_ consumer: Consumer, logger: Logger) {
        self.consumer = consumer
        self.logger = logger
        place.initialize(to: CrashPlace())
    }

    deinit { place.deallocate() }

    /// Forgets what is known of the offsets of a partition, since its topic was recreated.
    func forgetOffsets(of partition: TopicPartition) {
        condemned = condemned.filter { $0.topic != partition.topic || $0.partition != partition.partition }
        onRecreated(partition)
    }

    func isCondemned(_ partition: TopicPartition, _ offset: Int64) -> Bool {
        condemned.contains(
            CrashHistory.Place(topic: partition.topic, partition: partition.partition, offset: offset))
    }
}
