import PushRecords

extension DeliveryMachine {
    /// Begins to give partitions up (revoked, or the worker stops): nothing more is admitted; what is not on a
    /// connection is dropped, or asked back (`recalls`); what is on one may settle. A last commit follows.
    package mutating func revoke(_ ids: [PartitionID]) {
        var isRevoked = [Bool](repeating: false, count: ledger.partitions.count)
        for id in ids {
            guard let partition = ledger.beginLeaving(id) else { continue }
            isRevoked[Int(partition.number)] = true
            dropWaitingRecords(partition)
            ledger.holdUnnameable(partition, in: store)
        }
        // What the map could not name, were it dropped, is held. Where that cannot be, or does not end in time, the map
        // is cut, and the reach covers it.
        let held = waiting(in: isRevoked) { machine, record in machine.isHeldToLeave(record) }
        holdOldest(held)
        forEachNotification(in: isRevoked) { machine, slot in
            switch machine.store[slot].state {
            case .behindReach where machine.isHeld(slot):
                break
            case .queued, .ready, .behindReach, .backingOff:
                machine.drop(slot)
            case .handed:
                machine.dispatch.recall(slot, in: machine.store)
            case .admitted, .concluded, .orphaned, .free:
                break
            }
        }
        for id in ids { ledger.leaveUnread(id) }
    }

    /// Whether what waits of this record, in a partition that is given up, is held rather than dropped.
    private func isHeldToLeave(_ record: RecordSlot) -> Bool {
        guard settlement.tiers.isAnyWritable,
            let partition = ledger.partitions.find(store[record].partition)
        else { return false }
        return ledger.partitions[partition].phase == .draining
            && store[record].offset < ledger.partitions[partition].nameableFrom
    }

    /// Whether it waits to be moved to a tier, and goes there although its partition is given up.
    private func isHeld(_ slot: NotificationSlot) -> Bool {
        guard let cause = store[slot].heldFor else { return false }
        return cause == .span || isHeldToLeave(store[slot].record)
    }

    /// What came back unprocessed, of a partition of which nothing is sent any more.
    mutating func giveUp(_ slot: NotificationSlot) {
        if isHeldToLeave(store[slot].record) { hold(slot, .span) } else { drop(slot) }
    }

    /// The drain limit passed: the last commit goes out now, with a reach that covers what is unanswered.
    package mutating func stopWaiting(_ ids: [PartitionID]) {
        for id in ids { ledger.stopWaiting(id) }
    }

    /// Whether everything of a revoked partition ended and its last commit was acknowledged, so that it may be
    /// released. An assignment that is gone is.
    package func isDrained(_ id: PartitionID) -> Bool {
        guard let partition = ledger.partitions.find(id) else { return true }
        return ledger.partitions[partition].phase == .left
    }

    /// Hands out what is to be taken back from transports, to be posted as `TransportCommand.recall`.
    package mutating func recalls(_ body: (AppIndex, [NotificationID]) -> Void) {
        dispatch.takeRecalls(body)
    }

    /// Forgets assignments: lost ones at once, revoked ones when they are drained or nothing more can be done. What
    /// still comes back for them is dropped, and counted as late.
    ///
    /// What is open of a log that one of them was read from before (`beginAnew`) is nobody else's: it goes on to its
    /// end (`hasDetached`). Where the last commit was not acknowledged, only what is on connections does, since no
    /// commit names the rest to whoever comes after us.
    package mutating func release(_ ids: [PartitionID]) {
        for id in ids {
            guard let partition = ledger.partitions.find(id) else { continue }
            if ledger.partitions[partition].phase == .left {
                openDetached(of: id)
            } else {
                dropWaiting(of: ledger.detached(before: [id]))
            }
        }
        release(ids, because: nil)
    }

    /// Whether something is open of a log that is gone.
    package var hasDetached: Bool { ledger.hasDetached }

    /// Of assignments that are detached: nothing more is sent, what is on connections goes on to its end.
    mutating func dropWaiting(of ids: [PartitionID]) {
        guard !ids.isEmpty else { return }
        var isChosen = [Bool](repeating: false, count: ledger.partitions.count)
        for id in ids {
            guard let partition = ledger.partitions.find(id) else { continue }
            isChosen[Int(partition.number)] = true
            dropWaitingRecords(partition)
            // What comes back of it was named when it was sent first, and no other commit will come that it could wait
            // for.
            ledger.allowAll(partition)
        }
        forEachNotification(in: isChosen) { machine, slot in
            if machine.store[slot].isWaiting { machine.drop(slot) }
        }
    }

    /// - Parameter event: to be told of each.
    mutating func release(_ ids: [PartitionID], because event: ((PartitionID) -> DeliveryEvent)?) {
        var isReleased = [Bool](repeating: false, count: ledger.partitions.count)
        for id in ids {
            guard let partition = ledger.beginRelease(id) else { continue }
            if let event { journal.events.append(event(id)) }
            isReleased[Int(partition.number)] = true
            dropWaitingRecords(partition)
        }
        forEachNotification(in: isReleased) { machine, slot in
            switch machine.store[slot].state {
            case .queued, .ready, .behindReach, .backingOff:
                machine.drop(slot)
            case .handed:
                machine.store.move(slot, to: .orphaned)
            case .concluded:
                machine.releaseUnproduced(slot)
                machine.free(slot)
            case .admitted, .orphaned, .free:
                break
            }
        }
        for id in ids {
            guard let partition = ledger.partitions.find(id) else { continue }
            setShared(partition, false)
            ledger.forget(partition, in: &store)
        }
    }

    /// Records, or their rest, that were not admitted.
    mutating func dropWaitingRecords(_ partition: PartitionSlot) {
        while let record = ledger.dropWaiting(partition, in: &store) { releaseBody(record) }
    }

    mutating func forEachNotification(in isChosen: [Bool], _ body: (inout DeliveryMachine, NotificationSlot) -> Void) {
        guard isChosen.contains(true) else { return }
        for slot in store.slots where store[slot].state != .free {
            let partition = store[recordOf: slot].partition
            if partition != .none, isChosen[Int(partition.number)] { body(&self, slot) }
        }
    }

    /// Takes a notification out that is not on a connection: its record does not settle in this assignment.
    mutating func drop(_ slot: NotificationSlot) {
        let record = store[slot].record
        takeOut(slot)
        leaveDeviceQueue(slot)
        store[record].drop()
        store.endUnderWay(slot)
        store.leaveDoubt(slot)
        releaseBytes(slot)
        free(slot)
    }

    private mutating func releaseUnproduced(_ slot: NotificationSlot) {
        if store[slot].unproduced > 0 { releaseBytes(slot) }
    }

    /// The completion of a notification whose assignment is gone.
    mutating func forgetOrphan(_ slot: NotificationSlot) {
        let record = store[slot].record
        leaveDeviceQueue(slot)
        releaseBytes(slot)
        free(slot)
        if store[record].handed == 0 { store.giveBack(record) }
    }
}
