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

    /// The log of a partition is another one.
    var onAnotherLog: (TopicPartition) -> Void {
        get { context.onAnotherLog }
        set { context.onAnotherLog = newValue }
    }

    /// Reading went on beyond so many offsets that were gone before they were read.
    var onSkipped: (TopicPartition, Int64) -> Void {
        get { context.onSkipped }
        set { context.onSkipped = newValue }
    }

    /// How a log stands is to be asked, for `take(_:_:now:)`.
    var onLogDoubted: (TopicPartition) -> Void {
        get { context.onLogDoubted }
        set { context.onLogDoubted = newValue }
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
        for change in membership.moveAssignment(&machine, now) { logIsAnother(change, &machine, now: now) }
        membership.moveRevocation(&machine, now)
        membership.askForUntold(now)
        for one in partitions.all { one.askWhetherRefused(now) }
    }

    private func take(_ event: ConsumerEvent, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        switch event {
        case .assigned(let partitions):
            membership.assigned(partitions, now)
            onAssignment()
        case .revoked(let partitions, let lost): membership.revoked(partitions, lost: lost, &machine, now)
        case .committed: break
        case .offsetReset(let partition, let text):
            if let one = partitions[partition], !one.isStopped { one.refuse(text, now) }
        case .partitionFailed(let partition, let error):
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
            if let statistics = ClientStatistics(text) { brokers.take(statistics, nowNs: now.ns) }
            return
        case .log: break
        }
        EventLog.write(event, of: name, to: logger)
    }

    /// What cannot be read now, or is refused though it is there.
    func problems(_ now: DeliveryTime) -> [KafkaProblem] {
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
            if outcome.isAnotherLog { restart(one, from: 0, &machine, now) }
            if outcome.records > 0 { problems.isRead(one.partition) }
            if outcome.hasMore { hasMore = true }
            if outcome.records > 0, step + 1 < all.count, ContinuousClock.now - begin > Self.turnLimit {
                nextToRead = first + step + 1
                return true
            }
        }
        return hasMore
    }

    // MARK: The log

    /// Takes how a log stands, as `onLogDoubted` asked: what librdkafka did by itself counts only if that says so, too.
    func take(_ answer: LogQuestions.Answer, _ machine: inout DeliveryMachine, now: DeliveryTime) {
        // One that is gone is told of by librdkafka, and by the watch; and is asked for again.
        guard let one = partitions[answer.partition], !one.isStopped, case .there(let first, let end) = answer.state
        else { return }
        one.take(first: first, end: end, machine, now)
    }

    /// What the watch saw: records from `change.from` on are of another log than those that were read, although their
    /// offsets go on (of an idle partition nothing else tells it on librdkafka 2.0.2).
    ///
    /// Told while the partition is on its way to somebody, or from us, it is kept: the watch says it once, and whoever
    /// has the partition next would go on from what was committed for the log before. Where another one had begun anew
    /// meanwhile, that is done once more, and what repeats is in doubt.
    func logIsAnother(_ change: LogMarks.Change, _ machine: inout DeliveryMachine, now: DeliveryTime) {
        guard let one = partitions[change.partition], membership.isSettled else {
            return partitions.keep(change, now)
        }
        // Whoever began since then, and not behind it, reads all that is new.
        guard !one.covers(change) else { return }
        restart(one, from: change.from, &machine, now)
    }

    private func restart(
        _ one: PartitionReader, from offset: Int64, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) {
        partitions.restart(one, from: offset, &machine, now)
        if membership.isSettled { membership.rejoin("the log of \(one.partition) is another one", now) }
    }

    /// The topic of this partition was unknown when its offset was to be committed: with it the offset goes. Nothing
    /// more is committed, lest it be for a log that is made anew, and the group tells where to go on.
    func topicIsGone(_ partition: TopicPartition, _ machine: inout DeliveryMachine, now: DeliveryTime) {
        guard let one = partitions[partition], membership.isSettled, !one.isStopped else { return }
        one.stop(from: nil, &machine, now)
        membership.rejoin("topic \(partition.topic) is gone", now)
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
