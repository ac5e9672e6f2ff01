import PushRecords

@testable import Delivery

/// One turn of a worker, as the real one's loop takes it.
extension SimulatedWorld {
    func turn(_ worker: SimulatedWorker) {
        worker.machine.advance(now: now)
        for log in worker.assignments.keys.sorted() { read(log, worker) }
        deliverAcknowledgements(worker)
        deliverFates(worker)
        send(worker)
        recall(worker)
        turnTransport(worker)
        produce(worker)
        commit(worker)
        drain(worker)
        if step % 8 == 0 { checkShares(worker) }
        // Dead letters are taken whatever is open: at most as many as are read at once.
        let deadLetters = worker.producing.count { books[$0.place]?.isDeadLetter ?? false }
        if worker.machine.gauges.openNotifications > settings.maxOpen + deadLetters {
            breaks("more is open than max_open")
        }
        for event in worker.machine.takeEvents() {
            note(event)
            if case .metadataIgnored = event { breaks("our own metadata was not understood") }
            if case .offsetReset = event { breaks("no offset was reset") }
        }
        if worker.machine.counters.mapsCut > 0 { wasMapCut = true }
        if let deadline = worker.machine.nextDeadlineNs, deadline < now.ns - 10_000_000_000 {
            breaks("a deadline of long ago")
        }
    }

    private func note(_ event: DeliveryEvent) {
        let kind =
            switch event {
            case .held(_, let cause): "held: \(cause)"
            case .circuitOpened(.credential, _): "credential circuit"
            case .circuitOpened(.topic, _): "topic circuit"
            case .circuitOpened(.connection, _): "connection circuit"
            case .guardTripped: "guard tripped"
            default: "other"
            }
        happened[kind, default: 0] += 1
    }

    // MARK: Kafka -> machine

    private func read(_ log: Int, _ worker: SimulatedWorker) {
        guard var assignment = worker.assignments[log], assignment.drainsSince == nil,
            assignment.waitUntilMs <= now.wallMs
        else { return }
        // 2.0.2 may rewind.
        if random.chance(2), assignment.position > logs[log].committedCount { assignment.position -= 1 }
        var room = worker.machine.room(for: assignment.id)
        room = min(room, random.chance(80) ? readLimit : 3)
        while room > 0, assignment.position < logs[log].records.count {
            room -= 1
            let record = logs[log].records[assignment.position]
            switch receive(record, assignment.id, worker) {
            case .taken, .known:
                assignment.position += 1
            case .deadLetter(let id, let reason, _):
                assignment.position += 1
                if reason != .tombstone { breaks("\(reason) of offset \(record.offset)") }
                produceDeadLetter(id, .init(log: log, offset: record.offset), worker)
            case .notDue(let untilMs):
                assignment.waitUntilMs = untilMs
                room = 0
            case .unassigned:
                breaks("an assignment is there while nobody took it")
            }
        }
        worker.assignments[log] = assignment
    }

    private func receive(_ record: SimulatedRecord, _ id: PartitionID, _ worker: SimulatedWorker) -> Receipt {
        func lend(_ bytes: [UInt8]?) -> UnsafeRawBufferPointer {
            guard let bytes else { return UnsafeRawBufferPointer(start: nil, count: 0) }
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, bytes.count), alignment: 1)
            copy.copyBytes(from: bytes)
            return UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(copy)[..<bytes.count])
        }
        let key = lend(record.key)
        let value = lend(record.value)
        let headers = record.headers.map { RecordHeader(name: lend($0.name), value: lend($0.value)) }
        defer {
            for bytes in [key, value] + headers.flatMap({ [$0.name, $0.value] }) {
                guard let base = bytes.baseAddress else { continue }
                UnsafeMutableRawPointer(mutating: base).deallocate()
            }
        }
        return headers.withUnsafeBufferPointer {
            worker.machine.receive(
                id, offset: record.offset, timestampMs: record.timestampMs, key: key, value: value, headers: $0,
                now: now)
        }
    }

    // MARK: Machine -> APNs

    private func send(_ worker: SimulatedWorker) {
        var batches: [[OutgoingRequest]] = []
        worker.machine.sends(now: now) { batches.append($1) }
        for request in batches.joined() { send(request, worker) }
        for app in worker.capacities.indices where batches.contains(where: { $0.contains { isOf(app, $0, worker) } }) {
            let count = worker.flights.values.count { $0.app == app && !$0.isSuspect }
            if count > worker.capacities[app] { breaks("more in flight than the capacity") }
        }
    }

    private func isOf(_ app: Int, _ request: OutgoingRequest, _ worker: SimulatedWorker) -> Bool {
        Int(worker.machine.notifications[request.id.slot].app) == app
    }

    private func send(_ request: OutgoingRequest, _ worker: SimulatedWorker) {
        let notification = worker.machine.notifications[request.id.slot]
        let record = worker.machine.records[notification.record]
        guard let log = logs.indices.first(where: { worker.assignments[$0]?.id.slot == record.partition }) else {
            breaks("something was sent for an assignment that is gone")
            return
        }
        if worker.assignments[log]?.drainsSince != nil { breaks("something was sent while draining") }
        let place = SimulatedPlace(log: log, offset: record.offset, index: notification.index)
        guard let source = logs[log].records.first(where: { $0.offset == record.offset }) else {
            breaks("\(place) does not exist")
            return
        }
        let original = source.originals[Int(notification.index)]
        checkSend(request, place, original, worker)
        checkApp(request.id, worker)

        let laneKey = String(decoding: request.token, as: UTF8.self) + String(decoding: request.topic, as: UTF8.self)
        if worker.flights[request.id] != nil { breaks("\(place) was sent while it is in flight") }
        if request.isSuspect { happened["suspect", default: 0] += 1 }
        worker.flights[request.id] = .init(
            place: place, original: original, laneKey: laneKey, app: Int(notification.app),
            assignment: worker.assignments[log]?.number ?? 0, isSuspect: request.isSuspect)
    }

    private func recall(_ worker: SimulatedWorker) {
        var recalled: [NotificationID] = []
        worker.machine.recalls { recalled += $1 }
        for id in recalled where worker.flights[id]?.isQueued ?? false { giveBack(id, worker) }
    }

    /// APNs takes a request.
    func process(_ flight: SimulatedWorker.Flight) {
        guard let book = books[flight.original], let rule = book.rule else {
            breaks("\(flight.original) was sent")
            return
        }
        books[flight.original]?.processed += 1
        if rule.answer(processed: book.processed).status == 200 { books[flight.original]?.delivered += 1 }
    }

    // MARK: APNs -> machine

    private func deliverFates(_ worker: SimulatedWorker) {
        let due = worker.fates.filter { $0.dueMs <= nowMs }.map(\.fate)
        worker.fates.removeAll { $0.dueMs <= nowMs }
        for fate in due {
            guard let flight = worker.flights.removeValue(forKey: fate.id) else {
                breaks("a second end of one request")
                return
            }
            if fate.kind == .inDoubt { books[flight.original]?.doubts += 1 }
            let slot = worker.machine.records[worker.machine.notifications[fate.id.slot].record].partition
            let isOurs = worker.assignments[flight.place.log]?.id.slot == slot
            if settings.publishesOnlyFailures, fate.status == 200, isOurs { countAccepted(fate.id, flight, worker) }
        }
        guard !due.isEmpty else { return }
        worker.machine.handle(FateBatch(app: AppIndex(0), fates: due), now: now)
    }

    /// `publish: failures`: an accepted one without doubt settles with its verdict.
    private func countAccepted(_ id: NotificationID, _ flight: SimulatedWorker.Flight, _ worker: SimulatedWorker) {
        let notification = worker.machine.notifications[id.slot]
        guard notification.generation == id.generation, notification.state == .handed, notification.inDoubt == 0 else {
            return
        }
        books[flight.original]?.countedAsAccepted += 1
        settled.insert(flight.place)
        settledAt[flight.place] = (step, worker.assignments[flight.place.log]?.number ?? 0)
    }

    // MARK: Machine -> Kafka

    private func produce(_ worker: SimulatedWorker) {
        while let production = worker.machine.nextProduction {
            if random.chance(5) { return }  // The queue is full.
            let notification = worker.machine.notifications[production.id.slot]
            let record = worker.machine.records[notification.record]
            guard let log = logs.indices.first(where: { worker.assignments[$0]?.id.slot == record.partition }) else {
                breaks("a production of an assignment that is gone")
                return
            }
            let place = SimulatedPlace(log: log, offset: record.offset, index: notification.index)
            let source = logs[log].records.first { $0.offset == record.offset }
            let original = source?.originals[Int(notification.index)] ?? place
            let append = effect(of: production, place, original, worker)
            worker.machine.produced(production)
            queue(production.id, place, worker, append)
        }
    }

    private func queue(
        _ id: NotificationID, _ place: SimulatedPlace, _ worker: SimulatedWorker,
        _ append: @escaping (SimulatedWorld) -> Void
    ) {
        let appendMs = nowMs + .random(in: 1...30, using: &random)
        worker.producing.append(
            .init(
                id: id, assignment: worker.assignments[place.log]?.number ?? 0, place: place, appendMs: appendMs,
                ackMs: appendMs + .random(in: 0...20, using: &random),
                append: append))
    }

    private func produceDeadLetter(_ id: NotificationID, _ place: SimulatedPlace, _ worker: SimulatedWorker) {
        queue(id, place, worker) { world in
            if world.books[place]?.isDeadLetter != true { world.breaks("\(place) is no dead letter") }
            world.books[place]?.results.append((.invalid, 0, 0))
            world.settled.insert(place)
        }
    }

    /// What is in Kafka once the production is.
    private func effect(
        of production: Production, _ place: SimulatedPlace, _ original: SimulatedPlace, _ worker: SimulatedWorker
    ) -> (SimulatedWorld) -> Void {
        switch production.kind {
        case .unregistered:
            return { $0.books[original]?.deadTokens += 1 }
        case .result:
            let result = worker.machine.withResult(production.id, now: now) { content, ending in
                if content.request.offset != original.offset || content.request.index != original.index {
                    breaks("the result of \(original) names \(content.request.offset)/\(content.request.index)")
                }
                return (outcome: ending.outcome, inDoubt: Int(ending.inDoubt), attempts: Int(ending.attempts))
            }
            return { world in
                world.books[original]?.results.append(result)
                world.settled.insert(place)
            }
        case .retry(let tier):
            let wallMs = now.wallMs
            let written = worker.machine.withRetry(production.id) { content, order -> SimulatedRecord in
                if content.expiration == 0 { breaks("\(original) is now or never") }
                if Int(order.attempt) > settings.maxAttempts { breaks("\(original) has too many attempts") }
                let record = worker.retryWriter.write(content, order)
                return SimulatedRecord(
                    offset: 0, timestampMs: wallMs, key: Array(record.key), value: Array(record.value),
                    headers: record.headers.map { (Array($0.name), Array($0.value)) }, originals: [original])
            }
            return { world in
                var record = written
                let log = 3 + tier
                record.offset = world.logs[log].nextOffset
                world.logs[log].nextOffset += 1
                world.logs[log].records.append(record)
                world.settled.insert(place)
            }
        }
    }

    private func deliverAcknowledgements(_ worker: SimulatedWorker) {
        var left: [SimulatedWorker.Producing] = []
        for var each in worker.producing {
            if !each.isAppended, each.appendMs <= nowMs {
                each.append(self)
                each.isAppended = true
            }
            if each.ackMs <= nowMs {
                // Its dead token first, then its result: the last one settles it.
                let isLast = worker.machine.notifications[each.id.slot].unacknowledged == 1
                if isLast, worker.assignments[each.place.log]?.number == each.assignment {
                    settledAt[each.place] = (step, each.assignment)
                }
                worker.machine.acknowledged(each.id, now: now)
            } else {
                left.append(each)
            }
        }
        worker.producing = left
    }

    // MARK: Commits

    private func commit(_ worker: SimulatedWorker) {
        for group in CommitGroup.allCases { commit(group, worker) }
    }

    private func commit(_ group: CommitGroup, _ worker: SimulatedWorker) {
        let place = group.rawValue
        if !worker.commits[place].entries.isEmpty {
            if !worker.commits[place].isApplied, worker.commits[place].appliesMs <= nowMs {
                for each in worker.commits[place].entries where each.isTaken { apply(each) }
                worker.commits[place].isApplied = true
            }
            guard worker.commits[place].replyMs <= nowMs else { return }
            worker.machine.commitFinished(of: group, worker.commits[place].entries.map(\.outcome), now: now)
            worker.commits[place].entries = []
        }
        for entry in worker.machine.takeCommit(of: group, now: now) {
            guard let log = logs.indices.first(where: { worker.assignments[$0]?.id == entry.partition }) else {
                breaks("a commit of an assignment that is gone")
                return
            }
            if (log >= 3) != (place == 1) { breaks("a commit of the other group's partition") }
            guard let map = CommitMap(metadata: entry.metadata, base: entry.offset) else {
                breaks("a commit that cannot be read back")
                return
            }
            var outcome = CommitOutcome.acknowledged
            var isTaken = true
            if entry.metadata.count > metadataLimit {
                (outcome, isTaken) = (.metadataTooLarge, false)
            } else if !isCalm, faults.refusedCommits, random.chance(5) {
                (outcome, isTaken) = (.refused, random.chance(50))
            }
            let commit = SimulatedLog.Commit(
                offset: entry.offset, metadata: Array(entry.metadata), map: map, takenAt: step)
            let number = worker.assignments[log]?.number ?? 0
            worker.commits[place].entries.append(
                .init(log: log, assignment: number, commit: commit, outcome: outcome, isTaken: isTaken))
        }
        worker.commits[place].isApplied = false
        worker.commits[place].appliesMs = nowMs + .random(in: 1...20, using: &random)
        worker.commits[place].replyMs = worker.commits[place].appliesMs + .random(in: 0...20, using: &random)
    }

    // MARK: Leaving

    private func drain(_ worker: SimulatedWorker) {
        for log in worker.assignments.keys.sorted() {
            guard let assignment = worker.assignments[log], let since = assignment.drainsSince else { continue }
            if worker.machine.isDrained(assignment.id) {
                leave(log, assignment, worker)
            } else if step - since == 20, !isCalm, random.chance(30) {
                // The drain limit: what is unanswered may be sent by another.
                worker.machine.stopWaiting([assignment.id])
                limitCount += 1
                for flight in worker.flights.values where flight.place.log == log {
                    books[flight.original]?.doubts += 1
                }
            }
        }
    }

    private func leave(_ log: Int, _ assignment: SimulatedWorker.Assignment, _ worker: SimulatedWorker) {
        worker.assignments[log] = nil
        worker.machine.release([assignment.id])
        logs[log].isOwned = false
    }
}
