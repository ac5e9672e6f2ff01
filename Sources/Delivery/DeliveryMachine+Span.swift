import PushRecords

extension DeliveryMachine {
    /// What has waited for less is on its way.
    private static let shorteningAgeNs: Int64 = 1_000_000_000
    private static let shorteningPauseNs: Int64 = 100_000_000

    /// Keeps what is settled above the oldest open record nameable: when the map is three quarters full, the oldest
    /// notifications that wait are held until it is half full. While it is nearly full all the same (what is open is on
    /// connections, or there is no tier that can be written), nothing more is read of the partition.
    mutating func shortenSpan(_ id: PartitionID) {
        guard let partition = find(id), partition.pointee.phase == .active else { return }
        let eighths = partition.pointee.mapEighths
        partition.pointee.isSpanFull = eighths >= (partition.pointee.isSpanFull ? 6 : 7)
        guard eighths >= 6, tiers.isAnyWritable, now.ns >= partition.pointee.nextShorteningNs else { return }
        partition.pointee.nextShorteningNs = now.ns + Self.shorteningPauseNs
        let budget = CommitMapWriter.budget(characters: partition.pointee.metadataLimit) / 2
        guard let limit = firstNameable(partition, budget: budget) else { return }
        var isChosen = [Bool](repeating: false, count: partitions.count)
        isChosen[Int(id.slot)] = true
        holdOldest(
            waiting(in: isChosen) { machine, record in
                machine.records[record].offset < limit
                    && machine.now.ns - machine.records[record].receivedNs >= Self.shorteningAgeNs
            })
    }

    /// What is open below it has to settle for a map within `budget` bytes to name all.
    func firstNameable(_ partition: UnsafeMutablePointer<Partition>, budget: Int) -> Int64? {
        partition.pointee.ledger.firstNameable(budget: budget) { record in
            let count = Int(records[record].count)
            guard count > 1, records[record].cursor.index > 0 || records[record].hasSettledIndexes else { return 0 }
            // Each index that stays open parts two runs.
            let open = Int(records[record].unsettled) + max(0, count - Int(records[record].cursor.index))
            return 8 + min(count / 8 + 1, 6 * (open + 1))
        }
    }

    /// Notifications that wait, of these partitions and of records that fulfil something.
    func waiting(in isChosen: [Bool], where fits: (borrowing DeliveryMachine, UInt32) -> Bool) -> [UInt32] {
        var found: [UInt32] = []
        var slot: UInt32 = 0
        while slot < UInt32(notifications.capacity) {
            switch notifications[slot].state {
            case .inLane, .ready, .backingOff, .behindReach:
                let record = notifications[slot].record
                let partition = records[record].partition
                if partition != noSlot, isChosen[Int(partition)], notifications[slot].heldFor == nil,
                    fits(self, record)
                {
                    found.append(slot)
                }
            case .free, .handed, .orphaned, .concluded:
                break
            }
            slot += 1
        }
        return found
    }

    /// Holds notifications that wait, oldest first.
    mutating func holdOldest(_ slots: [UInt32]) {
        let order = slots.map { (records[notifications[$0].record].offset, notifications[$0].index, $0) }
        for (_, _, slot) in order.sorted(by: { $0 < $1 }) { hold(slot, .span) }
    }
}
