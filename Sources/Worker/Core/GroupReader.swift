internal import CLinux
internal import Configuration
internal import Delivery
internal import Kafka
internal import Observability
internal import PushRecords

/// Reads the partitions that one consumer group gave this worker into the machine, and gives them back drained.
///
/// There are two: one of the request topics, one of the retry topics, so that a rebalance of the one never drains the
/// other. Core thread.
final class GroupReader: CommitPlace {
    /// What the partitions of a topic are read for.
    typealias RoleOfTopic = (String) -> PartitionRole

    /// A partition that is read, or drains. A class: a record copies nothing of it, and what is private to this file needs no
    /// check of who else has access (`swift_beginAccess`, some 100 instructions each, seven a record).
    private final class Assigned {
        let queue: PartitionQueue
        /// Another one once the log was found to be another one.
        var id: PartitionID
        let topic: [UInt8]
        /// Whether records may be waiting. A queue left unread until it is empty wakes nobody again.
        var mayHaveMore = true
        /// When the head of a retry partition is due, by the monotonic clock (the other may be set back by hours
        /// meanwhile): its queue keeps it until then, and a few records behind it. (Not paused and sought back: that throws
        /// away what was fetched, and a seek that comes to nothing is noticed only by what comes after it.)
        var dueNs: Int64 = 0
        /// A broker refused the offset that is read next; nothing came yet that settles it.
        var refused: RefusedPosition?
        /// What was read before comes again, although reading was sent on.
        var mustSeek = false
        /// Where reading began in this assignment: nothing comes from below in the same log.
        var start: Int64
        /// Of the last record that was looked at (librdkafka 2.1.0 and later).
        var leaderEpoch: Int32?
        /// What is read is known to be one log since then (monotonic), and from this offset on.
        var beganNs: Int64
        var begin: Int64
        /// The log is another one, and is read from its beginning after the next assignment.
        var isStopped = false
        /// The record of the latest time that was read since `takeWitnesses`.
        var witness: LogMarks.Witness?
        /// There was no room for the dead letter that its next record is. That is the head of the queue, and not received.
        var waitsForLetterRoom = false
        var failures = BatchFailures()
        /// A batch that is to be passed by.
        var unreadable: UnreadableBatch?

        init(queue: PartitionQueue, id: PartitionID, start: Int64, beganNs: Int64, begin: Int64) {
            self.queue = queue
            self.id = id
            topic = Array(queue.partition.topic.utf8)
            self.start = start
            self.beganNs = beganNs
            self.begin = begin
        }

        /// Nothing of it is read until it is known where reading goes on.
        var isHeld: Bool { refused?.isAsking == true }
    }

    /// Where dead letters go. What was received as one has to be taken: nobody else has it.
    struct DeadLetters {
        /// Bytes that the next one may have.
        var room: () -> Int
        var ofRecord: (borrowing Message, RequestPlace, NotificationID, DeadLetterReason, Detail) -> Void
        /// - Parameter RequestPlace: its offset is the first that the letter stands for.
        var ofBatch: (UnreadableBatch, RequestPlace, NotificationID, Detail) -> Void
    }

    /// What only we can tell: until librdkafka takes it, the group stands still for this member.
    private enum GroupCall {
        case unassign, subscribe, rejoin
    }

    /// Partitions on their way out, until they are drained or it is too late.
    private struct Revocation {
        let partitions: [PartitionID]
        /// When to stop waiting for answers, and when for the last commit too (monotonic).
        let deadlineNs: Int64
        let lastCommitDeadlineNs: Int64
        var hasStoppedWaiting = false
        /// Whether the group asked for them (and is to be answered), or we leave by ourselves.
        var mustUnassign: Bool
    }

    let consumer: Consumer
    /// The group's id.
    let name: String
    private let logger: Logger
    private let roleOfTopic: RoleOfTopic
    private let drainNs: Int64
    private var assigned: [Assigned] = [] {
        didSet {
            byPartition = Dictionary(uniqueKeysWithValues: assigned.map { ($0.queue.partition, $0) })
            byID = Dictionary(uniqueKeysWithValues: assigned.map { ($0.id, $0) })
        }
    }
    private var byPartition: [TopicPartition: Assigned] = [:]
    private var byID: [PartitionID: Assigned] = [:]
    /// Partitions that were given up, or whose log is another one: their last events come afterwards, and a suspended
    /// one's after minutes.
    private var former: [PartitionID: TopicPartition] = [:]
    /// What is asked about partitions given to us before they are read, and when to ask on (monotonic).
    private var waiting: (questions: AssignmentQuestions, retryNs: Int64)?
    /// Partitions given to us that are not read.
    private var left: UntoldPartitions?
    /// What librdkafka was to be told of the group and did not take, in this order; and when it is told again.
    private var untold: (calls: [GroupCall], retryNs: Int64, pauseNs: Int64)?
    /// Partitions whose log is another one than was committed for, what was to be committed for it, and until when that
    /// counts, should it not have been taken: the next assignment starts there.
    private var changed: [TopicPartition: (start: CommittedOffset, untilNs: Int64)] = [:]
    /// Changes of logs that the watch saw while the partition was not read here, and until when they count (monotonic).
    private var seen: [TopicPartition: (change: LogMarks.Change, untilNs: Int64)] = [:]
    private var standing: [KafkaProblem.Subject: KafkaProblem] = [:]
    private var missingThread = MissingThread()
    /// As subscribed to.
    var topics: [String]
    private var revocation: Revocation?
    private var nextToRead = 0
    private var headers: [RecordHeader] = []
    /// Where it reads, for whoever dies there.
    private let place = UnsafeMutablePointer<CrashPlace>.allocate(capacity: 1)
    private var condemnedPlaces: Set<CrashHistory.Place> = []
    /// Partitions of which something was committed, as far as this process knows.
    private var hadCommitted: Set<TopicPartition> = []
    /// The log of a partition is another one.
    var onAnotherLog: (TopicPartition) -> Void = { _ in }
    /// Reading went on beyond so many offsets that were gone before they were read.
    var onSkipped: (TopicPartition, Int64) -> Void = { _, _ in }
    /// How a log stands is to be asked, for `take(_:_:now:)`.
    var onLogDoubted: (TopicPartition) -> Void = { _ in }
    /// A broker did not answer a request in time.
    var onRequestTimeout: (RequestTimeout) -> Void = { _ in }
    /// Where a batch ends is to be found out, for `batchEnded`.
    var onEndUnknown: (BatchEnds.Question) -> Void = { _ in }
    private(set) var isLeaving = false
    /// Whether the group has answered once; an empty assignment counts.
    private(set) var hasJoined = false
    private(set) var fatalError: KafkaError?
    /// What its client said last, which may be over.
    private(set) var lastError: KafkaError?
    /// Whether a broker is connected, as far as the last statistics told (where they are asked for).
    private(set) var isBrokerReached = true

    /// Most records taken from one partition before the next one's turn.
    private static let batchLimit = 128
    /// Most records taken before the machine is asked again for how many it has room.
    private static let roomLimit = 8
    private static let questionPauseNs: Int64 = 500_000_000
    private static let callPauseNs: Int64 = 500_000_000
    private static let longestCallPauseNs: Int64 = 10_000_000_000
    private static let formerLimit = 10_000
    private static let changedNs: Int64 = 60_000_000_000
    /// A retry record that is due later is looked at again after so long.
    private static let longestWaitMs: Int64 = 3_600_000
    /// How long after the drain limit the last commit may take.
    private static let lastCommitNs = WorkerConfiguration.lastCommitMs * 1_000_000

    init(
        _ settings: ConsumerSettings, topics: [String], drainNs: Int64, wakeUpDescriptor: Int32, logger: Logger,
        roleOfTopic: @escaping RoleOfTopic
    ) throws(KafkaError) {
        place.initialize(to: CrashPlace())
        name = settings.memberGroupID
        self.logger = logger
        self.drainNs = drainNs
        self.roleOfTopic = roleOfTopic
        self.topics = topics
        consumer = try Consumer(settings, wakeUpDescriptor: wakeUpDescriptor)
        try consumer.subscribe(to: topics)
    }

    deinit { place.deallocate() }

    // MARK: The group

    /// Has other topics from now on.
    func subscribe(to topics: [String], now: DeliveryTime) {
        self.topics = topics
        tell(.subscribe, now)
    }

    /// Tells librdkafka, again and again until it takes it; what it did not take before comes first.
    private func tell(_ call: GroupCall, _ now: DeliveryTime) {
        var calls = untold?.calls ?? []
        if !calls.contains(call) { calls.append(call) }
        tell(calls, untold, now)
    }

    private func tell(
        _ calls: [GroupCall], _ before: (calls: [GroupCall], retryNs: Int64, pauseNs: Int64)?, _ now: DeliveryTime
    ) {
        var calls = calls
        while let call = calls.first {
            do throws(KafkaError) {
                switch call {
                case .unassign: try consumer.unassign()
                case .subscribe: try consumer.subscribe(to: topics)
                case .rejoin: try consumer.rejoin(topics)
                }
            } catch {
                let pauseNs = before.map { min(2 * $0.pauseNs, Self.longestCallPauseNs) } ?? Self.callPauseNs
                untold = (calls, now.ns + pauseNs, pauseNs)
                standing[.group(name)] = KafkaProblem(
                    subject: .group(name), trouble: .joining, code: error.code, advice: Advice.group(name, error.code),
                    sinceNs: standing[.group(name)]?.sinceNs ?? now.ns)
                logger.warning(
                    .kafka, "the group cannot be joined anew; trying again", about: name,
                    ["group": "\(name)", "error": "\(error.text)", "retry_in_ms": .count(pauseNs / 1_000_000)])
                return
            }
            calls.removeFirst()
        }
        untold = nil
        standing[.group(name)] = nil
    }

    /// Takes what the group has to say. Call after every wake-up and at least once a second.
    func serve(
        _ machine: inout DeliveryMachine, now: DeliveryTime, committed: (CommitReply, inout DeliveryMachine) -> Void
    ) {
        consumer.serve { event in
            switch event {
            case .assigned(let partitions): begin(partitions, &machine, now)
            case .revoked(let partitions, let lost): revoke(partitions, lost: lost, &machine, now)
            case .committed(let reply): committed(reply, &machine)
            case .offsetReset(let partition, let text): refuse(partition, text, now)
            case .partitionFailed(let partition, let error):
                note(.partition(partition), error.code, of: partition.topic, now)
            case .batchFailed(let partition, .putOff(let batch), _): putOff(partition, batch, now)
            case .batchFailed(let partition, .endUnknown(let batch), let error):
                if !pass(partition, batch, machine, now), isLasting(partition) {
                    note(.partition(partition), error.code, of: partition.topic, now)
                }
            case .batchFailed(let partition, .unreadable(let batches), let error):
                if !pass(partition, batches, machine), isLasting(partition) {
                    note(.partition(partition), error.code, of: partition.topic, now)
                }
            case .client(.error(let error)) where Self.unavailableTopic(in: error.text) != nil:
                let topic = Self.unavailableTopic(in: error.text) ?? ""
                note(.topic(topic), error.code, of: topic, now)
            case .client(.fatal(let error)):
                fatalError = error
            case .client(.statistics(let text)):
                if let isReached = isAnyBrokerUp(inStatistics: text) { isBrokerReached = isReached }
            case .client(let event):
                if case .error(let error) = event {
                    lastError = error
                    if error.code == .noResources { missingThread.note(nowNs: now.ns) }
                }
                if let timeout = event.requestTimeout { onRequestTimeout(timeout) }
                EventLog.write(event, of: name, to: logger)
            }
        }
        if let untold, untold.retryNs <= now.ns { tell(untold.calls, untold, now) }
        moveAssignment(&machine, now)
        moveRevocation(&machine, now)
        askForLeft(now)
        for one in assigned where one.refused?.mustAsk(nowNs: now.ns) == true { onLogDoubted(one.queue.partition) }
    }

    private func note(_ subject: KafkaProblem.Subject, _ code: KafkaCode, of topic: String, _ now: DeliveryTime) {
        let advice = Advice.reading(topic, group: name, code)
        standing[subject] = KafkaProblem(
            subject: subject, trouble: .reading, code: code, advice: advice,
            sinceNs: standing[subject]?.sinceNs ?? now.ns)
        logger.debug(
            .kafka, "cannot be read; trying on", about: "\(subject) \(code.name)",
            ["subject": "\(subject)", "error": "\(code.name)", "advice": "\(advice)"])
    }

    /// What cannot be read now, or is refused though it is there.
    func problems(_ now: DeliveryTime) -> [KafkaProblem] {
        Array(standing.values) + falseRefusals.problems(nowNs: now.ns)
            + [missingThread.problem(ofGroup: name, nowNs: now.ns)].compactMap(\.self)
    }

    /// The topic that librdkafka names as one that a subscription cannot have (rdkafka_topic.c,
    /// rd_kafka_propagate_consumer_topic_errors).
    static func unavailableTopic(in text: String) -> String? {
        guard let start = text.firstRange(of: "Subscribed topic not available: ")?.upperBound else { return nil }
        return text[start...].firstIndex(of: ":").map { String(text[start..<$0]) }
    }

    private func begin(_ partitions: [TopicPartition], _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        hasJoined = true
        // What is new must not be given up for the sake of what was given up before: the group has moved on.
        untold = untold.flatMap { $0.calls.contains(.subscribe) ? ([.subscribe], $0.retryNs, $0.pauseNs) : nil }
        if untold == nil { standing[.group(name)] = nil }
        waiting = (AssignmentQuestions(isLeaving ? [] : partitions), now.ns)
    }

    /// Begins to read what was assigned, once it is known where.
    private func moveAssignment(_ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        guard var questions = waiting?.questions, let retryNs = waiting?.retryNs, retryNs <= now.ns else { return }
        do throws(KafkaError) {
            let isAllKnown = try questions.ask(consumer, TurnBudget()) { partition in
                changed[partition].flatMap { now.ns < $0.untilNs ? $0.start : nil }
            }
            guard isAllKnown else {
                waiting = (questions, now.ns)
                return
            }
            try read(questions.places(roleOfTopic: roleOfTopic), &machine, now)
            waiting = nil
            leave(questions, now)
        } catch {
            logger.warning(
                .kafka, "what was assigned cannot be read yet; trying again", about: name,
                ["group": "\(name)", "error": "\(error.text)"])
            waiting = (questions, now.ns + Self.questionPauseNs)
        }
    }

    /// Leaves out the partitions that cannot be read: they hinder no other.
    private func leave(_ questions: AssignmentQuestions, _ now: DeliveryTime) {
        for (partition, code) in questions.failed { note(.partition(partition), code, of: partition.topic, now) }
        var failed = questions.failed.map(\.partition)
        // Where partitions move one by one, those left out before are still ours.
        if consumer.isCooperative, let before = left {
            failed += before.partitions.filter { !questions.partitions.contains($0) }
        }
        left = UntoldPartitions(failed, nowNs: now.ns)
    }

    private func read(
        _ places: [AssignmentQuestions.Place], _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) throws(KafkaError) {
        let queues = try consumer.assign(places.map { PartitionStart($0.committed.partition, offset: $0.start) })
        guard !places.isEmpty else { return }
        for (queue, place) in zip(queues, places) {
            // With a topic its offsets go: whoever had one of it before reads another log.
            let isForgotten = place.committed.offset == nil && hadCommitted.remove(queue.partition) != nil
            if place.isAnotherLog || isForgotten { acquit(queue.partition) }
            if place.committed.offset != nil { hadCommitted.insert(queue.partition) }
            let id = place.committed.metadata.withUnsafeBytes { metadata in
                machine.assign(
                    topic: queue.partition.topic, partition: queue.partition.partition,
                    role: roleOfTopic(queue.partition.topic), committedOffset: place.committed.offset,
                    metadata: metadata, logStart: place.logStart, logEnd: place.logEnd)
            }
            changed[queue.partition] = nil
            assigned.append(
                Assigned(
                    queue: queue, id: id, start: place.start ?? 0, beganNs: now.ns,
                    begin: max(place.start ?? 0, (machine.status(of: id)?.highestReceived ?? -1) + 1)))
            standing[.partition(queue.partition)] = nil
            standing[.topic(queue.partition.topic)] = nil
        }
        for queue in queues {
            guard let (change, untilNs) = seen.removeValue(forKey: queue.partition), now.ns < untilNs else { continue }
            logIsAnother(change, &machine, now: now)
        }
        // Whoever has the others now was told, too. Where partitions move one by one, they may be on their way still.
        if !consumer.isCooperative { seen = [:] }
        logger.info(
            .kafka, "partitions assigned",
            [
                "group": "\(name)",
                "partitions": "\(places.map(\.committed.partition.description).sorted().joined(separator: ","))",
            ])
    }

    /// Asks again for what could not be told; once it can, the group is joined anew, which gives it to somebody.
    private func askForLeft(_ now: DeliveryTime) {
        guard var left, left.retryNs <= now.ns, waiting == nil, revocation == nil, !isLeaving else { return }
        let canBeRead = left.ask(consumer, TurnBudget(), nowNs: now.ns)
        self.left = canBeRead ? nil : left
        if canBeRead { rejoin("partitions can be read again", now) }
    }

    private func rejoin(_ reason: String, _ now: DeliveryTime) {
        logger.info(.kafka, "joining the group anew", ["group": "\(name)", "reason": "\(reason)"])
        tell(.rejoin, now)
    }

    private func revoke(
        _ partitions: [TopicPartition], lost: Bool, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) {
        waiting = nil
        let remaining = consumer.isCooperative ? left?.partitions.filter { !partitions.contains($0) } ?? [] : []
        left = UntoldPartitions(remaining, nowNs: now.ns)
        let leaving = assigned.filter { partitions.contains($0.queue.partition) }.map(\.id)
        logger.info(
            .kafka, lost ? "partitions lost" : "partitions revoked; draining",
            ["group": "\(name)", "count": .count(partitions.count)])
        if lost {
            revocation = nil
            giveUp(leaving, &machine, isLost: true, mustUnassign: true, now)
        } else {
            machine.revoke(leaving)
            revocation = Revocation(
                partitions: leaving, deadlineNs: now.ns + drainNs,
                lastCommitDeadlineNs: now.ns + drainNs + Self.lastCommitNs, mustUnassign: true)
        }
    }

    /// Begins to leave the group: everything is drained, at most for `limitNs`; then `hasLeft` becomes true.
    func leave(_ machine: inout DeliveryMachine, limitNs: Int64, now: DeliveryTime) {
        isLeaving = true
        waiting = nil
        left = nil
        untold = untold.flatMap { $0.calls.contains(.unassign) ? ([.unassign], $0.retryNs, $0.pauseNs) : nil }
        guard revocation == nil else { return }
        let leaving = assigned.map(\.id)
        machine.revoke(leaving)
        revocation = Revocation(
            partitions: leaving, deadlineNs: now.ns + limitNs,
            lastCommitDeadlineNs: now.ns + limitNs + Self.lastCommitNs,
            mustUnassign: false)
    }

    private var hasStartedClosing = false

    /// Whether the group was left.
    var hasLeft: Bool { hasStartedClosing && consumer.isClosed }

    private func moveRevocation(_ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        if var revocation {
            if consumer.isAssignmentLost, revocation.mustUnassign {
                logger.warning(.kafka, "partitions were lost while they drained", ["group": "\(name)"])
                self.revocation = nil
                giveUp(revocation.partitions, &machine, isLost: true, mustUnassign: true, now)
            } else if revocation.partitions.allSatisfy({ machine.isDrained($0) })
                || now.ns >= revocation.lastCommitDeadlineNs
            {
                self.revocation = nil
                giveUp(revocation.partitions, &machine, isLost: false, mustUnassign: revocation.mustUnassign, now)
            } else if now.ns >= revocation.deadlineNs, !revocation.hasStoppedWaiting {
                logger.warning(
                    .delivery, "the drain limit passed with notifications unanswered; they stay in doubt",
                    ["group": "\(name)"])
                machine.stopWaiting(revocation.partitions)
                revocation.hasStoppedWaiting = true
                self.revocation = revocation
            }
        }
        if isLeaving, revocation == nil, !hasStartedClosing {
            hasStartedClosing = true
            do throws(KafkaError) {
                try consumer.startClosing()
            } catch {
                logger.warning(.kafka, "the group could not be left in order", ["error": "\(error.text)"])
            }
        }
    }

    /// - Parameter isLost: the session was: what is known is kept, in case that nobody else gets them.
    private func giveUp(
        _ partitions: [PartitionID], _ machine: inout DeliveryMachine, isLost: Bool, mustUnassign: Bool,
        _ now: DeliveryTime
    ) {
        // Its last commit was taken: it says where to begin, to whoever has the partition next.
        for partition in assigned where !isLost && partitions.contains(partition.id) && machine.isDrained(partition.id)
        {
            changed[partition.queue.partition] = nil
        }
        for partition in assigned where machine.status(of: partition.id)?.committed != nil {
            hadCommitted.insert(partition.queue.partition)
        }
        if isLost { machine.suspend(partitions) } else { machine.release(partitions) }
        for partition in assigned where partitions.contains(partition.id) {
            standing[.partition(partition.queue.partition)] = nil
            reserve.forget(partition.queue.partition)
            noteFormer(partition.id, partition.queue.partition)
        }
        assigned.removeAll { partitions.contains($0.id) }
        guard mustUnassign else { return }
        tell(.unassign, now)
        logger.info(.kafka, "partitions given up", ["group": "\(name)", "count": .count(partitions.count)])
    }

    private func noteFormer(_ id: PartitionID, _ partition: TopicPartition) {
        if former.count >= Self.formerLimit { former.removeAll(keepingCapacity: true) }
        former[id] = partition
    }

    // MARK: Records

    /// After a wake-up every queue may have something.
    func markReadable() {
        for one in assigned { one.mayHaveMore = true }
    }

    /// Reads as much as there is room for; true when there is more to be read at once.
    func read(
        into machine: inout DeliveryMachine, now: DeliveryTime,
        deadLetters: DeadLetters
    ) -> Bool {
        guard revocation == nil, !assigned.isEmpty else { return false }
        var hasMore = false
        let first = nextToRead % assigned.count
        nextToRead = first + 1
        // Its own for as long as it reads, so that nobody else has access to it.
        var headers = headers
        self.headers = []
        defer { self.headers = headers }
        let place = place
        var letterRoom = deadLetters.room()
        for step in assigned.indices {
            let one = assigned[(first + step) % assigned.count]
            if one.unreadable != nil { passBatch(one, &machine, now, deadLetters) }
            guard one.mayHaveMore, one.dueNs <= now.ns, !one.isStopped, !one.isHeld else { continue }
            // What there is no room for stays in librdkafka's queue, where it costs nothing.
            let most = min(machine.room(for: one.id), Self.batchLimit)
            guard most > 0 else { continue }
            one.dueNs = 0
            one.waitsForLetterRoom = false
            let queue = one.queue
            place.pointee = machine.place(of: one.id)
            var isFirst = true
            // Asked for a few records at once, of the assignment of now.
            var (id, room) = (one.id, 0)
            let count = queue.read(max: most) { message in
                if room == 0 || id != one.id { (id, room) = (one.id, min(machine.room(for: one.id), Self.roomLimit)) }
                guard room > 0 else { return false }
                room -= 1
                crash_next(place, message.offset)
                crash_at(place)
                defer { crash_nowhere() }
                if isFirst {
                    isFirst = false
                    noteEpoch(message, one, &machine, now)
                }
                if one.isStopped { return false }
                return take(message, one, &headers, &letterRoom, &machine, now, deadLetters)
            }
            if one.mustSeek {
                one.mustSeek = false
                seek(one, to: position(of: one, machine))
            }
            if count > 0, !standing.isEmpty { standing[.partition(queue.partition)] = nil }
            if count > 0, !reserve.isEmpty { reserve.unpacked(queue.partition) }
            one.mayHaveMore = queue.count > 0
            if one.mayHaveMore, one.dueNs == 0, !one.isStopped, !one.isHeld, !one.waitsForLetterRoom,
                machine.room(for: one.id) > 0
            {
                hasMore = true
            }
        }
        return hasMore
    }

    /// Records that are not to be looked at: the worker died at them.
    var condemned: Set<CrashHistory.Place> {
        get { condemnedPlaces }
        set { condemnedPlaces = newValue }
    }

    /// Other records stand at the offsets of a log that is another one.
    private func acquit(_ partition: TopicPartition) {
        condemnedPlaces = condemnedPlaces.filter { $0.topic != partition.topic || $0.partition != partition.partition }
        onAnotherLog(partition)
    }

    private func isCondemned(_ partition: TopicPartition, _ offset: Int64) -> Bool {
        condemnedPlaces.contains(
            CrashHistory.Place(topic: partition.topic, partition: partition.partition, offset: offset))
    }

    /// False: the record stays the head of its queue.
    private func take(
        _ message: borrowing Message, _ one: Assigned, _ headers: inout [RecordHeader], _ letterRoom: inout Int,
        _ machine: inout DeliveryMachine, _ now: DeliveryTime, _ deadLetters: DeadLetters
    ) -> Bool {
        if one.refused != nil || message.offset < one.start {
            switch step(at: message.offset, one, machine, now) {
            case .take: break
            case .hold: return false
            case .drop: return true
            }
        }
        let isCondemned = !condemnedPlaces.isEmpty && isCondemned(one.queue.partition, message.offset)
        var unread: DeadLetterReason? = isCondemned ? .workerCrashed : nil
        headers.removeAll(keepingCapacity: true)
        if !isCondemned {
            message.forEachHeader { headers.append(RecordHeader(name: $0, value: $1)) }
            if headers.isEmpty, message.hasUnreadableHeaders { unread = .unreadableHeaders }
        }
        var receipt = receive(message, one, headers, unread: unread, letterRoom, &machine, now)
        if beginsAnew(at: message.offset, after: receipt, one, &machine, now) {
            receipt = receive(message, one, headers, unread: unread, letterRoom, &machine, now)
        }
        if one.refused != nil, message.offset < one.start {
            // Of another log, of which nothing was read before in this assignment.
            one.start = message.offset
            one.refused = nil
        }
        if message.timestampMs > one.witness?.timeMs ?? 0 {
            one.witness = LogMarks.Witness(
                offset: message.offset, timeMs: message.timestampMs, readNs: now.ns)
        }
        switch receipt {
        case .taken, .known, .below, .unassigned: return true
        case .deadLetter(let id, let reason, let detail):
            offer(message, one, id, reason, detail, deadLetters)
            letterRoom = deadLetters.room()
            return true
        case .noLetterRoom:
            one.waitsForLetterRoom = true
            return false
        case .notDue(let untilMs):
            // Far times are no numbers to multiply.
            let (distance, isOver) = untilMs.subtractingReportingOverflow(now.wallMs)
            let waitMs = isOver ? Self.longestWaitMs : min(max(0, distance), Self.longestWaitMs)
            one.dueNs = now.ns + waitMs * 1_000_000
            return false
        }
    }

    private func receive(
        _ message: borrowing Message, _ one: Assigned, _ headers: [RecordHeader], unread: DeadLetterReason?,
        _ letterRoom: Int, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) -> Receipt {
        headers.withUnsafeBufferPointer {
            machine.receive(
                one.id, offset: message.offset, timestampMs: message.timestampMs, key: message.key,
                value: message.value, headers: $0, unread: unread, letterRoom: letterRoom, now: now)
        }
    }

    private func offer(
        _ message: borrowing Message, _ one: Assigned, _ id: NotificationID, _ reason: DeadLetterReason,
        _ detail: Detail, _ deadLetters: DeadLetters
    ) {
        one.topic.withUnsafeBytes { topic in
            let place = RequestPlace(
                topic: topic, partition: message.partition, offset: message.offset, index: 0)
            deadLetters.ofRecord(message, place, id, reason, detail)
        }
    }

    // MARK: Batches that wait for memory

    private var reserve = UnpackingReserve()

    /// There was no memory for a batch. One of a topic of which nothing lies unpacked is let through when it is asked for again:
    /// whatever other topics hold, none gets nothing.
    private func putOff(_ partition: TopicPartition, _ batch: BatchFailure.Batch, _ now: DeliveryTime) {
        guard isAssigned(partition) else { return }
        let isTopicEmpty = assigned.allSatisfy { $0.queue.partition.topic != partition.topic || $0.queue.count == 0 }
        if reserve.grants(partition, isTopicEmpty: isTopicEmpty, nowNs: now.ns) {
            Unpacking.grant(batch, forNs: UnpackingReserve.turnNs)
        }
        logger.debug(
            .kafka, "a batch waits for memory", about: "\(partition)",
            ["partition": "\(partition)", "offset": "\(batch.baseOffset)", "bytes": .count(batch.size)])
    }

    /// Topics of which batches were put off lately.
    func topicsPutOff(_ now: DeliveryTime) -> Set<String> { reserve.topics(nowNs: now.ns) }

    /// What lies unpacked and unread, by topic.
    var unread: [String: UnreadRecords] {
        var unread: [String: UnreadRecords] = [:]
        for partition in assigned {
            let count = partition.queue.count
            guard count > 0 else { continue }
            unread[partition.queue.partition.topic, default: UnreadRecords()].add(
                count, ofBytes: partition.queue.recordBytes)
        }
        return unread
    }

    // MARK: Batches that cannot be unpacked

    /// How many were passed by, and the last of them.
    private(set) var unreadableBatches = 0
    private(set) var lastUnreadable: String?

    /// The partition that a failure to unpack a batch stops; `nil`: it is not ours, or the batch is passed by already. Such a
    /// failure was on its way before the last seek, or that came to nothing.
    private func stopped(
        _ partition: TopicPartition, _ machine: borrowing DeliveryMachine,
        passed: (BatchFailures) -> ClosedRange<Int64>?
    ) -> Assigned? {
        guard let one = find(partition), one.unreadable == nil else { return nil }
        guard let offsets = passed(one.failures) else { return one }
        readOn(one, behind: offsets, machine)
        return nil
    }

    private func isLasting(_ partition: TopicPartition) -> Bool { find(partition)?.failures.isLasting == true }

    /// Takes a failure of librdkafka's to unpack a batch; false: it is to try again.
    private func pass(
        _ partition: TopicPartition, _ batches: [UnreadableBatch], _ machine: borrowing DeliveryMachine
    ) -> Bool {
        guard let one = stopped(partition, machine, passed: { $0.passed(of: batches) }) else { return true }
        one.unreadable = one.failures.failed(batches)
        return one.unreadable != nil
    }

    /// Takes a failure to unpack a batch of which only the first offset is told; false: it is not known yet where to go on.
    private func pass(
        _ partition: TopicPartition, _ batch: BatchFailure.Batch, _ machine: borrowing DeliveryMachine,
        _ now: DeliveryTime
    ) -> Bool {
        guard let one = stopped(partition, machine, passed: { $0.passed(of: batch) }) else { return true }
        if one.failures.failed(batch, nowNs: now.ns) {
            onEndUnknown(BatchEnds.Question(partition: partition, batch: batch))
        }
        return false
    }

    /// Takes the answer to `onEndUnknown`. The batch is passed by in the next `read`, if the partition still waits for that.
    func batchEnded(_ answer: BatchEnds.Answer) {
        guard let one = find(answer.question.partition), one.unreadable == nil
        else { return }
        one.unreadable = one.failures.ended(answer.question.batch, last: answer.last)
    }

    /// Settles the offsets of a batch that cannot be unpacked by one dead letter, and reads on behind it.
    private func passBatch(
        _ one: Assigned, _ machine: inout DeliveryMachine, _ now: DeliveryTime, _ deadLetters: DeadLetters
    ) {
        guard let batch = one.unreadable, !one.isStopped, !one.isHeld, machine.room(for: one.id) > 0 else { return }
        if one.refused != nil {
            let step = step(at: batch.offsets.upperBound, one, machine, now)
            if step != .take {
                one.unreadable = nil
                if step == .drop { seek(one, to: position(of: one, machine)) }
                return
            }
        }
        // Of the last offset that is not settled: those below it that were not received are gaps, as compaction leaves
        // them, and where none is left nothing is lost.
        var receipt = receive(batch, one, &machine, now)
        if beginsAnew(at: batch.offsets.lowerBound, after: receipt, one, &machine, now) {
            receipt = receive(batch, one, &machine, now)
        }
        if case .deadLetter(let id, _, _) = receipt { offer(batch, one, id, deadLetters) }
        one.unreadable = nil
        one.failures.pass(batch)
        standing[.partition(one.queue.partition)] = nil
        readOn(one, behind: batch.offsets, machine)
    }

    /// What came in this assignment is behind us, whatever was received before it: the batch may have been passed by then, and
    /// be met again by a partition that came back.
    private func readOn(_ one: Assigned, behind offsets: ClosedRange<Int64>, _ machine: borrowing DeliveryMachine) {
        seek(one, to: max(offsets.upperBound + 1, position(of: one, machine)))
    }

    /// Where that comes to nothing, what comes next is not what is to be read: it is done again then.
    private func seek(_ one: Assigned, to offset: Int64) {
        let partition = one.queue.partition
        do throws(KafkaError) {
            try consumer.seek(partition, to: offset)
        } catch {
            logger.warning(
                .kafka, "a partition cannot be read on at another offset; trying again", about: "\(partition)",
                ["partition": "\(partition)", "offset": "\(offset)", "error": "\(error.text)"])
        }
    }

    private func receive(
        _ batch: UnreadableBatch, _ one: Assigned, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) -> Receipt {
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        let last = machine.lastUnsettled(one.id, of: batch.offsets) ?? batch.offsets.upperBound
        return machine.receive(
            one.id, offset: last, timestampMs: batch.timestampMs, key: none,
            value: none,
            headers: UnsafeBufferPointer(start: nil, count: 0), unread: .unreadableBatch, now: now)
    }

    private func offer(_ batch: UnreadableBatch, _ one: Assigned, _ id: NotificationID, _ deadLetters: DeadLetters) {
        let text: StaticString =
            batch.isTooLarge
            ? "its batch takes more memory than kafka.max_batch_bytes, unpacked"
            : "its batch is damaged, cannot be unpacked, or has other records than its header says"
        let partition = one.queue.partition
        let offsets = one.failures.fresh(of: batch)
        let first = max(offsets.lowerBound, min(one.begin, offsets.upperBound))
        one.topic.withUnsafeBytes { topic in
            let place = RequestPlace(topic: topic, partition: partition.partition, offset: first, index: 0)
            deadLetters.ofBatch(batch, place, id, Detail(text))
        }
        unreadableBatches += 1
        lastUnreadable = "\(partition.topic)/\(partition.partition)/\(first)-\(offsets.upperBound)"
        logger.error(
            .kafka, "a batch that cannot be unpacked went to the dead letters", about: "\(partition)",
            [
                "partition": "\(partition)", "first_offset": "\(first)", "last_offset": "\(offsets.upperBound)",
                "bytes": .count(batch.size), "too_large": .boolean(batch.isTooLarge),
            ])
    }

    // MARK: Offsets that a broker refuses

    private var falseRefusals = FalseRefusals()

    /// A broker said that the offset does not exist which is read next, and librdkafka went to the log's beginning.
    private func refuse(_ partition: TopicPartition, _ text: String, _ now: DeliveryTime) {
        guard let one = find(partition), !one.isStopped else { return }
        if one.refused == nil {
            one.refused = RefusedPosition(nowNs: now.ns)
        } else {
            one.refused?.refusedAgain(nowNs: now.ns)
        }
        logger.warning(
            .kafka, "a broker refuses the offset that is read next; asking which offsets the log has",
            about: "\(partition)", ["partition": "\(partition)", "reason": "\(text)"])
    }

    /// Takes how a log stands, as `onLogDoubted` asked: what librdkafka did by itself counts only if that says so, too.
    func take(_ answer: LogQuestions.Answer, _ machine: inout DeliveryMachine, now: DeliveryTime) {
        // One that is gone is told of by librdkafka, and by the watch; and is asked for again.
        guard let one = find(answer.partition), !one.isStopped, case .there(let first, let end) = answer.state
        else { return }
        let position = position(of: one, machine)
        let finding = one.refused?.told(first: first, end: end, position: position, nowNs: now.ns)
        guard let finding else { return }
        one.mayHaveMore = true
        let fields: Fields = [
            "partition": "\(answer.partition)", "offset": "\(position)", "first": "\(first)", "end": "\(end)",
        ]
        switch finding {
        case .mistaken:
            falseRefusals.note(answer.partition, nowNs: now.ns)
            seek(one, to: position)
            logger.warning(
                .kafka, "the log has the offset that a broker refused: reading goes on there",
                about: "\(answer.partition)", fields)
        case .overtaken:
            logger.error(
                .kafka, "records were gone before they were read: reading goes on at the first that is left",
                about: "\(answer.partition)", fields)
        case .anotherLog:
            logger.error(
                .kafka, "the log ends below the offset that is read next: it is read from its beginning",
                about: "\(answer.partition)", fields)
        }
    }

    /// The offset that is to be read next.
    private func position(of one: Assigned, _ machine: borrowing DeliveryMachine) -> Int64 {
        max(one.start, (machine.status(of: one.id)?.highestArrived ?? -1) + 1)
    }

    private enum Step {
        case take
        /// It waits until it is known where reading goes on.
        case hold
        /// It was read before.
        case drop
    }

    /// What is to become of what comes at an offset while one is refused, or from below where reading began.
    private func step(
        at offset: Int64, _ one: Assigned, _ machine: borrowing DeliveryMachine, _ now: DeliveryTime
    ) -> Step {
        let step = one.refused?.step(at: offset, position: position(of: one, machine), nowNs: now.ns)
        switch step {
        case nil:
            // That it was refused is told elsewhere, and may come later.
            one.refused = RefusedPosition(nowNs: now.ns)
            return .hold
        case .hold: return .hold
        case .take: return .take
        case .drop: return .drop
        case .dropAndGoBack:
            one.mustSeek = true
            return .drop
        case .arrived:
            one.refused = nil
            return .take
        case .ahead(let first):
            one.refused = nil
            // What came before, and was read again, was not lost.
            let next = max(one.begin, (machine.status(of: one.id)?.highestReceived ?? -1) + 1)
            if first > next { onSkipped(one.queue.partition, first - next) }
            return .take
        }
    }

    // MARK: The log

    /// Begins a partition anew where what came from below what was received is of another log; true: it is to be
    /// received again.
    private func beginsAnew(
        at offset: Int64, after receipt: Receipt, _ one: Assigned, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) -> Bool {
        guard case .below(let highest) = receipt, isLogChanged(one, highest: highest) else { return false }
        beginAnew(one, from: nil, &machine, now)
        one.beganNs = now.ns
        one.begin = offset
        one.start = offset
        return true
    }

    /// Whether a record that comes below what was received is of another log: the log ends below what was received of it,
    /// as its leader said when a broker refused the offset, or as the last fetch told. Else librdkafka reads something again.
    private func isLogChanged(_ one: Assigned, highest: Int64) -> Bool {
        if one.refused?.isAnotherLog == true { return true }
        let high = consumer.watermarks(of: one.queue.partition).high
        return high >= 0 && high <= highest
    }

    /// Of each partition the record of the latest time that was read since the last call.
    func takeWitnesses() -> [TopicPartition: LogMarks.Witness] {
        var found: [TopicPartition: LogMarks.Witness] = [:]
        for one in assigned {
            guard let witness = one.witness else { continue }
            found[one.queue.partition] = witness
            one.witness = nil
        }
        return found
    }

    /// A leader epoch never falls in one log (only librdkafka 2.1.0 and later tell it; looked at once a batch).
    private func noteEpoch(
        _ message: borrowing Message, _ one: Assigned, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) {
        // What is read again was written by earlier leaders.
        guard one.refused == nil, let epoch = message.leaderEpoch else { return }
        let before = one.leaderEpoch
        one.leaderEpoch = epoch
        if let before, epoch < before { restart(one, from: 0, &machine, now) }
    }

    /// What the watch saw: records from `change.from` on are of another log than those that were read, although their
    /// offsets go on (of an idle partition nothing else tells it on librdkafka 2.0.2).
    ///
    /// Told while the partition is on its way to somebody, or from us, it is kept: the watch says it once, and whoever has
    /// the partition next would go on from what was committed for the log before. Where another one had begun anew
    /// meanwhile, that is done once more, and what repeats is in doubt.
    func logIsAnother(_ change: LogMarks.Change, _ machine: inout DeliveryMachine, now: DeliveryTime) {
        guard let one = find(change.partition), revocation == nil, !isLeaving else {
            seen = seen.filter { now.ns < $0.value.untilNs }
            seen[change.partition] = (change, now.ns + Self.changedNs)
            return
        }
        guard !one.isStopped else { return }
        // Whoever began since then, and not behind it, reads all that is new.
        if one.beganNs > change.unchangedNs, one.begin <= change.from { return }
        restart(one, from: change.from, &machine, now)
    }

    /// The log is another one although its offsets go on: it is read from this offset on, which takes a new assignment
    /// (a seek was seen to time out on librdkafka 2.0.2). That is committed at once, whoever has the partition next.
    private func restart(_ one: Assigned, from offset: Int64, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        let partition = one.queue.partition
        stop(one, from: offset, &machine, now)
        let start = CommittedOffset(
            partition: partition, offset: offset, metadata: machine.metadata(toBeginAt: offset, one.id))
        changed[partition] = (start, now.ns + Self.changedNs)
        if revocation == nil, !isLeaving { rejoin("the log of \(partition) is another one", now) }
    }

    /// The topic of this partition was unknown when its offset was to be committed: with it the offset goes. Nothing more
    /// is committed, lest it be for a log that is made anew, and the group tells where to go on.
    func topicIsGone(_ partition: TopicPartition, _ machine: inout DeliveryMachine, now: DeliveryTime) {
        guard let one = find(partition), revocation == nil, !isLeaving, !one.isStopped
        else { return }
        stop(one, from: nil, &machine, now)
        rejoin("topic \(partition.topic) is gone", now)
    }

    private func stop(_ one: Assigned, from offset: Int64?, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        beginAnew(one, from: offset, &machine, now)
        one.isStopped = true
    }

    private func beginAnew(_ one: Assigned, from offset: Int64?, _ machine: inout DeliveryMachine, _ now: DeliveryTime)
    {
        acquit(one.queue.partition)
        let high = consumer.watermarks(of: one.queue.partition).high
        noteFormer(one.id, one.queue.partition)
        byID[one.id] = nil
        one.id = machine.beginAnew(
            one.id, from: offset, logEnd: high < 0 ? nil : high, now: now)
        byID[one.id] = one
        place.pointee = machine.place(of: one.id)
        one.refused = nil
        one.start = offset ?? 0
        one.leaderEpoch = nil
        one.witness = nil
        // Of the log before.
        one.unreadable = nil
        one.failures = BatchFailures()
    }

    // MARK: Commits and deadlines

    /// The partition of an assignment; `nil`: it is not ours any more.
    func partition(of id: PartitionID) -> TopicPartition? {
        byID[id]?.queue.partition
    }

    /// The partition of an assignment, for log lines: also of one that was given up, unless that is long ago.
    func name(of id: PartitionID) -> TopicPartition? { partition(of: id) ?? former[id] }

    func send(_ entries: [Kafka.CommitEntry], tag: UInt64) throws(KafkaError) {
        try consumer.commit(entries, tag: tag)
    }

    func isAssigned(_ partition: TopicPartition) -> Bool { find(partition) != nil }

    private func find(_ partition: TopicPartition) -> Assigned? { byPartition[partition] }

    /// The partitions that are read, or drain, now.
    func forEachAssigned(_ body: (PartitionID, TopicPartition) -> Void) {
        for partition in assigned { body(partition.id, partition.queue.partition) }
    }

    /// Where the partitions end that are read, as the watch told it and the last fetch did.
    func ends(lastStable: [TopicPartition: Int64]) -> [OpenTransactions.Ends] {
        assigned.map { assigned in
            let partition = assigned.queue.partition
            return OpenTransactions.Ends(
                partition: partition, lastStable: lastStable[partition],
                highWatermark: consumer.watermarks(of: partition).high)
        }
    }

    /// When `serve` or `read` has something to do without a wake-up (monotonic).
    func nextDeadlineNs(now: DeliveryTime) -> Int64? {
        var deadline: Int64?
        func consider(_ ns: Int64) { deadline = min(deadline ?? ns, ns) }
        if let waiting { consider(waiting.retryNs) }
        if let untold { consider(untold.retryNs) }
        if let left, waiting == nil, revocation == nil, !isLeaving { consider(left.retryNs) }
        if let revocation {
            consider(revocation.hasStoppedWaiting ? revocation.lastCommitDeadlineNs : revocation.deadlineNs)
        }
        // What is due already waits for room, which is no matter of time.
        for partition in assigned where partition.dueNs > now.ns { consider(partition.dueNs) }
        for partition in assigned {
            if let nextNs = partition.refused?.nextNs { consider(nextNs) }
        }
        return deadline
    }
}
