internal import CLinux
import PushRecords

// Sends the notifications of each device in order, and handles their completions.
extension DeliveryMachine {
    /// A notification is deferred after APNs has refused this many times in a row to process it.
    static let deferredRefusals: UInt8 = 10
    /// The number of immediate resends before a pause.
    static let quickTries: UInt8 = 3

    // MARK: Waiting

    /// Returns why this notification may not be sent now, or `nil` if it may. The notification may become a probe.
    @inline(__always)
    mutating func reasonToDefer(_ slot: NotificationSlot) -> DeferralReason? {
        guard dispatch.breakers.apps[Int(store[slot].app)].isGated else { return nil }
        return dispatch.breakers.reasonToDefer(slot, in: store, nowNs: now.ns)
    }

    /// Makes a notification wait: for earlier notifications of its device, for the send horizon, or for a free stream.
    /// If the queue of its device is full, the notification is deferred.
    mutating func waitForTurn(_ slot: NotificationSlot) {
        guard settlement.settings.ordering == .device else {
            return dispatch.becomeReady(slot, first: false, in: &store, nowNs: now.ns)
        }
        // Notifications that wait for the horizon are not in their device queues. A later notification must not
        // overtake them, so it waits for the horizon too.
        if let partition = ledger.find(store[recordOf: slot].partition), !ledger[partition].behindHorizon.isEmpty,
            !ledger[partition].horizon.allows(store[recordOf: slot].offset)
        {
            return waitForHorizon(slot, partition)
        }
        switch dispatch.devices.enter(slot, in: &store) {
        case .first:
            dispatch.becomeReady(slot, first: false, in: &store, nowNs: now.ns)
        case .behind:
            break
        case .full(let turnedAway):
            store[slot].deviceTier = settlement.tiers.tier(
                turnedAway: turnedAway, limit: settlement.settings.deviceQueueLimit)
            deferToTier(slot, .device)
        }
    }

    /// Removes a notification from its device queue. If the notification was the first, the next one becomes ready, or
    /// waits a second if APNs reported too many notifications for the device. The removed notification must still have
    /// its token.
    mutating func leaveDeviceQueue(_ slot: NotificationSlot) {
        guard let next = dispatch.devices.leave(slot, in: &store) else { return }
        if store[slot].tries.slowsDevice {
            store[next].sinceNs = now.ns
            dispatch.backOff(next, in: &store, nowNs: now.ns)
        } else {
            dispatch.becomeReady(next, first: false, in: &store, nowNs: now.ns)
        }
    }

    /// Makes a notification wait until the send horizon of an acknowledged commit is above its record. The commit may
    /// never succeed, so the notification leaves its device queue and does not block notifications of other partitions.
    /// Later notifications of the same device and partition leave the queue too, to keep their order.
    mutating func waitForHorizon(_ slot: NotificationSlot, _ partition: PartitionSlot) {
        ledger[partition].waitForHorizon(slot, in: &store)
        // If this notification was a circuit's probe, another one may become the probe now.
        dispatch.breakers.endProbe(slot, in: store)
        guard store[slot].isInDeviceQueue else { return }
        var next = store[slot].queue.next
        while next != .none {
            let other = next
            next = store[other].queue.next
            guard store[recordOf: other].partition == partition else { continue }
            leaveDeviceQueue(other)
            ledger[partition].waitForHorizon(other, in: &store)
        }
        leaveDeviceQueue(slot)
    }

    /// Continues with the partition's notifications that waited for the send horizon and are now below the horizon.
    mutating func passHorizon(_ partition: PartitionSlot) {
        guard !ledger[partition].horizon.isStale else { return }
        ledger[partition].sortBehindHorizon(in: &store)
        var next = ledger[partition].behindHorizon.head
        while next != .none {
            let slot = next
            next = store[slot].next
            guard ledger[partition].horizon.allows(store[recordOf: slot].offset) else {
                ledger[partition].horizon.advance(to: store[recordOf: slot].offset)
                break
            }
            takeOut(slot)
            store[slot].state = .admitted
            // A scheduled notification whose time has come while it waited is sent instead of moved to a tier.
            if store[slot].deferral == .scheduled, store.notBeforeMs(slot) <= now.wallMs,
                ledger.isSending(slot, in: store)
            {
                store[slot].deferral = nil
            }
            // A circuit may have opened while the notification waited.
            if let reason = store[slot].deferral ?? reasonToDefer(slot) {
                moveDeferred(slot, reason)
            } else {
                waitForTurn(slot)
            }
        }
    }

    // MARK: Sent

    /// Calls `body` with the requests to send now, at most once per app. Post each batch as `TransportCommand.send`.
    /// The bytes of a request stay valid until `handle` gets its completion.
    package mutating func sends(now: DeliveryTime, _ body: (AppIndex, [OutgoingRequest]) -> Void) {
        self.now = now
        for partition in ledger.renewLeases(nowNs: now.ns) { passHorizon(partition) }
        admitWaiting()
        let handedMs = UInt32(truncatingIfNeeded: now.ns / 1_000_000)
        for app in apps.indices {
            guard let (free, most) = dispatch.freeStreams(app, nowNs: now.ns) else { continue }
            var batch: [OutgoingRequest] = []
            var suspects = 0
            batch.reserveCapacity(min(free, dispatch.apps[app].ready.count))
            while batch.count - suspects < free, batch.count < most,
                let slot = dispatch.apps[app].ready.removeFirst(from: &store)
            {
                guard let partition = ledger.find(store[recordOf: slot].partition) else {
                    preconditionFailure("A ready notification must belong to an assignment")
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

    /// Returns whether a notification may be sent now. If not, the notification waits for the horizon, is deferred, or
    /// expires.
    @inline(__always)
    private mutating func mayBeSent(_ slot: NotificationSlot, _ partition: PartitionSlot) -> Bool {
        guard ledger[partition].horizon.allows(store[recordOf: slot].offset) else {
            waitForHorizon(slot, partition)
            return false
        }
        let record = store[slot].record
        precondition(store.hasBody(record), "A ready notification must have its bytes")
        guard store[bodyOf: record].notBeforeMs <= now.wallMs else {
            // The clock was set back after the record was read, so the scheduled time is in the future again.
            moveDeferred(slot, .scheduled)
            return false
        }
        if store.isPastExpiration(record, now: now) {
            switch hasExpired(slot) {
            case true?:
                conclude(slot, .expired)
                return false
            case nil:
                moveDeferred(slot, .clock)
                return false
            case false?: break
            }
        }
        ledger[partition].horizon.advance(to: store[record].offset)
        return true
    }

    /// Returns whether a notification that has expired by this machine's clock has also expired by the brokers' clocks,
    /// or `nil` if the notification must wait until the clocks are compared (`BrokersClock`).
    mutating func hasExpired(_ slot: NotificationSlot) -> Bool? {
        // A notification with expiration 0 must not wait.
        guard let aheadMs = journal.brokersClock.aheadMs(now) else { return store.isNowOrNever(slot) ? true : nil }
        let brokersNow = DeliveryTime(ns: now.ns, wallMs: now.wallMs - max(0, aheadMs))
        let (record, maxAgeMs) = (store[slot].record, settlement.settings.maxAgeMs)
        let isTooOld = maxAgeMs > 0 && store.isLate(record, limitMs: maxAgeMs, now: brokersNow)
        // The result says which limit has passed.
        store[bodyOf: record].isTooOld = isTooOld
        return isTooOld || store.isPastExpiration(record, now: brokersNow)
    }

    private mutating func handOut(_ slot: NotificationSlot, _ handedMs: UInt32) -> OutgoingRequest {
        let record = store[slot].record
        store[slot].state = .handed(atMs: handedMs)
        store[record].handed += 1
        var headers = store[bodyOf: record].headers
        headers.apnsID = store[bodyOf: record].requestID(
            index: store[slot].index, isDerived: settlement.settings.derivesIDs)
        return OutgoingRequest(
            id: store.id(of: slot), token: store[slot].token, payload: store[bodyOf: record].payload, headers: headers,
            isBroadcast: store[bodyOf: record].isBroadcast, isSuspect: store[slot].isSuspect,
            place: store.place(of: record))
    }

    /// Calls `body` with the requests to recall from each transport. Post them as `TransportCommand.recall`.
    package mutating func recalls(_ body: (AppIndex, [NotificationID]) -> Void) {
        for app in apps.indices where !dispatch.apps[app].recalls.isEmpty {
            body(AppIndex(app), dispatch.apps[app].recalls)
            dispatch.apps[app].recalls.removeAll()
        }
    }

    // MARK: Completions

    /// Handles the completions of sends.
    package mutating func handle(_ batch: CompletionBatch, now: DeliveryTime) {
        self.now = now
        for completion in batch.completions { handle(completion, batch) }
        crash_nowhere()
    }

    private mutating func handle(_ completion: Completion, _ batch: CompletionBatch) {
        let slot = completion.id.slot
        guard store.has(slot), store[slot].generation == completion.id.generation,
            case .handed(let handedMs) = store[slot].state
        else {
            journal.counters.late &+= 1
            return
        }
        if let place = store.place(of: store[slot].record) { crash_at(place) }
        dispatch.cameBack(Int(store[slot].app), isSuspect: store[slot].isSuspect)
        store[recordOf: slot].handed -= 1
        guard store[recordOf: slot].partition != .none else {
            // The assignment has ended, so the notification is only freed.
            journal.counters.late &+= 1
            let record = store[slot].record
            leaveDeviceQueue(slot)
            store.releaseBytes(slot)
            free(slot)
            if store[record].handed == 0 { store.giveBack(record) }
            return
        }
        if completion.sentAtMs != 0 { store[slot].sentAtMs = completion.sentAtMs }
        if store[slot].tries.past == .untried { store[slot].tries.past = .tried }
        if completion.kind != .answered { dispatch.breakers.failHostProbe(slot, in: store, nowNs: now.ns) }
        switch completion.kind {
        case .notProcessed:
            handleReturn(slot, completion)
        case .inDoubt:
            handleDoubt(slot, completion)
        case .answered:
            handleAnswer(slot, completion, batch, handedMs: handedMs)
        }
    }

    /// Handles a send that APNs certainly did not process.
    ///
    /// - The request was never sent: the notification is not at fault, and is resent without a limit.
    /// - APNs refused to process it: the notification is resent three times immediately and then once a second. After
    ///   six consecutive refusals it uses the quarantine connection, and after `deferredRefusals` it is deferred.
    /// - It was discarded because of another request: the notification is resent immediately, or `abandoned` if its app
    ///   does not resend discarded notifications.
    ///
    /// Without waits for a stream, the refusals delay the partition's watermark by at most six pauses and ten sends,
    /// plus the dial of the quarantine connection (up to a minute). A deferral uses up no attempt, because an outage of
    /// an hour must not make notifications `abandoned`. The notification ends at its expiration or `maxAgeMs`. If
    /// `maxAgeMs` is 0, each deferral because of refusals counts as an attempt.
    private mutating func handleReturn(_ slot: NotificationSlot, _ completion: Completion) {
        switch completion.unprocessed {
        case .neverSent: break
        case .refusedByPeer: store[slot].tries.refusals.countUp()
        case .discarded: return sendAgain(slot, tries: 0)
        case .discardedForGood: return conclude(slot, .abandoned)
        }
        if store[slot].tries.refusals < Self.deferredRefusals {
            store[slot].tries.returns.countUp()
            sendAgain(slot, tries: store[slot].tries.returns)
        } else if ledger.isSending(slot, in: store) {
            deferToTier(slot, .unprocessed)
        } else {
            drop(slot)
        }
    }

    private mutating func handleDoubt(_ slot: NotificationSlot, _ completion: Completion) {
        store[slot].tries.sends.countUp()
        store[slot].tries.inDoubt.countUp()
        journal.counters.apps[Int(store[slot].app)].inDoubt &+= 1
        // The loss of the quarantine connection shows no fault of the app's other connections.
        if completion.connectionDied, !store[slot].isSuspect {
            dispatch.watchTry(Int(store[slot].app), isFailure: true)
        }
        if completion.connectionDied, !completion.connectionWasSilent { store[slot].tries.deaths.countUp() }
        store.doubt(slot)
        if settlement.settings.inDoubt == .abandon {
            conclude(slot, .abandoned)
        } else if store.isNowOrNever(slot) {
            conclude(slot, .expired)
        } else if completion.connectionWasSilent {
            // The network was probably down, so the resend does not count towards `resendMax`.
            store[slot].tries.returns.countUp()
            sendAgain(slot, tries: store[slot].tries.returns)
        } else {
            store[slot].tries.returns = 0
            store[slot].tries.refusals = 0
            resend(slot)
        }
    }

    private mutating func handleAnswer(
        _ slot: NotificationSlot, _ completion: Completion, _ batch: CompletionBatch, handedMs: UInt32
    ) {
        let row = settlement.note(completion, in: batch, for: slot, in: &store)
        let app = Int(store[slot].app)
        let tookMs = Int64(UInt32(truncatingIfNeeded: now.ns / 1_000_000) &- handedMs)
        let handedNs = now.ns - tookMs * 1_000_000
        journal.counters.apps[app].answerTimes.count(tookMs)
        var isUndecided = false
        if row.verdict != .accept {
            journal.counters.apps[app].reasons[Int(completion.reason.rawValue)] &+= 1
            let record = store[slot].record
            isUndecided =
                completion.reason == .badDeviceToken && (row.verdict == .reject || row.verdict == .unregister)
                && (app != Int(store[bodyOf: record].firstApp)
                    || apps.other(app) != nil && !store[bodyOf: record].isBroadcast)
        }
        dispatch.watchAnswer(
            app, status: completion.status, reason: completion.reason, isUndecided: isUndecided, journal: &journal)

        var verdict = row.verdict
        // A resend would use a newer token or another connection, which APNs may accept.
        if completion.carriedOlderToken, verdict == .credentialFault {
            verdict = .resend
        } else if verdict == .resend,
            store[slot].tries.resentFor == completion.reason || (row.needsNewer && !completion.carriedOlderToken)
        {
            verdict = row.again
        }
        store[slot].tries.slowsDevice = completion.status == 429 && completion.reason.subject != .ourTokens
        if dispatch.breakers.apps[app].isGated {
            dispatch.breakers.note(completion, verdict, for: slot, handedNs: handedNs, in: store, journal: &journal)
            followCircuits()
        }
        if isUndecided, sendToOtherEnvironment(slot) { return }
        switch verdict {
        case .accept:
            conclude(slot, .accepted)
        case .unregister:
            conclude(slot, .unregistered)
        case .reject:
            if completion.reason.subject == .badToken, dispatch.doubtsBadTokens(Int(store[slot].app)) {
                resend(slot, delayMs: VerdictTable.shortDelayMs)
            } else {
                conclude(slot, .rejected)
            }
        case .resend:
            store[slot].tries.resentFor = completion.reason
            resend(slot)
        case .retry:
            resend(slot, delayMs: row.delayMs)
        case .credentialFault:
            // A refusal of the current credential opens a circuit, which then allows only probes.
            let isCurrent = dispatch.breakers.fault(
                slot, completion.reason, handedNs: handedNs, in: store, journal: &journal)
            resend(slot, delayMs: isCurrent ? VerdictTable.shortDelayMs : nil)
            followCircuits()
        }
    }

    // MARK: The other environment

    // A device token belongs to one environment, and APNs rejects it in the other one. An app may therefore name an app
    // of the other environment (`AppRoute.otherEnvironment`). A notification with BadDeviceToken is forwarded to that
    // app once, and then uses that app's connections, circuits and budget. The record's body stores the first app.

    /// Forwards a notification with BadDeviceToken to the app of the other environment. Returns whether it did. After
    /// BadDeviceToken in both environments, the notification returns to the first app, if that app is configured.
    private mutating func sendToOtherEnvironment(_ slot: NotificationSlot) -> Bool {
        let app = Int(store[slot].app)
        let first = store[bodyOf: store[slot].record].firstApp
        guard store[slot].app == first else {
            store[slot].answer.remark = .badInBoth
            if first >= 0 {
                dispatch.breakers.endProbe(slot, in: store)
                leaveDeviceQueue(slot)
                store.move(slot, toApp: Int(first))
            }
            dispatch.watchToken(Int(store[slot].app), isBad: true, isProof: false, journal: &journal)
            return false
        }
        guard let other = apps.other(app) else { return false }
        journal.counters.apps[app].sentToOtherEnvironment &+= 1
        // The record's bytes still count for the first app. Without a check of these bytes, forwarded notifications
        // that wait could use up the share of the topic group.
        let isFull = apps.areMany && (store.budget.isFull(app: other) || store.budget.areBytesFull(of: app))
        dispatch.breakers.endProbe(slot, in: store)
        leaveDeviceQueue(slot)
        store.move(slot, toApp: other)
        store[slot].tries.resends = 0
        store[slot].tries.resentFor = .none
        if !ledger.isSending(slot, in: store) {
            drop(slot)
        } else if let reason = reasonToDefer(slot) {
            deferToTier(slot, reason)
        } else if isFull {
            // Forwarded notifications must not use up the budget of all apps.
            deferToTier(slot, .share)
        } else {
            waitForTurn(slot)
        }
        return true
    }

    // MARK: Resends

    /// Resends a notification, after a pause if `tries` exceeds `quickTries`. Defers it instead if it may not be sent
    /// now, and drops it if its partition is being given up.
    private mutating func sendAgain(_ slot: NotificationSlot, tries: UInt8) {
        journal.counters.apps[Int(store[slot].app)].resends &+= 1
        if !ledger.isSending(slot, in: store) {
            drop(slot)
        } else if let reason = reasonToDefer(slot) {
            deferToTier(slot, reason)
        } else if tries <= Self.quickTries {
            dispatch.becomeReadyAgain(slot, in: &store, nowNs: now.ns)
        } else {
            dispatch.backOff(slot, in: &store, nowNs: now.ns)
        }
    }

    /// Resends a notification after an answer or a send in doubt. With a delay in milliseconds, and after `resendMax`
    /// resends, the notification is retried from a retry topic instead.
    private mutating func resend(_ slot: NotificationSlot, delayMs: Int64? = nil) {
        guard delayMs != nil || Int(store[slot].tries.resends) >= settlement.settings.resendMax else {
            store[slot].tries.resends += 1
            return sendAgain(slot, tries: store[slot].tries.resends)
        }
        let previousMs = store[bodyOf: store[slot].record].tierDelayMs
        let tier = settlement.tiers.tier(delayMs: delayMs ?? VerdictTable.longDelayMs, previousMs: previousMs)
        moveToTier(slot, tier, asAttempt: true)
    }
}
