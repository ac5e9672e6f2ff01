internal import CLinux
internal import Delivery
internal import Kafka
internal import Observability
internal import PushRecords

/// A partition that is read into the machine, or drains: its queue, where it is read and why it is not read now. Core
/// thread.
///
/// A class: a record copies nothing of it, and what is private to this file needs no check of who else has access
/// (`swift_beginAccess`, some 100 instructions each, seven a record).
final class PartitionReader {
    /// What a call of `read` came to.
    struct Outcome {
        var records = 0
        /// More is to be read at once.
        var hasMore = false
        /// Its log is another one: nothing of it was read.
        var isAnotherLog = false
    }

    let queue: PartitionQueue
    /// Another one once the log was found to be another one.
    private(set) var id: PartitionID
    private let topic: [UInt8]
    private let context: ReadingContext
    /// It has another id: the one before, and the log's change.
    private let onRenamed: (PartitionReader, PartitionID) -> Void
    /// Whether records may be waiting. A queue left unread until it is empty wakes nobody again.
    private var mayHaveMore = true
    /// When the head of a retry partition is due, by the monotonic clock (the other may be set back by hours
    /// meanwhile): its queue keeps it until then, and a few records behind it. (Not paused and sought back: that throws
    /// away what was fetched, and a seek that comes to nothing is noticed only by what comes after it.)
    private var dueNs: Int64 = 0
    private var position: PartitionPosition
    /// Of the last record that was looked at (librdkafka 2.1.0 and later).
    private var leaderEpoch: Int32?
    /// The log is another one, and is read from its beginning after the next assignment.
    private(set) var isStopped = false
    /// The record of the latest time that was read since `takeWitness`.
    private var witness: LogMarks.Witness?
    /// There was no room for the dead letter that its next record is. That is the head of the queue, and not received.
    private var waitsForLetterRoom = false

    /// A retry record that is due later is looked at again after so long.
    private static let longestWaitMs: Int64 = 3_600_000

    /// - Parameter onRenamed: the log became another one, and with it the id; the one before.
    init(
        _ queue: PartitionQueue, id: PartitionID, position: PartitionPosition, _ context: ReadingContext,
        onRenamed: @escaping (PartitionReader, PartitionID) -> Void
    ) {
        self.queue = queue
        self.id = id
        self.position = position
        self.context = context
        self.onRenamed = onRenamed
        topic = Array(queue.partition.topic.utf8)
    }

    var partition: TopicPartition { queue.partition }

    /// When `read` has something to do without a wake-up (monotonic).
    func nextDeadlineNs(nowNs: Int64) -> Int64? {
        // What is due already waits for room, which is no matter of time.
        let dueNs = dueNs > nowNs ? dueNs : nil
        guard let askNs = position.nextNs else { return dueNs }
        return min(askNs, dueNs ?? askNs)
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
        guard mayHaveMore, dueNs <= now.ns, !isStopped, !position.isUnknown else { return outcome }
        // What there is no room for stays in librdkafka's queue, where it costs nothing.
        let most = min(machine.room(for: id), DeliveryTurn.partitionRecords)
        guard most > 0 else { return outcome }
        dueNs = 0
        waitsForLetterRoom = false
        let place = context.place
        place.pointee = machine.place(of: id)
        var isFirst = true
        var isAnotherLog = false
        // Asked for a few records at once, of the assignment of now.
        var (id, room) = (id, 0)
        outcome.records = queue.read(max: most) { message in
            if room == 0 || id != self.id {
                (id, room) = (self.id, min(machine.room(for: self.id), DeliveryTurn.roomRecords))
            }
            guard room > 0 else { return false }
            room -= 1
            crash_next(place, message.offset)
            crash_at(place)
            defer { crash_nowhere() }
            if isFirst {
                isFirst = false
                isAnotherLog = isOfAnotherLog(message)
            }
            if isAnotherLog { return false }
            return take(message, &headers, &letterRoom, &machine, now, deadLetters)
        }
        if position.takeMustSeek() { context.seek(partition, to: position.next(self.id, machine)) }
        mayHaveMore = queue.count > 0
        outcome.isAnotherLog = isAnotherLog
        outcome.hasMore =
            mayHaveMore && dueNs == 0 && !isAnotherLog && !position.isUnknown && !waitsForLetterRoom
            && machine.room(for: self.id) > 0
        return outcome
    }

    /// False: the record stays the head of its queue.
    private func take(
        _ message: borrowing Message, _ headers: inout [RecordHeader], _ letterRoom: inout Int,
        _ machine: inout DeliveryMachine, _ now: DeliveryTime, _ deadLetters: GroupReader.DeadLetters
    ) -> Bool {
        if position.isDoubtful(message.offset) {
            switch step(at: message.offset, machine, now) {
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
        var receipt = receive(message, headers, unread: unread, letterRoom, &machine, now)
        if beginsAnew(at: message.offset, after: receipt, &machine, now) {
            receipt = receive(message, headers, unread: unread, letterRoom, &machine, now)
        }
        if position.isRefused { position.received(message.offset) }
        if message.timestampMs > witness?.timeMs ?? 0 {
            witness = LogMarks.Witness(offset: message.offset, timeMs: message.timestampMs, readNs: now.ns)
        }
        switch receipt {
        case .taken, .known, .below, .unassigned: return true
        case .deadLetter(let id, let reason, let detail):
            topic.withUnsafeBytes { topic in
                let place = RequestPlace(topic: topic, partition: message.partition, offset: message.offset, index: 0)
                deadLetters.ofRecord(message, place, id, reason, detail)
            }
            letterRoom = deadLetters.room()
            return true
        case .noLetterRoom:
            waitsForLetterRoom = true
            return false
        case .notDue(let untilMs):
            // Far times are no numbers to multiply.
            let (distance, isOver) = untilMs.subtractingReportingOverflow(now.wallMs)
            let waitMs = isOver ? Self.longestWaitMs : min(max(0, distance), Self.longestWaitMs)
            dueNs = now.ns + waitMs * 1_000_000
            return false
        }
    }

    private func receive(
        _ message: borrowing Message, _ headers: [RecordHeader], unread: DeadLetterReason?, _ letterRoom: Int,
        _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) -> Receipt {
        headers.withUnsafeBufferPointer {
            machine.receive(
                id, offset: message.offset, timestampMs: message.timestampMs, key: message.key,
                value: message.value, headers: $0, unread: unread, letterRoom: letterRoom, now: now)
        }
    }

    // MARK: Offsets that a broker refuses

    /// A broker said that the offset does not exist which is read next, and librdkafka went to the log's beginning.
    func refuse(_ text: String, _ now: DeliveryTime) {
        position.refuse(nowNs: now.ns)
        context.logger.warning(
            .kafka, "a broker refuses the offset that is read next; asking which offsets the log has",
            about: "\(partition)", ["partition": "\(partition)", "reason": "\(text)"])
    }

    /// Asks how the log stands, where that is due.
    func askWhetherRefused(_ now: DeliveryTime) {
        if position.mustAsk(nowNs: now.ns) { context.onLogDoubted(partition) }
    }

    /// Takes how the log stands, as `ReadingContext.onLogDoubted` asked: what librdkafka did by itself counts only if
    /// that says so, too.
    func take(first: Int64, end: Int64, _ machine: borrowing DeliveryMachine, _ now: DeliveryTime) {
        let next = position.next(id, machine)
        guard let finding = position.told(first: first, end: end, next: next, nowNs: now.ns) else { return }
        mayHaveMore = true
        let fields: Fields = [
            "partition": "\(partition)", "offset": "\(next)", "first": "\(first)", "end": "\(end)",
        ]
        switch finding {
        case .mistaken:
            context.problems.refusedFalsely(partition, now)
            context.seek(partition, to: next)
            context.logger.warning(
                .kafka, "the log has the offset that a broker refused: reading goes on there", about: "\(partition)",
                fields)
        case .overtaken:
            context.logger.error(
                .kafka, "records were gone before they were read: reading goes on at the first that is left",
                about: "\(partition)", fields)
        case .anotherLog:
            context.logger.error(
                .kafka, "the log ends below the offset that is read next: it is read from its beginning",
                about: "\(partition)", fields)
        }
    }

    private func step(
        at offset: Int64, _ machine: borrowing DeliveryMachine, _ now: DeliveryTime
    ) -> PartitionPosition.Step {
        position.step(at: offset, id, machine, now) { context.onSkipped(partition, $0) }
    }

    // MARK: The log

    /// Begins anew where what came from below what was received is of another log; true: it is to be received again.
    private func beginsAnew(
        at offset: Int64, after receipt: Receipt, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) -> Bool {
        guard case .below(let highest) = receipt, isLogChanged(highest: highest) else { return false }
        beginAnew(from: nil, &machine, now)
        position.otherLogCame(from: offset, nowNs: now.ns)
        return true
    }

    /// Whether a record that comes below what was received is of another log: the log ends below what was received of
    /// it, as its leader said when a broker refused the offset, or as the last fetch told. Else librdkafka reads
    /// something again.
    private func isLogChanged(highest: Int64) -> Bool {
        if position.isAnotherLog { return true }
        let end = context.logEnd(of: partition)
        return end >= 0 && end <= highest
    }

    /// A leader epoch never falls in one log (only librdkafka 2.1.0 and later tell it; looked at once a batch).
    private func isOfAnotherLog(_ message: borrowing Message) -> Bool {
        // What is read again was written by earlier leaders.
        guard !position.isRefused, let epoch = message.leaderEpoch else { return false }
        let before = leaderEpoch
        leaderEpoch = epoch
        return before.map { epoch < $0 } ?? false
    }

    /// The record of the latest time that was read since the last call.
    func takeWitness() -> LogMarks.Witness? {
        defer { witness = nil }
        return witness
    }

    /// Whether all that is new is read already, or will be after the next assignment.
    func covers(_ change: LogMarks.Change) -> Bool { isStopped || position.covers(change) }

    /// The log is another one, which is read after the next assignment; `offset`: from there on, as far as is known.
    func stop(from offset: Int64?, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        beginAnew(from: offset, &machine, now)
        isStopped = true
    }

    private func beginAnew(from offset: Int64?, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        context.acquit(partition)
        let end = context.logEnd(of: partition)
        let before = id
        id = machine.beginAnew(before, from: offset, logEnd: end < 0 ? nil : end, now: now)
        onRenamed(self, before)
        context.place.pointee = machine.place(of: id)
        position.readAnew(from: offset ?? 0)
        leaderEpoch = nil
        witness = nil
    }
}
