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
        dropWaiting(of: detached(besides: ids))
        var isSuspended = [Bool](repeating: false, count: partitions.count)
        for id in ids {
            guard let partition = find(id), partition.pointee.isAssigned else { continue }
            partition.pointee.phase = .suspended
            partition.pointee.suspendedNs = now.ns
            partition.pointee.nameableFrom = 0
            partition.pointee.isSpanFull = false
            // Whether it was taken is not known: it may still come.
            if let pending = partition.pointee.pending { partition.pointee.keepUnsure(pending.said) }
            isSuspended[Int(id.slot)] = true
            dropWaitingRecords(partition)
            setShared(partition, false)
            unassignedCount += 1
            partition.pointee.ledger.forEachOpen { _, record in
                guard let words = records[record].lentIndexes else { return }
                words.update(repeating: 0, count: records[record].indexWordCount)
            }
        }
        forEachNotification(in: isSuspended) { machine, slot in
            switch machine.notifications[slot].state {
            case .inLane, .ready, .behindReach, .backingOff:
                machine.drop(slot)
            case .handed:
                machine.noteLent(slot)
                let id = NotificationID(slot: slot, generation: machine.notifications[slot].generation)
                machine.recallLists[Int(machine.notifications[slot].app)].append(id)
            case .concluded:
                machine.noteLent(slot)
            case .orphaned, .free:
                break
            }
        }
    }

    /// Of a fan-out, this index is under way: it is not to be taken again.
    private mutating func noteLent(_ slot: UInt32) {
        let record = notifications[slot].record
        guard records[record].settledIndexes != nil else { return }
        let index = notifications[slot].index
        let words: UnsafeMutablePointer<UInt64>
        if let known = records[record].lentIndexes {
            words = known
        } else {
            words = .allocate(capacity: records[record].indexWordCount)
            words.initialize(repeating: 0, count: records[record].indexWordCount)
            records[record].lentIndexes = words
        }
        words[Int(index / 64)] |= 1 << UInt64(index % 64)
    }

    /// What this partition left behind when its session was lost.
    func suspended(topic: String, _ number: Int32) -> UnsafeMutablePointer<Partition>? {
        guard unassignedCount > 0 else { return nil }
        for case let partition? in partitions
        where partition.pointee.phase == .suspended && partition.pointee.number == number
            && partition.pointee.topicText == topic
        {
            return partition
        }
        return nil
    }

    /// It goes on under a new name.
    ///
    /// - Parameter text: the commit of ours that the group has.
    mutating func resume(
        _ partition: UnsafeMutablePointer<Partition>, _ text: CommitText, _ role: PartitionRole, logEnd: Int64?
    ) -> PartitionID {
        _ = begin(role, topic: partition.pointee.topicText)
        lastEpoch += 1
        let id = PartitionID(slot: partition.pointee.id.slot, epoch: lastEpoch)
        partition.pointee.id = id
        partition.pointee.phase = .active
        partition.pointee.pending = nil
        partition.pointee.said = text
        partition.pointee.unsureSaid = []
        partition.pointee.commits = CommitStanding()
        partition.pointee.isDirty = true
        partition.pointee.reach = Reach(minimum: settings.reachMargin)
        if partition.pointee.committed != nil || text.reach > .none { partition.pointee.committed = text.offset }
        partition.pointee.ledger.resume(
            from: text.offset, doubtBelow: text.reach.cut(at: logEnd ?? .max))
        setShared(partition, true)
        unassignedCount -= 1
        events.append(.resumed(id))
        return id
    }

    /// What was dropped when the partition was lost, and does not come again: retention or compaction took it meanwhile,
    /// so nobody will have it any more. What is on connections goes on to its end.
    mutating func passOver(_ partition: UnsafeMutablePointer<Partition>, below offset: Int64) {
        for slot in partition.pointee.ledger.passedOver(below: offset) where records[slot].isDropped {
            records[slot].isDropped = false
            records[slot].cursor.index = records[slot].count
            finish(record: slot)
        }
    }

    /// Detached assignments are over when nothing of them is open, suspended ones when they were not given back in time.
    mutating func endUnassigned() {
        var over: [PartitionID] = []
        var late: [PartitionID] = []
        for case let partition? in partitions {
            switch partition.pointee.phase {
            case .detached:
                if partition.pointee.open == 0, partition.pointee.firstAdmitting == noSlot {
                    over.append(partition.pointee.id)
                }
            case .suspended:
                if now.ns - partition.pointee.suspendedNs >= settings.suspendedLimitNs {
                    late.append(partition.pointee.id)
                }
            case .active, .draining, .leaving, .left:
                break
            }
        }
        if !over.isEmpty { release(over, because: nil) }
        if !late.isEmpty { release(late, because: { .suspendedReleased($0) }) }
    }
}
