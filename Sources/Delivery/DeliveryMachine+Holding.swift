import PushRecords

extension DeliveryMachine {
    /// Why this notification may not be sent now; `nil`: it may. It may become a circuit's probe.
    @inline(__always)
    mutating func causeToHold(_ slot: UInt32) -> HeldCause? {
        let app = Int(notifications[slot].app)
        return apps[app].isGated ? gatedCause(slot, app) : nil
    }

    private mutating func gatedCause(_ slot: UInt32, _ app: Int) -> HeldCause? {
        if controls[app].isRemoved { return .removed }
        if controls[app].route.isPaused { return .paused }
        let id = NotificationID(slot: slot, generation: notifications[slot].generation)
        if controls[app].isCutOff {
            guard controls[app].capacity > 0 else { return .unreachable }
            guard notifications[slot].isProbe || controls[app].trial.admits(id, now: now.ns) else {
                return .unreachable
            }
            notifications[slot].isProbe = true
        }
        if notifications[slot].isProbe { return nil }
        let place = controls[app].circuit
        if circuits[place].circuit.isOpen {
            notifications[slot].isProbe = circuits[place].circuit.admits(id, now: now.ns)
            return notifications[slot].isProbe ? nil : .credential
        }
        if let place = topicCircuit(of: slot, app: app) {
            notifications[slot].isProbe = topicCircuits[place].circuit.admits(id, now: now.ns)
            return notifications[slot].isProbe ? nil : .topic
        }
        return nil
    }

    /// Whether all of an app is held, but for a probe.
    func isClosed(app: Int) -> Bool {
        controls[app].isRemoved || controls[app].route.isPaused || controls[app].isCutOff
            || circuits[controls[app].circuit].circuit.isOpen
    }

    /// Writes down what `causeToHold` is to know about the app without looking further.
    mutating func refreshGate(of app: Int) { apps[app].isGated = isClosed(app: app) || controls[app].openTopics > 0 }

    /// Holds what must be, of all that waits of these apps.
    mutating func holdWaiting(of isChosen: [Bool]) {
        guard isChosen.contains(true) else { return }
        var slot: UInt32 = 0
        while slot < UInt32(notifications.capacity) {
            switch notifications[slot].state {
            case .inLane, .ready, .backingOff, .behindReach:
                if notifications[slot].heldFor == nil, isChosen[Int(notifications[slot].app)],
                    let cause = causeToHold(slot)
                {
                    hold(slot, cause)
                }
            case .free, .handed, .orphaned, .concluded:
                break
            }
            slot += 1
        }
    }

    // MARK: Held

    /// Moves a notification to a retry tier without using up an attempt. Its device's order is given up.
    mutating func hold(_ slot: UInt32, _ cause: HeldCause) {
        takeOut(slot)
        if notifications[slot].isProbe { endProbe(slot) }
        leaveLane(slot)
        if records[notifications[slot].record].body?.pointee.expiration == 0 {
            conclude(slot, .expired)
            return
        }
        guard let partition = partitions[Int(records[notifications[slot].record].partition)] else {
            preconditionFailure("what is held has an assignment")
        }
        // The tier will send it: whoever comes after us and reads its record again has to know that.
        guard partition.pointee.reach.allows(records[notifications[slot].record].offset, notifications[slot].index)
        else {
            notifications[slot].heldFor = cause
            waitForReach(slot, partition)
            return
        }
        moveHeld(slot, cause)
    }

    /// To the shortest tier, and to the one where it costs less once the app's holding has lasted. One of many that a lane
    /// or a share turned away goes to the tier in which its turn comes.
    mutating func moveHeld(_ slot: UInt32, _ cause: HeldCause) {
        // No later commit may say that it cannot have been sent.
        let record = notifications[slot].record
        partitions[Int(records[record].partition)]?.pointee.reach.advance(
            to: records[record].offset, notifications[slot].index)
        let app = Int(notifications[slot].app)
        let holding = controls[app].holdings[Int(cause.rawValue)].note(
            now.ns, pauseNs: cause.isSporadic ? holdingPauseNs : nil, eventPauseNs: Self.eventPauseNs,
            roundNs: tiers.delayMs(of: 0) * 1_000_000)
        if holding.isNews { events.append(.held(app: AppIndex(app), cause)) }
        counters.apps[app].heldByCause[Int(cause.rawValue)] &+= 1
        let lasting = holding.forNs >= Self.longHoldingNs ? tiers.long : 0
        // Without a greatest age nothing else would end it.
        let isAttempt = cause == .unprocessed && settings.maxAgeMs == 0
        let tier: Int
        switch cause {
        case .lane:
            tier = Int(notifications[slot].heldTier)
        case .share:
            // About as many as its share holds pass each time.
            let rounds = Int64(holding.before / max(1, shares.total / 2) + 1)
            tier = max(lasting, tiers.tier(inRounds: rounds, ofMs: tiers.patienceMs))
        case .paused, .removed, .credential, .topic, .unreachable, .unprocessed, .unwritable, .span:
            tier = lasting
        }
        moveToTier(slot, tiers.writable(tier), asAttempt: isAttempt)
    }

    /// Nothing held for so long, and the next one begins anew. What comes back from the tier may be held again: a pause
    /// is longer than that takes.
    var holdingPauseNs: Int64 { max(60_000_000_000, tiers.delayMs(of: tiers.shortest) * 2_000_000) }

    /// A cause that began and ended.
    mutating func endHolding(_ cause: HeldCause, of app: Int) { controls[app].holdings[Int(cause.rawValue)].end() }

    /// Out of the list it waits in; its state stays, and says where it was.
    mutating func takeOut(_ slot: UInt32) {
        let record = notifications[slot].record
        switch notifications[slot].state {
        case .ready:
            queues[Int(notifications[slot].app)].remove(slot, group: Int(records[record].group), from: &notifications)
        case .behindReach:
            if let partition = partitions[Int(records[record].partition)] { leaveReach(slot, partition) }
        case .backingOff:
            backingOff.remove(slot, from: &notifications)
        case .inLane, .handed, .concluded:
            break
        case .free, .orphaned:
            preconditionFailure("what is gone waits nowhere")
        }
    }
}
