internal import Delivery
internal import Kafka
internal import Observability

/// The partitions that one consumer group gave this member, by name and by assignment; and what is known of partitions
/// beyond an assignment: where a log begins that is another one, of which something was committed, and who was given
/// up. Core thread.
final class AssignedPartitions {
    /// What the partitions of a topic are read for.
    let roleOfTopic: GroupReader.RoleOfTopic
    private let context: ReadingContext
    private(set) var all: [PartitionReader] = [] {
        didSet {
            byPartition = Dictionary(uniqueKeysWithValues: all.map { ($0.partition, $0) })
            byID = Dictionary(uniqueKeysWithValues: all.map { ($0.id, $0) })
        }
    }
    private var byPartition: [TopicPartition: PartitionReader] = [:]
    private var byID: [PartitionID: PartitionReader] = [:]
    /// Partitions that were given up, or whose log is another one: their last events come afterwards, and a suspended
    /// one's after minutes.
    private var former: [PartitionID: TopicPartition] = [:]
    /// Partitions whose log is another one than was committed for, what was to be committed for it, and until when that
    /// counts, should it not have been taken: the next assignment starts there.
    private var changed: [TopicPartition: (start: CommittedOffset, untilNs: Int64)] = [:]
    /// Changes of logs that the watch saw while the partition was not read here, and until when they count (monotonic).
    private var seen: [TopicPartition: (change: LogMarks.Change, untilNs: Int64)] = [:]
    /// Partitions of which something was committed, as far as this process knows.
    private var hadCommitted: Set<TopicPartition> = []

    private static let formerLimit = 10_000
    private static let changedNs: Int64 = 60_000_000_000

    init(_ context: ReadingContext, roleOfTopic: @escaping GroupReader.RoleOfTopic) {
        self.context = context
        self.roleOfTopic = roleOfTopic
    }

    subscript(partition: TopicPartition) -> PartitionReader? { byPartition[partition] }

    /// `nil`: it is not ours any more.
    subscript(id: PartitionID) -> PartitionReader? { byID[id] }

    /// Also of one that was given up, unless that is long ago.
    func name(of id: PartitionID) -> TopicPartition? { byID[id]?.partition ?? former[id] }

    /// Begins to read what was assigned.
    ///
    /// - Parameter queues: of the same partitions, in their order.
    func begin(
        _ starts: [AssignedStart], _ queues: [PartitionQueue], _ machine: inout DeliveryMachine,
        _ now: DeliveryTime
    ) {
        var added: [PartitionReader] = []
        for (queue, start) in zip(queues, starts) {
            let partition = queue.partition
            // With a topic its offsets go: whoever had one of it before reads another log.
            let isForgotten = start.committed.offset == nil && hadCommitted.remove(partition) != nil
            if start.isAnotherLog || isForgotten { context.acquit(partition) }
            let id = start.committed.metadata.withUnsafeBytes { metadata in
                machine.assign(
                    topic: partition.topic, partition: partition.partition, role: roleOfTopic(partition.topic),
                    committedOffset: start.committed.offset, metadata: metadata, logStart: start.logStart,
                    logEnd: start.logEnd)
            }
            changed[partition] = nil
            let offset = start.offset ?? 0
            let received = machine.status(of: id)?.highestReceived ?? -1
            let position = PartitionPosition(
                readFrom: offset, knownFrom: max(offset, received + 1), nowNs: now.ns)
            added.append(
                PartitionReader(queue, id: id, position: position, context) { [unowned self] in rename($0, from: $1) })
            context.problems.isAssigned(partition)
        }
        all += added
        // After that, since it forgets whom nobody reads any more.
        for (queue, start) in zip(queues, starts) where start.committed.offset != nil { noteCommitted(queue.partition) }
    }

    private func rename(_ reader: PartitionReader, from before: PartitionID) {
        noteFormer(before, reader.partition)
        byID[before] = nil
        byID[reader.id] = reader
    }

    /// Gives partitions up.
    ///
    /// - Parameter isLost: the session was: what is known is kept, in case that nobody else gets them.
    func giveUp(_ given: [PartitionID], isLost: Bool, _ machine: inout DeliveryMachine) {
        let ids = Set(given)
        // Its last commit was taken: it says where to begin, to whoever has the partition next.
        for one in all where !isLost && ids.contains(one.id) && machine.isDrained(one.id) {
            changed[one.partition] = nil
        }
        for one in all where machine.status(of: one.id)?.committed != nil { noteCommitted(one.partition) }
        if isLost { machine.suspend(given) } else { machine.release(given) }
        for one in all where ids.contains(one.id) {
            context.problems.forget(one.partition)
            noteFormer(one.id, one.partition)
        }
        all.removeAll { ids.contains($0.id) }
    }

    /// Keeps the set bounded: when it is full, partitions that are not read now are forgotten. It is at least twice as
    /// large as what is read, so this is rare.
    private func noteCommitted(_ partition: TopicPartition) {
        if hadCommitted.count >= max(Self.formerLimit, 2 * all.count) {
            hadCommitted = hadCommitted.filter { byPartition[$0] != nil }
        }
        hadCommitted.insert(partition)
    }

    private func noteFormer(_ id: PartitionID, _ partition: TopicPartition) {
        if former.count >= Self.formerLimit { former.removeAll(keepingCapacity: true) }
        former[id] = partition
    }

    // MARK: Logs that are other ones

    /// The log is another one although its offsets go on: it is read from this offset on, which takes a new assignment
    /// (a seek was seen to time out on librdkafka 2.0.2). That is committed at once, whoever has the partition next.
    func restart(
        _ one: PartitionReader, from offset: Int64, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) {
        one.stop(from: offset, &machine, now)
        let start = CommittedOffset(
            partition: one.partition, offset: offset, metadata: machine.metadata(toBeginAt: offset, one.id))
        changed[one.partition] = (start, now.ns + Self.changedNs)
    }

    /// What counts as committed for a partition, whatever the group says: where its new log begins.
    func start(of partition: TopicPartition, _ now: DeliveryTime) -> CommittedOffset? {
        changed[partition].flatMap { now.ns < $0.untilNs ? $0.start : nil }
    }

    /// Keeps what the watch saw of a partition that is on its way to somebody, or from us.
    func keep(_ change: LogMarks.Change, _ now: DeliveryTime) {
        seen = seen.filter { now.ns < $0.value.untilNs }
        seen[change.partition] = (change, now.ns + Self.changedNs)
    }

    /// What was kept of these partitions, which are read now.
    ///
    /// - Parameter forgetsOthers: whoever has the others now was told, too.
    func takeKept(of partitions: [TopicPartition], forgetsOthers: Bool, _ now: DeliveryTime) -> [LogMarks.Change] {
        let changes = partitions.compactMap { partition in
            seen.removeValue(forKey: partition).flatMap { now.ns < $0.untilNs ? $0.change : nil }
        }
        if forgetsOthers { seen = [:] }
        return changes
    }
}
