internal import Configuration
internal import Delivery
internal import EventLoop
internal import Kafka
internal import Observability

/// Partitions on their way out, until they are drained or the limit has passed.
struct Revocation {
    var partitions: [PartitionID]
    /// When to stop waiting for answers, and then for the last commit (monotonic).
    var deadlineNs: Int64
    var hasStoppedWaiting = false
    /// Whether the group asked for them and waits for the answer, or the member leaves by itself.
    let mustUnassign: Bool
}

extension GroupReader {
    private static let lookupPauseNs: Int64 = 500_000_000
    private static let unreadablePauseNs: Int64 = 5_000_000_000

    /// True also after it has left.
    var isLeaving: Bool { if case .member = phase { false } else { true } }

    private var isAbandoned: Bool { if case .abandoned = phase { true } else { false } }

    /// Whether the group may be joined anew: no partition is on its way out, and the member does not leave.
    var isSettled: Bool { revocations.isEmpty && !isLeaving }

    /// Whether the group was left.
    var hasLeft: Bool {
        switch phase {
        case .member, .leaving: false
        case .closing: consumer.isClosed
        case .abandoned: true
        }
    }

    // MARK: Calls to librdkafka

    /// Subscribes to other topics from now on.
    func subscribe(to topics: [String]) {
        self.topics = topics
        tell { () throws(KafkaError) in try consumer.subscribe(to: topics) }
    }

    /// Leaves the group and joins it again: everything is given out anew.
    func rejoin(_ reason: String, _ now: DeliveryTime) {
        logger.info(.kafka, "joining the group anew", ["group": "\(name)", "reason": "\(reason)"])
        unreadable = ([], 0)
        tell { () throws(KafkaError) in try consumer.rejoin(topics) }
    }

    /// Makes a call that librdkafka refuses only where the client can no longer be used. Without it the group would
    /// wait for this member.
    private func tell(_ call: () throws(KafkaError) -> Void) {
        do throws(KafkaError) {
            try call()
        } catch {
            fatalError = error
        }
    }

    // MARK: Assignment

    /// Takes an assignment: its partitions are read once their offsets are known (`moveAssignment`).
    func assigned(_ assigned: [TopicPartition], _ now: DeliveryTime) {
        guard !isAbandoned else { return }
        hasJoined = true
        // If a topic is recreated while its partitions drain, librdkafka (2.0.2) may assign before the revocation is
        // answered. It then neither fetches the new partitions nor joins again, so the worker has to be started again.
        if !consumer.isCooperative, !isLeaving, !partitions.isEmpty || revocations.contains(where: \.mustUnassign) {
            fatalError = KafkaError(.inconsistent, "partitions were assigned before the revoked ones were given up")
            return
        }
        lookup = (isLeaving ? [] : assigned, now.ns)
        // With eager assignment, a partition that was left out and is not in this one belongs to another member now.
        if !consumer.isCooperative { unreadable.partitions.removeAll { !assigned.contains($0) } }
    }

    /// Begins to read what was assigned, once it is known where.
    func moveAssignment(_ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        guard let (assigned, retryNs) = lookup, retryNs <= now.ns else { return }
        do throws(KafkaError) {
            try begin(try CommittedOffsetLookup(assigned, consumer), &machine, now)
            lookup = nil
        } catch {
            logger.warning(
                .kafka, "what was assigned cannot be read yet; trying again", about: name,
                ["group": "\(name)", "error": "\(error.text)"])
            // It may have taken seconds to fail, since the turn began.
            lookup = (assigned, LoopTime.read().monotonicNs + Self.lookupPauseNs)
        }
    }

    private func begin(
        _ answers: CommittedOffsetLookup, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) throws(KafkaError) {
        let starts = answers.starts(knownIDs: topicIDs, startingAtEnd: startingAtEnd)
        let queues = try consumer.assign(starts.map { ($0.committed.partition, $0.offset) })
        if starts.isEmpty { machine.endAssignment(of: group) }
        partitions += zip(queues, starts).map { queue, start in
            let partition = queue.partition
            let id = start.committed.metadata.withUnsafeBytes { metadata in
                machine.assign(
                    topic: partition.topic, partition: partition.partition, role: roleOfTopic(partition.topic),
                    committedOffset: start.committed.offset, metadata: metadata,
                    logStart: start.isAtEnd ? start.logEnd : start.logStart, logEnd: start.logEnd)
            }
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
        // The partitions that cannot be read hinder no other. With cooperative assignment those left out before stay.
        for (partition, code) in answers.failed { problems.note(.partition(partition), code, isOfFetch: false, now) }
        unreadable.partitions.removeAll { !consumer.isCooperative || answers.partitions.contains($0) }
        unreadable.partitions += answers.failed.map(\.partition)
        unreadable.retryNs = now.ns + Self.unreadablePauseNs
    }

    /// Looks the offsets of unreadable partitions up again. Once one is known, the group is joined anew, which assigns
    /// its partitions to a member.
    func retryUnreadable(_ now: DeliveryTime) {
        guard !unreadable.partitions.isEmpty, unreadable.retryNs <= now.ns, lookup == nil, isSettled else { return }
        unreadable.retryNs = now.ns + Self.unreadablePauseNs
        let answers = try? CommittedOffsetLookup(unreadable.partitions, consumer)
        if let answers, answers.failed.count < unreadable.partitions.count {
            rejoin("partitions can be read again", now)
        }
    }

    // MARK: Changed logs

    /// Looks at the logs of partitions whose next offset is out of range, or that may not be there any more. The group
    /// is joined anew where retention overtook it, or where a topic was recreated: such a partition is read from its
    /// beginning.
    func checkLogs(_ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        suspects.unknown.formIntersection(topicIDs.keys)
        suspects.outOfRange = suspects.outOfRange.filter(isAssigned)
        let all = suspects.unknown.union(suspects.outOfRange)
        guard !all.isEmpty, isSettled, lookup == nil, nextLogCheckNs <= now.ns else { return }
        nextLogCheckNs = now.ns + Self.unreadablePauseNs
        let ids = consumer.topicIDs(of: Set(all.map(\.topic)), timeoutMs: CommittedOffsetLookup.timeoutMs)
        // Of one that is unknown, the answer comes once it exists again.
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
                    .kafka, "offset out of range, reading on from the beginning of the log", about: "\(partition)",
                    ["partition": "\(partition)", "offset": .count(position), "start": .count(logStart)])
            }
            if !recreated.contains(partition), position < logStart { continue }
            topicIDs[partition] = ids[partition.topic]
            partitions[index].queue.close()
            partitions[index] = beginAnew(partitions[index].queue, partitions[index].id, from: logStart, &machine, now)
        }
        rejoin("the log of a partition changed", now)
    }

    /// Gives the machine a new assignment of a partition whose topic was recreated.
    private func beginAnew(
        _ queue: PartitionQueue, _ id: PartitionID, from logStart: Int64?, logEnd: Int64? = nil,
        _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) -> PartitionReader {
        context.forgetOffsets(of: queue.partition)
        let new = machine.beginAnew(id, from: logStart, logEnd: logEnd, now: now)
        return PartitionReader(queue, id: new, readFrom: logStart ?? 0, context)
    }

    // MARK: Revocation

    /// Drains partitions that the group takes back, for `drainNs` at most, and gives them up then.
    ///
    /// - Parameter lost: another member may own them already.
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
        // Those that drain already because the member leaves are to be answered now.
        for index in revocations.indices { revocations[index].partitions.removeAll { ids.contains($0) } }
        revocations.removeAll { $0.mustUnassign || $0.partitions.isEmpty }
        var deadlineNs = now.ns + drainNs
        if case .leaving(let limitNs) = phase { deadlineNs = min(deadlineNs, limitNs) }
        revocations.append(Revocation(partitions: ids, deadlineNs: deadlineNs, mustUnassign: true))
    }

    /// Begins to leave the group: everything is drained, for `limitNs` at most; then `hasLeft` becomes true. What the
    /// group has asked for has no longer than that, and is answered.
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

    /// Ends the membership after a fatal error: nothing more can be read or committed. Another member may own the
    /// partitions, so notifications on connections settle and nothing more is sent of them.
    func abandon(because error: KafkaError, _ machine: inout DeliveryMachine) {
        guard !isAbandoned else { return }
        phase = .abandoned
        endLookups()
        revocations = []
        logger.error(.kafka, "the group cannot be read any more", ["group": "\(name)", "error": "\(error.text)"])
        giveUp(partitions.map(\.id), isLost: true, &machine)
    }

    private func endLookups() {
        lookup = nil
        unreadable.partitions = []
    }

    /// Gives up partitions that are drained, or were waited for long enough. Where the member leaves, it closes after
    /// that.
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
                        .delivery, "the drain limit passed with notifications unanswered; they stay in doubt",
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
            logger.warning(.kafka, "the group could not be left in order", ["error": "\(error.text)"])
        }
    }

    /// - Parameter isLost: the machine keeps what it knows of them, in case that they come back.
    private func giveUp(
        _ ids: [PartitionID], isLost: Bool, mustUnassign: Bool = false, _ machine: inout DeliveryMachine
    ) {
        if isLost {
            // Another member may read a lost partition after its topic was recreated.
            topicIDs = [:]
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
