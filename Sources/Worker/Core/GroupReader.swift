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
final class GroupReader {
    /// What the partitions of a topic are read for.
    typealias RoleOfTopic = (String) -> PartitionRole

    private struct Assigned {
        let queue: PartitionQueue
        let id: PartitionID
        let topic: [UInt8]
        /// Whether records may be waiting. A queue left unread until it is empty wakes nobody again.
        var mayHaveMore = true
        /// When the head of a retry partition is due, by the monotonic clock (the other may be set back by hours
        /// meanwhile): its queue keeps it until then, and a few records behind it. (Not paused and sought back, as
        /// kafka.md has it: on librdkafka 2.0.2 a seek was seen to time out, which stops the core for a second and leaves
        /// it open where reading goes on.)
        var dueNs: Int64 = 0
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
    private var assigned: [Assigned] = []
    /// Partitions given to us whose committed offsets could not be read yet, and when to try again.
    private var waiting: (partitions: [TopicPartition], retryNs: Int64)?
    private var revocation: Revocation?
    private var nextToRead = 0
    private var headers: [RecordHeader] = []
    /// Where it reads, for whoever dies there.
    private let place = UnsafeMutablePointer<CrashPlace>.allocate(capacity: 1)
    /// Records that are not to be looked at: the worker died at them.
    var condemned: Set<CrashHistory.Place> = []
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
    private static let committedTimeoutMs: Int32 = 1_000
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
        consumer = try Consumer(settings, wakeUpDescriptor: wakeUpDescriptor)
        try consumer.subscribe(to: topics)
    }

    deinit { place.deallocate() }

    // MARK: The group

    /// Takes what the group has to say. Call after every wake-up and at least once a second.
    func serve(
        _ machine: inout DeliveryMachine, now: DeliveryTime, committed: (CommitReply, inout DeliveryMachine) -> Void
    ) {
        consumer.serve { event in
            switch event {
            case .assigned(let partitions): begin(partitions, &machine, now)
            case .revoked(let partitions, let lost): revoke(partitions, lost: lost, &machine, now)
            case .committed(let reply): committed(reply, &machine)
            case .offsetReset(let partition, _):
                logger.error(
                    .kafka, "the committed offset does not exist any more: records were skipped, or come again",
                    about: "\(partition)", ["partition": "\(partition)"])
            case .partitionFailed(let partition, let error):
                logger.warning(
                    .kafka, "a partition cannot be read; trying on", about: "\(partition) \(error.code.name)",
                    ["partition": "\(partition)", "error": "\(error.text)"])
            case .client(.fatal(let error)):
                fatalError = error
            case .client(.statistics(let text)):
                if let isReached = isAnyBrokerUp(inStatistics: text) { isBrokerReached = isReached }
            case .client(let event):
                if case .error(let error) = event { lastError = error }
                EventLog.write(event, of: name, to: logger)
            }
        }
        if let waiting, waiting.retryNs <= now.ns { begin(waiting.partitions, &machine, now) }
        moveRevocation(&machine, now)
    }

    private func begin(_ partitions: [TopicPartition], _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        hasJoined = true
        waiting = nil
        do throws(KafkaError) {
            guard !isLeaving, !partitions.isEmpty else {
                _ = try consumer.assign([])
                return
            }
            let committed = try committedOffsets(partitions)
            // Only what an owner before left behind may have been sent, and only what was there to be read.
            let ends =
                committed.allSatisfy(\.metadata.isEmpty)
                ? committed.map { _ in nil } : consumer.ends(of: partitions, timeoutMs: Self.committedTimeoutMs)
            let queues = try consumer.assign(committed.map { PartitionStart($0.partition, offset: $0.offset) })
            for (queue, (position, end)) in zip(queues, zip(committed, ends)) {
                let id = position.metadata.withUnsafeBytes { metadata in
                    machine.assign(
                        topic: queue.partition.topic, partition: queue.partition.partition,
                        role: roleOfTopic(queue.partition.topic), committedOffset: position.offset, metadata: metadata,
                        logEnd: end)
                }
                assigned.append(Assigned(queue: queue, id: id, topic: Array(queue.partition.topic.utf8)))
            }
            logger.info(
                .kafka, "partitions assigned",
                ["group": "\(name)", "partitions": "\(partitions.map(\.description).sorted().joined(separator: ","))"])
        } catch {
            logger.warning(
                .kafka, "committed offsets cannot be read; trying again", about: name,
                ["group": "\(name)", "error": "\(error.text)"])
            waiting = (partitions, now.ns + 500_000_000)
        }
    }

    /// What the group has committed. A tier of which nothing is committed starts at its first record: that offset is
    /// committed at once, for the tier to be found by it when it is taken out of the configuration.
    private func committedOffsets(_ partitions: [TopicPartition]) throws(KafkaError) -> [CommittedOffset] {
        let committed = try consumer.committed(partitions, timeoutMs: Self.committedTimeoutMs)
        if let failed = committed.first(where: { $0.code != .none && $0.code != .noOffset }) {
            throw KafkaError(failed.code)
        }
        let new = committed.filter { $0.offset == nil && roleOfTopic($0.partition.topic).isRetry }.map(\.partition)
        guard !new.isEmpty else { return committed }
        let starts = try consumer.starts(of: new, timeoutMs: Self.committedTimeoutMs)
        let offsets = Dictionary(zip(new, starts)) { first, _ in first }
        return committed.map { place in
            guard let start = offsets[place.partition] else { return place }
            return CommittedOffset(partition: place.partition, offset: start, metadata: [])
        }
    }

    private func revoke(
        _ partitions: [TopicPartition], lost: Bool, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) {
        waiting = nil
        let leaving = assigned.filter { partitions.contains($0.queue.partition) }.map(\.id)
        logger.info(
            .kafka, lost ? "partitions lost" : "partitions revoked; draining",
            ["group": "\(name)", "count": .count(partitions.count)])
        if lost {
            revocation = nil
            release(leaving, &machine, mustUnassign: true)
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
                release(revocation.partitions, &machine, mustUnassign: true)
            } else if revocation.partitions.allSatisfy({ machine.isDrained($0) })
                || now.ns >= revocation.lastCommitDeadlineNs
            {
                self.revocation = nil
                release(revocation.partitions, &machine, mustUnassign: revocation.mustUnassign)
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

    private func release(_ partitions: [PartitionID], _ machine: inout DeliveryMachine, mustUnassign: Bool) {
        machine.release(partitions)
        assigned.removeAll { partitions.contains($0.id) }
        guard mustUnassign else { return }
        do throws(KafkaError) {
            try consumer.unassign()
        } catch {
            logger.warning(.kafka, "partitions could not be given up", ["error": "\(error.text)"])
        }
        logger.info(.kafka, "partitions given up", ["group": "\(name)", "count": .count(partitions.count)])
    }

    // MARK: Records

    /// After a wake-up every queue may have something.
    func markReadable() {
        for index in assigned.indices { assigned[index].mayHaveMore = true }
    }

    /// Reads as much as there is room for; true when there is more to be read at once.
    func read(
        into machine: inout DeliveryMachine, now: DeliveryTime,
        deadLetter: (borrowing Message, RequestPlace, NotificationID, DeadLetterReason, Detail) -> Void
    ) -> Bool {
        guard revocation == nil, !assigned.isEmpty else { return false }
        var hasMore = false
        let first = nextToRead % assigned.count
        nextToRead = first + 1
        for step in assigned.indices {
            let index = (first + step) % assigned.count
            guard assigned[index].mayHaveMore, assigned[index].dueNs <= now.ns else { continue }
            let id = assigned[index].id
            guard machine.room(for: id) > 0 else { continue }
            assigned[index].dueNs = 0
            let queue = assigned[index].queue
            place.pointee = machine.place(of: id)
            queue.read(max: Self.batchLimit) { message in
                guard machine.room(for: id) > 0 else { return false }
                crash_next(place, message.offset)
                crash_at(place)
                defer { crash_nowhere() }
                let isCondemned = !condemned.isEmpty && isCondemned(queue.partition, message.offset)
                headers.removeAll(keepingCapacity: true)
                if !isCondemned { message.forEachHeader { headers.append(RecordHeader(name: $0, value: $1)) } }
                let receipt = headers.withUnsafeBufferPointer {
                    machine.receive(
                        id, offset: message.offset, timestampMs: message.timestampMs, key: message.key,
                        value: message.value, headers: $0, unread: isCondemned ? .workerCrashed : nil, now: now)
                }
                switch receipt {
                case .taken, .known, .below, .unassigned: return true
                case .deadLetter(let production, let reason, let detail):
                    assigned[index].topic.withUnsafeBytes { topic in
                        let place = RequestPlace(
                            topic: topic, partition: message.partition, offset: message.offset, index: 0)
                        deadLetter(message, place, production, reason, detail)
                    }
                    return true
                case .notDue(let untilMs):
                    assigned[index].dueNs = now.ns + max(0, untilMs - now.wallMs) * 1_000_000
                    return false
                }
            }
            assigned[index].mayHaveMore = queue.count > 0
            if assigned[index].mayHaveMore, machine.room(for: id) > 0, assigned[index].dueNs == 0 { hasMore = true }
        }
        return hasMore
    }

    private func isCondemned(_ partition: TopicPartition, _ offset: Int64) -> Bool {
        condemned.contains(
            CrashHistory.Place(topic: partition.topic, partition: partition.partition, offset: offset))
    }

    // MARK: Commits and deadlines

    /// The partition of an assignment; `nil`: it is not ours any more.
    func partition(of id: PartitionID) -> TopicPartition? {
        assigned.first { $0.id == id }?.queue.partition
    }

    /// The partitions that are read, or drain, now.
    func forEachAssigned(_ body: (PartitionID, TopicPartition) -> Void) {
        for partition in assigned { body(partition.id, partition.queue.partition) }
    }

    /// When `serve` or `read` has something to do without a wake-up (monotonic).
    func nextDeadlineNs(now: DeliveryTime) -> Int64? {
        var deadline: Int64?
        func consider(_ ns: Int64) { deadline = min(deadline ?? ns, ns) }
        if let waiting { consider(waiting.retryNs) }
        if let revocation {
            consider(revocation.hasStoppedWaiting ? revocation.lastCommitDeadlineNs : revocation.deadlineNs)
        }
        for partition in assigned {
            if partition.dueNs > 0 { consider(partition.dueNs) }
        }
        return deadline
    }
}

extension PartitionRole {
    fileprivate var isRetry: Bool {
        if case .retry = self { true } else { false }
    }
}
