internal import CLinux
package import PushRecords

// Ends notifications or moves them to a retry topic, produces their records, and settles them when Kafka has
// acknowledged these records.
extension DeliveryMachine {
    /// If a deferral reason of an app has lasted this long, most of its deferrals use tiers of at least 15 minutes.
    private static let longDeferralNs: Int64 = 300_000_000_000
    // MARK: Outcomes

    /// Ends a notification: queues its output records, if it needs any, and removes it from its device queue.
    mutating func conclude(_ slot: NotificationSlot, _ outcome: Outcome) {
        let deadSinceMs = settlement.deadSinceMs(slot, outcome, in: store)
        if let deadSinceMs {
            store[slot].answer.unregisteredAtMs = deadSinceMs
            // While the dead-token topic is not writable, defer the notification: no user saw it, and a later send gets
            // the same answer. A notification with expiration 0 ends as expired instead, so that it does not block its
            // partition.
            if !isWritable(.unregistered), settlement.tiers.isAnyWritable { return deferToTier(slot, .unwritable) }
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

    /// Moves a notification to a retry topic, or ends a notification that must not wait or has no attempts left.
    mutating func moveToTier(_ slot: NotificationSlot, _ tier: Int, asAttempt: Bool) {
        let record = store[slot].record
        precondition(store.hasBody(record), "A notification that moves to a tier must have its bytes")
        guard store.mayBeDeferred(slot, nowMs: now.wallMs) else { return conclude(slot, .expired) }
        if asAttempt, Int(store[bodyOf: record].attempt) >= settlement.settings.maxAttempts {
            return conclude(slot, .abandoned)
        }
        // The record's block may be freed once the producer has copied the retry record. The budget counts the
        // producer's copy until the acknowledgement.
        store.takeBytes(store[bodyOf: record].payload.count, for: slot)
        if asAttempt { journal.counters.apps[Int(store[slot].app)].retries[tier] &+= 1 }
        leaveDeviceQueue(slot)
        let dueMs = settlement.dueMs(slot, in: tier, store, nowMs: now.wallMs)
        store[slot].state = .concluded(.retry(dueMs: dueMs, isAttempt: asAttempt))
        settlement.produce(slot, to: .retry(tier: tier), in: &store)
    }

    // MARK: Deferred

    /// Moves a notification to a retry tier as soon as the send horizon allows this. The device's notifications may
    /// then lose their order.
    mutating func deferToTier(_ slot: NotificationSlot, _ reason: DeferralReason) {
        takeOut(slot)
        leaveDeviceQueue(slot)
        guard store.mayBeDeferred(slot, nowMs: now.wallMs) else { return conclude(slot, .expired) }
        guard let partition = ledger.find(store[recordOf: slot].partition) else {
            preconditionFailure("A deferred notification must belong to an assignment")
        }
        // A worker will send the notification when it reads the retry record. If the partition's next owner also reads
        // the original record again, it must mark the notification in doubt. The send horizon must therefore be above
        // the record before the move. An `unwritable` notification does not wait: its record was below the horizon when
        // it was sent, and after a lost session the next commit might never come.
        guard reason == .unwritable || ledger[partition].horizon.allows(store[recordOf: slot].offset) else {
            store[slot].deferral = reason
            waitForHorizon(slot, partition)
            return
        }
        moveDeferred(slot, reason)
    }

    /// Moves a notification to the tier for this reason. This uses up an attempt only for `unprocessed` without a
    /// maximum age.
    mutating func moveDeferred(_ slot: NotificationSlot, _ reason: DeferralReason) {
        dispatch.breakers.endProbe(slot, in: store)
        // Later commits must keep the send horizon above this record until it settles, because a worker may send the
        // notification after it has read the retry record.
        if let partition = ledger.find(store[recordOf: slot].partition) {
            ledger[partition].horizon.advance(to: store[recordOf: slot].offset)
        }
        journal.counters.apps[Int(store[slot].app)].heldByCause[Int(reason.rawValue)] &+= 1
        // Without a maximum age, APNs could refuse a notification forever, so each such deferral uses up an attempt.
        let isAttempt = reason == .unprocessed && settlement.settings.maxAgeMs == 0
        moveToTier(slot, tier(of: slot, reason), asAttempt: isAttempt)
    }

    /// Returns the tier of a deferred notification: usually the shortest, or a longer one after a long deferral.
    ///
    /// If a device queue or an app's share is full, the tier's delay is about the expected wait. A notification with a
    /// dead token gets a longer tier each time: no user waits for it, and each return costs another request to APNs and
    /// another retry record.
    private mutating func tier(of slot: NotificationSlot, _ reason: DeferralReason) -> Int {
        let tiers = settlement.tiers
        // Scheduling is normal operation, so no event is logged.
        if reason == .scheduled { return tiers.tier(dueInMs: store.notBeforeMs(slot) - now.wallMs) }
        // `pauseNs` must be longer than a stay in the shortest tier, so that a notification that returns and is
        // deferred again continues the series of deferrals.
        let pauseNs = max(60_000_000_000, tiers.delayMs(of: tiers.writable(0)) * 2_000_000)
        let app = Int(store[slot].app)
        let noted = dispatch.breakers.apps[app].deferred[Int(reason.rawValue)].note(
            now.ns, pauseNs: reason.isSporadic ? pauseNs : nil, roundNs: tiers.delayMs(of: 0) * 1_000_000)
        if noted.isNews { journal.events.append(.held(app: AppIndex(app), reason)) }
        let isLong = noted.forNs >= Self.longDeferralNs
        let lasting = isLong ? tiers.tier(delayMs: VerdictTable.longDelayMs, previousMs: 0) : 0
        switch reason {
        case .device:
            return tiers.writable(Int(store[slot].deviceTier))
        case .share:
            // In each round, about as many notifications are admitted as the app's share allows.
            let rounds = Int64(noted.before / max(1, store.budget.notifications.total / 2) + 1)
            return tiers.writable(max(lasting, tiers.tier(inRounds: rounds, ofMs: tiers.patienceMs)))
        case .unwritable:
            let previousMs = store[bodyOf: store[slot].record].tierDelayMs
            return tiers.writable(max(lasting, tiers.tier(delayMs: 0, previousMs: previousMs)))
        case .paused, .credential, .unreachable, .unprocessed, .span, .scheduled, .clock:
            return tiers.writable(lasting)
        }
    }

    /// Removes a notification from its `Notification.List`, if it is in one. Does not change the notification's state.
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
            preconditionFailure("A notification in a list must not be free or concluded")
        }
    }

    // MARK: Produced

    /// Returns the notification whose record is next for this topic, or `nil` if there is none. The notification stays
    /// in the queue until `produced` is called, so the caller may try again later if the producer's queue is full. The
    /// results of a device are produced in the order in which its notifications ended.
    ///
    /// The method does not check whether the topic is writable, so that the caller can test an unwritable topic.
    package mutating func nextProduction(for target: ProductionTarget) -> NotificationID? {
        settlement.next(for: target, in: store)
    }

    /// Lends the content of a result or a dead-token record to `body`.
    package func withResult<R>(
        _ id: NotificationID, now: DeliveryTime, _ body: (borrowing NotificationContent, borrowing Ending) -> R
    ) -> R {
        store.enterPlace(of: id)
        defer { crash_nowhere() }
        // The environment in which APNs first rejected the token as bad, if the result names the other environment.
        var tried: PushEnvironment?
        let app = store[id.slot].app
        if app != store[bodyOf: store[id.slot].record].firstApp, app >= 0 {
            tried = apps.route(Int(app)).environment == .production ? .development : .production
        }
        return settlement.withResult(id.slot, in: store, nowMs: now.wallMs, tried: tried, body)
    }

    /// Lends the content of a retry record to `body`.
    package func withRetry<R>(
        _ id: NotificationID, _ body: (borrowing NotificationContent, borrowing RetryOrder) -> R
    ) -> R {
        store.enterPlace(of: id)
        defer { crash_nowhere() }
        // The name of the app for which APNs first rejected the token as bad. If that app is not configured here, the
        // record gets a name that no app can have, so that the notification is not forwarded again.
        let first = store[bodyOf: store[id.slot].record].firstApp
        var triedApp = UnsafeRawBufferPointer.nothing
        if first != store[id.slot].app {
            triedApp = first >= 0 ? apps.name(Int(first)) : StaticString("?").lentBytes
        }
        return settlement.withRetry(id.slot, in: store, triedApp: triedApp, body)
    }

    /// Notes that the producer copied the record from `nextProduction`. One call of `acknowledged` must follow.
    package mutating func produced(_ id: NotificationID, to target: ProductionTarget) {
        precondition(
            settlement.productions[target][settlement.productions[target].head] == id && store.isCurrent(id),
            "Records must be produced in the order of their queue")
        settlement.productions[target].removeFirst()
        store[id.slot].unproduced -= 1
        if store[id.slot].unproduced == 0 { store.releaseBytes(id.slot) }
    }

    /// Stores whether a topic is writable, as the publisher reports it.
    ///
    /// - If a retry tier is not writable, its notifications move to a writable one. If no tier is writable, they wait.
    /// - Without the dead-token topic, notifications with a dead token are deferred (`DeferralReason.unwritable`) if a
    ///   tier is writable. This includes those with a queued dead-token record, unless their result was produced.
    /// - Without the dead-letter topic, a partition with `unwrittenDeadLetters` dead letters is no longer read.
    /// - Without the results topic, notifications that need a result wait.
    package mutating func setWritable(_ target: ProductionTarget, _ isWritable: Bool, now: DeliveryTime) {
        self.now = now
        guard settlement.setWritable(target, isWritable) else { return }
        if target == .unregistered, isWritable {
            for app in apps.indices { dispatch.breakers.endDeferral(.unwritable, of: app) }
        }
        guard settlement.tiers.isAnyWritable else { return }
        settlement.emptyUnwritableTiers(in: &store, nowMs: now.wallMs)
        guard !self.isWritable(.unregistered) else { return }
        for slot in settlement.takeDeadTokens(in: &store) {
            moveDeferred(slot, .unwritable)
        }
    }

    /// Returns whether a topic is writable, as last passed to `setWritable`. True before the first call.
    package func isWritable(_ target: ProductionTarget) -> Bool { settlement.isWritable(target) }

    // MARK: Settled

    /// Notes that Kafka acknowledged one output record, or the dead letter, of this notification.
    package mutating func acknowledged(_ id: NotificationID, now: DeliveryTime) {
        self.now = now
        guard store.has(id.slot), store.isCurrent(id), store[id.slot].unacknowledged > 0 else {
            journal.counters.late &+= 1
            return
        }
        store[id.slot].unacknowledged -= 1
        guard store[id.slot].unacknowledged == 0 else { return }
        precondition(store[id.slot].unproduced == 0, "A record must be produced before it is acknowledged")
        settle(id.slot)
    }

    /// Compares this machine's clock with that of the broker that has stored a retry record
    /// (`BrokersClock.compare(storedMs:latencyMs:now:)`).
    package mutating func compareClock(storedMs: Int64?, latencyMs: Int64, now: DeliveryTime) {
        self.now = now
        journal.brokersClock.compare(storedMs: storedMs, latencyMs: latencyMs, now: now)
    }

    /// Settles a notification that has no unacknowledged output records.
    private mutating func settle(_ slot: NotificationSlot) {
        let record = store[slot].record
        store.noteSettled(store[slot].index, of: record)
        journal.counters.notificationsSettled &+= 1
        let startMs = store[record].startMs
        if startMs != RecordTime.unknown {
            let app = store[slot].app >= 0 ? Int(store[slot].app) : apps.count
            journal.counters.apps[app].settleTimes.count(RecordTime.age(of: startMs, nowMs: now.wallMs))
        }
        free(slot)
        guard let partition = ledger.find(store[record].partition) else { return }
        ledger[partition].isDirty = true
        ledger.commits[ledger[partition].flight].settled += 1
        ledger[partition].finish(record, in: &store)
    }

    /// Frees a notification's slot and removes the notification from all counts. The notification must not be in a list
    /// or a device queue.
    mutating func free(_ slot: NotificationSlot) {
        dispatch.breakers.endProbe(slot, in: store)
        if let partition = ledger.find(store[recordOf: slot].partition) {
            precondition(ledger[partition].open > 0, "A freed notification must have been counted for its partition")
            ledger[partition].open -= 1
            if case .concluded(.deadLetter) = store[slot].state { ledger[partition].deadLetters -= 1 }
        }
        settlement.forget(slot)
        store.giveBack(slot)
    }
}
