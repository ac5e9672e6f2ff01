import PushRecords

// The commits of both groups, and their replies.
extension CommitLedger {
    /// Begins the next commit of this group, if one is due.
    mutating func takeCommit(
        of group: CommitGroup, in store: borrowing NotificationStore, journal: inout Journal
    ) -> [PartitionCommit] {
        let nowNs = journal.now.ns
        let flight = group.rawValue
        guard !commits[flight].isInFlight else { return [] }
        var isDue = false
        var alone: PartitionSlot?
        for partition in slots where isReadyToCommit(partition, flight, nowNs) {
            guard nowNs >= commits[flight].nextNs || self[partition].isUrgent else { continue }
            if !self[partition].commits.isAlone {
                isDue = true
            } else if alone == nil {
                alone = partition
            }
        }
        // A partition that is committed by itself takes turns with all others.
        if isDue, commits[flight].isAlone { alone = nil }
        guard isDue || alone != nil else { return [] }
        commits[flight].begin(nowNs, intervalNs: alone == nil ? settings.commitIntervalNs : nil)
        for partition in slots where isReadyToCommit(partition, flight, nowNs) {
            guard alone == nil ? !self[partition].commits.isAlone : partition == alone else { continue }
            commits[flight].append(writer.entry(of: &address(of: partition).pointee, in: store, journal: &journal))
        }
        journal.counters.commits &+= 1
        return commits[flight].entries
    }

    private func isReadyToCommit(_ partition: PartitionSlot, _ flight: Int, _ nowNs: Int64) -> Bool {
        self[partition].flight == flight && nowNs >= self[partition].commits.untilNs && self[partition].wantsCommit
    }

    /// Takes the reply to this group's commit. When replies slow down, so do commits: the pause is as long as the reply
    /// took, up to `widestPauseNs`.
    ///
    /// - Returns: the partitions whose horizon may have moved.
    mutating func finishCommit(
        of group: CommitGroup, _ outcomes: [CommitOutcome]?, journal: inout Journal
    ) -> [PartitionSlot] {
        let flight = group.rawValue
        guard commits[flight].isInFlight else { return [] }
        let entries = commits[flight].entries
        precondition(outcomes == nil || outcomes?.count == entries.count, "a commit is answered entry by entry")
        commits[flight].isInFlight = false
        if !commits[flight].isAlone {
            let replyNs = journal.now.ns - commits[flight].sentNs
            commits[flight].nextNs = max(
                commits[flight].nextNs, journal.now.ns + min(replyNs, Self.widestPauseNs))
        }
        // The broker refuses all entries because of one: much shorter metadata is not to blame.
        let longest = entries.reduce(0) { max($0, $1.metadata.count) }
        var acknowledged: [PartitionSlot] = []
        for (index, entry) in entries.enumerated() {
            let outcome = outcomes?[index] ?? .refusedByGroup
            guard let partition = find(entry.partition), let pending = self[partition].pending else {
                continue
            }
            self[partition].pending = nil
            if outcome != .acknowledged { self[partition].keepUnconfirmed(pending.mark) }
            switch outcome {
            case .acknowledged:
                commits[flight].provenNs = commits[flight].sentNs
                if self[partition].acknowledge(pending, journal: &journal) { acknowledged.append(partition) }
            case .metadataTooLarge:
                self[partition].isDirty = true
                commits[flight].nextNs = journal.now.ns
                guard pending.characters * 2 > longest else { continue }
                journal.events.append(.metadataRefused(entry.partition, characters: pending.characters))
                self[partition].halveMetadata(of: pending, journal: &journal)
            case .refused:
                self[partition].refuse(isImpossible: false, journal: &journal)
            case .refusedByGroup:
                self[partition].refuse(
                    isImpossible: false, longestPauseNs: CommitBackoff.groupPauseNs, journal: &journal)
            case .impossible:
                self[partition].refuse(isImpossible: true, journal: &journal)
            case .unattributed:
                self[partition].isDirty = true
                self[partition].commits.askAlone()
            }
        }
        return acknowledged
    }

    /// Returns the offset below which waiting notifications of a partition are deferred because the map of its last
    /// commit was three quarters full, or `nil` if none has to be.
    mutating func shortenSpan(_ partition: PartitionSlot, nowNs: Int64) -> Int64? {
        guard self[partition].phase == .active, self[partition].mapEighths >= 6,
            nowNs >= self[partition].nextShorteningNs
        else { return nil }
        self[partition].nextShorteningNs = nowNs + Self.shorteningPauseNs
        return self[partition].ledger.olderHalfEnd
    }
}

/// Writes the next commit of a partition: the watermark, what is settled above it, the send horizon, and the owner.
struct CommitWriter: ~Copyable {
    private var map = CommitMapWriter()
    private let hashSeed: UInt64

    init(hashSeed: UInt64) { self.hashSeed = hashSeed }

    /// The entry of a partition that is ready to commit; it is in flight from now on.
    mutating func entry(
        of partition: inout Partition, in store: borrowing NotificationStore, journal: inout Journal
    ) -> PartitionCommit {
        guard let base = partition.ledger.committable else {
            preconditionFailure("a partition that is ready to commit has a watermark")
        }
        let isLast = partition.mayLeave
        // What an owner that died may have sent stays in doubt for the next one until it is settled.
        var horizon =
            isLast
            ? partition.ledger.leavingHorizon { store[$0].doubts > 0 || store[$0].unsettled > 0 }
            : max(partition.horizon.next(from: base), partition.ledger.inheritedHorizon)
        map.start(base: base, limit: partition.metadataLimit)
        partition.ledger.write(to: &map) { store.settledIndexes(of: $0) }
        // The next owner will send again what is settled and was cut off, marked in doubt.
        if map.isFull { horizon = max(horizon, partition.ledger.mapEnd) }
        horizon = min(horizon, base + CommitMap.longestHorizon)
        if !isLast { partition.horizon.sent(naming: horizon) }
        map.finish(horizon: horizon, owner: owner(of: partition.id))
        if map.isFull {
            journal.counters.mapsCut &+= 1
            if !partition.isMapCut { journal.events.append(.mapCut(partition.id)) }
        }
        partition.isMapCut = map.isFull
        partition.mapEighths = map.eighths
        partition.isDirty = false
        partition.commits.sent()
        partition.pending = Partition.Pending(
            offset: base, horizon: horizon, isLast: isLast, characters: map.text.count,
            mark: map.text.withUnsafeBytes { LastCommit(offset: base, metadata: $0) })
        return PartitionCommit(partition: partition.id, offset: base, metadata: map.text)
    }

    /// A number of the assignment, so that a worker that had the partition before does not take another worker's commit
    /// for its own.
    private func owner(of id: PartitionID) -> Int64 {
        withUnsafeBytes(of: id.generation) {
            Int64(BytesHash.hash($0, seed: hashSeed) % UInt64(CommitMap.ownerLimit))
        }
    }
}
