import PushRecords

extension DeliveryMachine {
    /// What this group is to commit now: empty while a commit of it is in flight, before it is time, or when nothing
    /// changed. When it is not empty, `commitFinished` of the same group must follow.
    package mutating func takeCommit(of group: CommitGroup, now: DeliveryTime) -> [PartitionCommit] {
        self.now = now
        let ids = ledger.takeCommit(of: group, in: store, nowNs: now.ns, journal: &journal)
        guard !ids.isEmpty else { return [] }
        for id in ids { shortenSpan(id) }
        return ledger.entries(of: group)
    }

    /// The reply: one outcome for each entry of this group's `takeCommit`, in its order; `nil` stands for a commit
    /// refused as a whole (`refusedByGroup`).
    package mutating func commitFinished(of group: CommitGroup, _ outcomes: [CommitOutcome]?, now: DeliveryTime) {
        self.now = now
        let ids = ledger.beginReply(of: group, nowNs: now.ns)
        precondition(outcomes == nil || outcomes?.count == ids.count, "a commit is answered entry by entry")
        guard !ids.isEmpty else { return }
        let longest = ledger.longestPending(ids)
        for (index, id) in ids.enumerated() {
            let outcome = outcomes?[index] ?? .refusedByGroup
            switch ledger.replied(id, outcome, longest: longest, nowNs: now.ns, journal: &journal) {
            case .nothing:
                break
            case .acknowledged(let partition):
                passReach(partition)
                openDetached(of: id)
            case .impossible(let partition):
                leaveDeviceQueues(partition)
                // Nobody can be told: what is open of the log before does not wait for ever.
                openDetached(of: id)
            }
        }
        ledger.endReply(of: group)
        renewLeases()
    }

    // MARK: What waits for them

    /// What waited for the reach goes on, as far as that allows it now.
    mutating func passReach(_ partition: PartitionSlot) {
        guard !ledger.partitions[partition].reach.isStale else { return }
        // Those of one device go in this order.
        if ledger.partitions[partition].besideQueues > 0 { ledger.orderBehindReach(partition, in: &store) }
        var next = ledger.partitions[partition].behindReach.head
        while next != .none {
            let slot = next
            next = store[slot].next
            guard ledger.reachAllows(slot, partition, in: store) else {
                ledger.advanceReach(slot, partition, in: store)
                break
            }
            // What came to be due while it waited needs no tier.
            if store[slot].heldFor == .scheduled, isDue(slot), isSending(slot) { store[slot].heldFor = nil }
            // It was a probe when it began to wait.
            if store[slot].heldFor == nil, let cause = causeToHold(slot) {
                hold(slot, cause)
                continue
            }
            ledger.leaveReach(slot, partition, in: &store)
            // It waits nowhere, as when it was admitted: where its device queue turns it away, it is taken out of no
            // list twice.
            store.move(slot, to: .admitted)
            if let cause = store[slot].heldFor {
                moveHeld(slot, cause)
            } else if settings.ordering == .device, !store[slot].isInDeviceQueue {
                joinDeviceQueue(slot)
            } else {
                dispatch.becomeReady(slot, first: false, in: &store, nowNs: now.ns)
            }
        }
    }

    /// What waits for a commit that is impossible lets others of its device go first, which other partitions brought.
    private mutating func leaveDeviceQueues(_ partition: PartitionSlot) {
        var slot = ledger.partitions[partition].behindReach.head
        while slot != .none {
            letOthersPass(slot, partition)
            slot = store[slot].next
        }
    }

    /// It waits for a commit that is impossible, and lets others of its device go first, which other partitions
    /// brought. Those of its own leave the device queue with it: they come back in their order.
    mutating func letOthersPass(_ slot: NotificationSlot, _ partition: PartitionSlot) {
        ledger.markBesideQueue(slot, partition, in: &store)
        guard store[slot].isInDeviceQueue else { return }
        var next = store[slot].queueNext
        while next != .none {
            let other = next
            next = store[other].queueNext
            guard store[recordOf: other].partition == partition else { continue }
            leaveDeviceQueue(other)
            ledger.queueBehindReach(other, partition, in: &store)
            ledger.markBesideQueue(other, partition, in: &store)
        }
        leaveDeviceQueue(slot)
    }

    /// Until a commit proves that we are in the group still, nothing is sent.
    mutating func renewLeases() {
        for partition in ledger.renewLeases(nowNs: now.ns) { passReach(partition) }
    }
}
