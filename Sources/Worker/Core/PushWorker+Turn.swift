internal import Configuration
internal import Delivery
internal import EventLoop
internal import Kafka
internal import Observability
internal import PushRecords
internal import Synchronization

extension PushWorker {
    /// Both clocks, as the loop read them this turn.
    var now: DeliveryTime { DeliveryTime(ns: loop.now.monotonicNs, wallMs: loop.now.wallMs) }

    func turn() {
        guard let publisher, let link else { return }
        let now = now
        board.turned(nowNs: now.ns)
        machine.advance(now: now)
        if hasKafkaNews || now.ns - lastServedNs >= Self.serveEveryNs || stopping != nil || isKafkaDue(now) {
            hasKafkaNews = false
            lastServedNs = now.ns
            for (index, reader) in readers.enumerated() {
                reader.markReadable()
                reader.serve(&machine, now: now) { reply, machine in
                    committers[index].take(reply, &machine, now: now)
                }
                for partition in committers[index].takeDoubted() { watch?.look(at: partition) }
                for partition in committers[index].takeGone() {
                    reader.topicIsGone(partition, &machine, now: now)
                }
                if let error = reader.fatalError { return fail("Kafka: \(error.text)") }
            }
            publisher.serve(&machine, now: now)
        }
        var hasMore = false
        if stopping == nil, !publisher.isBackedUp {
            for reader in readers {
                let more = reader.read(into: &machine, now: now, deadLetters: publisher.deadLetters(now: now))
                if more { hasMore = true }
            }
        }
        machine.sends(now: now) { app, requests in link.post(app, .send(requests)) }
        machine.recalls { app, requests in link.post(app, .recall(requests)) }
        publisher.publish(&machine, now: now)
        for (reader, committer) in zip(readers, committers) { committer.commit(&machine, reader, now: now) }
        for event in machine.takeEvents() {
            switch event {
            case .circuitOpened(let circuit, let reason): openCircuits.append((circuit, reason))
            case .circuitClosed(let circuit): openCircuits.removeAll { $0.name == circuit }
            case .overtaken(let id, let committed, let start): noteOvertaken(id, from: committed, to: start, now)
            default: break
            }
            eventLog.write(event, partitionName: name(of:))
        }
        moveStopping(now)
        publishProgress(now)
        if now.ns - lastSnapshotNs >= Self.snapshotEveryNs {
            lookForProblems(now)
            postSnapshot(now)
        }
        keepHouse(now)
        setAlarm(now)
        if hasMore { loop.wantAnotherTurn() }
    }

    /// Whether something of Kafka is due without news of it.
    private func isKafkaDue(_ now: DeliveryTime) -> Bool {
        if let next = publisher?.nextDeadlineNs, next <= now.ns { return true }
        return readers.contains { $0.nextDeadlineNs(now: now).map { $0 <= now.ns } ?? false }
    }

    private func name(of id: PartitionID) -> String {
        for reader in readers {
            if let partition = reader.name(of: id) { return partition.description }
        }
        return "unknown"
    }

    private func setAlarm(_ now: DeliveryTime) {
        var deadlineNs = now.ns + Self.serveEveryNs
        if let next = machine.nextDeadlineNs { deadlineNs = min(deadlineNs, next) }
        if let next = publisher?.nextDeadlineNs { deadlineNs = min(deadlineNs, next) }
        for reader in readers {
            if let next = reader.nextDeadlineNs(now: now) { deadlineNs = min(deadlineNs, next) }
        }
        // What was due in this turn and is so still waits for something else than time.
        alarm?.set(atNs: max(deadlineNs, now.ns + Self.leastPauseNs))
    }

    func take(_ event: TransportEvent) {
        switch event {
        case .fates(let batch): machine.handle(batch, now: now)
        case .capacity(let app, let requests):
            machine.setCapacity(app, requests: requests)
            if requests > 0, !outOfReach.contains(app.value) { unreachable[app.value] = nil }
        case .connections(let app, let counts): appRows[app.value].connections = counts
        case .reachable(let app, let isReachable):
            machine.setReachable(app, isReachable, now: now)
            if isReachable {
                outOfReach.remove(app.value)
                unreachable[app.value] = nil
            } else {
                outOfReach.insert(app.value)
            }
        case .unanswered(let app, let how): unanswered[app.value] = how
        case .credentialRefused(let app, let reason): machine.credentialRefused(app, reason, now: now)
        case .note(let app, let note):
            switch note {
            case .connectFailed: unreachable[app.value] = note
            case .noStreams:
                // A line says so within a second, unless it was for a moment (RFC 9113, 6.5.2).
                unreachable[app.value] = note
                return
            // Each app says so itself, also when it shares the token of a key.
            case .providerTokenRenewed: appRows[app.value].tokenMadeMs = loop.now.wallMs
            case .connected, .disconnected, .goAway, .credentialFault, .warning: break
            }
            eventLog.write(note, of: app)
        case .closed(let app): closedApps.insert(app.value)
        }
    }

    /// Once a second: lines that were left out, who still cannot be reached, whether batches are looked at, and what is to
    /// be read again.
    private func keepHouse(_ now: DeliveryTime) {
        guard now.ns - lastHousekeepingNs >= 1_000_000_000 else { return }
        lastHousekeepingNs = now.ns
        lookWhetherBatchesAreSeen()
        readNextApp()
        for (app, note) in unreachable { eventLog.write(note, of: AppIndex(app)) }
        for (reader, committer) in zip(readers, committers) { committer.keepOnly { reader.isAssigned($0) } }
        logger.writeLeftOut()
    }

    func publishProgress(_ now: DeliveryTime) {
        guard now.ns - lastProgressNs >= 50_000_000 || stopping != nil else { return }
        lastProgressNs = now.ns
        let inFlight = machine.gauges.inFlight.reduce(0, +)
        let connections = appRows.reduce(0) { $0 + $1.connections.open }
        let hasJoined = readers.allSatisfy(\.hasJoined)
        progressBox.withLock {
            $0.inFlight = inFlight
            $0.connections = connections
            $0.hasJoined = hasJoined
        }
    }
}
