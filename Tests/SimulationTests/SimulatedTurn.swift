import Bytes
import PushRecords

@testable import Delivery

/// A worker's Kafka client and transports, as seen by a turn of the machine.
struct SimulatedSide: RequestSource, Transports, RecordSink {
    let world: SimulatedWorld
    let worker: SimulatedWorker

    func serve(_ machine: inout DeliveryMachine, now: DeliveryTime) -> DeliveryTime {
        for group in CommitGroup.allCases { world.finishCommit(of: group, worker, &machine) }
        world.drain(worker, &machine)
        return now
    }

    /// Unread records are read in the world's next step.
    func read(into machine: inout DeliveryMachine, now: DeliveryTime) -> Bool {
        if !world.isKafkaDown {
            for log in worker.assignments.keys.sorted() { world.read(log, worker, &machine) }
        }
        return false
    }

    func nextDeadlineNs(now: DeliveryTime) -> Int64? { nil }

    func deliver(to machine: inout DeliveryMachine, now: DeliveryTime) { world.deliverCompletions(worker, &machine) }

    func send(from machine: inout DeliveryMachine, now: DeliveryTime) { world.send(worker, &machine) }

    func recall(from machine: inout DeliveryMachine) { world.recall(worker, &machine) }

    /// Whether as many productions wait as `RecordPublisher` allows.
    var isBackedUp: Bool { worker.producing.count >= 2 * world.settings.maxOpen }

    var nextDeadlineNs: Int64? { nil }

    func acknowledge(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        if !world.isKafkaDown { world.deliverAcknowledgements(worker, &machine) }
    }

    func publish(_ machine: inout DeliveryMachine, now: DeliveryTime) { world.produce(worker, &machine) }

    func commit(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        for group in CommitGroup.allCases { world.commit(group, worker, &machine) }
    }
}

/// One turn of a worker, with the code of the real worker.
extension SimulatedWorld {
    func turn(_ worker: SimulatedWorker) {
        let side = SimulatedSide(world: self, worker: worker)
        worker.turn.hasKafkaNews = true
        let end = worker.turn.run(
            &worker.machine, requests: side, transports: side, records: side, now: time(worker))
        turnTransport(worker)
        // All work that was due was done in this turn, or waits for Kafka.
        if let deadline = worker.machine.nextDeadlineNs, deadline < ns - 60_000_000_000 {
            breaks("the deadline \(deadline) is long past at \(ns)")
        }
        checkLimits(worker)
        for event in end.events { heed(event) }
        for lost in worker.suspended.values where worker.machine.ledger.find(lost.id) == nil { wasReleased = true }
    }

    private func heed(_ event: DeliveryEvent) {
        let kind =
            switch event {
            case .held(_, let cause): "held: \(cause)"
            case .circuitOpened(.credential, _): "credential circuit"
            case .circuitOpened(.topic, _): "topic circuit"
            case .circuitOpened(.connection, _): "connection circuit"
            case .guardTripped: "guard tripped"
            case .metadataRefused: "metadata refused"
            case .foreignCommit: "foreign commit"
            case .startedWithoutOffset: "started without an offset"
            case .logChanged: "log changed"
            case .overtaken: "overtaken by retention"
            case .resumed: "resumed"
            case .commitsRefused(_, _, isImpossible: true): "commits impossible"
            case .commitsResumed: "commits resumed"
            case .mapCut: "map truncated"
            default: "other"
            }
        note(kind)
        if case .foreignCommit = event, !logs.contains(where: \.wasDamaged) {
            breaks("the worker rejected metadata that a worker wrote")
        }
        if case .logChanged = event, !logs.contains(where: \.wasReset) {
            breaks("a log change was reported, but no log was changed")
        }
    }

    // MARK: Kafka -> machine

    func read(_ log: Int, _ worker: SimulatedWorker, _ machine: inout DeliveryMachine) {
        guard var assignment = worker.assignments[log], assignment.drainsSince == nil, assignment.waitUntilMs <= nowMs
        else { return }
        guard assignment.life == logs[log].life || notice(log, &assignment, worker, &machine) else {
            worker.assignments[log] = assignment
            return
        }
        // librdkafka 2.0.2 may deliver a record twice.
        var place = logs[log].index(from: assignment.position)
        if random.chance(2), place > 0, logs[log].records[place - 1].offset >= assignment.firstPosition { place -= 1 }
        var room = machine.room(for: assignment.id)
        room = min(room, random.chance(80) ? readLimit : 3)
        let end = assignment.fenced?.end ?? .max
        while room > 0, place < logs[log].records.count, logs[log].records[place].offset < end {
            room -= 1
            let record = logs[log].records[place]
            var receipt = receive(record, assignment.id, worker, &machine)
            // The recreated topic is detected by its id.
            let known = machine.ledger.find(assignment.id).map { machine.ledger[$0].offsets.highestKnown } ?? -1
            if case .ignored = receipt, record.offset <= known, assignment.life != logs[log].life {
                note("recreation detected by the topic's id")
                beginAnew(log, &assignment, worker, &machine)
                receipt = receive(record, assignment.id, worker, &machine)
                if case .ignored = receipt { breaks("the first record of a restarted log was ignored") }
            }
            assignment.life = logs[log].life
            trace(log) { "\(name(worker)) reads offset \(record.offset), life \(record.life): \(receipt)" }
            switch receipt {
            case .taken, .ignored:
                if case .taken = receipt { worker.keep(record, of: log, assignment) }
                place += 1
                assignment.position = record.offset + 1
            case .deadLetter(let id, let reason, _):
                worker.keep(record, of: log, assignment)
                place += 1
                assignment.position = record.offset + 1
                if reason != .tombstone { breaks("\(reason) of offset \(record.offset)") }
                produceDeadLetter(id, .init(log: log, life: record.life, offset: record.offset), worker)
            case .noLetterRoom: breaks("the dead letter of offset \(record.offset) was not accepted")
            case .notDue(let untilMs):
                let waitMs = untilMs - time(worker).wallMs
                if case .retry(let delayMs) = logs[log].role, waitMs > 2 * delayMs {
                    breaks("a retry partition waits for \(waitMs) ms")
                }
                assignment.waitUntilMs = nowMs + waitMs
                room = 0
            }
        }
        // librdkafka sometimes reports the log's end, also above a transaction marker.
        if assignment.fenced == nil, assignment.life == logs[log].life, place == logs[log].records.count,
            random.oneIn(4)
        {
            if random.oneIn(4) { logs[log].nextOffset += 1 }
            assignment.position = max(assignment.position, logs[log].nextOffset)
            machine.reachedEnd(assignment.id, offset: assignment.position)
        }
        worker.assignments[log] = assignment
    }

    private func receive(
        _ record: SimulatedRecord, _ id: PartitionID, _ worker: SimulatedWorker, _ machine: inout DeliveryMachine
    ) -> Receipt {
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
            machine.receive(
                id, offset: record.offset, timestampMs: record.timestampMs, key: key, value: value, headers: $0,
                now: time(worker))
        }
    }

    // MARK: Machine -> APNs

    func send(_ worker: SimulatedWorker, _ machine: inout DeliveryMachine) {
        var batches: [[OutgoingRequest]] = []
        machine.sends(now: time(worker)) { batches.append($1) }
        guard !batches.isEmpty else { return }
        for request in batches.joined() { send(request, worker, machine) }
        var counts = [Int](repeating: 0, count: worker.capacities.count)
        for flight in worker.flights.values where !flight.isSuspect { counts[flight.app] += 1 }
        for request in batches.compactMap(\.first) {
            let app = Int(machine.store[request.id.slot].app)
            if counts[app] > worker.capacities[app] { breaks("more requests are in flight than the capacity allows") }
        }
    }

    private func send(
        _ request: OutgoingRequest, _ worker: SimulatedWorker, _ machine: borrowing DeliveryMachine
    ) {
        let notification = machine.store[request.id.slot]
        guard let place = worker.place(of: request.id, in: machine), let original = original(of: place) else {
            breaks("a notification was sent that was not read")
            return
        }
        let slot = machine.store[notification.record].partition
        guard let assignment = worker.assignment(of: request.id, in: machine) else {
            breaks("\(place) was sent for an assignment that has ended")
            return
        }
        if assignment.drainsSince != nil { breaks("\(place) was sent while its partition was being revoked") }
        let chain = worker.chains[slot] ?? 0
        if worker.flights.values.contains(where: { $0.place == place && $0.chain == chain }) {
            breaks("\(place) was sent while it is in flight")
        }
        if settledAt[place]?.chain == chain { breaks("\(place) was sent although its worker has settled it") }
        if worker.flights[request.id] != nil { breaks("\(place) was sent while it is in flight") }
        let isOther = machine.apps.route(Int(notification.app)).environment == .development
        let deviceKey = Array(request.token) + Array(request.headers.topic) + (isOther ? [0] : [])
        trace(place.log) { "\(name(worker)) sends \(place) of \(original), in doubt \(notification.tries.inDoubt)" }
        checkSend(request, place, original, deviceKey, assignment, worker, notification)
        checkApp(request.id, worker, machine)
        if request.isSuspect { note("suspect") }
        worker.flights[request.id] = .init(
            place: place, original: original, deviceKey: deviceKey, app: Int(notification.app), isOther: isOther,
            assignment: assignment.number, chain: chain, isSuspect: request.isSuspect)
    }

    func recall(_ worker: SimulatedWorker, _ machine: inout DeliveryMachine) {
        var recalled: [NotificationID] = []
        machine.recalls { recalled += $1 }
        for id in recalled where worker.flights[id]?.isQueued ?? false { giveBack(id, worker) }
    }

    /// Makes APNs process a request, and returns the answer.
    func process(_ flight: SimulatedWorker.Flight, isBinary: Bool) -> (status: UInt16, reason: ReasonCode) {
        guard let book = books[flight.original], let rule = book.rule else {
            breaks("\(flight.original) was sent, but must not be")
            return (200, .none)
        }
        books[flight.original]?.processed += 1
        if flight.isOther { note("forwarded to the other environment") }
        if flight.isOther, !rule.isForeign { breaks("\(flight.original) was sent to the other environment") }
        let answer =
            isBinary
            ? rule.gatewayAnswer(processed: book.processed)
            : rule.answer(processed: book.processed, isOther: flight.isOther)
        if answer.status == 200 { books[flight.original]?.delivered += 1 }
        return answer
    }

    // MARK: APNs -> machine

    func deliverCompletions(_ worker: SimulatedWorker, _ machine: inout DeliveryMachine) {
        guard !worker.completions.isEmpty else { return }
        let due = worker.completions.filter { $0.dueMs <= nowMs }.map(\.completion)
        guard !due.isEmpty else { return }
        worker.completions.removeAll { $0.dueMs <= nowMs }
        for completion in due {
            guard let flight = worker.flights.removeValue(forKey: completion.id) else {
                breaks("a request was completed twice")
                return
            }
            trace(flight.place.log) { "\(name(worker)): \(flight.place) is \(completion.kind) \(completion.status)" }
            if completion.kind == .inDoubt { books[flight.original]?.doubts += 1 }
            if settings.publishesOnlyFailures, completion.status == 200 {
                countAccepted(completion.id, flight, worker, machine)
            }
        }
        machine.handle(CompletionBatch(app: AppIndex(0), completions: due), now: time(worker))
    }

    /// Counts an accepted notification without doubt, which `publish: failures` settles with its verdict.
    private func countAccepted(
        _ id: NotificationID, _ flight: SimulatedWorker.Flight, _ worker: SimulatedWorker,
        _ machine: borrowing DeliveryMachine
    ) {
        let notification = machine.store[id.slot]
        guard notification.generation == id.generation, case .handed = notification.state,
            notification.tries.inDoubt == 0, machine.store[notification.record].partition != .none
        else {
            return
        }
        books[flight.original]?.countedAsAccepted += 1
        settled.insert(flight.place)
        settledAt[flight.place] = (step, flight.assignment, flight.chain)
    }
}
