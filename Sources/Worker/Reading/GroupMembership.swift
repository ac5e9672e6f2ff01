internal import Configuration
internal import Delivery
internal import EventLoop
internal import Kafka
internal import Observability

/// The member of one consumer group: what it is subscribed to, what was assigned and is not read yet, what is revoked
/// and drains, and how it leaves. Every event of the group is answered here, in the order in which librdkafka wants it.
/// Core thread.
final class GroupMembership {
    /// What only we can tell: until librdkafka takes it, the group stands still for this member.
    private enum GroupCall {
        case unassign, subscribe, rejoin
    }

    /// Calls that librdkafka did not take, in this order; and when it is told again (monotonic).
    private struct PendingCalls {
        var calls: [GroupCall]
        var retryNs: Int64
        var pauseNs: Int64

        /// Only this one, where it is among them.
        func only(_ call: GroupCall) -> PendingCalls? {
            calls.contains(call) ? PendingCalls(calls: [call], retryNs: retryNs, pauseNs: pauseNs) : nil
        }
    }

    /// Partitions on their way out, until they are drained or it is too late.
    private struct Revocation {
        var partitions: [PartitionID]
        /// When to stop waiting for answers (monotonic).
        let deadlineNs: Int64
        var hasStoppedWaiting = false
        /// Whether the group asked for them (and is to be answered), or we leave by ourselves.
        let mustUnassign: Bool

        /// When to stop waiting for the last commit, too.
        var lastCommitDeadlineNs: Int64 { deadlineNs + GroupMembership.lastCommitNs }
        /// When there is something to do without a wake-up.
        var nextNs: Int64 { hasStoppedWaiting ? lastCommitDeadlineNs : deadlineNs }

        /// Only these partitions of it, until this time at most.
        func only(_ isIn: (PartitionID) -> Bool, untilNs: Int64) -> Revocation {
            Revocation(
                partitions: partitions.filter(isIn), deadlineNs: min(deadlineNs, untilNs),
                hasStoppedWaiting: hasStoppedWaiting, mustUnassign: mustUnassign)
        }
    }

    private enum Phase {
        case member
        /// What is assigned drains, and answers are waited for until this time (monotonic).
        case leaving(deadlineNs: Int64)
        /// Everything was given back, and the consumer closes.
        case closing(deadlineNs: Int64)
        /// The client is of no use any more, and with it the membership.
        case abandoned

        var deadlineNs: Int64? {
            switch self {
            case .leaving(let deadlineNs), .closing(let deadlineNs): deadlineNs
            case .member, .abandoned: nil
            }
        }
    }

    private let consumer: Consumer
    /// The group's id.
    private let name: String
    private let partitions: AssignedPartitions
    private let problems: ReadingProblems
    private let logger: Logger
    private let drainNs: Int64
    /// As subscribed to.
    var topics: [String]
    private var phase = Phase.member
    /// What is asked about assigned partitions before they are read, and when to ask on (monotonic).
    private var waiting: (questions: AssignmentQuestions, retryNs: Int64)?
    /// Assigned partitions that are not read.
    private var awaitingOffsets: PartitionsAwaitingOffsets?
    private var pending: PendingCalls?
    /// What the group asked for, and what is left since we leave: each partition is in one of them at most.
    private var revocations: [Revocation] = []
    /// Whether the group has answered once; an empty assignment counts.
    private(set) var hasJoined = false
    /// For partitions, and for having left.
    private var joinWait = GroupWait()
    private var leaveWait = GroupWait()

    private static let questionPauseNs: Int64 = 500_000_000
    private static let callPauseNs: Int64 = 500_000_000
    private static let longestCallPauseNs: Int64 = 10_000_000_000
    /// How long after the drain limit the last commit may take.
    private static let lastCommitNs = WorkerConfiguration.lastCommitMs * 1_000_000

    /// Subscribes.
    init(
        _ consumer: Consumer, of name: String, topics: [String], drainNs: Int64, _ partitions: AssignedPartitions,
        problems: ReadingProblems, logger: Logger
    ) throws(KafkaError) {
        self.consumer = consumer
        self.name = name
        self.topics = topics
        self.drainNs = drainNs
        self.partitions = partitions
        self.problems = problems
        self.logger = logger
        try consumer.subscribe(to: topics)
    }

    /// Nothing is on its way out: what is assigned may be read.
    var mayRead: Bool { revocations.isEmpty }

    /// True also after it has left.
    var isLeaving: Bool { if case .member = phase { false } else { true } }

    private var isAbandoned: Bool { if case .abandoned = phase { true } else { false } }

    /// The group may be joined anew: nothing is on its way out, nor are we.
    var isSettled: Bool { mayRead && !isLeaving }

    /// Whether the group was left.
    var hasLeft: Bool {
        switch phase {
        case .member, .leaving: false
        case .closing: consumer.isClosed
        case .abandoned: true
        }
    }

    /// When something is to be done without a wake-up (monotonic).
    var nextDeadlineNs: Int64? {
        var deadline: Int64?
        func consider(_ ns: Int64) { deadline = min(deadline ?? ns, ns) }
        if let waiting { consider(waiting.retryNs) }
        if let pending { consider(pending.retryNs) }
        if let awaitingOffsets, waiting == nil, isSettled { consider(awaitingOffsets.retryNs) }
        for revocation in revocations { consider(revocation.nextNs) }
        return deadline
    }

    // MARK: What librdkafka is told

    /// Has other topics from now on.
    func subscribe(to topics: [String], _ now: DeliveryTime) {
        self.topics = topics
        problems.isSubscribed(to: topics)
        tell(.subscribe, now)
    }

    /// Leaves the group and joins it again: everything is given out anew.
    func rejoin(_ reason: String, _ now: DeliveryTime) {
        logger.info(.kafka, "joining the group anew", ["group": "\(name)", "reason": "\(reason)"])
        tell(.rejoin, now)
    }

    /// Tells librdkafka, again and again until it takes it; what it did not take before comes first.
    private func tell(_ call: GroupCall, _ now: DeliveryTime) {
        var calls = pending?.calls ?? []
        if !calls.contains(call) { calls.append(call) }
        tell(calls, now)
    }

    /// Tells it again, where that is due.
    func tellAgain(_ now: DeliveryTime) {
        if let pending, pending.retryNs <= now.ns { tell(pending.calls, now) }
    }

    private func tell(_ calls: [GroupCall], _ now: DeliveryTime) {
        var calls = calls
        while let call = calls.first {
            do throws(KafkaError) {
                switch call {
                case .unassign: try consumer.unassign()
                case .subscribe: try consumer.subscribe(to: topics)
                case .rejoin: try consumer.rejoin(topics)
                }
            } catch {
                let pauseNs = pending.map { min(2 * $0.pauseNs, Self.longestCallPauseNs) } ?? Self.callPauseNs
                pending = PendingCalls(calls: calls, retryNs: now.ns + pauseNs, pauseNs: pauseNs)
                problems.cannotJoin(error.code, now)
                logger.warning(
                    .kafka, "the group cannot be joined anew; trying again", about: name,
                    ["group": "\(name)", "error": "\(error.text)", "retry_in_ms": .count(pauseNs / 1_000_000)])
                return
            }
            calls.removeFirst()
        }
        pending = nil
        problems.canJoin()
    }

    // MARK: Assignment

    /// The group gave us partitions: they are read once it is known where (`moveAssignment`).
    func assigned(_ partitions: [TopicPartition], _ now: DeliveryTime) {
        guard !isAbandoned else { return }
        hasJoined = true
        joinWait.end()
        // What is new must not be given up for the sake of what was given up before: the group has moved on.
        pending = pending?.only(.subscribe)
        if pending == nil { problems.canJoin() }
        waiting = (AssignmentQuestions(isLeaving ? [] : partitions), now.ns)
        // With eager assignment, a partition that was left out and is not in this one belongs to another member now.
        let given = Set(partitions)
        let before = consumer.isCooperative ? Set(awaitingOffsets?.partitions ?? []) : []
        keepProblems(of: { given.contains($0) || before.contains($0) })
    }

    /// - Parameter isOurs: whether a partition is that is not read.
    private func keepProblems(of isOurs: (TopicPartition) -> Bool) {
        problems.keepOnly { partitions[$0] != nil || isOurs($0) }
    }

    /// Begins to read what was assigned, once it is known where.
    func moveAssignment(_ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        guard var questions = waiting?.questions, let retryNs = waiting?.retryNs, retryNs <= now.ns else { return }
        do throws(KafkaError) {
            guard try questions.ask(consumer, TurnBudget()) else {
                waiting = (questions, now.ns)
                return
            }
            try begin(questions, &machine, now)
            waiting = nil
            setAside(questions, now)
        } catch {
            logger.warning(
                .kafka, "what was assigned cannot be read yet; trying again", about: name,
                ["group": "\(name)", "error": "\(error.text)"])
            // It may have taken a second to fail, since the turn began.
            waiting = (questions, LoopTime.read().monotonicNs + Self.questionPauseNs)
        }
    }

    private func begin(
        _ questions: AssignmentQuestions, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) throws(KafkaError) {
        let starts = questions.assignedStarts(knownIDs: partitions.topicIDs, roleOfTopic: partitions.roleOfTopic)
        let queues = try consumer.assign(starts.map { ($0.committed.partition, $0.offset) })
        guard !starts.isEmpty else { return }
        partitions.begin(starts, queues, topicIDs: questions.topicIDs, &machine, now)
        logger.info(
            .kafka, "partitions assigned",
            [
                "group": "\(name)",
                "partitions": "\(starts.map(\.committed.partition.description).sorted().joined(separator: ","))",
            ])
    }

    /// Leaves out the partitions that cannot be read: they hinder no other.
    private func setAside(_ questions: AssignmentQuestions, _ now: DeliveryTime) {
        for (partition, code) in questions.failed {
            problems.note(.partition(partition), code, of: partition.topic, isOfFetch: false, now)
        }
        var failed = questions.failed.map(\.partition)
        // Where partitions move one by one, those left out before are still ours.
        if consumer.isCooperative, let before = awaitingOffsets {
            failed += before.partitions.filter { !questions.partitions.contains($0) }
        }
        awaitingOffsets = PartitionsAwaitingOffsets(failed, nowNs: now.ns)
    }

    /// Asks again for what could not be told; once it can, the group is joined anew, which assigns it to a member.
    func askForOffsets(_ now: DeliveryTime) {
        guard var awaiting = awaitingOffsets, awaiting.retryNs <= now.ns, waiting == nil, isSettled else { return }
        let canBeRead = awaiting.ask(consumer, TurnBudget(), nowNs: now.ns)
        awaitingOffsets = canBeRead ? nil : awaiting
        if canBeRead { rejoin("partitions can be read again", now) }
    }

    // MARK: Revocation

    /// The group takes partitions away: they drain, at most for `drainNs`, and are given up then.
    ///
    /// - Parameter lost: another member may own them already.
    func revoked(_ revoked: [TopicPartition], lost: Bool, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        guard !isAbandoned else { return }
        waiting = nil
        let taken = Set(revoked)
        let remaining = consumer.isCooperative ? awaitingOffsets?.partitions.filter { !taken.contains($0) } ?? [] : []
        awaitingOffsets = PartitionsAwaitingOffsets(remaining, nowNs: now.ns)
        keepProblems(of: { remaining.contains($0) })
        let ids = partitions.all.filter { taken.contains($0.partition) }.map(\.id)
        logger.info(
            .kafka, lost ? "partitions lost" : "partitions revoked; draining",
            ["group": "\(name)", "count": .count(revoked.count)])
        if lost {
            revocations = []
            giveUp(ids, isLost: true, mustUnassign: true, &machine, now)
        } else {
            machine.revoke(ids)
            // Those that drain already, since we leave, are to be answered now.
            revocations = revocations.filter { !$0.mustUnassign }
                .map { $0.only({ !ids.contains($0) }, untilNs: .max) }.filter { !$0.partitions.isEmpty }
            revocations.append(
                Revocation(
                    partitions: ids, deadlineNs: min(now.ns + drainNs, phase.deadlineNs ?? .max),
                    mustUnassign: true))
        }
    }

    /// Begins to leave the group: everything is drained, at most for `limitNs`; then `hasLeft` becomes true. What the
    /// group asks for already has no longer than that, and is answered.
    func leave(_ machine: inout DeliveryMachine, limitNs: Int64, _ now: DeliveryTime) {
        guard !isAbandoned else { return }
        let deadlineNs = now.ns + limitNs
        phase = .leaving(deadlineNs: deadlineNs)
        joinWait.end()
        waiting = nil
        awaitingOffsets = nil
        pending = pending?.only(.unassign)
        let draining = Set(revocations.flatMap(\.partitions))
        let others = partitions.all.map(\.id).filter { !draining.contains($0) }
        machine.revoke(others)
        revocations = revocations.map { $0.only({ _ in true }, untilNs: deadlineNs) }
        revocations.append(Revocation(partitions: others, deadlineNs: deadlineNs, mustUnassign: false))
    }

    /// The client had a fatal error: nothing more can be read, committed or left in order. Somebody else may own what
    /// was assigned, so what is on connections settles, and nothing more is sent of it.
    func abandon(because error: KafkaError, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        guard !isAbandoned else { return }
        phase = .abandoned
        joinWait.end()
        leaveWait.end()
        waiting = nil
        awaitingOffsets = nil
        pending = nil
        revocations = []
        logger.error(.kafka, "the group cannot be read any more", ["group": "\(name)", "error": "\(error.text)"])
        partitions.giveUp(partitions.all.map(\.id), isLost: true, &machine)
    }

    /// Gives up what is drained, or was waited for long enough; and leaves the group after that, where we leave.
    func moveRevocation(_ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        let moving = revocations
        revocations = []
        for var revocation in moving {
            if consumer.isAssignmentLost, revocation.mustUnassign {
                logger.warning(.kafka, "partitions were lost while they drained", ["group": "\(name)"])
                giveUp(revocation.partitions, isLost: true, mustUnassign: true, &machine, now)
            } else if revocation.partitions.allSatisfy({ machine.isDrained($0) })
                || now.ns >= revocation.lastCommitDeadlineNs
            {
                giveUp(revocation.partitions, isLost: false, mustUnassign: revocation.mustUnassign, &machine, now)
            } else {
                if now.ns >= revocation.deadlineNs, !revocation.hasStoppedWaiting {
                    logger.warning(
                        .delivery, "the drain limit passed with notifications unanswered; they stay in doubt",
                        ["group": "\(name)"])
                    machine.stopWaiting(revocation.partitions)
                    revocation.hasStoppedWaiting = true
                }
                revocations.append(revocation)
            }
        }
        if case .leaving(let deadlineNs) = phase, revocations.isEmpty {
            phase = .closing(deadlineNs: deadlineNs)
            leaveWait.begin(nowNs: now.ns)
            do throws(KafkaError) {
                try consumer.startClosing()
            } catch {
                logger.warning(.kafka, "the group could not be left in order", ["error": "\(error.text)"])
            }
        }
    }

    private func giveUp(
        _ ids: [PartitionID], isLost: Bool, mustUnassign: Bool, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) {
        partitions.giveUp(ids, isLost: isLost, &machine)
        guard mustUnassign else { return }
        tell(.unassign, now)
        logger.info(.kafka, "partitions given up", ["group": "\(name)", "count": .count(ids.count)])
        // Where all move at once, it joins anew by that.
        if !isLeaving, !consumer.isCooperative { joinWait.begin(nowNs: now.ns) }
    }

    // MARK: Waits

    /// True once, when partitions have been waited for for a while.
    func mustSayJoining(_ now: DeliveryTime) -> Bool {
        if !hasJoined, !isLeaving { joinWait.begin(nowNs: now.ns) }
        return joinWait.mustSay(nowNs: now.ns)
    }

    /// True once, when everything is given back and the coordinator has not let it go for a while.
    func mustSayLeaving(_ now: DeliveryTime) -> Bool {
        if hasLeft { leaveWait.end() }
        return leaveWait.mustSay(nowNs: now.ns)
    }
}

/// A wait for a group's coordinator that is said once, where it lasts. Decides only; no clock, no I/O.
struct GroupWait {
    private var sinceNs: Int64?
    private var isSaid = false

    /// What is over sooner is not worth a line.
    static let quietNs: Int64 = 1_500_000_000

    /// It waits, from the first of these calls on.
    mutating func begin(nowNs: Int64) {
        if sinceNs == nil { sinceNs = nowNs }
    }

    mutating func end() { self = GroupWait() }

    /// True once, when it has lasted.
    mutating func mustSay(nowNs: Int64) -> Bool {
        guard let sinceNs, !isSaid, nowNs - sinceNs >= Self.quietNs else { return false }
        isSaid = true
        return true
    }
}
