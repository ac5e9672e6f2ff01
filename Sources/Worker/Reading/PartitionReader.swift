internal import CLinux
internal import Delivery
internal import Kafka
internal import PushRecords

/// Takes the dead letters of records that no notification can be read from.
protocol DeadLetterSink: AnyObject {
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
    let queue: PartitionQueue
    /// The machine's name for the assignment.
    let id: PartitionID
    private let topic: [UInt8]
    private let context: ReadingContext
    /// Whether records may be waiting. A queue that was not read until it was empty sends no further wake-up.
    private var mayHaveMore = true
    /// When the head of a retry topic's partition is due (monotonic: the wall clock may be set back by hours
    /// meanwhile). The queue keeps it. (Pausing and seeking back would throw away what was fetched.)
    private var dueNs: Int64 = 0
    private let readFrom: Int64

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

    func position(_ machine: borrowing DeliveryMachine) -> Int64 {
        max(readFrom, (machine.status(of: id)?.highestReceived ?? -1) + 1)
    }

    // MARK: Records

    /// After a wake-up the queue may have something.
    func markReadable() { mayHaveMore = true }

    /// Reads as much as there is room for, and returns how many records and whether more can be read at once.
    ///
    /// - Parameter headers: a buffer that it reuses, so that nothing is allocated.
    func read(
        _ headers: inout [RecordHeader], into machine: inout DeliveryMachine, now: DeliveryTime,
        _ deadLetters: some DeadLetterSink
    ) -> (records: Int, hasMore: Bool) {
        guard mayHaveMore, dueNs <= now.ns else { return (0, false) }
        // What there is no room for stays in librdkafka's queue, where it costs nothing.
        let most = min(machine.room(for: id), DeliveryTurn.partitionRecords)
        guard most > 0 else { return (0, false) }
        var isWaiting = false
        let place = context.place
        place.pointee = machine.place(of: id)
        // The machine is asked for a few records at once.
        var room = 0
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
        // A record that waits for its time, or for room among the dead letters, is looked at in a later turn.
        return (records, mayHaveMore && !isWaiting && machine.room(for: id) > 0)
    }

    /// Gives a record to the machine; false when it stays the head of its queue.
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
        if context.isForeign(headers, topic: partition.topic, now) {
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
        // librdkafka before 2.4.0 may rewind after a rebalance.
        case .taken, .known, .unassigned, .below: return true
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
}

/// What the readers of one group's partitions share. Core thread.
final class ReadingContext {
    /// The record that is being read, for the crash history.
    let place = UnsafeMutablePointer<CrashPlace>.allocate(capacity: 1)
    /// Records that become dead letters unparsed, because the worker died at them.
    var condemned: Set<CrashHistory.Place> = []
    /// The group that retry records must name, where retry topics are read.
    private let retryGroup: [UInt8]?
    /// By topic, the group of retry records that were passed over last, and when (monotonic).
    private(set) var foreign: [String: (group: String, ns: Int64)] = [:]

    /// - Parameter retryGroup: the group of the workers' requests, where retry topics are read.
    init(retryGroup: String? = nil) {
        place.initialize(to: CrashPlace())
        self.retryGroup = retryGroup.map { Array($0.utf8.prefix(RecordLimits.kafkaTopic)) }
    }

    deinit { place.deallocate() }

    /// Forgets the deaths at a partition's records, since its topic was recreated: other records have their offsets
    /// now.
    func forgetOffsets(of partition: TopicPartition) {
        condemned = condemned.filter { $0.topic != partition.topic || $0.partition != partition.partition }
        CrashHistory.forgetOffsets(topic: partition.topic, partition: partition.partition)
    }

    /// Whether these are the headers of a retry record that names another group, which is noted.
    func isForeign(_ headers: [RecordHeader], topic: String, _ now: DeliveryTime) -> Bool {
        guard let retryGroup, let group = RetryWriter.group(in: headers), !group.elementsEqual(retryGroup) else {
            return false
        }
        foreign[topic] = (String(decoding: group, as: UTF8.self), now.ns)
        return true
    }
}
