import PushRecords

extension DeliveryMachine {
    /// Where to read a partition from that was assigned, before `assign` (which decides likewise).
    ///
    /// - Parameters:
    ///   - committed: as read from the group; `nil`: there is none.
    ///   - logStart: the first offset that the partition's leader has; `nil`, or negative: unknown.
    ///   - logEnd: its last stable offset, which is as far as a reader of committed records gets; where something
    ///     committed lies beyond that, its high watermark, since a transaction may be open. `nil`, or negative:
    ///     unknown.
    package static func readingStart(committed: Int64?, logStart: Int64?, logEnd: Int64?) -> ReadingStart {
        guard let committed else { return .beginning(because: .nothingCommitted) }
        guard OffsetLimit.holds(committed) else { return .beginning(because: .notBelievable) }
        if let logEnd, logEnd >= 0, committed > logEnd { return .beginning(because: .beyondEnd) }
        if let logStart, logStart >= 0, committed < logStart { return .beginning(because: .overtaken) }
        return .at(committed)
    }

    /// Begins an assignment.
    ///
    /// - Parameters:
    ///   - committedOffset: as read from the group at assignment; `nil`: there is none.
    ///   - metadata: of that commit, as the broker has it; of damaged or foreign bytes nothing is believed (there is an
    ///     event), but that records from there on may have been sent.
    ///   - logStart: as for `readingStart`.
    ///   - logEnd: as for `readingStart`, asked of the partition's leader after the assignment came: no record from
    ///     there on can have been read, and so sent, by an owner before, although the reach it left behind is ahead of
    ///     the log. `nil`: unknown, all below the reach may have been.
    package mutating func assign(
        topic: String, partition number: Int32, role: PartitionRole, committedOffset: Int64?,
        metadata: UnsafeRawBufferPointer, logStart: Int64? = nil, logEnd: Int64? = nil
    ) -> PartitionID {
        let logStart = logStart.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let logEnd = logEnd.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let start = Self.readingStart(committed: committedOffset, logStart: logStart, logEnd: logEnd)
        var sentBefore = ledger.detachedEnd(topic: topic, number)
        // Of the assignment that was lost: its commits name it.
        var lostOwner: Int64?
        var isCut = false
        if let suspended = ledger.suspended(topic: topic, number) {
            // A log that ends below what was received of it was cut: other records have, or will have, those offsets.
            isCut = logEnd.map { $0 <= ledger.partitions[suspended].ledger.highestReceived } ?? false
            if !isCut, case .at(let committed) = start,
                let mark = ledger.partitions[suspended].mark(committed, metadata)
            {
                return resume(suspended, mark, role, logEnd: logEnd)
            }
            sentBefore = max(sentBefore, ledger.partitions[suspended].sentEnd)
            if !isCut { lostOwner = ledger.owner(of: ledger.partitions[suspended].id) }
            release([ledger.partitions[suspended].id], because: { .suspendedReleased($0) })
        }
        let id = ledger.nextID()
        var map = CommitMap()
        var base = committedOffset
        var lastCommit = committedOffset.map { CommitMark(offset: $0, metadata: metadata, reach: .none) }
        var isTold = false
        if let committed = committedOffset {
            var isIgnored = false
            if !metadata.isEmpty {
                if let read = CommitMap(metadata: metadata, base: committed) {
                    map = read
                    isTold = true
                } else if OffsetLimit.holds(committed) {
                    // Whoever wrote that may have sent what is above his offset.
                    map.reach = committed + Reach.maximum
                    isIgnored = true
                }
            }
            switch start {
            case .beginning(because: .notBelievable), .beginning(because: .beyondEnd):
                let isBelieved = OffsetLimit.holds(committed)
                let sent = isBelieved ? max(map.reach ?? committed, committed) : OffsetLimit.highest
                map = CommitMap(reach: doubt(below: sent, logStart: logStart, logEnd: logEnd))
                base = logStart
                // It does not go on from that commit, should it be lost and come back before the next one.
                lastCommit = nil
                journal.events.append(.logChanged(id, committed: committed, start: logStart, end: logEnd))
            case .beginning(because: .overtaken):
                journal.events.append(.overtaken(id, committed: committed, start: logStart ?? committed))
                if isIgnored { journal.events.append(.metadataIgnored(id)) }
            case .beginning(because: .nothingCommitted), .at:
                if isIgnored { journal.events.append(.metadataIgnored(id)) }
            }
            // One that ends below what the map names was cut, too. Nobody knows where, and it may have grown since: no
            // record in it need be the one that was settled at its offset.
            if let logEnd, map.end > (isCut ? 0 : logEnd) {
                map.doubt()
                journal.events.append(.logChanged(id, committed: committed, start: logStart, end: logEnd))
            }
            if let reach = map.reach, let logEnd, reach > max(logEnd, base ?? 0) {
                map.reach = max(logEnd, base ?? 0)
                map.reachIndexes = .max
            }
        }
        // The group has nothing of what was committed before, or what no worker wrote. Whoever had the partition last,
        // and lost it or goes on with records of its log, knows how far it was sent. So it is where the group has an
        // older commit than its last one, since the group's own log was cut: what was sent after that is known here
        // alone.
        if let lostOwner, map.owner == lostOwner { isTold = false }
        let sentEnd = min(sentBefore, logEnd ?? OffsetLimit.highest)
        if !isTold, sentEnd > max(base ?? logStart ?? 0, map.reach ?? 0) {
            map.reach = sentEnd
            map.reachIndexes = .max
        }
        let share = enterShare(role, topic: topic)
        ledger.begin(
            id, topic: topic, number: number, group: share.group, tierDelayMs: share.delayMs, committed: base, map: map,
            lastCommit: lastCommit)
        setShared(id.slot, true)
        return id
    }

    /// The log of an assignment is another one than it was (`Receipt.below`): everything in it is new.
    ///
    /// What is open of the old log goes on to its end and has its results, but commits nothing. What may have been sent
    /// of the offsets below is marked in doubt when it comes. Some of the old log may be left in the new one, and be
    /// read by whoever comes after us: what lies at or above the old reach is sent once a commit of the new beginning
    /// names it.
    ///
    /// - Parameters:
    ///   - start: where it is read from, which is committed at once; `nil`: unknown, what comes first tells.
    ///   - logEnd: of the log as it is now; `nil`: unknown.
    /// - Returns: the new assignment, which the records belong to from now on; the same one when it is gone or
    ///   draining.
    package mutating func beginAnew(
        _ id: PartitionID, from start: Int64? = nil, logEnd: Int64?, now: DeliveryTime
    ) -> PartitionID {
        self.now = now
        guard let old = ledger.partitions.find(id), ledger.partitions[old].phase == .active else { return id }
        let start = start.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let logEnd = logEnd.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let sent = max(
            ledger.partitions[old].sentEnd, ledger.partitions[old].ledger.committable ?? 0,
            ledger.partitions[old].ledger.highestReceived + 1)
        let new = ledger.nextID()
        journal.events.append(
            .logChanged(new, committed: ledger.partitions[old].ledger.highestReceived + 1, start: start, end: logEnd))
        let map = CommitMap(reach: doubt(below: sent, logStart: start, logEnd: logEnd))
        ledger.begin(
            new, topic: ledger.partitions[old].topicText, number: ledger.partitions[old].number,
            group: ledger.partitions[old].group, tierDelayMs: ledger.partitions[old].tierDelayMs, committed: start,
            map: map, lastCommit: nil, metadataLimit: ledger.partitions[old].metadataLimit)
        setShared(new.slot, true)
        setShared(old, false)
        ledger.detach(old)
        return new
    }

    /// The metadata of a commit at `start`, after `beginAnew`: what may have been sent of it is in doubt.
    package func metadata(toBeginAt start: Int64, _ id: PartitionID) -> [UInt8] {
        guard let partition = ledger.partitions.find(id),
            ledger.partitions[partition].ledger.inheritedReach.offset > start
        else { return [] }
        let reach = ledger.partitions[partition].ledger.inheritedReach
        var writer = CommitMapWriter()
        writer.start(base: start, limit: ledger.partitions[partition].metadataLimit)
        writer.finish(reach: reach.offset, indexes: reach.indexes, owner: ledger.owner(of: id))
        return writer.text
    }

    /// Records of a changed log that are marked, although they may never have been sent: all below the offset that the
    /// old one had reached, as far as there were any.
    private func doubt(below sent: Int64, logStart: Int64?, logEnd: Int64?) -> Int64? {
        let end = min(sent, logEnd ?? OffsetLimit.highest, (logStart ?? 0) + CommitMap.highestReach)
        return end > (logStart ?? 0) ? end : nil
    }

    /// The new beginning of its log was committed, which names all that may be sent of the old one; or never will be.
    mutating func openDetached(of id: PartitionID) {
        for old in ledger.detached(before: [id]) {
            guard let partition = ledger.partitions.find(old) else { continue }
            ledger.allowAll(partition)
            passReach(partition)
        }
    }

    /// It is read, or not any more.
    mutating func setShared(_ partition: PartitionSlot, _ isShared: Bool) {
        guard ledger.setShared(partition, isShared) else { return }
        room.setRead(isShared, ledger.partitions[partition].group)
    }

    /// The share group and tier of what a partition is read for.
    mutating func enterShare(_ role: PartitionRole, topic: String) -> (group: Int, delayMs: Int64) {
        switch role {
        case .requests(let weight, let app):
            let (group, isNew) = room.group(
                of: topic, weight: weight, kept: room.hasGroup(topic) ? [] : ledger.groups)
            if isNew { dispatch.addGroup(weight: weight) } else { dispatch.setWeight(weight, of: group) }
            directory.setDefault(app, of: group)
            return (group, 0)
        case .retry(let delayMs):
            precondition(delayMs > 0, "a retry tier has a delay")
            return (0, delayMs)
        }
    }
}
