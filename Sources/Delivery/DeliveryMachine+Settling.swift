internal import CLinux
package import PushRecords

// A notification is decided, or moves to a retry tier; what is written for it is produced, acknowledged, and settled.
extension DeliveryMachine {
    /// Once an app's notifications have been deferred for so long, they go to the tier of 15 minutes.
    private static let longDeferralNs: Int64 = 300_000_000_000
    // MARK: Decided

    /// Ends a notification: its productions are queued, its device queue goes on.
    mutating func conclude(_ slot: NotificationSlot, _ outcome: Outcome) {
        let deadSinceMs = settlement.deadSinceMs(slot, outcome, in: store)
        if let deadSinceMs {
            store[slot].answer.unregisteredAtMs = deadSinceMs
            // It was shown to no user, and will be answered so again. One that is sent now or never ends as expired: if
            // it stayed open for a topic that takes nothing for hours, it would hold up its partition.
            if !isWritable(.unregistered), isAnyTierWritable { return deferToTier(slot, .unwritable) }
        }
        dispatch.breakers.endProbe(slot, in: store)
        leaveDeviceQueue(slot)
        store[slot].state = .concluded(.result(outcome))
        let app = store[slot].app >= 0 ? Int(store[slot].app) : apps.count
        journal.counters.apps[app].outcomes[outcome.index] &+= 1
        if outcome == .invalid { journal.counters.apps[app].reasons[Int(store[slot].answer.reason.rawValue)] &+= 1 }

        if outcome == .accepted, settlement.settings.publishesOnlyFailures, store[slot].tries.inDoubt == 0 {
            store.releaseBytes(slot)
            settle(slot)
            return
        }
        if deadSinceMs != nil { settlement.produce(slot, to: .unregistered, in: &store) }
        settlement.produce(slot, to: .results, in: &store)
    }

    /// Moves to a retry topic, or to its end if it may not go there.
    mutating func moveToTier(_ slot: NotificationSlot, _ tier: Int, asAttempt: Bool) {
        let record = store[slot].record
        precondition(store.hasBody(record), "what is to be retried has its bytes")
        guard store.mayBeDeferred(slot, nowMs: now.wallMs) else { return conclude(slot, .expired) }
        if asAttempt, Int(store[bodyOf: record].attempt) >= settlement.settings.maxAttempts {
            return conclude(slot, .abandoned)
        }
        // The record's own block goes when the producer has it; what the producer has stays until it is acknowledged.
        store.takeBytes(store[bodyOf: record].payload.count, for: slot)
        if asAttempt { journal.counters.apps[Int(store[slot].app)].retries[tier] &+= 1 }
        leaveDeviceQueue(slot)
        let dueMs = settlement.dueMs(slot, in: tier, store, nowMs: now.wallMs)
        store[slot].state = .concluded(.retry(dueMs: dueMs, isAttempt: asAttempt))
        settlement.produce(slot, to: .retry(tier: tier), in: &store)
    }

    // MARK: Deferred

    /// Why this notification may not be sent now; `nil` if it may. It may become a circuit's probe.
    @inline(__always)
    mutating func reasonToDefer(_ slot: NotificationSlot) -> DeferralReason? {
        dispatch.breakers.reasonToDefer(slot, in: store, nowNs: now.ns)
    }

    /// Moves a notification to a retry tier without using up an attempt. Its device's order is given up.
    mutating func deferToTier(_ slot: NotificationSlot, _ reason: DeferralReason, deviceTier: UInt8 = 0) {
        takeOut(slot)
        leaveDeviceQueue(slot)
        guard store.mayBeDeferred(slot, nowMs: now.wallMs) else { return conclude(slot, .expired) }
        guard let partition = ledger.find(store[recordOf: slot].partition) else {
            preconditionFailure("what is deferred has an assignment")
        }
        let deferral = Notification.Deferral(reason: reason, deviceTier: deviceTier)
        // Its tier will send it, so a successor that reads the record again must know that it may have been sent: the
        // send horizon has to cover it first. This is not needed for one that was answered (`unwritable`), for which no
        // commit may come, since its session may be lost.
        guard reason == .unwritable || ledger[partition].horizon.allows(store[recordOf: slot].offset) else {
            store[slot].deferral = deferral
            waitForHorizon(slot, partition)
            return
        }
        moveDeferred(slot, deferral)
    }

    /// Moves to the tier for its reason, without using up an attempt.
    mutating func moveDeferred(_ slot: NotificationSlot, _ deferral: Notification.Deferral) {
        dispatch.breakers.endProbe(slot, in: store)
        // No later commit may say that it cannot have been sent.
        if let partition = ledger.find(store[recordOf: slot].partition) {
            ledger[partition].horizon.advance(to: store[recordOf: slot].offset)
        }
        journal.counters.apps[Int(store[slot].app)].heldByCause[Int(deferral.reason.rawValue)] &+= 1
        // Without a greatest age nothing else would end it.
        let isAttempt = deferral.reason == .unprocessed && settlement.settings.maxAgeMs == 0
        moveToTier(slot, tier(of: slot, deferral), asAttempt: isAttempt)
    }

    /// The shortest tier, and the one of 15 minutes once the app's deferral has lasted.
    ///
    /// One of many that a device queue or a share turned away goes to the tier in which its turn comes. A dead token
    /// goes to a longer tier each time: no user waits for it, and each return asks APNs and writes it once more.
    private mutating func tier(of slot: NotificationSlot, _ deferral: Notification.Deferral) -> Int {
        let tiers = settlement.tiers
        // It is no problem that an event would be logged about.
        if deferral.reason == .scheduled { return tiers.tier(dueInMs: store.notBeforeMs(slot) - now.wallMs) }
        // What comes back from the tier may be deferred again, so the pause is longer than that takes.
        let noted = dispatch.breakers.note(
            deferral.reason, of: Int(store[slot].app),
            pauseNs: max(60_000_000_000, tiers.delayMs(of: tiers.shortest) * 2_000_000),
            roundNs: tiers.delayMs(of: 0) * 1_000_000, journal: &journal)
        let lasting = noted.forNs >= Self.longDeferralNs ? tiers.long : 0
        switch deferral.reason {
        case .device:
            return tiers.writable(Int(deferral.deviceTier))
        case .share:
            // About as many as its share holds pass each time.
            let rounds = Int64(noted.before / max(1, store.budget.total / 2) + 1)
            return tiers.writable(max(lasting, tiers.tier(inRounds: rounds, ofMs: tiers.patienceMs)))
        case .unwritable:
            let previousMs = store[bodyOf: store[slot].record].tierDelayMs
            return tiers.writable(max(lasting, tiers.tier(delayMs: 0, previousMs: previousMs)))
        case .paused, .credential, .unreachable, .unprocessed, .span, .scheduled:
            return tiers.writable(lasting)
        }
    }

    /// Takes it out of the list it waits in. Its state stays, and says where it was.
    mutating func takeOut(_ slot: NotificationSlot) {
        switch store[slot].state {
        case .ready, .backingOff:
            dispatch.remove(slot, from: &store)
        case .behindHorizon:
            if let partition = ledger.find(store[recordOf: slot].partition) {
                ledger[partition].behindHorizon.remove(slot, from: &store)
            }
        case .admitted, .queued, .handed:
            break
        case .free, .concluded:
            preconditionFailure("what is gone or decided waits nowhere")
        }
    }

    // MARK: Produced

    /// The notification of the next record to be produced to this topic; `nil` if there is none. It stays the same
    /// until `produced` is called: when the producer's queue is full, try again later. The results of one device come
    /// in the order of their endings.
    ///
    /// Whether the topic can be written is not looked at: the caller may try, to find that out.
    package mutating func nextProduction(for target: ProductionTarget) -> NotificationID? {
        settlement.next(for: target, in: store)
    }

    /// Lends what the record of a result or a dead token says, for the time of the call.
    package func withResult<R>(
        _ id: NotificationID, now: DeliveryTime, _ body: (borrowing NotificationContent, borrowing Ending) -> R
    ) -> R {
        store.enterPlace(of: id)
        defer { crash_nowhere() }
        // The environment that called the token bad before, if it is not the one that the result names.
        var tried: PushEnvironment?
        let app = store[id.slot].app
        if app != store[bodyOf: store[id.slot].record].firstApp, app >= 0 {
            tried = apps.route(Int(app)).environment == .production ? .development : .production
        }
        return settlement.withResult(id.slot, in: store, nowMs: now.wallMs, tried: tried, body)
    }

    /// Lends what a retry record says, for the time of the call.
    package func withRetry<R>(
        _ id: NotificationID, _ body: (borrowing NotificationContent, borrowing RetryOrder) -> R
    ) -> R {
        store.enterPlace(of: id)
        defer { crash_nowhere() }
        // The name of the app that called the token bad before. A name that is not known here is written as one that no
        // app can have, so that the token is not sent to the other environment again.
        let first = store[bodyOf: store[id.slot].record].firstApp
        var triedApp = UnsafeRawBufferPointer.nothing
        if first != store[id.slot].app {
            triedApp =
                first >= 0
                ? apps.bytes(ofName: apps.route(Int(first)).name) : StaticString("?").lentBytes
        }
        return settlement.withRetry(id.slot, in: store, triedApp: triedApp, body)
    }

    /// The producer copied what `nextProduction` gave for this topic. Exactly one `acknowledged` must follow.
    package mutating func produced(_ id: NotificationID, to target: ProductionTarget) {
        if settlement.produced(id, to: target, in: &store) { store.releaseBytes(id.slot) }
    }

    /// The publisher reports that a topic cannot be written now, or that it can again.
    ///
    /// - A retry tier: the choice of a tier passes over it, and what waits for it goes to another that can be written.
    ///   If none can, it waits, and `isAnyTierWritable` is false.
    /// - The dead-token topic: what is answered so is deferred instead (`DeferralReason.unwritable`), and so is what
    ///   waits for it, unless its result was produced already.
    /// - Dead letters: a partition in which `unwrittenDeadLetters` of them wait is read no further.
    /// - Results: what needs them waits; the rest goes on.
    package mutating func setWritable(_ target: ProductionTarget, _ isWritable: Bool, now: DeliveryTime) {
        self.now = now
        guard settlement.setWritable(target, isWritable) else { return }
        if target == .unregistered, isWritable {
            for app in apps.indices { dispatch.breakers.endDeferral(.unwritable, of: app) }
        }
        guard isAnyTierWritable else { return }
        settlement.emptyUnwritableTiers(in: &store, nowMs: now.wallMs)
        guard !self.isWritable(.unregistered) else { return }
        for slot in settlement.takeDeadTokens(in: &store) {
            moveDeferred(slot, Notification.Deferral(reason: .unwritable))
        }
    }

    /// As `setWritable` reported last; true before.
    package func isWritable(_ target: ProductionTarget) -> Bool { settlement.isWritable(target) }

    /// Whether there is a place for what has to wait: without one, only what can be sent may be read.
    package var isAnyTierWritable: Bool { settlement.tiers.isAnyWritable }

    // MARK: Settled

    /// Kafka acknowledged one production, or the dead letter, of this notification.
    package mutating func acknowledged(_ id: NotificationID, now: DeliveryTime) {
        self.now = now
        switch settlement.acknowledged(id, in: &store) {
        case nil: journal.counters.late &+= 1
        case true?: settle(id.slot)
        case false?: break
        }
    }

    /// All that had to be written for it was acknowledged.
    private mutating func settle(_ slot: NotificationSlot) {
        let record = store[slot].record
        store.noteSettled(store[slot].index, of: record)
        if let partition = ledger.find(store[record].partition) { ledger[partition].isDirty = true }
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
        dispatch.breakers.endProbe(slot, in: store)
        if let partition = ledger.find(store[recordOf: slot].partition) {
            precondition(ledger[partition].open > 0, "a notification is counted once")
            ledger[partition].open -= 1
            if case .concluded(.deadLetter) = store[slot].state { ledger[partition].deadLetters -= 1 }
        }
        settlement.forget(slot)
        store.giveBack(slot)
    }
}
