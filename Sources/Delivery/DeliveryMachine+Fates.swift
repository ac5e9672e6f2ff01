import PushRecords

extension DeliveryMachine {
    /// What became of requests that were handed out.
    package mutating func handle(_ batch: FateBatch, now: DeliveryTime) {
        self.now = now
        for fate in batch.fates { handle(fate, batch) }
    }

    private mutating func handle(_ fate: Fate, _ batch: FateBatch) {
        let slot = fate.id.slot
        guard Int(slot) < notifications.capacity, notifications[slot].generation == fate.id.generation,
            notifications[slot].state == .handed || notifications[slot].state == .orphaned
        else {
            counters.late &+= 1
            return
        }
        if isSuspect(slot) {
            apps[Int(notifications[slot].app)].quarantined -= 1
        } else {
            apps[Int(notifications[slot].app)].outstanding -= 1
        }
        records[notifications[slot].record].handed -= 1
        if notifications[slot].state == .orphaned {
            counters.late &+= 1
            forgetOrphan(slot)
            return
        }
        if fate.sentAtMs != 0 { notifications[slot].sentAtMs = fate.sentAtMs }
        notifications[slot].isResend = true
        if notifications[slot].isProbe, fate.kind != .answered { failTrial(slot) }
        switch fate.kind {
        case .notProcessed:
            handleReturn(slot, fate)
        case .inDoubt:
            handleDoubt(slot, fate)
        case .answered:
            handleAnswer(slot, fate, batch)
        }
    }

    // MARK: Not processed

    /// Tried again for as long as nobody ever saw it: that is the network's fault. What APNs itself refuses is not tried
    /// for ever: thrice at once, then once a second; after `suspectRefusals` in a row alone over the quarantine
    /// connection, and after `heldRefusals` it is held in a tier. So it holds its partition's watermark back for seven
    /// pauses of a second and ten tries, the quarantine connection's dialling (at most a minute) among them.
    ///
    /// Held, it uses up no attempt: what APNs refuses of everybody for an hour must not be abandoned. It ends by its
    /// expiration or `maxAgeMs`; where that is 0, each holding is an attempt.
    private mutating func handleReturn(_ slot: UInt32, _ fate: Fate) {
        if fate.unprocessed == .refusedByPeer { notifications[slot].refusals.countUp() }
        guard notifications[slot].refusals >= Self.heldRefusals else { return sendAgainReturned(slot) }
        if partitions[Int(records[notifications[slot].record].partition)]?.pointee.isSending != true {
            giveUp(slot)
        } else {
            hold(slot, .unprocessed)
        }
    }

    // MARK: In doubt

    /// Connections died under it, or APNs would not process it: it goes over the quarantine connection from now on.
    @inline(__always)
    func isSuspect(_ slot: UInt32) -> Bool {
        notifications[slot].deaths >= Self.suspectDeaths || notifications[slot].refusals >= Self.suspectRefusals
    }

    private mutating func handleDoubt(_ slot: UInt32, _ fate: Fate) {
        notifications[slot].sends.countUp()
        notifications[slot].inDoubt.countUp()
        counters.apps[Int(notifications[slot].app)].inDoubt &+= 1
        // What happens in quarantine says nothing about the other connections.
        if fate.connectionDied, !isSuspect(slot) { watchTry(Int(notifications[slot].app), isFailure: true) }
        if fate.connectionDied, !fate.connectionWasSilent {
            notifications[slot].deaths.countUp()
        }
        markDoubted(slot)
        if settings.inDoubt == .abandon {
            conclude(slot, .abandoned)
        } else if isNowOrNever(slot) {
            conclude(slot, .expired)
        } else if fate.connectionWasSilent {
            // A dead network is nobody's fault: it uses up neither resends nor attempts, however long it lasts.
            sendAgainReturned(slot)
        } else {
            notifications[slot].returns = 0
            notifications[slot].refusals = 0
            resend(slot)
        }
    }

    mutating func markDoubted(_ slot: UInt32) {
        guard !notifications[slot].isDoubted else { return }
        notifications[slot].isDoubted = true
        records[notifications[slot].record].doubts += 1
    }

    private func isNowOrNever(_ slot: UInt32) -> Bool {
        records[notifications[slot].record].body?.pointee.expiration == 0
    }

    // MARK: Answered

    private mutating func handleAnswer(_ slot: UInt32, _ fate: Fate, _ batch: FateBatch) {
        let text = fate.reasonText >= 0 ? batch.texts[Int(fate.reasonText)] : nil
        let row = verdicts.row(reason: fate.reason, text: text, status: fate.status)
        notifications[slot].sends.countUp()
        notifications[slot].returns = 0
        notifications[slot].refusals = 0
        notifications[slot].status = fate.status
        notifications[slot].reason = fate.reason
        if row.verdict != .accept, fate.reason == .none || fate.reason == .other {
            notifications[slot].reasonText = text.map { texts.number(of: $0) } ?? texts.number(ofStatus: fate.status)
            notifications[slot].reason = .other
        }
        notifications[slot].answeredID = fate.apnsID
        notifications[slot].unregisteredAtMs = RecordTime.checked(fate.unregisteredAtMs)
        if fate.uniqueIDText >= 0 {
            uniqueIDs[slot] = batch.texts[Int(fate.uniqueIDText)]
            takeBytes(batch.texts[Int(fate.uniqueIDText)].utf8.count, for: slot)
        }
        let app = Int(notifications[slot].app)
        counters.apps[app].answerTimes.count(handedForMs(slot))
        watchAnswer(app, status: fate.status, reason: fate.reason)
        if row.verdict != .accept { counters.apps[app].reasons[Int(fate.reason.rawValue)] &+= 1 }

        var verdict = row.verdict
        // A credential that was replaced since, or a token that was renewed: the new one may do.
        if fate.carriedOlderToken, verdict == .credentialFault {
            verdict = .resend
        } else if verdict == .resend, notifications[slot].resentFor == fate.reason {
            verdict = row.again
        }
        if fate.status == 429, !fate.reason.isOfOurTokens { slowLane(slot) }
        if notifications[slot].isProbe {
            answerProbe(slot, verdict, fate)
        } else if apps[app].isGated, verdict != .credentialFault, fate.status != 403 {
            noteGoodAnswer(slot)
        }
        switch verdict {
        case .accept:
            conclude(slot, .accepted)
        case .unregister:
            conclude(slot, .unregistered)
        case .reject:
            if fate.reason.isBadToken, controls[app].environmentGuard.isTripped, controls[app].route.guardHolds {
                retry(slot, delayMs: VerdictTable.shortDelayMs)
            } else {
                conclude(slot, .rejected)
            }
        case .resend:
            notifications[slot].resentFor = fate.reason
            resend(slot)
        case .retry:
            retry(slot, delayMs: row.delayMs)
        case .credentialFault:
            handleCredentialFault(slot, fate.reason)
        }
    }

    /// What the answer says about the credential.
    private mutating func answerProbe(_ slot: UInt32, _ verdict: Verdict, _ fate: Fate) {
        switch verdict {
        case .credentialFault: settleProbe(slot, fault: fate.reason)
        // Its token was refused, but not for the last time: it tries again.
        case .resend where fate.status == 403: break
        case .accept, .unregister, .reject, .resend, .retry: settleProbe(slot, fault: nil)
        }
    }

    // MARK: Again

    /// Through no fault of its own.
    private mutating func sendAgainReturned(_ slot: UInt32) {
        notifications[slot].returns.countUp()
        sendAgain(slot, tries: notifications[slot].returns)
    }

    /// At once, or after a pause when quick tries came to nothing.
    private mutating func sendAgain(_ slot: UInt32, tries: UInt8) {
        counters.apps[Int(notifications[slot].app)].resends &+= 1
        if partitions[Int(records[notifications[slot].record].partition)]?.pointee.isSending != true {
            giveUp(slot)
        } else if let cause = causeToHold(slot) {
            hold(slot, cause)
        } else if tries <= Self.quickTries {
            becomeReady(slot, first: true)
        } else {
            backOff(slot)
        }
    }

    /// All wait equally long, so that the list is in the order of their times.
    mutating func backOff(_ slot: UInt32) {
        notifications[slot].state = .backingOff
        notifications[slot].due = now.ns + Self.backOffNs
        backingOff.append(slot, in: &notifications)
    }

    /// After an answer or in doubt; too often is one attempt.
    mutating func resend(_ slot: UInt32) {
        if Int(notifications[slot].resends) >= settings.resendMax {
            retry(slot, delayMs: VerdictTable.longDelayMs)
        } else {
            notifications[slot].resends += 1
            sendAgain(slot, tries: notifications[slot].resends)
        }
    }

    mutating func retry(_ slot: UInt32, delayMs: Int64) {
        let previousMs = records[notifications[slot].record].body?.pointee.tierDelayMs ?? 0
        moveToTier(slot, tiers.tier(delayMs: delayMs, previousMs: previousMs), asAttempt: true)
    }

    /// To a retry topic, or to its end where it may not go there.
    mutating func moveToTier(_ slot: UInt32, _ tier: Int, asAttempt: Bool) {
        guard let body = records[notifications[slot].record].body else {
            preconditionFailure("what is to be retried has its bytes")
        }
        if body.pointee.expiration == 0 {
            conclude(slot, .expired)
            return
        }
        if asAttempt, Int(body.pointee.attempt) >= settings.maxAttempts {
            conclude(slot, .abandoned)
            return
        }
        notifications[slot].isRetryAttempt = asAttempt
        notifications[slot].due = RecordTime.adding(tiers.delayMs(of: tier), to: now.wallMs)
        // The record's own block goes when the producer has it; what the producer has stays until it is acknowledged.
        takeBytes(body.pointee.payload.count, for: slot)
        let app = Int(notifications[slot].app)
        if asAttempt { counters.apps[app].retries[tier] &+= 1 }
        leaveLane(slot)
        notifications[slot].state = .concluded
        produce(slot, .retry(tier: tier))
    }
}

extension ReasonCode {
    /// A 429 that is about us, not about the device.
    fileprivate var isOfOurTokens: Bool {
        switch self {
        case .tooManyProviderTokenUpdates: true
        default: false
        }
    }
}
