import PushRecords

extension DeliveryMachine {
    /// Begins to give partitions up (revoked, or the worker stops): nothing more is admitted; what is not on a
    /// connection is dropped, or asked back (`recalls`); what is on one may settle. A last commit follows.
    package mutating func revoke(_ ids: [PartitionID]) {
        var isRevoked = [Bool](repeating: false, count: partitions.count)
        for id in ids {
            guard let partition = find(id), partition.pointee.phase == .active else { continue }
            partition.pointee.phase = .draining
            partition.pointee.isDirty = true
            isRevoked[Int(id.slot)] = true
            dropWaitingRecords(partition)
            let budget = CommitMapWriter.budget(characters: partition.pointee.metadataLimit)
            partition.pointee.nameableFrom = firstNameable(partition, budget: budget) ?? 0
        }
        // A map is never cut here: what it could not name, were it dropped, is held.
        let held = waiting(in: isRevoked) { machine, record in machine.isHeldToLeave(record) }
        holdOldest(held)
        forEachNotification(in: isRevoked) { machine, slot in
            switch machine.notifications[slot].state {
            case .behindReach where machine.isHeld(slot):
                break
            case .inLane, .ready, .behindReach, .backingOff:
                machine.drop(slot)
            case .handed:
                let id = NotificationID(slot: slot, generation: machine.notifications[slot].generation)
                machine.recallLists[Int(machine.notifications[slot].app)].append(id)
            case .concluded, .orphaned, .free:
                break
            }
        }
        for id in ids {
            // Nothing was ever read or committed: there is nothing to say.
            if let partition = find(id), partition.pointee.ledger.committable == nil { partition.pointee.phase = .left }
        }
    }

    /// Whether what waits of this record, in a partition that is given up, is held rather than dropped.
    private func isHeldToLeave(_ record: UInt32) -> Bool {
        guard tiers.isAnyWritable, let partition = partitions[Int(records[record].partition)] else { return false }
        return partition.pointee.phase == .draining && records[record].offset < partition.pointee.nameableFrom
    }

    /// Whether it waits to be moved to a tier, and goes there although its partition is given up.
    private func isHeld(_ slot: UInt32) -> Bool {
        guard let cause = notifications[slot].heldFor else { return false }
        return cause == .span || isHeldToLeave(notifications[slot].record)
    }

    /// What came back unprocessed, of a partition of which nothing is sent any more.
    mutating func giveUp(_ slot: UInt32) {
        if isHeldToLeave(notifications[slot].record) { hold(slot, .span) } else { drop(slot) }
    }

    /// The drain limit passed: the last commit goes out now, with a reach that covers what is unanswered.
    package mutating func stopWaiting(_ ids: [PartitionID]) {
        for id in ids {
            guard let partition = find(id), partition.pointee.phase == .draining else { continue }
            partition.pointee.phase = .leaving
        }
    }

    /// Whether everything of a revoked partition ended and its last commit was acknowledged, so that it may be
    /// released. An assignment that is gone is.
    package func isDrained(_ id: PartitionID) -> Bool {
        guard let partition = find(id) else { return true }
        return partition.pointee.phase == .left
    }

    /// What is open of the logs that these partitions had before.
    func detached(besides ids: [PartitionID]) -> [PartitionID] {
        guard unassignedCount > 0 else { return [] }
        var found: [PartitionID] = []
        for id in ids {
            guard let partition = find(id) else { continue }
            for case let other? in partitions
            where other.pointee.phase == .detached && other.pointee.number == partition.pointee.number
                && other.pointee.topicText == partition.pointee.topicText
            {
                found.append(other.pointee.id)
            }
        }
        return found
    }

    /// Forgets assignments: lost ones at once, revoked ones when they are drained or nothing more can be done. What
    /// still comes back for them is dropped, and counted as late.
    ///
    /// What is open of a log that one of them was read from before (`beginAnew`) is nobody else's: it goes on to its end
    /// (`hasDetached`). Where the last commit was not acknowledged, only what is on connections does, since no commit
    /// names the rest to whoever comes after us.
    package mutating func release(_ ids: [PartitionID]) {
        for id in ids {
            guard let partition = find(id) else { continue }
            if partition.pointee.phase == .left {
                openDetached(of: id)
            } else {
                dropWaiting(of: detached(besides: [id]))
            }
        }
        release(ids, because: nil)
    }

    /// Whether something is open of a log that is gone.
    package var hasDetached: Bool {
        guard unassignedCount > 0 else { return false }
        for case let partition? in partitions where partition.pointee.phase == .detached { return true }
        return false
    }

    /// Of assignments that are detached: nothing more is sent, what is on connections goes on to its end.
    mutating func dropWaiting(of ids: [PartitionID]) {
        guard !ids.isEmpty else { return }
        var isChosen = [Bool](repeating: false, count: partitions.count)
        for id in ids {
            guard let partition = find(id) else { continue }
            isChosen[Int(id.slot)] = true
            dropWaitingRecords(partition)
        }
        forEachNotification(in: isChosen) { machine, slot in
            switch machine.notifications[slot].state {
            case .inLane, .ready, .behindReach, .backingOff: machine.drop(slot)
            case .handed, .concluded, .orphaned, .free: break
            }
        }
    }

    /// - Parameter event: to be told of each.
    mutating func release(_ ids: [PartitionID], because event: ((PartitionID) -> DeliveryEvent)?) {
        var isReleased = [Bool](repeating: false, count: partitions.count)
        for id in ids {
            guard let partition = find(id) else { continue }
            if !partition.pointee.isAssigned { unassignedCount -= 1 }
            if let event { events.append(event(id)) }
            partition.pointee.phase = .left
            isReleased[Int(id.slot)] = true
            dropWaitingRecords(partition)
        }
        forEachNotification(in: isReleased) { machine, slot in
            switch machine.notifications[slot].state {
            case .inLane, .ready, .behindReach, .backingOff:
                machine.drop(slot)
            case .handed:
                machine.notifications[slot].state = .orphaned
            case .concluded:
                machine.releaseUnproduced(slot)
                machine.free(slot)
            case .orphaned, .free:
                break
            }
        }
        for id in ids {
            if let partition = find(id) { forget(partition, id) }
        }
    }

    private mutating func forget(_ partition: UnsafeMutablePointer<Partition>, _ id: PartitionID) {
        partition.pointee.ledger.forEachOpen { _, record in
            if records[record].handed > 0 {
                records[record].partition = noSlot
            } else {
                free(record: record)
            }
        }
        setShared(partition, false)
        partitions[Int(id.slot)] = nil
        partition.deinitialize(count: 1)
        partition.deallocate()
    }

    /// Records, or their rest, that were not admitted.
    mutating func dropWaitingRecords(_ partition: UnsafeMutablePointer<Partition>) {
        var slot = partition.pointee.firstAdmitting
        guard slot != noSlot else { return }
        while slot != noSlot {
            let next = records[slot].nextAdmitting
            records[slot].nextAdmitting = noSlot
            records[slot].isDropped = true
            releaseBody(slot)
            slot = next
        }
        partition.pointee.firstAdmitting = noSlot
        partition.pointee.lastAdmitting = noSlot
        admittingCount -= 1
    }

    mutating func forEachNotification(in isChosen: [Bool], _ body: (inout DeliveryMachine, UInt32) -> Void) {
        guard isChosen.contains(true) else { return }
        var slot: UInt32 = 0
        while slot < UInt32(notifications.capacity) {
            if notifications[slot].state != .free {
                let partition = records[notifications[slot].record].partition
                if partition != noSlot, isChosen[Int(partition)] { body(&self, slot) }
            }
            slot += 1
        }
    }

    /// Takes a notification out that is not on a connection: its record does not settle in this assignment.
    mutating func drop(_ slot: UInt32) {
        let record = notifications[slot].record
        takeOut(slot)
        leaveLane(slot)
        records[record].isDropped = true
        if let words = records[record].lentIndexes {
            let index = notifications[slot].index
            words[Int(index / 64)] &= ~(1 << UInt64(index % 64))
        }
        // Its doubt stays with the record, for the last commit's reach.
        notifications[slot].isDoubted = false
        releaseBytes(slot)
        free(slot)
    }

    private mutating func releaseUnproduced(_ slot: UInt32) {
        if notifications[slot].unproduced > 0 { releaseBytes(slot) }
    }

    /// The fate of a notification whose assignment is gone.
    mutating func forgetOrphan(_ slot: UInt32) {
        let record = notifications[slot].record
        leaveLane(slot)
        releaseBytes(slot)
        free(slot)
        if records[record].handed == 0 { free(record: record) }
    }
}
