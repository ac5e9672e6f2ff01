import Bytes
import PushRecords

@testable import Delivery

/// The records that a worker writes to Kafka, and the end of its assignments.
extension SimulatedWorld {
    // MARK: Records

    func produce(_ worker: SimulatedWorker, _ machine: inout DeliveryMachine) {
        let tiers = settings.tierDelaysMs.indices.map { ProductionTarget.retry(tier: $0) }
        disturb(.deadLetters, worker, &machine)
        if !isCalm, faults.refusals, random.oneIn(deniedChance) {
            note("all tiers denied")
            for tier in tiers { machine.setWritable(tier, false, now: time(worker)) }
        }
        for target in [.unregistered, .results] + tiers {
            disturb(target, worker, &machine)
            if machine.isWritable(target) { produce(to: target, worker, &machine) }
        }
    }

    /// Makes a topic unwritable for a while, or writable again.
    private func disturb(
        _ target: ProductionTarget, _ worker: SimulatedWorker, _ machine: inout DeliveryMachine
    ) {
        if machine.isWritable(target) {
            guard !isCalm, faults.refusals, random.oneIn(deniedChance) else { return }
            note("denied: \(target)")
            if target == .unregistered { wereTokensDenied = true }
            machine.setWritable(target, false, now: time(worker))
        } else if isCalm || random.chance(5) {
            machine.setWritable(target, true, now: time(worker))
        }
    }

    private func produce(
        to target: ProductionTarget, _ worker: SimulatedWorker, _ machine: inout DeliveryMachine
    ) {
        while let id = machine.nextProduction(for: target) {
            if random.chance(5) { return }  // The queue is full.
            guard let place = worker.place(of: id, in: machine), let original = original(of: place) else {
                breaks("a record was produced for an assignment that has ended")
                return
            }
            let append = effect(of: id, to: target, place, original, worker, &machine)
            machine.produced(id, to: target)
            queue(id, place, worker, append)
        }
    }

    private func queue(
        _ id: NotificationID, _ place: SimulatedPlace, _ worker: SimulatedWorker,
        _ append: @escaping (SimulatedWorld, _ again: Bool) -> Void
    ) {
        let appendMs = nowMs + .random(in: 1...30, using: &random) * slowness
        worker.producing.append(
            .init(
                id: id, assignment: worker.assignments[place.log]?.number ?? 0, place: place, appendMs: appendMs,
                ackMs: appendMs + .random(in: 0...20, using: &random) * slowness, append: append))
    }

    func produceDeadLetter(_ id: NotificationID, _ place: SimulatedPlace, _ worker: SimulatedWorker) {
        queue(id, place, worker) { world, _ in
            if world.books[place]?.isDeadLetter != true { world.breaks("\(place) is not a dead letter") }
            world.books[place]?.results.append((.invalid, 0, 0))
            world.settled.insert(place)
        }
    }

    /// Applies the effect of a record that is now in Kafka.
    private func effect(
        of id: NotificationID, to target: ProductionTarget, _ place: SimulatedPlace, _ original: SimulatedPlace,
        _ worker: SimulatedWorker, _ machine: inout DeliveryMachine
    ) -> (SimulatedWorld, Bool) -> Void {
        switch target {
        case .unregistered:
            return { world, _ in world.books[original]?.deadTokens += 1 }
        case .results, .deadLetters:
            let result = machine.withResult(id, now: time(worker)) { content, ending in
                if content.request.offset != original.offset || content.request.index != original.index {
                    breaks("the result of \(original) names \(content.request.offset)/\(content.request.index)")
                }
                return (outcome: ending.outcome, inDoubt: Int(ending.inDoubt), attempts: Int(ending.attempts))
            }
            return { [worker] world, _ in
                world.trace(place.log) { "\(world.name(worker)): result of \(place), original \(original): \(result)" }
                world.books[original]?.results.append(result)
                world.settled.insert(place)
            }
        case .retry(let tier):
            let written = retryRecord(id, place, original, worker, &machine, moreDoubts: 0)
            // If the record may already be in Kafka, the written one must count another send in doubt.
            let rewritten =
                remakesProducers ? retryRecord(id, place, original, worker, &machine, moreDoubts: 1) : written
            return { [worker] world, again in
                world.trace(place.log) { "\(world.name(worker)): retry record of \(place), original \(original)" }
                world.append(again ? rewritten : written, to: 3 + tier)
                world.settled.insert(place)
            }
        }
    }

    private func retryRecord(
        _ id: NotificationID, _ place: SimulatedPlace, _ original: SimulatedPlace, _ worker: SimulatedWorker,
        _ machine: inout DeliveryMachine, moreDoubts: Int32
    ) -> SimulatedRecord {
        // This is independent of the clock at the time of the send.
        let wasSent = machine.store[id.slot].tries.past != .untried
        return machine.withRetry(id) { content, order -> SimulatedRecord in
            let isScheduled = RetryOrder.scheduled.lentBytes.elementsEqual(order.reason)
            if isScheduled {
                note("scheduled")
                if place.log >= 3 { note("scheduled again") }
                if wasSent { note("scheduled after a clock was set back") }
            }
            if content.headers.expiration == 0 {
                if isScheduled {
                    note("scheduled with expiration 0")
                } else {
                    breaks("\(original) has expiration 0 and must not be retried")
                }
            }
            if Int(order.attempt) > settings.maxAttempts { breaks("\(original) has too many attempts") }
            let order = RetryOrder(
                attempt: order.attempt, dueMs: order.dueMs, notBefore: order.notBefore, reason: order.reason,
                sends: order.sends + moreDoubts, inDoubt: order.inDoubt + moreDoubts, triedApp: order.triedApp)
            let record = worker.retryWriter.write(content, order)
            return SimulatedRecord(
                offset: 0, timestampMs: time(worker).wallMs, key: Array(record.key), value: Array(record.value),
                headers: record.headers.map { (Array($0.name), Array($0.value)) }, originals: [original])
        }
    }

    private func append(_ record: SimulatedRecord, to log: Int) {
        var record = record
        record.offset = logs[log].nextOffset
        record.life = logs[log].life
        logs[log].nextOffset += 1
        logs[log].records.append(record)
        originals[SimulatedPlace(log: log, life: record.life, offset: record.offset)] = record.originals
    }

    func deliverAcknowledgements(_ worker: SimulatedWorker, _ machine: inout DeliveryMachine) {
        guard !worker.producing.isEmpty, nowMs >= fullUntilMs else { return }
        var left: [SimulatedWorker.Producing] = []
        let keepsDeadLetters = !machine.isWritable(.deadLetters)
        for var each in worker.producing {
            if keepsDeadLetters, !each.isAppended, books[each.place]?.isDeadLetter ?? false {
                left.append(each)
                continue
            }
            if !each.isAppended, each.appendMs <= nowMs {
                each.append(self, false)
                each.isAppended = true
            }
            if each.ackMs <= nowMs {
                // The dead token is written first, then the result. The last one settles the notification.
                let isLast = machine.store[each.id.slot].unacknowledged == 1
                if case .concluded(.retry) = machine.store[each.id.slot].state {
                    machine.compareClock(storedMs: startMs + nowMs, latencyMs: 0, now: time(worker))
                }
                if isLast, machine.store.isCurrent(each.id) {
                    let slot = machine.store[recordOf: each.id.slot].partition
                    settledAt[each.place] = (step, each.assignment, worker.chains[slot] ?? 0)
                }
                machine.acknowledged(each.id, now: time(worker))
            } else {
                left.append(each)
            }
        }
        worker.producing = left
    }

    // MARK: Commits

    func commit(_ group: CommitGroup, _ worker: SimulatedWorker, _ machine: inout DeliveryMachine) {
        let place = group.rawValue
        guard worker.commits[place].entries.isEmpty else { return }
        let entries = machine.takeCommit(of: group, now: time(worker))
        // librdkafka copies one partition's error to all.
        let isOneDenied = entries.contains { worker.log(of: $0.partition).map { logs[$0].isDenied } ?? false }
        let isShared = isOneDenied && entries.count > 1
        for entry in entries {
            guard let log = worker.log(of: entry.partition) else {
                breaks("a commit was made for an assignment that has ended")
                return
            }
            if (log >= 3) != (place == 1) { breaks("a commit contains a partition of the other group") }
            guard let map = entry.metadata.withUnsafeBytes({ CommitMap(metadata: $0, base: entry.offset) }) else {
                breaks("the metadata of a commit cannot be read back")
                return
            }
            if entry.metadata.count > settings.metadataLimit {
                breaks("a commit has \(entry.metadata.count) characters of metadata")
            }
            if let partition = machine.ledger.find(entry.partition), machine.ledger[partition].isMapCut {
                note("map truncated")
                wasMapCut = true
            }
            var outcome = CommitOutcome.acknowledged
            var isTaken = true
            if worker.assignments[log]?.fenced != nil {
                (outcome, isTaken) = (.refused, false)
            } else if entry.metadata.count > metadataLimit {
                (outcome, isTaken) = (.metadataTooLarge, false)
            } else if isOneDenied {
                note(isShared ? "shared error" : "denied commit")
                (outcome, isTaken) = (isShared ? .unattributed : .impossible, !logs[log].isDenied)
            } else if !isCalm, faults.refusals, random.chance(5) {
                (outcome, isTaken) = (.refused, random.chance(50))
            }
            let commit = SimulatedLog.Commit(
                offset: entry.offset, metadata: entry.metadata, map: map, takenAt: step,
                life: worker.assignments[log]?.life ?? 0, writer: worker.number)
            let number = worker.assignments[log]?.number ?? 0
            worker.commits[place].entries.append(
                .init(log: log, assignment: number, commit: commit, outcome: outcome, isTaken: isTaken))
        }
        worker.commits[place].isApplied = false
        worker.commits[place].appliesMs = nowMs + .random(in: 1...20, using: &random) * slowness
        worker.commits[place].replyMs =
            worker.commits[place].appliesMs + .random(in: 0...20, using: &random) * slowness
    }

    /// Answers the pending commit, or times it out.
    func finishCommit(of group: CommitGroup, _ worker: SimulatedWorker, _ machine: inout DeliveryMachine) {
        let place = group.rawValue
        guard !worker.commits[place].entries.isEmpty else { return }
        if isKafkaDown || worker.cutOffSinceNs != nil {
            // The client times out after a while, whether or not the commit was applied.
            guard random.chance(20) else { return }
            if !worker.commits[place].isApplied, worker.cutOffSinceNs == nil, random.chance(30) {
                apply(worker.commits[place])
            }
            let refusals = worker.commits[place].entries.map { _ in CommitOutcome.refused }
            machine.commitFinished(of: group, random.chance(50) ? nil : refusals, now: time(worker))
            worker.commits[place].entries = []
            return
        }
        if !worker.commits[place].isApplied, worker.commits[place].appliesMs <= nowMs {
            apply(worker.commits[place])
            worker.commits[place].isApplied = true
        }
        guard worker.commits[place].replyMs <= nowMs else { return }
        machine.commitFinished(of: group, worker.commits[place].entries.map(\.outcome), now: time(worker))
        worker.commits[place].entries = []
    }

    private func apply(_ flight: SimulatedWorker.InFlightCommit) {
        for each in flight.entries where each.isTaken { apply(each) }
    }

    // MARK: Leaving

    func drain(_ worker: SimulatedWorker, _ machine: inout DeliveryMachine) {
        for log in worker.assignments.keys.sorted() {
            guard let assignment = worker.assignments[log], let since = assignment.drainsSince else { continue }
            if machine.isDrained(assignment.id) {
                leave(log, assignment, worker, &machine)
            } else if step - since == 20, !isCalm, random.chance(faults.isLong ? 5 : 30) {
                // At the drain limit, unanswered notifications may be sent by the next owner.
                machine.stopWaiting([assignment.id])
                worker.assignments[log]?.isLate = true
                deadAssignments.insert(assignment.number)
                limitCount += 1
                doubtFlights(of: worker, log: log)
            } else if step - since > 40, assignment.isLate {
                // The time limit for the last commit has passed.
                note("left without a commit")
                lose(log, worker, &machine)
            }
        }
    }

    private func leave(
        _ log: Int, _ assignment: SimulatedWorker.Assignment, _ worker: SimulatedWorker,
        _ machine: inout DeliveryMachine
    ) {
        worker.assignments[log] = nil
        if let slot = machine.ledger.find(assignment.id), machine.ledger[slot].commits.isImpossible {
            // The last commit was not made, so everything it would have contained is sent again.
            note("left without a commit")
            crashCount += 1
            limitCount += 1
            deadAssignments.insert(assignment.number)
            doubtFlights(of: worker, log: log)
        }
        machine.release([assignment.id])
        logs[log].isOwned = false
    }
}
