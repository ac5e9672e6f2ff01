import PushRecords

// Creates the commits of both groups, and handles their replies.
extension CommitLedger {
    /// Begins and returns the next commit of this group, or an empty array if none is due.
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
        // Separate commits of one partition alternate with shared commits of all other partitions.
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

    /// Handles the reply to this group's commit. The next commit waits for as long as this reply took, up to
    /// `widestPauseNs`.
    ///
    /// - Returns: The partitions whose send horizon may have changed.
    mutating func finishCommit(
        of group: CommitGroup, _ outcomes: [CommitOutcome]?, journal: inout Journal
    ) -> [PartitionSlot] {
        let flight = group.rawValue
        guard commits[flight].isInFlight else { return [] }
        let entries = commits[flight].entries
        precondition(outcomes == nil || outcomes?.count == entries.count, "A reply must have an outcome for each entry")
        commits[flight].isInFlight = false
        if !commits[flight].isAlone {
            let replyNs = journal.now.ns - commits[flight].sentNs
            commits[flight].nextNs = max(
                commits[flight].nextNs, journal.now.ns + min(replyNs, Self.widestPauseNs))
        }
        // If the metadata of one entry is too large, a broker refuses all entries. Metadata that is at most half as
        // long as the longest does not count as the cause.
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

    /// Returns the offset below which the machine defers waiting notifications of a partition, because the map of the
    /// partition's latest commit was at least three quarters full. Returns `nil` if nothing has to be deferred.
    mutating func shortenSpan(_ partition: PartitionSlot, nowNs: Int64) -> Int64? {
        guard self[partition].phase == .active, self[partition].mapEighths >= 6,
            nowNs >= self[partition].nextShorteningNs
        else { return nil }
        self[partition].nextShorteningNs = nowNs + Self.shorteningPauseNs
        return self[partition].offsets.olderHalfEnd
    }
}

/// Writes the next commit of a partition: the watermark, the settled offsets above it, the send horizon and the owner.
struct CommitWriter: ~Copyable {
    private var map = CommitMapWriter()
    private let hashSeed: UInt64

    init(hashSeed: UInt64) { self.hashSeed = hashSeed }

    /// Returns the commit entry of a partition that is ready to commit. The entry counts as in flight from now on.
    mutating func entry(
        of partition: inout Partition, in store: borrowing NotificationStore, journal: inout Journal
    ) -> PartitionCommit {
        guard let base = partition.offsets.committable else {
            preconditionFailure("A partition must have an offset to commit before its commit is written")
        }
        let isLast = partition.mayLeave
        // Records that a crashed owner may have sent stay in doubt for the next owner until they are settled.
        var horizon =
            isLast
            ? partition.offsets.leavingHorizon { store[$0].doubts > 0 || store[$0].unsettled > 0 }
            : max(partition.horizon.next(from: base), partition.offsets.inheritedHorizon)
        map.start(base: base, limit: partition.metadataLimit)
        partition.offsets.write(to: &map) { store.settledIndexes(of: $0) }
        // The next owner will resend settled records that do not fit into the map, so they must be marked in doubt.
        if map.isFull { horizon = max(horizon, partition.offsets.mapEnd) }
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

    /// Returns a number that identifies the assignment. A worker that regains the partition uses the number to
    /// distinguish another worker's commit from its own commit.
    private func owner(of id: PartitionID) -> Int64 {
        withUnsafeBytes(of: id.generation) { Int64($0.hash(seed: hashSeed) % UInt64(CommitMap.ownerLimit)) }
    }
}
