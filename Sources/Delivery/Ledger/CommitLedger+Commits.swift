import PushRecords

// The commits of both groups, and their replies.
extension CommitLedger {
    // MARK: Commits

    /// Begins what this group is to commit now, if anything.
    ///
    /// - Returns: the partitions of which it is.
    mutating func takeCommit(
        of group: CommitGroup, in store: borrowing NotificationStore, journal: inout Journal
    ) -> [PartitionID] {
        let nowNs = journal.now.ns
        let flight = group.rawValue
        guard commits[flight].partitions.isEmpty else { return [] }
        var isTime = false
        var alone: PartitionSlot?
        for partition in partitions.slots where isReadyToCommit(partition, flight, nowNs) {
            guard nowNs >= commits[flight].nextNs || self[partition].isUrgent else { continue }
            if !self[partition].commits.isAlone {
                isTime = true
            } else if alone == nil || partition > commits[flight].lastAlone {
                // The next one in turn: the first above the last, else the first of all.
                if let alone, alone > commits[flight].lastAlone { continue }
                alone = partition
            }
        }
        if let alone, !isTime || !commits[flight].isAlone {
            commits[flight].begin(nowNs, intervalNs: nil)
            commits[flight].lastAlone = alone
            commits[flight].append(writer.entry(of: &partitions[alone], in: store, journal: &journal))
        } else if isTime {
            commits[flight].begin(nowNs, intervalNs: settings.commitIntervalNs)
            for partition in partitions.slots where isReadyToCommit(partition, flight, nowNs) {
                guard !self[partition].commits.isAlone else { continue }
                commits[flight].append(writer.entry(of: &partitions[partition], in: store, journal: &journal))
            }
        } else {
            return []
        }
        journal.counters.commits &+= 1
        return commits[flight].partitions
    }

    private func isReadyToCommit(_ partition: PartitionSlot, _ flight: Int, _ nowNs: Int64) -> Bool {
        self[partition].flight == flight && nowNs >= self[partition].commits.untilNs
            && self[partition].wantsCommit
    }

    // MARK: Replies

    /// What a reply means for what waits of a partition.
    enum Reply {
        case nothing
        /// Its horizon may have moved, and so may what waits for it.
        case acknowledged(PartitionSlot)
        /// Nobody can be told where it stands.
        case impossible(PartitionSlot)
    }

    /// A reply came: `replied` for each of these partitions, then `endReply`. When replies slow down, so do commits:
    /// the pause is as long as the reply took, but no longer than `widestPauseNs`.
    mutating func beginReply(of group: CommitGroup, nowNs: Int64) -> [PartitionID] {
        let flight = group.rawValue
        guard !commits[flight].partitions.isEmpty else { return [] }
        if !commits[flight].isAlone {
            let replyNs = nowNs - commits[flight].sentNs
            commits[flight].nextNs = max(commits[flight].nextNs, nowNs + min(replyNs, Self.widestPauseNs))
        }
        return commits[flight].partitions
    }

    mutating func endReply(of group: CommitGroup) {
        commits[group.rawValue].partitions.removeAll(keepingCapacity: true)
    }

    /// Characters of the longest metadata among the commits of these that are under way.
    func longestPending(_ ids: [PartitionID]) -> Int {
        var longest = 0
        for id in ids {
            guard let partition = partitions.find(id) else { continue }
            longest = max(longest, self[partition].pending?.characters ?? 0)
        }
        return longest
    }

    /// - Parameter longest: the broker refuses all for the sake of one: metadata that is much shorter is not to blame.
    mutating func replied(
        _ id: PartitionID, _ outcome: CommitOutcome, longest: Int, journal: inout Journal
    ) -> Reply {
        guard let partition = partitions.find(id), let pending = self[partition].pending else { return .nothing }
        let flight = self[partition].flight
        self[partition].pending = nil
        if outcome != .acknowledged { self[partition].keepUnconfirmed(pending.mark) }
        switch outcome {
        case .acknowledged:
            commits[flight].provenNs = commits[flight].sentNs
            return self[partition].acknowledge(pending, journal: &journal) ? .acknowledged(partition) : .nothing
        case .metadataTooLarge:
            self[partition].isDirty = true
            commits[flight].nextNs = journal.now.ns
            guard pending.characters * 2 > longest else { return .nothing }
            journal.events.append(.metadataRefused(id, characters: pending.characters))
            self[partition].halveMetadata(of: pending, journal: &journal)
        case .refused:
            self[partition].refuse(isImpossible: false, journal: &journal)
        case .refusedByGroup:
            self[partition].refuse(
                isImpossible: false, longestPauseNs: CommitBackoff.groupPauseNs, journal: &journal)
        case .impossible:
            self[partition].refuse(isImpossible: true, journal: &journal)
            return .impossible(partition)
        case .unattributed:
            self[partition].isDirty = true
            self[partition].commits.askAlone()
        }
        return .nothing
    }

    // MARK: What a map can name

    /// Looks how full the map of the last commit was. While it is nearly full nothing more is read of the partition.
    ///
    /// - Returns: below what offset the oldest that wait are to be held, so that half of the map would do.
    mutating func shortenSpan(
        _ id: PartitionID, mayDefer: Bool, in store: borrowing NotificationStore, nowNs: Int64
    ) -> Int64? {
        guard let partition = partitions.find(id), self[partition].phase == .active else { return nil }
        let eighths = self[partition].mapEighths
        self[partition].isSpanFull = eighths >= (self[partition].isSpanFull ? 6 : 7)
        guard eighths >= 6, mayDefer, nowNs >= self[partition].nextShorteningNs else { return nil }
        self[partition].nextShorteningNs = nowNs + Self.shorteningPauseNs
        let budget = CommitMapWriter.budget(characters: self[partition].metadataLimit) / 2
        return firstNameable(partition, budget: budget, in: store)
    }

    /// What is open below it has to settle for a map within `budget` bytes to name all.
    func firstNameable(
        _ partition: PartitionSlot, budget: Int, in store: borrowing NotificationStore
    ) -> Int64? {
        self[partition].ledger.firstNameable(budget: budget) { record in
            let count = Int(store[record].count)
            guard count > 1, store[record].cursor.index > 0 || store[record].hasSettledIndexes
            else { return 0 }
            // Each index that stays open parts two runs.
            let open = Int(store[record].unsettled) + max(0, count - Int(store[record].cursor.index))
            return 8 + min(count / 8 + 1, 6 * (open + 1))
        }
    }
}

/// Writes what the next commit of a partition says: the watermark, what is settled above it, how far ahead may be sent,
/// and whose commit it is.
struct CommitWriter: ~Copyable {
    private var map = CommitMapWriter()
    private let hashSeed: UInt64

    init(hashSeed: UInt64) { self.hashSeed = hashSeed }

    /// The entry of a partition that is ready to commit; it is under way from now on.
    mutating func entry(
        of partition: inout Partition, in store: borrowing NotificationStore, journal: inout Journal
    ) -> PartitionCommit {
        guard let base = partition.ledger.committable else {
            preconditionFailure("what is ready to commit has a watermark")
        }
        let isLast = partition.mayLeave
        var horizon = HorizonEnd.none
        if isLast {
            let end = partition.ledger.leavingHorizon { store[$0].doubts > 0 || store[$0].unsettled > 0 }
            horizon = end.map { HorizonEnd($0) } ?? .none
        } else {
            // What an owner that died may have sent stays in doubt for whoever comes after us, until it is settled.
            let inherited = partition.ledger.inheritedHorizon
            let counted = partition.fanOuts > 0 ? Self.countedHorizon(partition, from: base, in: store) : nil
            let next = partition.horizon.next(from: base, counted: counted)
            horizon = max(next, base < inherited.offset ? inherited : .none)
        }
        map.start(base: base, limit: partition.metadataLimit)
        partition.ledger.write(to: &map) { store.settledIndexes(of: $0) }
        // What is settled and was cut off will be sent again by whoever comes after us: it has to say so.
        if map.isFull { horizon = max(horizon, HorizonEnd(partition.ledger.mapEnd)) }
        horizon = horizon.cut(at: base + CommitMap.highestReach)
        if !isLast { partition.horizon.sent(naming: horizon) }
        map.finish(reach: horizon.offset, indexes: horizon.indexes, owner: owner(of: partition.id))
        if map.isFull {
            journal.counters.mapsCut &+= 1
            if !partition.isMapCut { journal.events.append(.mapCut(partition.id, dropped: map.dropped)) }
        }
        partition.isMapCut = map.isFull
        partition.mapEighths = map.eighths
        partition.isDirty = false
        partition.commits.sent()
        partition.pending = Partition.Pending(
            offset: base, horizon: horizon, isLast: isLast, characters: map.text.count,
            mark: map.text.withUnsafeBytes { LastCommit(offset: base, metadata: $0, horizon: horizon) })
        return PartitionCommit(partition: partition.id, offset: base, metadata: map.text)
    }

    /// As many notifications ahead of what was handed out as the horizon is to be.
    private static func countedHorizon(
        _ partition: borrowing Partition, from base: Int64, in store: borrowing NotificationStore
    ) -> HorizonEnd {
        partition.ledger.end(
            ahead: partition.horizon.countedMargin, of: partition.horizon.start(from: base)
        ) { store[$0].count }
    }

    /// The number of an assignment, in its commits: whoever had a partition before, and gets it back, must not take
    /// another's commit for its own, whatever that says.
    func owner(of id: PartitionID) -> Int64 {
        withUnsafeBytes(of: id.generation) {
            Int64(BytesHash.hash($0, seed: hashSeed) % UInt64(CommitMap.ownerLimit))
        }
    }
}
