package import PushRecords

/// Decides everything between a Kafka record and its commit, and does nothing itself: records, completions and
/// acknowledgements go in, batches of requests, productions and commits come out.
///
/// It has no thread, clock, I/O or chance of its own; whoever owns it calls it from one thread, in turns of which
/// `DeliveryTurn` knows the order. What is there for each of its steps:
///
///     handle(completions), setCapacity, setReachable        // what transports said
///     advance(now)                                    // timers
///     assign, revoke, commitFinished                  // what the groups said
///     acknowledged                                    // what delivery reports brought
///     for each partition: room(for:) -> receive()     // read no more than there is room for
///     sends(now) { app, requests in … }               // post to the transports
///     recalls { app, ids in … }
///     for each topic that can be written:
///         while let next = nextProduction(for:) { withResult or withRetry { … produce … }; produced(next) }
///     let commit = takeCommit(of: group, now)         // of each group; when not empty: commit, later commitFinished
///     takeEvents()
///     sleep until something comes, or nextDeadlineNs
///
/// Costs O(1) amortized per notification and allocates nothing per notification in the steady state. Closures given to
/// it must not call it.
///
/// It is put together of parts that own their state and do not know each other. What one of them finds out comes back
/// as a value, and the machine acts on it, so that this file reads as the way of a notification.
package struct DeliveryMachine: ~Copyable {
    /// How long a notification with expiration 0 may be tried.
    static let nowOrNeverMs: Int64 = 30_000
    /// Refusals by APNs to process it, in a row, before it is held, those that it met alone included.
    static let heldRefusals: UInt8 = 10
    /// Tries again at once before the next one waits.
    static let quickTries: UInt8 = 3
    /// Dead letters of a partition that may wait while their topic cannot be written; then it is read no further.
    static let unwrittenDeadLetters = 100
    /// What a header of a dead letter takes in memory beside its name and value, in librdkafka and here.
    static let headerBytes = 80
    /// Tokens of a fan-out admitted before the next record has its turn.
    static let admissionPiece = 256

    private let inPlace = InPlace()
    let settings: MachineSettings
    var parser: RequestParser
    var directory: AppDirectory
    var apps = AppList()

    /// What the parts share.
    var store: NotificationStore
    /// What was received and is settled, what may be committed, how far ahead may be sent.
    var ledger: CommitLedger
    /// How much may be open.
    var room: Room
    /// Who of a device has its turn.
    var devices: DeviceQueues
    /// May it go now.
    var breakers = CircuitBreakers()
    /// What waits for a stream, and what is at the transports.
    var dispatch = Dispatch()
    /// What is written for a notification that is decided.
    var settlement: Settlement

    var journal: Journal
    /// As last told.
    var now = DeliveryTime(ns: 0, wallMs: 0)

    package init(settings: MachineSettings, apps routes: [AppRoute]) {
        self.settings = settings
        parser = RequestParser(copyHeaders: settings.copiedHeaders)
        directory = AppDirectory([])
        store = NotificationStore(idleLimit: max(1 << 20, settings.maxOpenBytes / 4))
        ledger = CommitLedger(settings)
        room = Room(mostOpen: settings.mostOpen(streams: 0), mostBytes: settings.maxOpenBytes)
        devices = DeviceQueues(seed: settings.hashSeed, limit: settings.deviceQueueLimit)
        settlement = Settlement(settings)
        journal = Journal(counters: DeliveryCounters(apps: 0, tiers: settings.tiers.count))
        _ = enter(routes)
    }

    // MARK: Events and state

    /// What happened that a log should say; empties the list.
    package mutating func takeEvents() -> [DeliveryEvent] {
        guard !journal.events.isEmpty else { return [] }
        defer { journal.events.removeAll() }
        return journal.events
    }

    package var counters: DeliveryCounters { journal.counters }

    /// Monotonic time at which the machine has something to do by itself; `nil`: nothing before something happens.
    package var nextDeadlineNs: Int64? {
        var next = ledger.nextDeadlineNs
        func consider(_ ns: Int64) { next = min(next ?? .max, ns) }
        if let ns = dispatch.nextDeadlineNs(in: store, nowNs: now.ns) { consider(ns) }
        if breakers.nextCutOffNs != .max { consider(breakers.nextCutOffNs) }
        if ledger.admittingCount > 0, apps.areMany {
            for partition in ledger.partitions.slots where ledger.partitions[partition].firstAdmitting != .none {
                // What waits for longer than that waits for room.
                let record = ledger.partitions[partition].firstAdmitting
                if let ns = reachRaiseNs(record) ?? shareWaitEndNs(record), ns > now.ns { consider(ns) }
            }
        }
        return next
    }

    /// Timers: to be called once a turn, and when `nextDeadlineNs` has come.
    package mutating func advance(now: DeliveryTime) {
        self.now = now
        if now.ns >= breakers.nextCutOffNs { cutOff() }
        devices.expire(now.ns)
        if ledger.unassignedCount > 0 { endUnassigned() }
        while let slot = dispatch.nextBackedOff(in: &store, nowNs: now.ns) {
            dispatch.becomeReady(slot, first: goesFirst(slot), in: &store, nowNs: now.ns)
        }
    }
}

// The way of a notification: it is received, has its turn among those of its device, is handed to a transport, and
// comes back with a completion (`handle`); decided, it is produced, acknowledged, and settled.
extension DeliveryMachine {
    // MARK: Received

    /// Takes one record. Key, value and headers are lent for the call; what is needed is copied. A `nil` base address
    /// says that the record has no key, or no value (a tombstone).
    ///
    /// Offsets of a partition come in ascending order; lower ones than before are `.below`.
    ///
    /// - Parameters:
    ///   - unread: not even look at it: it is a dead letter for this reason.
    ///   - letterRoom: bytes of key, value and headers that a dead letter may have now. What is received as one has to
    ///     be produced: until it is acknowledged it stays open.
    package mutating func receive(
        _ id: PartitionID, offset: Int64, timestampMs: Int64, key: UnsafeRawBufferPointer,
        value: UnsafeRawBufferPointer, headers: UnsafeBufferPointer<RecordHeader>,
        unread: DeadLetterReason? = nil, letterRoom: Int = .max, now: DeliveryTime
    ) -> Receipt {
        self.now = now
        let timestampMs = RecordTime.checked(timestampMs)
        guard let partition = ledger.partitions.find(id), ledger.partitions[partition].phase == .active else {
            return .unassigned
        }
        // One more is what a commit says once it is settled.
        guard offset >= 0, offset < OffsetLimit.highest else { return .unassigned }
        if ledger.partitions[partition].ledger.isReset(offset) {
            journal.events.append(
                .offsetReset(
                    id, committed: ledger.partitions[partition].ledger.committedAtAssignment ?? 0, offset: offset))
            ledger.reset(partition)
        }
        if ledger.partitions[partition].ledger.isBelow(offset) {
            return .below(highest: ledger.partitions[partition].ledger.highestArrived)
        }

        let isRetry = ledger.partitions[partition].tierDelayMs > 0
        let request =
            unread.map { .unread($0) }
            ?? parser.parse(key: key, value: value, headers: headers, role: isRetry ? .retry : .request)
        if let retry = request.retry, timestampMs != RecordTime.unknown {
            let delayMs = ledger.partitions[partition].tierDelayMs
            // The header is by a worker's clock, the timestamp may be by a broker's (LogAppendTime): what is held by a
            // worker whose clock is off must not come back at once, again and again.
            if retry.dueMs > now.wallMs, retry.dueMs - now.wallMs <= delayMs { return .notDue(untilMs: retry.dueMs) }
            // Whatever a skewed clock wrote into the header. One that wrote a time still to come was ahead, by more
            // than the tier is long: who knows when that was, so nobody waits for it.
            let dueMs = min(retry.dueMs, RecordTime.adding(delayMs, to: timestampMs))
            if dueMs > now.wallMs, timestampMs - now.wallMs <= delayMs { return .notDue(untilMs: dueMs) }
        }
        if request.target == .none, Self.letterBytes(key, value, headers) > letterRoom { return .noLetterRoom }
        journal.counters.recordsReceived &+= 1

        passOver(partition, below: offset)
        let arrival = ledger.receive(partition, offset, in: &store)
        let settledIndexes: [Range<Int64>]
        switch arrival {
        case .again(let record):
            return receiveAgain(record, request, partition, timestampMs, key, value, headers)
        case .known:
            return .known
        case .settledBefore:
            journal.counters.duplicatesSkipped &+= 1
            return .known
        case .open(let indexes):
            settledIndexes = indexes
        }
        let record = ledger.partitions[partition].ledger.lastRecord
        var fresh = Record()
        fresh.partition = id.slot
        fresh.group = Int32(ledger.partitions[partition].group)
        fresh.offset = offset
        fresh.timestampMs = timestampMs
        let firstMs = RecordTime.checked(request.retry?.firstMs ?? timestampMs)
        let isDue = Int64(request.notBefore) &* 1_000 <= now.wallMs
        fresh.startMs = isDue ? RecordTime.start(firstMs, notBefore: request.notBefore) : RecordTime.unknown
        fresh.receivedNs = now.ns
        fresh.position = ledger.partitions[partition].ledger.lastPosition
        fresh.count = 1
        let isList: Bool
        switch request.target {
        case .none:
            fresh.cursor.index = 1
            store[record] = fresh
            let notification = admitDeadLetter(record: record, key, value, headers)
            let reason = request.deadLetter ?? .badEnvelope
            return .deadLetter(id: notification, reason: reason, detail: request.detail)
        case .devices: isList = true
        case .device, .channel: isList = false
        }

        fresh.count = Int32(request.tokenCount)
        fresh.need()
        fresh.hasSettledIndexes = !settledIndexes.isEmpty
        if fresh.count > 1 { ledger.countFanOut(partition) }
        store[record] = fresh
        if isList { store.makeIndexes(of: record, settled: settledIndexes) }
        makeBody(of: record, request, partition: partition, timestampMs: timestampMs)
        admitNew(record, partition)
        return .taken
    }

    mutating func admitNew(_ record: RecordSlot, _ partition: PartitionSlot) {
        if ledger.partitions[partition].firstAdmitting != .none || !admit(record, limit: Self.admissionPiece) {
            ledger.waitForAdmission(record, partition, in: &store)
        } else {
            // All of it may be settled already.
            ledger.finish(record, in: &store)
        }
    }

    // MARK: In turn

    /// Goes behind the others of its device, or has its turn.
    mutating func joinDeviceQueue(_ slot: NotificationSlot) {
        let head = devices.head(for: slot, in: &store)
        if ledger.besideQueues > 0, let partition = partitionToWaitFor(slot, beside: head) {
            waitForReach(slot, partition)
            return
        }
        switch devices.enter(slot, behind: head, in: &store) {
        case .first:
            takeTurn(slot)
        case .behind:
            break
        case .full(let turnedAway):
            store[slot].heldTier = deviceQueueTier(turnedAway)
            hold(slot, .device)
        }
    }

    /// The partition for whose commit it must wait outside of its device queue: some of that partition's notifications
    /// have left their queues and come before it. `nil`: it may join its queue. (It needs not wait, or one of its
    /// partition that waits is still in that queue, and it goes behind that.)
    private func partitionToWaitFor(_ slot: NotificationSlot, beside head: NotificationSlot?) -> PartitionSlot? {
        guard let partition = ledger.partitions.find(store[recordOf: slot].partition),
            ledger.partitions[partition].besideQueues > 0, !ledger.reachAllows(slot, partition, in: store)
        else { return nil }
        var member = head ?? NotificationSlot.none
        while member != .none {
            if store[recordOf: member].partition == partition, !ledger.reachAllows(member, partition, in: store) {
                return nil
            }
            member = store[member].queueNext
        }
        return partition
    }

    /// Takes a notification out of its device queue; when it was the first, the next one has its turn. Its token must
    /// still be there.
    mutating func leaveDeviceQueue(_ slot: NotificationSlot) {
        if let next = devices.leave(slot, in: &store) { takeTurn(next) }
    }

    /// It is the first of its device queue, which may be a slow one.
    private mutating func takeTurn(_ slot: NotificationSlot) {
        if devices.isSlowed(slot, in: store) {
            store[slot].sinceNs = now.ns
            dispatch.backOff(slot, in: &store, nowNs: now.ns)
        } else {
            dispatch.becomeReady(slot, first: false, in: &store, nowNs: now.ns)
        }
    }

    // MARK: Sent

    /// Hands out what may be sent now, at most one batch per app, to be posted as `TransportCommand.send`. The bytes in
    /// it stay valid until the completion of each came back through `handle`.
    package mutating func sends(now: DeliveryTime, _ body: (AppIndex, [OutgoingRequest]) -> Void) {
        self.now = now
        renewLeases()
        if ledger.admittingCount > 0 { admitWaiting() }
        let handedMs = UInt32(truncatingIfNeeded: now.ns / 1_000_000)
        for app in dispatch.indices {
            guard let (free, most) = dispatch.freeStreams(app, nowNs: now.ns) else { continue }
            var batch: [OutgoingRequest] = []
            var suspects = 0
            batch.reserveCapacity(min(free, dispatch.ready(app)))
            while batch.count - suspects < free, batch.count < most, let slot = dispatch.next(app, from: &store) {
                guard let partition = ledger.partitions.find(store[recordOf: slot].partition) else {
                    preconditionFailure("what is ready has an assignment")
                }
                guard mayBeSent(slot, partition) else { continue }
                if store[slot].isSuspect { suspects += 1 }
                batch.append(handOut(slot, handedMs))
            }
            if !batch.isEmpty {
                dispatch.handed(app, batch.count, suspects: suspects, nowNs: now.ns)
                journal.counters.apps[app].handed &+= batch.count
                body(AppIndex(app), batch)
            }
        }
    }

    /// Below the reach, and in time.
    @inline(__always)
    private mutating func mayBeSent(_ slot: NotificationSlot, _ partition: PartitionSlot) -> Bool {
        guard ledger.reachAllows(slot, partition, in: store) else {
            waitForReach(slot, partition)
            return false
        }
        let record = store[slot].record
        precondition(store.hasBody(record), "what is ready has its bytes")
        guard store[bodyOf: record].notBeforeMs <= now.wallMs else {
            // By a clock that was set back since it was read.
            moveHeld(slot, .scheduled)
            return false
        }
        guard let expiration = store[bodyOf: record].expiration else {
            ledger.advanceReach(slot, partition, in: store)
            return true
        }
        guard expiration == 0 ? isLate(record) : now.wallMs >= Int64(expiration) * 1_000 else {
            ledger.advanceReach(slot, partition, in: store)
            return true
        }
        conclude(slot, .expired)
        return false
    }

    /// Whether a notification with expiration 0 was tried for long enough: since its record was written or its time
    /// came, or, when that is not known, since it came here.
    private func isLate(_ record: RecordSlot) -> Bool {
        let startMs = RecordTime.start(store[bodyOf: record].firstMs, notBefore: store[bodyOf: record].notBefore)
        if startMs != RecordTime.unknown { return RecordTime.age(of: startMs, nowMs: now.wallMs) > Self.nowOrNeverMs }
        return now.ns - store[record].receivedNs > Self.nowOrNeverMs * 1_000_000
    }

    /// Until an acknowledged commit names a reach above its record.
    mutating func waitForReach(_ slot: NotificationSlot, _ partition: PartitionSlot) {
        ledger.waitForReach(slot, partition, in: &store)
        // The commit may never come, and a circuit waits for its probe: another one may try.
        breakers.endProbe(slot, in: store)
        if ledger.partitions[partition].commits.isImpossible || ledger.partitions[partition].besideQueues > 0 {
            letOthersPass(slot, partition)
        }
    }

    private mutating func handOut(_ slot: NotificationSlot, _ handedMs: UInt32) -> OutgoingRequest {
        let record = store[slot].record
        guard let place = store.place(of: record) else { preconditionFailure("what is ready has its bytes") }
        store.move(slot, to: .handed)
        store[slot].handedMs = handedMs
        store[record].handedOut()
        var headers = store[bodyOf: record].headers
        headers.apnsID = store[bodyOf: record].requestID(index: store[slot].index, isDerived: settings.derivesIDs)
        return OutgoingRequest(
            id: store.id(of: slot), token: store[slot].token, payload: store[bodyOf: record].payload, headers: headers,
            isBroadcast: store[bodyOf: record].isBroadcast, isSuspect: store[slot].isSuspect, place: place)
    }

    // MARK: Decided

    /// Ends a notification: its productions are queued, its device queue goes on.
    mutating func conclude(_ slot: NotificationSlot, _ outcome: Outcome) {
        store[slot].outcome = outcome
        let deadSinceMs = settlement.deadSinceMs(slot, in: store)
        let isDeadToken = deadSinceMs != nil
        if let deadSinceMs { store[slot].unregisteredAtMs = deadSinceMs }
        // It was shown to nobody, and will be answered so again. What is now or never ends as expired by it: left open
        // for a topic that takes nothing for hours, it would hold up its partition.
        if isDeadToken, !isWritable(.unregistered), isAnyTierWritable { return hold(slot, .unwritable) }
        breakers.endProbe(slot, in: store)
        leaveDeviceQueue(slot)
        store.move(slot, to: .concluded)
        let app = store[slot].app >= 0 ? Int(store[slot].app) : apps.count
        journal.counters.apps[app].outcomes[outcome.index] &+= 1
        if outcome == .invalid { journal.counters.apps[app].reasons[Int(store[slot].reason.rawValue)] &+= 1 }

        if outcome == .accepted, settings.publishesOnlyFailures, store[slot].inDoubt == 0 {
            releaseBytes(slot)
            settle(slot)
            return
        }
        if isDeadToken { settlement.produce(slot, .unregistered, in: &store) }
        settlement.produce(slot, .result, in: &store)
    }

    // MARK: Written

    /// The producer copied what `nextProduction` gave for its target: its bytes may go. Exactly one `acknowledged` with
    /// its id must follow.
    package mutating func produced(_ production: Production) {
        if settlement.produced(production, in: &store) { releaseBytes(production.id.slot) }
    }

    /// Kafka acknowledged one production, or the dead letter, of this notification.
    package mutating func acknowledged(_ id: NotificationID, now: DeliveryTime) {
        self.now = now
        switch settlement.acknowledged(id, in: &store) {
        case nil: journal.counters.late &+= 1
        case true?: settle(id.slot)
        case false?: break
        }
    }

    // MARK: Settled

    /// All that had to be written for it was acknowledged.
    mutating func settle(_ slot: NotificationSlot) {
        let record = store[slot].record
        let index = store[slot].index
        store.noteSettled(index, of: record)
        ledger.noteSettled(of: record, in: store)
        journal.counters.notificationsSettled &+= 1
        let startMs = store[record].startMs
        if startMs != RecordTime.unknown {
            journal.counters.settleTimes.count(RecordTime.age(of: startMs, nowMs: now.wallMs))
        }
        free(slot)
        ledger.finish(record, in: &store)
    }

    /// Gives a notification's slot back and takes it out of every count. It is in no list and no device queue any more.
    mutating func free(_ slot: NotificationSlot) {
        breakers.endProbe(slot, in: store)
        ledger.countGone(slot, in: store)
        room.giveBackBytes(slot, in: &store)
        room.giveBack(group: Int(store[recordOf: slot].group), app: Int(store[slot].app))
        settlement.forget(slot)
        store.giveBack(slot)
    }
}
