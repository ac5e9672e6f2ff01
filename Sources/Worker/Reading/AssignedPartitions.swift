internal import Delivery
internal import Kafka
internal import Observability

/// The partitions that one consumer group assigned to this member, by name and by the machine's id, and the ids of
/// their topics. Core thread.
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
    /// Partitions that were given up, or whose topic was recreated, for the log lines of their last events. A suspended
    /// one's come after minutes.
    private var former: [PartitionID: TopicPartition] = [:]
    /// The ids of all topics that this member was ever assigned, where the library tells them.
    private(set) var topicIDs: [String: TopicID] = [:]

    private static let formerLimit = 10_000

    init(_ context: ReadingContext, roleOfTopic: @escaping GroupReader.RoleOfTopic) {
        self.context = context
        self.roleOfTopic = roleOfTopic
    }

    subscript(partition: TopicPartition) -> PartitionReader? { byPartition[partition] }

    /// `nil`: it is not assigned any more.
    subscript(id: PartitionID) -> PartitionReader? { byID[id] }

    /// Also of one that was given up, unless that is long ago.
    func name(of id: PartitionID) -> TopicPartition? { byID[id]?.partition ?? former[id] }

    /// Whether one of these topics has another id than it had.
    func isRecreated(among told: [String: TopicID]) -> Bool {
        told.contains { topic, id in topicIDs[topic].map { $0 != id } ?? false }
    }

    /// Begins to read what was assigned.
    ///
    /// - Parameters:
    ///   - queues: of the same partitions, in their order.
    ///   - topicIDs: of their topics, as far as they were told.
    func begin(
        _ starts: [AssignedStart], _ queues: [PartitionQueue], topicIDs told: [String: TopicID],
        _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) {
        topicIDs.merge(told) { $1 }
        // A partition can be assigned again before it was given up: it happened once when a topic was recreated under
        // load. What is known of it is kept, and goes on with the new assignment.
        let again = queues.compactMap { byPartition[$0.partition]?.id }
        if !again.isEmpty { giveUp(again, isLost: true, &machine) }
        all += zip(queues, starts).map { queue, start in
            let partition = queue.partition
            var id = start.committed.metadata.withUnsafeBytes { metadata in
                machine.assign(
                    topic: partition.topic, partition: partition.partition, role: roleOfTopic(partition.topic),
                    committedOffset: start.committed.offset, metadata: metadata, logStart: start.logStart,
                    logEnd: start.logEnd)
            }
            if start.isRecreated {
                context.acquit(partition)
                id = machine.beginAnew(id, from: start.logStart, logEnd: start.logEnd, now: now)
            }
            context.problems.isAssigned(partition)
            return PartitionReader(queue, id: id, readFrom: start.offset ?? 0, context) { [unowned self] in
                rename($0, from: $1)
            }
        }
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
        if isLost { machine.suspend(given) } else { machine.release(given) }
        for one in all where ids.contains(one.id) {
            context.problems.forget(one.partition)
            noteFormer(one.id, one.partition)
        }
        all.removeAll { ids.contains($0.id) }
    }

    private func noteFormer(_ id: PartitionID, _ partition: TopicPartition) {
        if former.count >= Self.formerLimit { former.removeAll(keepingCapacity: true) }
        former[id] = partition
    }
}
