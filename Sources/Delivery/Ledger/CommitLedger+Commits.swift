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
        let ready = slots.filter {
            self[$0].flight == flight && nowNs >= self[$0].commits.untilNs && self[$0].wantsCommit
        }
        let due = ready.filter { nowNs >= dueNs($0) }
        let isDue = due.contains { !self[$0].commits.isAlone }
        // Separate commits of one partition alternate with shared commits of all other partitions.
        let alone = isDue && commits[flight].isAlone ? nil : due.first { self[$0].commits.isAlone }
        guard isDue || alone != nil else { return [] }
        commits[flight].entries.removeAll(keepingCapacity: true)
        commits[flight].isInFlight = true
        commits[flight].sentNs = nowNs
        commits[flight].isAlone = alone != nil
        // A separate commit of one partition does not delay the next commit.
        if alone == nil {
            commits[flight].nextNs = nowNs + min(settings.commitIntervalNs, Self.busyIntervalNs)
            commits[flight].calmNs = nowNs + settings.commitIntervalNs
            commits[flight].settled = 0
        }
        for partition in ready where alone == nil ? !self[partition].commits.isAlone : partition == alone {
            commits[flight].entries.append(
                address(of: partition).pointee.makeCommit(
                    with: &map, hashSeed: settings.hashSeed, in: store, journal: &journal))
        }
        journal.counters.commits &+= 1
        return commits[flight].entries
    }

    /// Returns when the next commit of the partition may be sent, or 0 if it is urgent.
    func dueNs(_ partition: PartitionSlot) -> Int64 {
        if self[partition].isUrgent { return 0 }
        let flight = self[partition].flight
        let nextNs = commits[flight].nextNs
        return commits[flight].settled >= Self.busySettled ? nextNs : max(nextNs, commits[flight].calmNs)
    }

    /// Handles the reply to this group's commit. After a shared commit, the next commit that is not urgent waits for as
    /// long as this reply took, up to `widestPauseNs`.
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
        // If the metadata of one entry is too large, librdkafka reports the error for all entries. Metadata that is at
        // most half as long as the longest does not count as the cause.
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
                self[partition].commits.isAskedAgain = true
                guard entry.metadata.count * 2 > longest else { continue }
                journal.events.append(.metadataRefused(entry.partition, characters: entry.metadata.count))
                self[partition].halveMetadata(of: entry, journal: &journal)
            case .refused, .refusedByGroup, .impossible:
                self[partition].refuse(outcome, journal: &journal)
            case .unattributed:
                self[partition].isDirty = true
                self[partition].commits.isAlone = true
                self[partition].commits.isAskedAgain = true
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

extension Partition {
    /// Returns the next commit of a partition that is ready to commit: the watermark, and in the metadata the settled
    /// offsets above it, the send horizon and the owner. The commit counts as in flight from now on.
    fileprivate mutating func makeCommit(
        with map: inout CommitMapWriter, hashSeed: UInt64, in store: borrowing NotificationStore,
        journal: inout Journal
    ) -> PartitionCommit {
        guard let base = offsets.committable else {
            preconditionFailure("A partition must have an offset to commit before its commit is written")
        }
        let isLast = mayLeave
        // Records that a previous owner may have sent stay in doubt for the next owner until they are settled.
        var horizon =
            isLast
            ? offsets.leavingHorizon { store[$0].doubts > 0 || store[$0].unsettled > 0 }
            : max(self.horizon.next(from: base), offsets.inheritedHorizon)
        map.start(base: base, limit: metadataLimit)
        offsets.write(to: &map) { store.settledIndexes(of: $0) }
        // The next owner will resend settled records that do not fit into the map, so they must be marked in doubt.
        if map.isFull { horizon = max(horizon, offsets.mapEnd) }
        horizon = min(horizon, base + CommitMap.longestHorizon)
        if !isLast { self.horizon.sent(naming: horizon) }
        // The owner number identifies the assignment. A worker that regains the partition uses it to distinguish
        // another worker's commit from its own commit.
        let owner = withUnsafeBytes(of: id.generation) { Int64($0.hash(seed: hashSeed) % UInt64(CommitMap.ownerLimit)) }
        map.finish(horizon: horizon, owner: owner)
        if map.isFull {
            journal.counters.mapsCut &+= 1
            if !isMapCut { journal.events.append(.mapCut(id)) }
        }
        isMapCut = map.isFull
        mapEighths = map.eighths
        isDirty = false
        commits.isAskedAgain = false
        pending = Pending(
            horizon: horizon, isLast: isLast, mark: map.text.withUnsafeBytes { LastCommit(offset: base, metadata: $0) })
        return PartitionCommit(partition: id, offset: base, metadata: map.text)
    }
}
