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
        guard partition.pointee.reach.allows(records[notifications[slot].record].offset) else {
            notifications[slot].heldFor = cause
            waitForReach(slot, partition)
            return
        }
        moveHeld(slot, cause)
    }

    /// To the shortest tier; once the app's holding has lasted, to the one where it costs less.
    mutating func moveHeld(_ slot: UInt32, _ cause: HeldCause) {
        let app = Int(notifications[slot].app)
        let holding = controls[app].holdings[Int(cause.rawValue)].note(
            now.ns, pauseNs: cause.isSporadic ? holdingPauseNs : nil, eventPauseNs: Self.eventPauseNs)
        if holding.isNews { events.append(.held(app: AppIndex(app), cause)) }
        counters.apps[app].heldByCause[Int(cause.rawValue)] &+= 1
        let isLong = holding.forNs >= Self.longHoldingNs
        // Without a greatest age nothing else would end it.
        let isAttempt = cause == .unprocessed && settings.maxAgeMs == 0
        moveToTier(slot, isLong ? tiers.long : tiers.shortest, asAttempt: isAttempt)
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
