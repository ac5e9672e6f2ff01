internal import Configuration
internal import Delivery
internal import EventLoop
internal import Kafka
internal import Observability

/// Partitions that are draining. The worker gives them up once they are drained or the time limit has passed.
struct Revocation {
    var partitions: [PartitionID]
    /// The time limit (monotonic): first for answers from APNs, and after `hasStoppedWaiting` for the last commit.
    var deadlineNs: Int64
    var hasStoppedWaiting = false
    /// Whether the group revoked the partitions and waits for `unassign`. False if the member leaves the group of its
    /// own accord.
    let mustUnassign: Bool
}

extension GroupReader {
    private static let lookupPauseNs: Int64 = 500_000_000
    /// How long the reader waits until new partitions have leaders, which normally takes less than a second.
    private static let newPartitionsNs: Int64 = 30_000_000_000
    private static let unreadablePauseNs: Int64 = 5_000_000_000

    /// Whether the member is leaving or has left its group.
    var isLeaving: Bool { if case .member = phase { false } else { true } }

    private var isAbandoned: Bool { if case .abandoned = phase { true } else { false } }

    /// Whether the member may rejoin its group: no partition is draining, and the member is not leaving.
    var isSettled: Bool { revocations.isEmpty && !isLeaving }

    var hasLeft: Bool {
        switch phase {
        case .member, .leaving: false
        case .closing: consumer.isClosed
        case .abandoned: true
        }
    }

    // MARK: Calls to librdkafka

    /// Subscribes to these topics instead of the current ones.
    func subscribe(to topics: [String]) {
        self.topics = topics
        tell { () throws(KafkaError) in try consumer.subscribe(to: topics) }
    }

    /// Leaves the group and joins it again, so that all partitions are reassigned.
    func rejoin(_ reason: String, _ now: DeliveryTime) {
        logger.info(.kafka, "rejoining the group", ["group": "\(name)", "reason": "\(reason)"])
        unreadable = ([], 0)
        tell { () throws(KafkaError) in try consumer.rejoin(topics) }
    }

    /// Makes a call to librdkafka that fails only if the client is unusable. A failure is fatal, because without the
    /// call the group's rebalance cannot end.
    private func tell(_ call: () throws(KafkaError) -> Void) {
        do throws(KafkaError) {
            try call()
        } catch {
            fatalError = error
        }
    }

    // MARK: Assignment

    /// Accepts an assignment. The reader reads the partitions once their offsets are known (`moveAssignment`).
    func assigned(_ assigned: [TopicPartition], _ now: DeliveryTime) {
        guard !isAbandoned else { return }
        rebalances += 1
        lastError = nil
        // If a topic is recreated while its partitions drain, librdkafka (2.0.2) may assign partitions before
        // `unassign` is called. librdkafka then neither fetches the new partitions nor rejoins, so the worker has to be
        // restarted.
        if !consumer.isCooperative, !isLeaving, !partitions.isEmpty || revocations.contains(where: \.mustUnassign) {
            fatalError = KafkaError(
                .inconsistent, "partitions were assigned before the revoked partitions were unassigned")
            return
        }
        lookup = (isLeaving ? [] : assigned, now.ns, now.ns + Self.newPartitionsNs)
        // With eager assignment, unreadable partitions that are not in the new assignment belong to other members.
        if !consumer.isCooperative { unreadable.partitions.removeAll { !assigned.contains($0) } }
    }

    /// Looks up the committed offsets of assigned partitions, and begins to read the partitions.
    func moveAssignment(_ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        guard let (assigned, retryNs, newPartitionsUntilNs) = lookup, retryNs <= now.ns else { return }
        do throws(KafkaError) {
            let answers = try CommittedOffsetLookup(assigned, consumer)
            if !answers.hasUnknownNewLog || now.ns >= newPartitionsUntilNs {
                try begin(answers, &machine, now)
                lookup = nil
                hasJoined = true
                return
            }
        } catch {
            logger.warning(
                .kafka, "offsets of assigned partitions unknown, retrying", about: name,
                ["group": "\(name)", "error": "\(error.text)"])
        }
        // The lookup may have taken seconds, so `now` is outdated.
        lookup?.retryNs = LoopTime.read().monotonicNs + Self.lookupPauseNs
    }

    private func begin(
        _ answers: CommittedOffsetLookup, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) throws(KafkaError) {
        let starts = answers.starts(knownIDs: topicIDs, startingAtEnd: startingAtEnd)
        let queues = try consumer.assign(starts.map { ($0.committed.partition, $0.offset) })
        if starts.isEmpty { machine.endAssignment(of: group) }
        partitions += zip(queues, starts).map { queue, start in
            let partition = queue.partition
            // A worker commits the start offset of a partition before it sends any of the partition's records. If an
            // added partition or a new topic has no committed offset, no worker has therefore sent its records.
            let isNew =
                start.committed.offset == nil
                && (answers.added.contains(partition) || topicsAtStart?.contains(partition.topic) == false)
            let id = start.committed.metadata.withUnsafeBytes { metadata in
                machine.assign(
                    topic: partition.topic, partition: partition.partition, role: roleOfTopic(partition.topic),
                    committedOffset: start.committed.offset, metadata: metadata,
                    logStart: start.isAtEnd ? start.logEnd : start.logStart,
                    logEnd: isNew ? start.logStart : start.logEnd)
            }
            // Kafka deletes the committed offset of a group with members only with the topic.
            if start.isRecreated || start.committed.offset == nil { noteLoss(of: partition, now) }
            problems.forget(.partition(partition))
            problems.forget(.topic(partition.topic))
            if start.isRecreated {
                return beginAnew(queue, id, from: start.logStart, logEnd: start.logEnd, &machine, now)
            }
            return PartitionReader(queue, id: id, readFrom: start.offset ?? 0, context)
        }
        let known = topicIDs
        topicIDs = [:]
        for one in partitions {
            topicIDs[one.partition] = answers.topicIDs[one.partition.topic] ?? known[one.partition]
        }
        if !starts.isEmpty {
            let names = starts.map(\.committed.partition.description).sorted().joined(separator: ",")
            logger.info(.kafka, "partitions assigned", ["group": "\(name)", "partitions": "\(names)"])
        }
        let skipped = starts.filter(\.isAtEnd)
        if !skipped.isEmpty {
            let records = skipped.reduce(0) { $0 + max(0, ($1.logEnd ?? 0) - ($1.logStart ?? 0)) }
            logger.warning(
                .kafka, "the group has no committed offset, reading from the end (delivery.start: latest)",
                [
                    "partitions": "\(skipped.map(\.committed.partition.description).sorted().joined(separator: ","))",
                    "skipped": .sum(records),
                ])
        }
        startingAtEnd.subtract(starts.map(\.committed.partition))
        // Unreadable partitions do not block other partitions. With cooperative assignment, the partitions of earlier
        // assignments stay assigned, so their unreadable ones stay in the list.
        for (partition, code) in answers.failed { problems.note(.partition(partition), code, isOfFetch: false, now) }
        unreadable.partitions.removeAll { !consumer.isCooperative || answers.partitions.contains($0) }
        unreadable.partitions += answers.failed.map(\.partition)
        unreadable.retryNs = now.ns + Self.unreadablePauseNs
    }

    /// Looks up the offsets of unreadable partitions again. If at least one offset is known now, rejoins the group,
    /// which then assigns the partitions again.
    func retryUnreadable(_ now: DeliveryTime) {
        guard !unreadable.partitions.isEmpty, unreadable.retryNs <= now.ns, lookup == nil, isSettled else { return }
        unreadable.retryNs = now.ns + Self.unreadablePauseNs
        let answers = try? CommittedOffsetLookup(unreadable.partitions, consumer)
        if let answers, answers.failed.count < unreadable.partitions.count {
            rejoin("partitions can be read again", now)
        }
    }

    // MARK: Changed logs

    /// Checks partitions whose next offset is out of range or whose topic may have been deleted (`suspects`). If an
    /// offset is out of range or a topic was recreated, the member rejoins the group and reads the partition from its
    /// log start offset.
    func checkLogs(_ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        suspects.unknown.formIntersection(topicIDs.keys)
        suspects.outOfRange = suspects.outOfRange.filter(isAssigned)
        let all = suspects.unknown.union(suspects.outOfRange)
        guard !all.isEmpty, isSettled, lookup == nil, nextLogCheckNs <= now.ns else { return }
        nextLogCheckNs = now.ns + Self.unreadablePauseNs
        let ids = consumer.topicIDs(of: Set(all.map(\.topic)), timeoutMs: CommittedOffsetLookup.timeoutMs)
        // A deleted topic has no id until the topic is created again.
        suspects.unknown = suspects.unknown.filter { ids[$0.topic] == nil }
        let recreated = topicIDs.filter { partition, id in ids[partition.topic].map { $0 != id } ?? false }.map(\.key)
        let changed = Array(suspects.outOfRange.union(recreated))
        guard !changed.isEmpty,
            let starts = try? consumer.offsets(
                of: changed, fromMs: Consumer.logStart, timeoutMs: CommittedOffsetLookup.timeoutMs),
            !starts.isEmpty
        else { return }
        for (partition, logStart) in starts {
            guard let index = partitions.firstIndex(where: { $0.partition == partition }) else { continue }
            let position = partitions[index].position(machine)
            if suspects.outOfRange.remove(partition) != nil {
                logger.warning(
                    .kafka, "offset out of range, continuing at the beginning of the log", about: "\(partition)",
                    ["partition": "\(partition)", "offset": .count(position), "start": .count(logStart)])
            }
            if !recreated.contains(partition), position < logStart { continue }
            noteLoss(of: partition, now)
            topicIDs[partition] = ids[partition.topic]
            partitions[index].queue.close()
            partitions[index] = beginAnew(partitions[index].queue, partitions[index].id, from: logStart, &machine, now)
        }
        rejoin("the log of a partition changed", now)
    }

    /// Restarts a partition whose topic was recreated, or whose next offset is beyond the log end. The machine treats
    /// the partition as a new assignment.
    private func beginAnew(
        _ queue: PartitionQueue, _ id: PartitionID, from logStart: Int64?, logEnd: Int64? = nil,
        _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) -> PartitionReader {
        context.forgetOffsets(of: queue.partition)
        let new = machine.beginAnew(id, from: logStart, logEnd: logEnd, now: now)
        return PartitionReader(queue, id: new, readFrom: logStart ?? 0, context)
    }

    // MARK: Revocation

    /// Drains partitions that the group revokes, for up to `drainNs`, and then gives up the partitions.
    ///
    /// - Parameter lost: Whether another member may already own the partitions, which are then given up immediately.
    func revoked(_ revoked: [TopicPartition], lost: Bool, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        guard !isAbandoned else { return }
        lookup = nil
        let taken = Set(revoked)
        unreadable.partitions.removeAll { !consumer.isCooperative || taken.contains($0) }
        let ids = partitions.filter { taken.contains($0.partition) }.map(\.id)
        let names = revoked.map(\.description).sorted().joined(separator: ",")
        logger.log(
            lost ? .warning : .info, .kafka,
            lost ? "partitions lost, another worker may read them" : "partitions revoked, draining",
            ["group": "\(name)", "count": .count(revoked.count), "partitions": "\(names)"])
        if lost {
            revocations = []
            return giveUp(ids, isLost: true, mustUnassign: true, &machine)
        }
        machine.revoke(ids)
        // Partitions that already drain because the member leaves the group now also need `unassign`, so they move to
        // the new revocation.
        for index in revocations.indices { revocations[index].partitions.removeAll { ids.contains($0) } }
        revocations.removeAll { $0.mustUnassign || $0.partitions.isEmpty }
        var deadlineNs = now.ns + drainNs
        if case .leaving(let limitNs) = phase { deadlineNs = min(deadlineNs, limitNs) }
        revocations.append(Revocation(partitions: ids, deadlineNs: deadlineNs, mustUnassign: true))
    }

    /// Begins to leave the group: drains all partitions for up to `limitNs`, and then closes the consumer. `limitNs`
    /// also applies to revoked partitions that are still draining.
    func leave(_ machine: inout DeliveryMachine, limitNs: Int64, now: DeliveryTime) {
        guard !isAbandoned else { return }
        let deadlineNs = now.ns + limitNs
        phase = .leaving(deadlineNs: deadlineNs)
        endLookups()
        let draining = Set(revocations.flatMap(\.partitions))
        let others = partitions.map(\.id).filter { !draining.contains($0) }
        machine.revoke(others)
        for index in revocations.indices {
            revocations[index].deadlineNs = min(revocations[index].deadlineNs, deadlineNs)
        }
        revocations.append(Revocation(partitions: others, deadlineNs: deadlineNs, mustUnassign: false))
    }

    /// Ends the membership after a fatal error, after which the client can neither read nor commit. Another member may
    /// own the partitions, so the worker lets their notifications in flight settle and sends no more of them.
    func abandon(because error: KafkaError, _ machine: inout DeliveryMachine) {
        guard !isAbandoned else { return }
        phase = .abandoned
        endLookups()
        revocations = []
        logger.error(.kafka, "left the group after a fatal error", ["group": "\(name)", "error": "\(error.text)"])
        giveUp(partitions.map(\.id), isLost: true, &machine)
    }

    private func endLookups() {
        lookup = nil
        unreadable.partitions = []
    }

    /// Gives up partitions that are drained or have reached their time limit. A leaving member then closes its
    /// consumer.
    func moveRevocations(_ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        let moving = revocations
        revocations = []
        for var revocation in moving {
            if consumer.isAssignmentLost, revocation.mustUnassign {
                logger.warning(.kafka, "partitions were lost while they drained", ["group": "\(name)"])
                giveUp(revocation.partitions, isLost: true, mustUnassign: true, &machine)
            } else if revocation.partitions.allSatisfy({ machine.isDrained($0) })
                || revocation.hasStoppedWaiting && now.ns >= revocation.deadlineNs
            {
                giveUp(revocation.partitions, isLost: false, mustUnassign: revocation.mustUnassign, &machine)
            } else {
                if now.ns >= revocation.deadlineNs {
                    logger.warning(
                        .delivery, "drain limit reached, unanswered notifications stay in doubt",
                        ["group": "\(name)"])
                    machine.stopWaiting(revocation.partitions)
                    revocation.hasStoppedWaiting = true
                    revocation.deadlineNs += WorkerConfiguration.lastCommitMs * 1_000_000
                }
                revocations.append(revocation)
            }
        }
        guard case .leaving = phase, revocations.isEmpty else { return }
        phase = .closing
        do throws(KafkaError) {
            try consumer.startClosing()
        } catch {
            logger.warning(.kafka, "leaving the group failed", ["error": "\(error.text)"])
        }
    }

    /// - Parameter isLost: Whether to suspend the partitions in the machine, in case the group assigns them to this
    ///   member again, instead of releasing them.
    private func giveUp(
        _ ids: [PartitionID], isLost: Bool, mustUnassign: Bool = false, _ machine: inout DeliveryMachine
    ) {
        if isLost {
            partitionsLost += ids.count
            // The known ids may be outdated: another member may have read a lost partition after its topic was
            // recreated.
            topicIDs = [:]
            unsettled = [:]
            machine.suspend(ids)
        } else {
            machine.release(ids)
        }
        partitions.removeAll { ids.contains($0.id) }
        guard mustUnassign else { return }
        tell { () throws(KafkaError) in try consumer.unassign() }
        if !isLost, !ids.isEmpty {
            logger.info(.kafka, "partitions given up", ["group": "\(name)", "count": .count(ids.count)])
        }
    }
}
