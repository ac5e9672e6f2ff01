internal import Delivery
internal import Kafka
internal import Observability
internal import PushRecords

/// Reads the partitions that one consumer group gave this worker into the machine, and gives them back drained.
///
/// There are two: one of the request topics, one of the retry topics, so that a rebalance of the one never drains the
/// other. Each is put together of the member (`GroupMembership`), its partitions (`AssignedPartitions`, each of which
/// is read by a `PartitionReader`) and what keeps it from reading (`ReadingProblems`); here each event of its consumer
/// goes to whom it is for. Core thread.
final class GroupReader: CommitSender {
    /// What the partitions of a topic are read for.
    typealias RoleOfTopic = (String) -> PartitionRole

    /// Where dead letters go. What was received as one has to be taken: nobody else has it.
    struct DeadLetters {
        /// Bytes that the next one may have.
        var room: () -> Int
        var ofRecord: (borrowing Message, RequestPlace, NotificationID, DeadLetterReason, Detail) -> Void
    }

    let consumer: Consumer
    /// The group's id.
    let name: String
    private let logger: Logger
    let membership: GroupMembership
    private let partitions: AssignedPartitions
    private let problems: ReadingProblems
    private let context: ReadingContext
    private var nextToRead = 0
    /// Topics that may have been recreated.
    private var topicsToCheck: Set<String> = []
    private var headers: [RecordHeader] = []
    /// The client is of no use any more: what it read is given up.
    private(set) var fatalError: KafkaError?
    /// What its client said last, which may be over.
    private(set) var lastError: KafkaError?
    /// How the brokers answer its client.
    private(set) var brokers = BrokerHealth()

    init(
        _ settings: ConsumerSettings, topics: [String], drainNs: Int64, wakeUpDescriptor: Int32, logger: Logger,
        roleOfTopic: @escaping RoleOfTopic
    ) throws(KafkaError) {
        name = settings.memberGroupID
        self.logger = logger
        problems = ReadingProblems(ofGroup: name, logger: logger)
        consumer = try Consumer(settings, wakeUpDescriptor: wakeUpDescriptor)
        context = ReadingContext(consumer, problems: problems, logger: logger)
        partitions = AssignedPartitions(context, roleOfTopic: roleOfTopic)
        membership = try GroupMembership(
            consumer, of: name, topics: topics, drainNs: drainNs, partitions, problems: problems, logger: logger)
    }

    // MARK: Whom it tells

    /// The group gave out its partitions anew: a member came, or went.
    var onAssignment: () -> Void = {}

    /// The topic of a partition was recreated.
    var onAnotherLog: (TopicPartition) -> Void {
        get { context.onAnotherLog }
        set { context.onAnotherLog = newValue }
    }

    /// Reading went on beyond so many offsets that were gone before they were read.
    var onSkipped: (TopicPartition, Int64) -> Void {
        get { context.onSkipped }
        set { context.onSkipped = newValue }
    }

    /// Records that are not to be looked at: the worker died at them.
    var condemned: Set<CrashHistory.Place> {
        get { context.condemned }
        set { context.condemned = newValue }
    }

    // MARK: The group

    /// As subscribed to.
    var topics: [String] { membership.topics }

    var isLeaving: Bool { membership.isLeaving }

    /// Whether the group has answered once; an empty assignment counts.
    var hasJoined: Bool { membership.hasJoined }

    /// Whether the group was left.
    var hasLeft: Bool { membership.hasLeft }

    /// True once, when its partitions, or having left, have been waited for for a while.
    func mustSayJoining(_ now: DeliveryTime) -> Bool { membership.mustSayJoining(now) }
    func mustSayLeaving(_ now: DeliveryTime) -> Bool { membership.mustSayLeaving(now) }

    /// Has other topics from now on.
    func subscribe(to topics: [String], now: DeliveryTime) { membership.subscribe(to: topics, now) }

    /// Begins to leave the group: everything is drained, at most for `limitNs`; then `hasLeft` becomes true.
    func leave(_ machine: inout DeliveryMachine, limitNs: Int64, now: DeliveryTime) {
        membership.leave(&machine, limitNs: limitNs, now)
    }

    /// Takes what the group has to say. Call after every wake-up and at least once a second.
    func serve(
        _ machine: inout DeliveryMachine, now: DeliveryTime, committed: (CommitReply, inout DeliveryMachine) -> Void
    ) {
        consumer.serve { event in
            if case .committed(let reply) = event { committed(reply, &machine) } else { take(event, &machine, now) }
        }
        if let fatalError { membership.abandon(because: fatalError, &machine, now) }
        membership.tellAgain(now)
        membership.moveAssignment(&machine, now)
        membership.moveRevocation(&machine, now)
        membership.askForOffsets(now)
        checkTopicIDs(now)
    }

    private func take(_ event: ConsumerEvent, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        switch event {
        case .assigned(let partitions):
            membership.assigned(partitions, now)
            onAssignment()
        case .revoked(let partitions, let lost): membership.revoked(partitions, lost: lost, &machine, now)
        case .committed: break
        case .offsetReset(let reset):
            topicsToCheck.insert(reset.partition.topic)
            partitions[reset.partition]?.offsetRefused(reset, machine)
        case .partitionFailed(let partition, let error):
            if error.code.isUnknownTopic { topicsToCheck.insert(partition.topic) }
            problems.note(.partition(partition), error.code, of: partition.topic, isOfFetch: true, now)
        case .client(let event): take(event, now)
        }
    }

    private func take(_ event: ClientEvent, _ now: DeliveryTime) {
        switch event {
        case .error(let error):
            if let topic = ReadingProblems.unavailableTopic(in: error.text) {
                return problems.note(.topic(topic), error.code, of: topic, isOfFetch: true, now)
            }
            lastError = error
            if error.code == .noResources { problems.missesThread(now) }
        case .fatal(let error):
            fatalError = error
            return
        case .statistics(let text):
            if let statistics = ClientStatistics(text) { brokers.take(statistics) }
            return
        case .log: break
        }
        EventLog.write(event, of: name, to: logger)
    }

    /// What cannot be read now, or is refused though it is there.
    func problems(_ now: DeliveryTime) -> [Problem] {
        problems.all(now) { [context] in context.logEnd(of: $0) }
    }

    /// Takes all topics that the cluster has: one that was missing may be there again.
    func exist(_ topics: Set<String>) { problems.exist(topics) }

    /// Topics of the group that cannot be read as a whole.
    var unavailableTopics: [String] { problems.unavailableTopics }

    // MARK: Records

    /// After a wake-up every queue may have something.
    func markReadable() {
        for one in partitions.all { one.markReadable() }
    }

    /// What reading takes of a turn, and one partition's share more: records that are slow to read, as those with a
    /// hundred thousand headers, hold up what else the turn has to do for no longer.
    private static let turnLimit = Duration.milliseconds(50)

    /// Reads as much as there is room for; true when there is more to be read at once.
    func read(
        into machine: inout DeliveryMachine, now: DeliveryTime,
        deadLetters: DeadLetters
    ) -> Bool {
        let all = partitions.all
        guard membership.mayRead, !all.isEmpty else { return false }
        var hasMore = false
        let first = nextToRead % all.count
        nextToRead = first + 1
        // Its own for as long as it reads, so that nobody else has access to it.
        var headers = headers
        self.headers = []
        defer { self.headers = headers }
        var letterRoom = deadLetters.room()
        let begin = ContinuousClock.now
        for step in all.indices {
            let one = all[(first + step) % all.count]
            let outcome = one.read(&headers, &letterRoom, into: &machine, now: now, deadLetters)
            if outcome.records > 0 { problems.isRead(one.partition) }
            if outcome.hasMore { hasMore = true }
            if outcome.records > 0, step + 1 < all.count, ContinuousClock.now - begin > Self.turnLimit {
                nextToRead = first + step + 1
                return true
            }
        }
        return hasMore
    }

    // MARK: Recreated topics

    /// Asks for the ids of topics of which a partition was unknown or an offset out of range. Where one was recreated,
    /// the group is joined anew, which reads its partitions from the beginning.
    private func checkTopicIDs(_ now: DeliveryTime) {
        guard !topicsToCheck.isEmpty, membership.isSettled else { return }
        let told = consumer.topicIDs(of: topicsToCheck, timeoutMs: TurnBudget.milliseconds)
        topicsToCheck = []
        if partitions.isRecreated(among: told) { membership.rejoin("a topic was recreated", now) }
    }

    // MARK: Commits and deadlines

    /// The partition of an assignment; `nil`: it is not ours any more.
    func partition(of id: PartitionID) -> TopicPartition? { partitions[id]?.partition }

    /// The partition of an assignment, for log lines: also of one that was given up, unless that is long ago.
    func name(of id: PartitionID) -> TopicPartition? { partitions.name(of: id) }

    func send(_ entries: [CommitEntry], tag: UInt64) throws(KafkaError) {
        try consumer.commit(entries, tag: tag)
    }

    func isAssigned(_ partition: TopicPartition) -> Bool { partitions[partition] != nil }

    /// The partitions that are read, or drain, now.
    func forEachAssigned(_ body: (PartitionID, TopicPartition) -> Void) {
        for one in partitions.all { body(one.id, one.partition) }
    }

    /// When `serve` or `read` has something to do without a wake-up (monotonic).
    func nextDeadlineNs(now: DeliveryTime) -> Int64? {
        var deadline = membership.nextDeadlineNs
        for one in partitions.all {
            guard let next = one.nextDeadlineNs(nowNs: now.ns) else { continue }
            deadline = min(deadline ?? next, next)
        }
        return deadline
    }
}
