internal import Delivery
internal import Kafka
internal import Observability
internal import PushRecords

/// A member of one consumer group: reads the partitions that are assigned to it into the machine, and gives them back
/// drained. Core thread.
///
/// There are two, of the request topics and of the retry topics, so that a rebalance of one never drains the other.
/// Here are its events, records and problems; `GroupReader+Membership.swift` has its assignment and how it leaves.
final class GroupReader {
    typealias RoleOfTopic = (String) -> PartitionRole

    enum Phase {
        case member
        /// The assigned partitions drain until this time at most (monotonic).
        case leaving(deadlineNs: Int64)
        /// All partitions were given up, and the consumer closes.
        case closing
        /// The client met a fatal error, and the membership ended with it.
        case abandoned
    }

    let consumer: Consumer
    let name: String
    let group: CommitGroup
    let logger: Logger
    var topics: [String]
    let drainNs: Int64
    let roleOfTopic: RoleOfTopic
    let context: ReadingContext
    let committer: OffsetCommitter
    var problems: ReadingProblems
    var onAssignment: () -> Void = {}

    var phase = Phase.member
    var partitions: [PartitionReader] = [] {
        didSet { byID = Dictionary(uniqueKeysWithValues: partitions.map { ($0.id, $0) }) }
    }
    private var byID: [PartitionID: PartitionReader] = [:]
    /// Partitions that are read from their end if the group has no offset of them when they are first assigned.
    var startingAtEnd: Set<TopicPartition> = []
    /// The ids of the assigned partitions' topics where librdkafka tells them, until the next assignment: a topic may
    /// be recreated while its partitions move.
    var topicIDs: [TopicPartition: TopicID] = [:]
    /// Partitions that may not be there any more, and those whose next offset is out of range.
    var suspects = (unknown: Set<TopicPartition>(), outOfRange: Set<TopicPartition>())
    /// When the logs of suspects are looked at again (monotonic).
    var nextLogCheckNs: Int64 = 0
    /// Assigned partitions whose offsets are looked up before they are read, and when (monotonic).
    var lookup: (partitions: [TopicPartition], retryNs: Int64)?
    /// Assigned partitions that are not read because their committed offsets are unknown, and when to ask again.
    var unreadable: (partitions: [TopicPartition], retryNs: Int64) = ([], 0)
    /// Partitions on their way out; each is in one of them at most.
    var revocations: [Revocation] = []
    /// Whether the group has answered once; an empty assignment counts.
    var hasJoined = false
    private var nextToRead = 0
    private var headers: [RecordHeader] = []
    var fatalError: KafkaError?
    /// The client's last error, which may be over.
    private(set) var lastError: KafkaError?
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
        context = ReadingContext(retryGroup: settings.role == .retries ? settings.groupID : nil)
        try consumer.subscribe(to: topics)
    }

    // MARK: Events

    /// Serves the consumer. Call after every wake-up and at least once a second.
    func serve(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        consumer.serve { event in
            switch event {
            case .assigned(let partitions):
                assigned(partitions, now)
                onAssignment()
            case .revoked(let partitions, let lost): revoked(partitions, lost: lost, &machine, now)
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
                return problems.note(.topic(topic), error.code, isOfFetch: true, now)
            }
            lastError = error
        case .fatal(let error): return fatalError = error
        case .statistics(let text): return brokers.take(text)
        case .log: break
        }
        EventLog.write(event, of: name, to: logger)
    }

    // MARK: Problems

    /// What cannot be read or committed now. Problems of partitions and topics that are not this member's any more are
    /// dropped.
    func problems(_ now: DeliveryTime) -> [Problem] {
        let unread = problems.all(now) { subject in
            switch subject {
            case .partition(let partition): isAssigned(partition) || unreadable.partitions.contains(partition)
            case .topic(let name): topics.contains { $0 == name || $0.hasPrefix("^") }
            default: true
            }
        }
        return unread + committer.problems(now: now, of: partitions.map(\.partition))
            + context.foreign.filter { now.ns - $0.value.ns < Problem.lossNs }.map { topic, last in
                Problem(
                    .topic(topic), .shared,
                    "it holds retry records of the group \(last.group), which are left to that group's workers",
                    "give each group of workers retry topics of its own (retry.tiers)")
            }
    }

    // MARK: Records

    func markReadable() {
        for one in partitions { one.markReadable() }
    }

    /// How long reading may take of a turn; one partition's share comes on top. Records that are slow to read, as those
    /// with a hundred thousand headers, hold up the rest of the turn no longer.
    private static let turnLimit = Duration.milliseconds(50)

    /// Reads as much as there is room for; true when more can be read at once.
    func read(
        into machine: inout DeliveryMachine, now: DeliveryTime, deadLetters: some DeadLetterSink
    ) -> Bool {
        guard revocations.isEmpty, !partitions.isEmpty else { return false }
        var hasMore = false
        let first = nextToRead % partitions.count
        nextToRead = first + 1
        // A copy of its own while it reads, so that nothing else accesses it.
        var headers = headers
        self.headers = []
        defer { self.headers = headers }
        let begin = ContinuousClock.now
        for step in partitions.indices {
            let one = partitions[(first + step) % partitions.count]
            let outcome = one.read(&headers, into: &machine, now: now, deadLetters)
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

    /// When `serve` or `read` has something to do without a wake-up (monotonic).
    func nextDeadlineNs(now: DeliveryTime) -> Int64? {
        var deadlines = partitions.compactMap { $0.nextDeadlineNs(nowNs: now.ns) } + revocations.map(\.deadlineNs)
        if let lookup { deadlines.append(lookup.retryNs) }
        if !unreadable.partitions.isEmpty, lookup == nil, isSettled { deadlines.append(unreadable.retryNs) }
        if !suspects.outOfRange.isEmpty, isSettled { deadlines.append(nextLogCheckNs) }
        return deadlines.min()
    }
}
