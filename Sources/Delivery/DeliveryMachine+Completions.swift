internal import CLinux
import PushRecords

extension DeliveryMachine {
    /// What became of requests that were handed out.
    package mutating func handle(_ batch: CompletionBatch, now: DeliveryTime) {
        self.now = now
        for completion in batch.completions { handle(completion, batch) }
        crash_nowhere()
    }

    private mutating func handle(_ completion: Completion, _ batch: CompletionBatch) {
        let slot = completion.id.slot
        guard store.has(slot), store[slot].generation == completion.id.generation,
            store[slot].state == .handed || store[slot].state == .orphaned
        else {
            journal.counters.late &+= 1
            return
        }
        if let place = store.place(of: store[slot].record) { crash_at(place) }
        dispatch.cameBack(Int(store[slot].app), isSuspect: store[slot].isSuspect)
        store[recordOf: slot].cameBack()
        if store[slot].state == .orphaned {
            journal.counters.late &+= 1
            forgetOrphan(slot)
            return
        }
        if completion.sentAtMs != 0 { store[slot].sentAtMs = completion.sentAtMs }
        store[slot].isResend = true
        if completion.kind != .answered { breakers.failTrial(slot, in: store, nowNs: now.ns) }
        switch completion.kind {
        case .notProcessed:
            handleReturn(slot, completion)
        case .inDoubt:
            handleDoubt(slot, completion)
        case .answered:
            handleAnswer(slot, completion, batch)
        }
    }

    // MARK: Not processed

    /// Tried again for as long as nobody ever saw it: that is the network's fault. What APNs itself refuses is not
    /// tried for ever: thrice at once, then once a second; after six in a row alone over the quarantine connection, and
    /// after `heldRefusals` it is held in a tier. So it holds its partition's watermark back for six pauses of a second
    /// and ten tries, the quarantine connection's dialling (at most a minute) among them.
    ///
    /// Held, it uses up no attempt: what APNs refuses of everybody for an hour must not be abandoned. It ends by its
    /// expiration or `maxAgeMs`; where that is 0, each holding is an attempt.
    private mutating func handleReturn(_ slot: NotificationSlot, _ completion: Completion) {
        switch completion.unprocessed {
        case .neverSent: break
        case .refusedByPeer: store[slot].refusals.countUp()
        case .discarded: return sendAgain(slot, tries: 0)
        case .discardedForGood: return conclude(slot, .abandoned)
        }
        guard store[slot].refusals >= Self.heldRefusals else { return sendAgainReturned(slot) }
        if !isSending(slot) {
            giveUp(slot)
        } else {
            hold(slot, .unprocessed)
        }
    }

    // MARK: In doubt

    private mutating func handleDoubt(_ slot: NotificationSlot, _ completion: Completion) {
        store[slot].sends.countUp()
        store[slot].inDoubt.countUp()
        journal.counters.apps[Int(store[slot].app)].inDoubt &+= 1
        // What happens in quarantine says nothing about the other connections.
        if completion.connectionDied, !store[slot].isSuspect {
            dispatch.watchTry(Int(store[slot].app), isFailure: true)
        }
        if completion.connectionDied, !completion.connectionWasSilent {
            store[slot].deaths.countUp()
        }
        store.doubt(slot)
        if settings.inDoubt == .abandon {
            conclude(slot, .abandoned)
        } else if store.isNowOrNever(slot) {
            conclude(slot, .expired)
        } else if completion.connectionWasSilent {
            // A dead network is nobody's fault: it uses up neither resends nor attempts, however long it lasts.
            sendAgainReturned(slot)
        } else {
            store[slot].returns = 0
            store[slot].refusals = 0
            resend(slot)
        }
    }

    /// Whether what waits of its partition is sent.
    func isSending(_ slot: NotificationSlot) -> Bool {
        ledger.partitions.find(store[recordOf: slot].partition).map { ledger.partitions[$0].isSending } ?? false
    }

    // MARK: Answered

    private mutating func handleAnswer(_ slot: NotificationSlot, _ completion: Completion, _ batch: CompletionBatch) {
        let row = settlement.note(completion, in: batch, for: slot, in: &store)
        if completion.uniqueIDText >= 0 {
            room.takeBytes(batch.texts[Int(completion.uniqueIDText)].utf8.count, for: slot, in: &store)
        }
        let app = Int(store[slot].app)
        store[slot].isPresumed = completion.isPresumed
        journal.counters.apps[app].answerTimes.count(handedForMs(slot))
        var isUndecided = false
        if row.verdict != .accept {
            journal.counters.apps[app].reasons[Int(completion.reason.rawValue)] &+= 1
            isUndecided =
                completion.reason == .badDeviceToken && (row.verdict == .reject || row.verdict == .unregister)
                && hasOtherEnvironment(slot)
        }
        dispatch.watchAnswer(
            app, status: completion.status, reason: completion.reason, isUndecided: isUndecided, journal: &journal)

        var verdict = row.verdict
        // A credential that was replaced since, or a token that was renewed: the new one may do.
        if completion.carriedOlderToken, verdict == .credentialFault {
            verdict = .resend
        } else if verdict == .resend,
            store[slot].resentFor == completion.reason || (row.needsNewer && !completion.carriedOlderToken)
        {
            verdict = row.again
        }
        if completion.status == 429, completion.reason.subject != .ourTokens {
            devices.slow(slot, untilNs: now.ns + Dispatch.backOffNs, in: store)
        }
        if breakers.isGated(app) { tellCircuits(slot, app, verdict, completion) }
        if isUndecided, sendOn(slot) { return }
        switch verdict {
        case .accept:
            conclude(slot, .accepted)
        case .unregister:
            conclude(slot, .unregistered)
        case .reject:
            if completion.reason.subject == .badToken, dispatch.doubtsBadTokens(Int(store[slot].app)) {
                retry(slot, delayMs: VerdictTable.shortDelayMs)
            } else {
                conclude(slot, .rejected)
            }
        case .resend:
            store[slot].resentFor = completion.reason
            resend(slot)
        case .retry:
            retry(slot, delayMs: row.delayMs)
        case .credentialFault:
            handleCredentialFault(slot, completion.reason)
        }
    }

    /// An answer for an app that may be behind an open circuit.
    private mutating func tellCircuits(
        _ slot: NotificationSlot, _ app: Int, _ verdict: Verdict, _ completion: Completion
    ) {
        if breakers.isProbe(slot, in: store) { answerProbe(slot, verdict, completion) }
        // Of a probe, too: one that tried the host of an app that was cut off has tried the credential with it.
        guard breakers.isGated(app), verdict != .credentialFault, completion.status != 403,
            Self.isOfCredential(completion)
        else { return }
        reconsider(breakers.noteGoodAnswer(app, handedNs: handedNs(slot), nowNs: now.ns, journal: &journal))
        // Another answer may not have looked at the topic.
        if completion.status == 200 {
            reconsider(breakers.noteAccepted(slot, handedNs: handedNs(slot), in: store, journal: &journal))
        }
    }

    /// What the answer says about the credential, or about the host of an app that was cut off: that one answers.
    private mutating func answerProbe(_ slot: NotificationSlot, _ verdict: Verdict, _ completion: Completion) {
        switch verdict {
        case .credentialFault: settleProbe(slot, fault: completion.reason)
        // Its credential was refused, but not for the last time: it tries again.
        case .resend where completion.status == 403 || completion.reason.subject == .topic: break
        case .accept, .unregister, .reject, .resend, .retry:
            if Self.isOfCredential(completion) || breakers.isTrial(slot, in: store) {
                settleProbe(slot, fault: nil)
            } else {
                breakers.postponeProbe(slot, in: store, nowNs: now.ns)
            }
        }
    }

    /// Whether an answer says anything of the credential: it was looked at, and taken or refused. An overloaded server,
    /// or one that is not APNs, may not have looked.
    private static func isOfCredential(_ completion: Completion) -> Bool {
        completion.reason.subject != .ourTokens && !AnswerOrigin.isHostFailure(completion.status, completion.reason)
    }

    // MARK: Again

    /// Through no fault of its own.
    private mutating func sendAgainReturned(_ slot: NotificationSlot) {
        store[slot].returns.countUp()
        sendAgain(slot, tries: store[slot].returns)
    }

    /// At once, or after a pause when quick tries came to nothing.
    private mutating func sendAgain(_ slot: NotificationSlot, tries: UInt8) {
        journal.counters.apps[Int(store[slot].app)].resends &+= 1
        if !isSending(slot) {
            giveUp(slot)
        } else if let cause = causeToHold(slot) {
            hold(slot, cause)
        } else if tries <= Self.quickTries {
            dispatch.becomeReady(slot, first: goesFirst(slot), in: &store, nowNs: now.ns)
        } else {
            dispatch.backOff(slot, in: &store, nowNs: now.ns)
        }
    }

    /// How long ago it was handed out last.
    func handedForMs(_ slot: NotificationSlot) -> Int64 {
        Int64(UInt32(truncatingIfNeeded: now.ns / 1_000_000) &- store[slot].handedMs)
    }

    /// What APNs refused goes behind what was not: were its refusal to end the connection, others had been answered
    /// first.
    func goesFirst(_ slot: NotificationSlot) -> Bool { store[slot].refusals == 0 }

    /// After an answer or in doubt; too often is one attempt.
    mutating func resend(_ slot: NotificationSlot) {
        if Int(store[slot].resends) >= settings.resendMax {
            retry(slot, delayMs: VerdictTable.longDelayMs)
        } else {
            store[slot].resends += 1
            sendAgain(slot, tries: store[slot].resends)
        }
    }

    mutating func retry(_ slot: NotificationSlot, delayMs: Int64) {
        let previousMs = store[bodyOf: store[slot].record].tierDelayMs
        moveToTier(slot, settlement.tiers.tier(delayMs: delayMs, previousMs: previousMs), asAttempt: true)
    }

    /// To a retry topic, or to its end where it may not go there.
    mutating func moveToTier(_ slot: NotificationSlot, _ tier: Int, asAttempt: Bool) {
        let record = store[slot].record
        precondition(store.hasBody(record), "what is to be retried has its bytes")
        if !mayBeHeld(slot) {
            conclude(slot, .expired)
            return
        }
        if asAttempt, Int(store[bodyOf: record].attempt) >= settings.maxAttempts {
            conclude(slot, .abandoned)
            return
        }
        store[slot].isRetryAttempt = asAttempt
        // The record's own block goes when the producer has it; what the producer has stays until it is acknowledged.
        room.takeBytes(store[bodyOf: record].payload.count, for: slot, in: &store)
        let app = Int(store[slot].app)
        if asAttempt { journal.counters.apps[app].retries[tier] &+= 1 }
        leaveDeviceQueue(slot)
        store.move(slot, to: .concluded)
        store[slot].dueMs = settlement.dueMs(slot, in: tier, store, nowMs: now.wallMs)
        settlement.produce(slot, .retry(tier: tier), in: &store)
    }
}
