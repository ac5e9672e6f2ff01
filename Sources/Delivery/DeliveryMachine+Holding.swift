import PushRecords

extension DeliveryMachine {
    /// What has waited for less is on its way.
    private static let shorteningAgeNs: Int64 = 1_000_000_000
    /// Once an app's notifications have been held for so long, they go to the tier of 15 minutes.
    private static let longHoldingNs: Int64 = 300_000_000_000
    /// A device that is sent one after the other takes them no faster than one in so long, as far as is known
    /// beforehand.
    private static let deviceQueueStepMs: Int64 = 50

    /// Why this notification may not be sent now; `nil`: it may. It may become a circuit's probe.
    @inline(__always)
    mutating func causeToHold(_ slot: NotificationSlot) -> HeldCause? {
        breakers.causeToHold(slot, in: store, nowNs: now.ns)
    }

    // MARK: Held

    /// Moves a notification to a retry tier without using up an attempt. Its device's order is given up.
    mutating func hold(_ slot: NotificationSlot, _ cause: HeldCause) {
        takeOut(slot)
        leaveDeviceQueue(slot)
        if !mayBeHeld(slot) {
            conclude(slot, .expired)
            return
        }
        guard let partition = ledger.partitions.find(store[recordOf: slot].partition) else {
            preconditionFailure("what is held has an assignment")
        }
        // Its tier will send it, so a successor that reads the record again must know that it may have been sent: the
        // reach has to cover it first. Not needed for one that was answered (`unwritable`), for which no commit may
        // come: its session may be lost.
        guard cause == .unwritable || ledger.reachAllows(slot, partition, in: store) else {
            store[slot].heldFor = cause
            waitForReach(slot, partition)
            return
        }
        moveHeld(slot, cause)
    }

    /// Whether it may be sent, as far as its `push-not-before` goes.
    @inline(__always)
    func isDue(_ slot: NotificationSlot) -> Bool { store.notBeforeMs(slot) <= now.wallMs }

    /// Whether it may wait in a tier: all may, but what is to be sent now or never, once its time has come.
    func mayBeHeld(_ slot: NotificationSlot) -> Bool { !store.isNowOrNever(slot) || !isDue(slot) }

    /// To the tier for its cause, without using up an attempt.
    mutating func moveHeld(_ slot: NotificationSlot, _ cause: HeldCause) {
        breakers.endProbe(slot, in: store)
        // No later commit may say that it cannot have been sent.
        if let partition = ledger.partitions.find(store[recordOf: slot].partition) {
            ledger.advanceReach(slot, partition, in: store)
        }
        journal.counters.apps[Int(store[slot].app)].heldByCause[Int(cause.rawValue)] &+= 1
        // Without a greatest age nothing else would end it.
        let isAttempt = cause == .unprocessed && settings.maxAgeMs == 0
        let tier =
            cause == .scheduled
            ? settlement.tiers.tier(dueInMs: store.notBeforeMs(slot) - now.wallMs)
            : settlement.tiers.writable(tier(of: slot, heldFor: cause))
        moveToTier(slot, tier, asAttempt: isAttempt)
    }

    /// The shortest tier, and the one where it costs less once the app's holding has lasted. One of many that a
    /// device queue or a share turned away goes to the tier in which its turn comes, and a dead token to a longer one
    /// each time: nobody waits for it, and each return asks APNs and writes it once more.
    private mutating func tier(of slot: NotificationSlot, heldFor cause: HeldCause) -> Int {
        let app = Int(store[slot].app)
        let tiers = settlement.tiers
        let holding = breakers.note(
            cause, of: app, pauseNs: holdingPauseNs, roundNs: tiers.delayMs(of: 0) * 1_000_000, nowNs: now.ns,
            journal: &journal)
        let lasting = holding.forNs >= Self.longHoldingNs ? tiers.long : 0
        switch cause {
        case .device:
            return Int(store[slot].heldTier)
        case .share:
            // About as many as its share holds pass each time.
            let rounds = Int64(holding.before / max(1, room.total / 2) + 1)
            return max(lasting, tiers.tier(inRounds: rounds, ofMs: tiers.patienceMs))
        case .unwritable:
            return max(lasting, tiers.tier(delayMs: 0, previousMs: store[bodyOf: store[slot].record].tierDelayMs))
        case .paused, .removed, .credential, .topic, .unreachable, .unprocessed, .span, .scheduled:
            return lasting
        }
    }

    /// Where the notification waits that a full device queue turned away after so many others: as many as a device
    /// queue takes pass each time it is tried.
    func deviceQueueTier(_ turnedAway: UInt16) -> UInt8 {
        let limit = max(1, settings.deviceQueueLimit)
        let roundMs = max(settlement.tiers.patienceMs, Int64(limit) * Self.deviceQueueStepMs)
        let rounds = turnedAway == .max ? Int64.max : Int64(Int(turnedAway) / limit + 1)
        return UInt8(clamping: settlement.tiers.tier(inRounds: rounds, ofMs: roundMs))
    }

    /// Nothing held for so long, and the next one begins anew. What comes back from the tier may be held again: a pause
    /// is longer than that takes.
    var holdingPauseNs: Int64 {
        max(60_000_000_000, settlement.tiers.delayMs(of: settlement.tiers.shortest) * 2_000_000)
    }

    /// Out of the list it waits in; its state stays, and says where it was.
    mutating func takeOut(_ slot: NotificationSlot) {
        switch store[slot].state {
        case .ready, .backingOff:
            dispatch.remove(slot, from: &store)
        case .behindReach:
            if let partition = ledger.partitions.find(store[recordOf: slot].partition) {
                ledger.leaveReach(slot, partition, in: &store)
            }
        case .admitted, .queued, .handed:
            break
        case .free, .orphaned, .concluded:
            preconditionFailure("what is gone or decided waits nowhere")
        }
    }

    // MARK: Many at once

    /// Holds what must be, of all that waits of these apps.
    mutating func holdWaiting(of isChosen: [Bool]) {
        guard isChosen.contains(true) else { return }
        for slot in store.slots where store[slot].isWaiting && store[slot].heldFor == nil {
            if isChosen[Int(store[slot].app)], let cause = causeToHold(slot) { hold(slot, cause) }
        }
    }

    /// Keeps what is settled above the oldest open record nameable: when the map is three quarters full, the oldest
    /// notifications that wait are held until it is half full. While it is nearly full all the same (what is open is on
    /// connections, or there is no tier that can be written), nothing more is read of the partition.
    mutating func shortenSpan(_ id: PartitionID) {
        let mayHold = settlement.tiers.isAnyWritable
        guard let limit = ledger.shortenSpan(id, mayHold: mayHold, in: store, nowNs: now.ns) else { return }
        var isChosen = [Bool](repeating: false, count: ledger.partitions.count)
        isChosen[Int(id.slot.number)] = true
        holdOldest(
            waiting(in: isChosen) { machine, record in
                machine.store[record].offset < limit
                    && machine.now.ns - machine.store[record].receivedNs >= Self.shorteningAgeNs
            })
    }

    /// Notifications that wait, of these partitions and of records that fulfil something.
    func waiting(in isChosen: [Bool], where fits: (borrowing DeliveryMachine, RecordSlot) -> Bool)
        -> [NotificationSlot]
    {
        var found: [NotificationSlot] = []
        for slot in store.slots where store[slot].isWaiting && store[slot].heldFor == nil {
            let record = store[slot].record
            let partition = store[record].partition
            if partition != .none, isChosen[Int(partition.number)], fits(self, record) { found.append(slot) }
        }
        return found
    }

    /// Holds notifications that wait, oldest first.
    mutating func holdOldest(_ slots: [NotificationSlot]) {
        let order = slots.map { (store[recordOf: $0].offset, store[$0].index, $0) }
        for (_, _, slot) in order.sorted(by: { $0 < $1 }) { hold(slot, .span) }
    }

    // MARK: Probes

    /// What was a probe, until its circuit closed, is like any other again: it may be behind another circuit.
    mutating func reconsider(_ probe: NotificationID?) {
        guard let probe, store[probe.slot].generation == probe.generation else { return }
        if store[probe.slot].isWaiting, let cause = causeToHold(probe.slot) { hold(probe.slot, cause) }
    }

    /// The probe was answered: its circuit closes, or waits longer.
    mutating func settleProbe(_ slot: NotificationSlot, fault: ReasonCode?) {
        let probe = breakers.settleProbe(
            slot, fault: fault, in: store, ofMany: apps.areMany, nowNs: now.ns, journal: &journal)
        reconsider(probe)
    }

    /// An answer that lays the blame on our credential: nothing more of it is resent before a probe went well.
    mutating func handleCredentialFault(_ slot: NotificationSlot, _ reason: ReasonCode) {
        let app = Int(store[slot].app)
        let handedNs = handedNs(slot)
        breakers.tellFault(app, reason, nowNs: now.ns, journal: &journal)
        let effect =
            reason.subject == .topic
            ? breakers.topicFault(slot, reason, handedNs: handedNs, in: store, nowNs: now.ns, journal: &journal)
            : breakers.credentialFault(app, reason, handedNs: handedNs, nowNs: now.ns, journal: &journal)
        switch effect {
        case .outdated:
            resend(slot)
        case .none:
            retry(slot, delayMs: VerdictTable.shortDelayMs)
        case .opened:
            retry(slot, delayMs: VerdictTable.shortDelayMs)
            holdWaiting(of: breakers.sharing(app))
        }
    }

    /// When it was handed out last, to the millisecond.
    func handedNs(_ slot: NotificationSlot) -> Int64 { now.ns - handedForMs(slot) * 1_000_000 }
}
