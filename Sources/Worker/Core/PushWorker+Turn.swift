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

    /// One turn of the machine (`DeliveryTurn`), and what the worker does beside.
    func turn() {
        guard let groups, let transports, let publisher else { return }
        let now = now
        pageState.board.turned(nowNs: now.ns)
        if stopping != nil { wakeUps.insert(.leaving) }
        let wokenBy = wakeUps
        wakeUps = []
        let end = deliveryTurn.run(
            &machine, requests: groups, transports: transports, records: publisher, offsets: groups,
            wokenBy: wokenBy, now: now)
        for event in end.events { note(event, now) }
        if stopping == nil, let error = groups.fatalError { stop(because: "Kafka: \(error.text)") }
        moveStopping(now)
        publishProgress(now)
        if now.ns - pageState.lastSnapshotNs >= Self.snapshotEveryNs {
            lookForProblems(now)
            postSnapshot(now)
        }
        keepHouse(now)
        alarm?.set(atNs: end.deadlineNs)
        if end.hasMore {
            wakeUps.insert(.unread)
            loop.wantAnotherTurn()
        }
    }

    private func note(_ event: DeliveryEvent, _ now: DeliveryTime) {
        observations.note(event)
        if case .overtaken(let id, let committed, let start) = event {
            noteOvertaken(id, from: committed, to: start, now)
        }
        eventLog.write(event, partitionName: name(of:))
    }

    private func name(of id: PartitionID) -> String {
        for reader in readers {
            if let partition = reader.name(of: id) { return partition.description }
        }
        return "unknown"
    }

    /// Once a second: lines that were left out, who still cannot be reached, what the groups are waited for, and
    /// what is to be read again.
    private func keepHouse(_ now: DeliveryTime) {
        guard now.ns - lastHousekeepingNs >= 1_000_000_000 else { return }
        lastHousekeepingNs = now.ns
        readNextApp()
        if feedback == nil { readFeedback() }
        transports?.noteUnreachable()
        groups?.keepHouse()
        sayWaits(now)
        logger.writeLeftOut()
    }

    func publishProgress(_ now: DeliveryTime) {
        guard now.ns - lastProgressNs >= 50_000_000 || stopping != nil else { return }
        lastProgressNs = now.ns
        let inFlight = machine.gauges.inFlight.reduce(0, +)
        let connections = transports?.openConnections ?? 0
        let hasJoined = readers.allSatisfy(\.hasJoined)
        progressBox.withLock {
            $0.inFlight = inFlight
            $0.connections = connections
            $0.hasJoined = hasJoined
        }
    }
}
