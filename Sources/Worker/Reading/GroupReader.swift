internal import Delivery
internal import Kafka
internal import Observability

/// A member of one consumer group. It passes the records of its assigned partitions to the delivery machine, and drains
/// the partitions before it gives them up. Core thread.
///
/// The worker has one reader for the request topics and one for the retry topics, so that a rebalance of one group does
/// not drain the other. This file handles events, records and problems; `GroupReader+Membership.swift` handles
/// assignment and leaving.
final class GroupReader {
    typealias RoleOfTopic = (String) -> PartitionRole

    enum Phase {
        case member
        /// The member is leaving the group: its partitions drain, at the latest until this time (monotonic).
        case leaving(deadlineNs: Int64)
        /// The member has given up all partitions, and the consumer is closing.
        case closing
        /// The membership ended because of a fatal error of the client.
        case abandoned
    }

    let consumer: Consumer
    let name: String
    let group: CommitGroup
    let logger: Logger
    var topics: [String]
    let drainNs: Int64
    let roleOfTopic: RoleOfTopic
    let context: PartitionReader.Context
    let committer: OffsetCommitter
    var problems: ReadingProblems
    var onAssignment: () -> Void = {}

    var phase = Phase.member
    var partitions: [PartitionReader] = [] {
        didSet { byID = Dictionary(uniqueKeysWithValues: partitions.map { ($0.id, $0) }) }
    }
    private var byID: [PartitionID: PartitionReader] = [:]
    /// The partitions to read from their log end if they have no committed offset at their first assignment.
    var startingAtEnd: Set<TopicPartition> = []
    /// The topics that existed before the worker started, or `nil` if unknown.
    var topicsAtStart: Set<String>?
    /// The topic ids of the assigned partitions, as far as librdkafka reports them. The reader compares them with the
    /// ids at the next assignment, because a topic may be recreated between two assignments.
    var topicIDs: [TopicPartition: TopicID] = [:]
    /// The number of unsettled offsets of each partition before librdkafka forgot the log end of a deleted topic. The
    /// number of a partition that was given up is kept until the reader knows whether the topic still exists.
    var unsettled: [TopicPartition: Int64] = [:]
    private(set) var lostRecords = LostRecords()
    /// The number of assignments that the group gave this member, including empty and unchanged ones.
    var rebalances = 0
    /// The number of partitions that the member lost before they were drained, such as after a session timeout.
    var partitionsLost = 0
    /// Partitions whose topic may have been deleted, and partitions whose next offset is out of range.
    var suspects = (unknown: Set<TopicPartition>(), outOfRange: Set<TopicPartition>())
    /// The time of the next check of `suspects` (monotonic).
    var nextLogCheckNs: Int64 = 0
    /// Assigned partitions whose start offsets are still unknown, the time of the next lookup, and the time until which
    /// the reader waits for the log ends of new partitions (monotonic).
    var lookup: (partitions: [TopicPartition], retryNs: Int64, newPartitionsUntilNs: Int64)?
    /// Assigned partitions that the reader cannot read because their committed offsets are unknown, and the time of the
    /// next lookup.
    var unreadable: (partitions: [TopicPartition], retryNs: Int64) = ([], 0)
    /// The current revocations. Each draining partition is in at most one revocation.
    var revocations: [Revocation] = []
    /// Whether the member has received an assignment, which may be empty, and has looked up its offsets.
    var hasJoined = false
    private var nextToRead = 0
    var fatalError: KafkaError?
    /// The client's last error, whose cause may have ended.
    var lastError: KafkaError?
    private(set) var brokers = BrokerHealth()

    init(
        _ settings: ConsumerSettings, topics: [String], drainNs: Int64, wakeUpDescriptor: Int32, logger: Logger,
        roleOfTopic: @escaping RoleOfTopic
    ) throws(KafkaError) {
        name = settings.memberGroupID
        group = settings.role == .requests ? .requests : .retries
        self.topics = topics
        self.drainNs = drainNs
        self.logger = logger
        self.roleOfTopic = roleOfTopic
        problems = ReadingProblems(ofGroup: name)
        committer = OffsetCommitter(group, name: name, logger: logger)
        consumer = try Consumer(settings, wakeUpDescriptor: wakeUpDescriptor)
        context = PartitionReader.Context(retryGroup: settings.role == .retries ? settings.groupID : nil)
        try consumer.subscribe(to: topics)
    }

    // MARK: Events

    /// Handles the consumer's events. Call it after every wake-up and at least once a second.
    func serve(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        consumer.serve { event in
            switch event {
            case .assigned(let partitions):
                assigned(partitions, now)
                onAssignment()
            case .revoked(let partitions, let lost):
                brokers.isMemberSteady = false
                revoked(partitions, lost: lost, &machine, now)
            case .committed(let reply): committer.take(reply, &machine, now: now)
            case .partitionFailed(let partition, let error) where error.code == .autoOffsetReset:
                suspects.outOfRange.insert(partition)
            case .partitionFailed(let partition, let error):
                if error.code.isUnknownTopic { suspects.unknown.insert(partition) }
                problems.note(.partition(partition), error.code, isOfFetch: true, now)
            case .client(let event): take(event, now)
            }
        }
        if let fatalError { abandon(because: fatalError, &machine) }
        moveAssignment(&machine, now)
        moveRevocations(&machine, now)
        retryUnreadable(now)
        checkLogs(&machine, now)
    }

    private func take(_ event: ClientEvent, _ now: DeliveryTime) {
        switch event {
        case .error(let error):
            if let topic = ReadingProblems.unavailableTopic(in: error.text) {
                // A denied topic was not deleted. Its partitions are revoked, too.
                for partition in unsettled.keys where partition.topic == topic {
                    if error.code.isUnknownTopic { noteLoss(of: partition, now) }
                    unsettled[partition] = nil
                }
                return problems.note(.topic(topic), error.code, isOfFetch: true, now)
            }
            lastError = error
        case .fatal(let error): return fatalError = error
        case .statistics(let text): return brokers.take(text)
        case .log: break
        }
        EventLog.write(event, of: name, to: logger)
    }

    /// Whether the worker is a member of the group. Also true while it still looks up offsets or drains partitions
    /// after a rebalance.
    var isMember: Bool {
        lookup != nil || hasJoined && (brokers.isMemberSteady || !revocations.isEmpty)
    }

    // MARK: Problems

    func note(_ event: DeliveryEvent, _ now: DeliveryTime) {
        if case .foreignCommit(let id, let committed, _) = event, let partition = partition(of: id) {
            problems.noteForeignCommit(partition, committed, now)
        } else if case .startedWithoutOffset(let id, _, _, _) = event, let partition = partition(of: id) {
            problems.noteMissingOffset(partition, now)
        } else if case .overtaken(let id, let committed, let start) = event, let partition = partition(of: id) {
            lostRecords.note(partition, offsets: start - committed, nowNs: now.ns)
        }
    }

    /// Updates `unsettled` from the status of an assigned partition. Without a committed offset, the partition is new.
    func remember(_ partition: TopicPartition, _ status: PartitionStatus, logEnd: Int64?) {
        guard status.committed != nil, !problems.unavailableTopics.contains(partition.topic) else { return }
        if let logEnd, let watermark = status.watermark { unsettled[partition] = logEnd - watermark }
    }

    /// Reports the unsettled offsets of a partition as lost because its topic was deleted or its log truncated.
    func noteLoss(of partition: TopicPartition, _ now: DeliveryTime) {
        guard let offsets = unsettled.removeValue(forKey: partition), offsets > 0 else { return }
        logger.error(
            .kafka, "topic was deleted or truncated, unsettled records are lost", about: "\(partition)",
            ["partition": "\(partition)", "lost_at_most": .count(offsets)])
        lostRecords.note(partition, offsets: offsets, byDeletion: true, nowNs: now.ns)
    }

    /// Handles the names of all topics of the cluster, which are queried after each assignment.
    func exist(_ all: Set<String>, _ now: DeliveryTime) {
        problems.exist(all)
        for partition in unsettled.keys where !isAssigned(partition) && lookup?.partitions.contains(partition) != true {
            // Another member noticed the deletion first. A missing permission hides only topics of a pattern.
            if topics.contains(partition.topic), !all.contains(partition.topic) { noteLoss(of: partition, now) }
            unsettled[partition] = nil
        }
    }

    /// Returns the current problems of reading and committing, and of retry topics that another group uses. Drops
    /// problems of partitions that are no longer assigned.
    func problems(_ now: DeliveryTime) -> [Problem] {
        let unread = problems.all(now) { subject in
            switch subject {
            case .partition(let partition): isAssigned(partition) || unreadable.partitions.contains(partition)
            case .topic(let name): topics.contains { $0 == name || $0.hasPrefix("^") }
            default: true
            }
        }
        // A subject's first problem is reported, and commits that fail matter more than the offsets at the start.
        return unread.filter { $0.subject != .group(name) }
            + committer.problems(now: now, of: partitions.map(\.partition))
            + unread.filter { $0.subject == .group(name) }
            + context.foreign.filter { now.ns - $0.value.ns < Problem.lossNs }.map { topic, last in
                Problem(
                    .topic(topic), .shared,
                    "the topic contains retry records of the group \(last.group), and this worker skips these records",
                    "give each group of workers separate retry topics (retry.tiers)")
            }
    }

    // MARK: Records

    func markReadable() {
        for one in partitions { one.markReadable() }
    }

    /// The time limit for reading in one turn, checked after each partition. Without the limit, records that take long
    /// to parse, for example because each has a hundred thousand headers, would delay sends and commits.
    private static let turnLimit = Duration.milliseconds(50)

    /// Reads as many records as `machine` has room for. Returns whether more records can be read immediately.
    func read(
        into machine: inout DeliveryMachine, now: DeliveryTime, deadLetters: some DeadLetterSink
    ) -> Bool {
        guard revocations.isEmpty, !partitions.isEmpty else { return false }
        var hasMore = false
        let first = nextToRead % partitions.count
        nextToRead = first + 1
        let begin = ContinuousClock.now
        for step in partitions.indices {
            let one = partitions[(first + step) % partitions.count]
            let outcome = one.read(into: &machine, now: now, deadLetters)
            if outcome.records > 0 { problems.forget(.partition(one.partition)) }
            if outcome.hasMore { hasMore = true }
            if outcome.records > 0, step + 1 < partitions.count, ContinuousClock.now - begin > Self.turnLimit {
                nextToRead = first + step + 1
                return true
            }
        }
        return hasMore
    }

    // MARK: Partitions and commits

    func commit(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        committer.commit(&machine, now: now, partitionOf: partition) { entries, tag throws(KafkaError) in
            try consumer.commit(entries, tag: tag)
        }
    }

    func partition(of id: PartitionID) -> TopicPartition? { byID[id]?.partition }

    func isAssigned(_ partition: TopicPartition) -> Bool { partitions.contains { $0.partition == partition } }

    /// Reports the partitions that are read to the end of the log, according to the last fetch. Reports nothing while a
    /// broker does not answer, because its logs may have grown.
    func reportEnds(to machine: inout DeliveryMachine) {
        guard brokers.reach == .answered, brokers.silences.isEmpty else { return }
        for reader in partitions where reader.queue.count == 0 {
            guard let end = consumer.logEnd(of: reader.partition), reader.position(machine) == end else { continue }
            machine.reachedEnd(reader.id, offset: end)
        }
    }

    /// Returns the monotonic time at which `serve` or `read` must run even without a wake-up.
    func nextDeadlineNs(now: DeliveryTime) -> Int64? {
        var deadlines = partitions.compactMap { $0.nextDeadlineNs(nowNs: now.ns) } + revocations.map(\.deadlineNs)
        if let lookup { deadlines.append(lookup.retryNs) }
        if !unreadable.partitions.isEmpty, lookup == nil, isSettled { deadlines.append(unreadable.retryNs) }
        if !suspects.outOfRange.isEmpty, isSettled { deadlines.append(nextLogCheckNs) }
        return deadlines.min()
    }
}
