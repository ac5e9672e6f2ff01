/// What is left of partitions that are not assigned any more, or whose log is gone.
extension CommitLedger {
    /// What is open of the logs that the partitions of these assignments had before.
    func detached(before ids: [PartitionID]) -> [PartitionID] {
        guard unassignedCount > 0 else { return [] }
        var found: [PartitionID] = []
        for id in ids {
            guard let partition = partitions.find(id) else { continue }
            for other in partitions.slots
            where partitions[other].phase == .detached && partitions[other].number == partitions[partition].number
                && partitions[other].topicText == partitions[partition].topicText
            {
                found.append(partitions[other].id)
            }
        }
        return found
    }

    /// Whether something is open of a log that is gone.
    var hasDetached: Bool {
        guard unassignedCount > 0 else { return false }
        for partition in partitions.slots where partitions[partition].phase == .detached { return true }
        return false
    }

    /// What this partition left behind when its session was lost.
    func suspended(topic: String, _ number: Int32) -> PartitionSlot? {
        guard unassignedCount > 0 else { return nil }
        for partition in partitions.slots
        where partitions[partition].phase == .suspended && partitions[partition].number == number
            && partitions[partition].topicText == topic
        {
            return partition
        }
        return nil
    }

    /// One past the last offset that is open, or was, of logs that this partition had before: a log that was only cut
    /// still has some of these records. 0: there are none.
    func detachedEnd(topic: String, _ number: Int32) -> Int64 {
        guard unassignedCount > 0 else { return 0 }
        var end: Int64 = 0
        for partition in partitions.slots
        where partitions[partition].phase == .detached && partitions[partition].number == number
            && partitions[partition].topicText == topic
        {
            end = max(end, partitions[partition].sentEnd, partitions[partition].ledger.highestReceived + 1)
        }
        return end
    }

    /// Detached assignments that are over, since nothing of them is open, and suspended ones that were not given back
    /// in time.
    func endedUnassigned(nowNs: Int64) -> (over: [PartitionID], late: [PartitionID]) {
        var over: [PartitionID] = []
        var late: [PartitionID] = []
        for partition in partitions.slots {
            switch partitions[partition].phase {
            case .detached:
                if partitions[partition].open == 0, partitions[partition].firstAdmitting == .none {
                    over.append(partitions[partition].id)
                }
            case .suspended:
                if nowNs - partitions[partition].suspendedNs >= settings.suspendedLimitNs {
                    late.append(partitions[partition].id)
                }
            case .active, .draining, .leaving, .left:
                break
            }
        }
        return (over, late)
    }
}
