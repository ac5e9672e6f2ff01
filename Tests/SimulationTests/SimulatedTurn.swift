import PushRecords

@testable import Delivery

/// One turn of a worker, as the real one's loop takes it.
extension SimulatedWorld {
    func turn(_ worker: SimulatedWorker) {
        worker.machine.advance(now: time(worker))
        if !isKafkaDown {
            for log in worker.assignments.keys.sorted() { read(log, worker) }
            deliverAcknowledgements(worker)
        }
        deliverFates(worker)
        send(worker)
        recall(worker)
        turnTransport(worker)
        produce(worker)
        commit(worker)
        checkDeadline(worker)
        drain(worker)
        checkLimits(worker)
        for event in worker.machine.takeEvents() { note(event) }
        if worker.machine.counters.mapsCut > 0 { wasMapCut = true }
    }

    /// Whatever was due was done this turn, or waits for Kafka.
    private func checkDeadline(_ worker: SimulatedWorker) {
        guard let deadline = worker.machine.nextDeadlineNs, deadline < ns - 60_000_000_000 else { return }
        breaks("a deadline of long ago: \(deadline) at \(ns)")
    }

    private func note(_ event: DeliveryEvent) {
        let kind =
            switch event {
            case .held(_, let cause): "held: \(cause)"
            case .circuitOpened(.credential, _): "credential circuit"
            case .circuitOpened(.topic, _): "topic circuit"
            case .circuitOpened(.connection, _): "connection circuit"
            case .guardTripped: "guard tripped"
            case .metadataRefused: "metadata refused"
            case .metadataIgnored: "metadata ignored"
            default: "other"
            }
        happened[kind, default: 0] += 1
        if case .metadataIgnored = event, !logs.contains(where: \.wasDamaged) {
            breaks("our own metadata was not understood")
        }
        if case .offsetReset = event { breaks("no offset was reset") }
    }

    // MARK: Kafka -> machine

    private func read(_ log: Int, _ worker: SimulatedWorker) {
        guard var assignment = worker.assignments[log], assignment.drainsSince == nil, assignment.waitUntilMs <= nowMs
        else { return }
        // 2.0.2 may rewind.
        if random.chance(2), assignment.position > logs[log].committedCount { assignment.position -= 1 }
        var room = worker.machine.room(for: assignment.id)
        room = min(room, random.chance(80) ? readLimit : 3)
        let end = assignment.fenced?.end ?? logs[log].records.count
        while room > 0, assignment.position < end {
            room -= 1
            let record = logs[log].records[assignment.position]
            switch receive(record, assignment.id, worker) {
            case .taken, .known, .below:
                assignment.position += 1
            case .deadLetter(let id, let reason, _):
                assignment.position += 1
                if reason != .tombstone { breaks("\(reason) of offset \(record.offset)") }
                produceDeadLetter(id, .init(log: log, offset: record.offset), worker)
            case .notDue(let untilMs):
                let waitMs = untilMs - time(worker).wallMs
                if case .retry(let delayMs) = logs[log].role, waitMs > 2 * delayMs {
                    breaks("a retry partition is held up for \(waitMs) ms")
                }
                assignment.waitUntilMs = nowMs + waitMs
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
                now: time(worker))
        }
    }

    // MARK: Machine -> APNs

    private func send(_ worker: SimulatedWorker) {
        var batches: [[OutgoingRequest]] = []
        worker.machine.sends(now: time(worker)) { batches.append($1) }
        guard !batches.isEmpty else { return }
        for request in batches.joined() { send(request, worker) }
        var counts = [Int](repeating: 0, count: worker.capacities.count)
        for flight in worker.flights.values where !flight.isSuspect { counts[flight.app] += 1 }
        for request in batches.compactMap(\.first) {
            let app = Int(worker.machine.notifications[request.id.slot].app)
            if counts[app] > worker.capacities[app] { breaks("more in flight than the capacity") }
        }
    }

    private func send(_ request: OutgoingRequest, _ worker: SimulatedWorker) {
        let notification = worker.machine.notifications[request.id.slot]
        let record = worker.machine.records[notification.record]
        guard let log = worker.log(ofSlot: record.partition), let assignment = worker.assignments[log] else {
            breaks("something was sent for an assignment that is gone")
            return
        }
        if assignment.drainsSince != nil { breaks("something was sent while draining") }
        let place = SimulatedPlace(log: log, offset: record.offset, index: notification.index)
        guard let source = logs[log].record(at: record.offset) else {
            breaks("\(place) does not exist")
            return
        }
        let original = source.originals[Int(notification.index)]
        if worker.flights[request.id] != nil { breaks("\(place) was sent while it is in flight") }
        let laneKey = Array(request.token) + Array(request.topic)
        checkSend(request, place, original, laneKey, assignment, worker)
        checkApp(request.id, worker)
        if request.isSuspect { happened["suspect", default: 0] += 1 }
        worker.flights[request.id] = .init(
            place: place, original: original, laneKey: laneKey, app: Int(notification.app),
            assignment: assignment.number, isSuspect: request.isSuspect)
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
        guard !worker.fates.isEmpty else { return }
        let due = worker.fates.filter { $0.dueMs <= nowMs }.map(\.fate)
        guard !due.isEmpty else { return }
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
        worker.machine.handle(FateBatch(app: AppIndex(0), fates: due), now: time(worker))
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
}
