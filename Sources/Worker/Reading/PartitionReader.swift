internal import CLinux
internal import Delivery
internal import Kafka
internal import Observability
internal import PushRecords

/// Reads one assigned partition into the machine. Core thread.
///
/// A class: a record copies nothing of it, and what is private to this file needs no check of who else has access
/// (`swift_beginAccess`, some 100 instructions each, seven a record).
final class PartitionReader {
    /// What a call of `read` came to.
    struct Outcome {
        var records = 0
        /// More is to be read at once.
        var hasMore = false
    }

    /// Why the head of the queue is not taken now.
    private enum Wait {
        case none
        /// The head of a retry topic's partition is due later (monotonic: the wall clock may be set back by hours
        /// meanwhile). The queue keeps it, and a few records behind it. (Pausing and seeking back would throw away what
        /// was fetched.)
        case due(ns: Int64)
        /// The head is a dead letter that the publisher has no room for. Each turn tries again.
        case letterRoom
    }

    let queue: PartitionQueue
    /// The machine's name for the assignment. Another one once the topic was found to be recreated.
    private(set) var id: PartitionID
    private let topic: [UInt8]
    private let context: ReadingContext
    /// Is told the `id` before, when it has changed.
    private let onRenamed: (PartitionReader, PartitionID) -> Void
    /// Whether records may be waiting. A queue left unread until it is empty wakes nobody again.
    private var mayHaveMore = true
    private var wait = Wait.none
    /// Where reading began in this assignment: nothing comes from below in the same log.
    private var readFrom: Int64
    /// The offset that a broker refused as out of range, until a record shows why: retention took what lies between,
    /// or the topic was recreated. librdkafka reads on from the beginning of the log.
    private var refusedOffset: Int64?

    /// A retry record that is due later is looked at again after so long.
    private static let longestWaitMs: Int64 = 3_600_000

    init(
        _ queue: PartitionQueue, id: PartitionID, readFrom: Int64, _ context: ReadingContext,
        onRenamed: @escaping (PartitionReader, PartitionID) -> Void
    ) {
        self.queue = queue
        self.id = id
        self.readFrom = readFrom
        self.context = context
        self.onRenamed = onRenamed
        topic = Array(queue.partition.topic.utf8)
    }

    var partition: TopicPartition { queue.partition }

    /// When `read` has something to do without a wake-up (monotonic).
    func nextDeadlineNs(nowNs: Int64) -> Int64? {
        switch wait {
        // What is due already waits for room, which is no matter of time.
        case .due(let ns): ns > nowNs ? ns : nil
        case .none, .letterRoom: nil
        }
    }

    /// The offset that is read next.
    private func position(_ machine: borrowing DeliveryMachine) -> Int64 {
        max(readFrom, (machine.status(of: id)?.highestReceived ?? -1) + 1)
    }

    // MARK: Records

    /// After a wake-up the queue may have something.
    func markReadable() { mayHaveMore = true }

    /// Reads as much as there is room for.
    ///
    /// - Parameters:
    ///   - headers: for its own use, so that nothing is allocated.
    ///   - letterRoom: bytes that the next dead letter may have.
    func read(
        _ headers: inout [RecordHeader], _ letterRoom: inout Int, into machine: inout DeliveryMachine,
        now: DeliveryTime, _ deadLetters: GroupReader.DeadLetters
    ) -> Outcome {
        var outcome = Outcome()
        if case .due(let ns) = wait, ns > now.ns { return outcome }
        guard mayHaveMore else { return outcome }
        // What there is no room for stays in librdkafka's queue, where it costs nothing.
        let most = min(machine.room(for: id), DeliveryTurn.partitionRecords)
        guard most > 0 else { return outcome }
        wait = .none
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
            return take(message, &headers, &letterRoom, &machine, now, deadLetters)
        }
        mayHaveMore = queue.count > 0
        if case .none = wait { outcome.hasMore = mayHaveMore && machine.room(for: self.id) > 0 }
        return outcome
    }

    /// False: the record stays the head of its queue.
    private func take(
        _ message: borrowing Message, _ headers: inout [RecordHeader], _ letterRoom: inout Int,
        _ machine: inout DeliveryMachine, _ now: DeliveryTime, _ deadLetters: GroupReader.DeadLetters
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
                value: message.value, headers: $0, unread: unread, letterRoom: letterRoom, now: now)
        }
        switch receipt {
        case .taken, .known, .unassigned: return true
        case .below:
            return arrival(at: message.offset, &machine, now) == .drop
        case .deadLetter(let id, let reason, let detail):
            topic.withUnsafeBytes { topic in
                let place = RequestPlace(topic: topic, partition: message.partition, offset: message.offset, index: 0)
                deadLetters.ofRecord(message, place, id, reason, detail)
            }
            letterRoom = deadLetters.room()
            return true
        case .noLetterRoom:
            wait = .letterRoom
            return false
        case .notDue(let untilMs):
            // Far times are no numbers to multiply.
            let (distance, isOver) = untilMs.subtractingReportingOverflow(now.wallMs)
            let waitMs = isOver ? Self.longestWaitMs : min(max(0, distance), Self.longestWaitMs)
            wait = .due(ns: now.ns + waitMs * 1_000_000)
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
            // librdkafka logs a refused offset before it reads on elsewhere. Where that line is served already, or
            // there was none, it only rewound (as before 2.4.0 after a rebalance), and the record is known.
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

    /// The topic was recreated, and this is its first record: what was read before was of another log.
    private func restart(at offset: Int64, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        context.acquit(partition)
        let end = context.logEnd(of: partition)
        let before = id
        id = machine.beginAnew(before, logEnd: end < 0 ? nil : end, now: now)
        onRenamed(self, before)
        context.place.pointee = machine.place(of: id)
        readFrom = offset
        refusedOffset = nil
    }
}

/// What the readers of one group's partitions have in common. Core thread.
final class ReadingContext {
    let consumer: Consumer
    let logger: Logger
    let problems: ReadingProblems
    /// Where it reads, for whoever dies there.
    let place = UnsafeMutablePointer<CrashPlace>.allocate(capacity: 1)
    /// Records that are not to be looked at: the worker died at them.
    var condemned: Set<CrashHistory.Place> = []
    /// The topic of a partition was recreated.
    var onAnotherLog: (TopicPartition) -> Void = { _ in }
    /// Reading went on beyond so many offsets that were gone before they were read.
    var onSkipped: (TopicPartition, Int64) -> Void = { _, _ in }

    init(_ consumer: Consumer, problems: ReadingProblems, logger: Logger) {
        self.consumer = consumer
        self.problems = problems
        self.logger = logger
        place.initialize(to: CrashPlace())
    }

    deinit { place.deallocate() }

    /// Other records stand at the offsets of a topic that was recreated.
    func acquit(_ partition: TopicPartition) {
        condemned = condemned.filter { $0.topic != partition.topic || $0.partition != partition.partition }
        onAnotherLog(partition)
    }

    /// Where the partition's log ends, as the last fetch told; -1: not known yet.
    func logEnd(of partition: TopicPartition) -> Int64 { consumer.watermarks(of: partition).high }

    func isCondemned(_ partition: TopicPartition, _ offset: Int64) -> Bool {
        condemned.contains(
            CrashHistory.Place(topic: partition.topic, partition: partition.partition, offset: offset))
    }
}
