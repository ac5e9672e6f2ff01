import PushRecords

extension DeliveryMachine {
    /// Takes partitions out whose session was lost: nothing more of them is sent. What is on connections goes on to its
    /// end.
    ///
    /// When the partition comes back to `assign` with what we committed last, nobody owned it meanwhile, or nobody who
    /// got as far as a commit: it goes on with what it knew. Nothing that settled or is on a connection is sent again;
    /// what was not sent is, marked in doubt where it lies below the reach that was committed. Otherwise, and after
    /// `suspendedLimitNs`, it is released (`release` does that, too).
    package mutating func suspend(_ ids: [PartitionID]) {
        dropWaiting(of: ledger.detached(before: ids))
        var isSuspended = [Bool](repeating: false, count: ledger.partitions.count)
        for id in ids {
            guard let partition = ledger.partitions.find(id), ledger.partitions[partition].isAssigned else { continue }
            isSuspended[Int(partition.number)] = true
            dropWaitingRecords(partition)
            setShared(partition, false)
            ledger.suspend(partition, in: &store, nowNs: now.ns)
        }
        forEachNotification(in: isSuspended) { machine, slot in
            switch machine.store[slot].state {
            case .queued, .ready, .behindReach, .backingOff:
                machine.drop(slot)
            case .handed:
                machine.store.noteUnderWay(slot)
                machine.dispatch.recall(slot, in: machine.store)
            case .concluded:
                machine.store.noteUnderWay(slot)
            case .admitted, .orphaned, .free:
                break
            }
        }
    }

    /// It goes on under a new name.
    ///
    /// - Parameter mark: of the commit of ours that the group has.
    mutating func resume(
        _ partition: PartitionSlot, _ mark: CommitMark, _ role: PartitionRole, logEnd: Int64?
    ) -> PartitionID {
        _ = enterShare(role, topic: ledger.partitions[partition].topicText)
        let id = ledger.resume(partition, mark, logEnd: logEnd)
        setShared(partition, true)
        journal.events.append(.resumed(id))
        return id
    }

    /// What was dropped when the partition was lost, and does not come again: retention or compaction took it
    /// meanwhile, so nobody will have it any more. What is on connections goes on to its end.
    mutating func passOver(_ partition: PartitionSlot, below offset: Int64) {
        for record in ledger.passedOver(partition, below: offset) where store[record].isDropped {
            store[record].forgo()
            ledger.finish(record, in: &store)
        }
    }

    /// Detached assignments are over when nothing of them is open, suspended ones when they were not given back in
    /// time.
    mutating func endUnassigned() {
        let (over, late) = ledger.endedUnassigned(nowNs: now.ns)
        if !over.isEmpty { release(over, because: nil) }
        if !late.isEmpty { release(late, because: { .suspendedReleased($0) }) }
    }
}
