import PushRecords

// Partitions are assigned, revoked, lost, given back and released, and their offsets are committed.
extension DeliveryMachine {
    // MARK: Assigned

    /// Begins an assignment.
    ///
    /// - Parameters:
    ///   - committedOffset: as read from the group at assignment; `nil` if there is none. All records that the log
    ///     holds may have been sent then, and `logStart` is committed at once.
    ///   - metadata: of that commit, as the broker has it. If no worker wrote it (it is empty, foreign or damaged), all
    ///     records that the log holds from there on may have been sent.
    ///   - logStart: as for `ReadingStart`.
    ///   - logEnd: as for `ReadingStart`, asked of the partition's leader after the assignment came. No record from
    ///     there on can have been read, and so sent, by an owner before, although the horizon it left behind is ahead
    ///     of the log. If it is `nil`, all below the horizon may have been sent.
    package mutating func assign(
        topic: String, partition number: Int32, role: PartitionRole, committedOffset: Int64?,
        metadata: UnsafeRawBufferPointer, logStart: Int64? = nil, logEnd: Int64? = nil
    ) -> PartitionID {
        let logStart = logStart.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let logEnd = logEnd.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let start = ReadingStart(committed: committedOffset, logStart: logStart, logEnd: logEnd)
        ledger.shortenSuspensions(flight: role.group.rawValue, nowNs: now.ns)
        var isCut = false
        if let suspended = ledger.suspended(topic: topic, number) {
            // A log that ends below what was received of it was truncated: other records have, or will have, those
            // offsets.
            isCut = logEnd.map { $0 <= ledger[suspended].ledger.highestReceived } ?? false
            if !isCut, case .at(let committed) = start, let mark = ledger[suspended].mark(committed, metadata) {
                let share = enterShare(role, topic: topic)
                ledger[suspended].group = share.group
                let id = ledger.resume(suspended, mark)
                store.budget.setRead(true, share.group)
                journal.events.append(.resumed(id))
                return id
            }
            release([ledger[suspended].id], because: { .suspendedReleased($0) })
        }
        let id = ledger.nextID()
        var base = committedOffset ?? logStart
        var lastCommit = committedOffset.map { LastCommit(offset: $0, metadata: metadata) }
        let written = committedOffset.flatMap { CommitMap(metadata: metadata, base: $0) }
        // Without a worker's metadata it is unknown what was sent.
        let from = base.flatMap { OffsetLimit.holds($0) ? $0 : nil } ?? 0
        var map = written ?? CommitMap(horizon: logEnd ?? from + SendHorizon.maximum)
        if let committed = committedOffset {
            if written == nil, OffsetLimit.holds(committed) {
                journal.events.append(.foreignCommit(id, committed: committed, doubtedBelow: map.horizon))
            }
            switch start {
            case .logChanged:
                let sent = OffsetLimit.holds(committed) ? max(map.horizon, committed) : OffsetLimit.highest
                map = CommitMap(doubtedBelow: sent, logStart: logStart, logEnd: logEnd)
                base = logStart
                // If it is lost and comes back before the next commit, it must not go on from this one.
                lastCommit = nil
                journal.events.append(.logChanged(id, committed: committed, start: logStart, end: logEnd))
            case .overtaken:
                // Committed at once: a second assignment must not count the same loss again.
                base = logStart
                journal.events.append(.overtaken(id, committed: committed, start: logStart ?? committed))
            case .nothingCommitted, .at:
                break
            }
            if let logEnd {
                // A log that ends below what the map names was truncated. Where is unknown, and it may have grown
                // since, so its records need not be the ones that were settled at their offsets.
                if map.end > (isCut ? 0 : logEnd) {
                    map.doubt()
                    journal.events.append(.logChanged(id, committed: committed, start: logStart, end: logEnd))
                }
                map.horizon = min(map.horizon, max(logEnd, base ?? 0))
            }
        }
        let share = enterShare(role, topic: topic)
        ledger.begin(
            id, topic: topic, number: number, group: share.group, tierDelayMs: share.delayMs, committed: base, map: map,
            lastCommit: lastCommit)
        if committedOffset == nil, let logEnd, logEnd > from { ledger[id.slot].unsetRecords = logEnd - from }
        store.budget.setRead(true, share.group)
        return id
    }

    /// Notes that the partition's records below `offset` were all received: what lies between is no record, as the
    /// marker of a transaction. It is committed as soon as nothing below is open.
    package mutating func reachedEnd(_ id: PartitionID, offset: Int64) {
        guard let partition = ledger.find(id), ledger[partition].phase == .active, OffsetLimit.holds(offset) else {
            return
        }
        if ledger[partition].ledger.reachedEnd(offset) { ledger[partition].isDirty = true }
    }

    /// Notes that the group assigned nothing to this worker: suspended partitions are released soon.
    package mutating func endAssignment(of group: CommitGroup) {
        ledger.shortenSuspensions(flight: group.rawValue, nowNs: now.ns)
    }

    /// Begins anew after the log of an assignment changed (`Receipt.below`): everything in it is new.
    ///
    /// Nothing more of the old log is sent, and what is on connections has no results. Records of it that are left are
    /// read again, marked in doubt.
    ///
    /// - Parameters:
    ///   - start: the offset it is read from, which is committed at once; `nil` if the first record tells.
    ///   - logEnd: the end of the new log; `nil` if it is unknown.
    /// - Returns: the new assignment; the same one if it is gone or draining.
    package mutating func beginAnew(
        _ id: PartitionID, from start: Int64? = nil, logEnd: Int64?, now: DeliveryTime
    ) -> PartitionID {
        self.now = now
        guard let old = ledger.find(id), ledger[old].phase == .active else { return id }
        let start = start.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let logEnd = logEnd.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let new = ledger.nextID()
        journal.events.append(
            .logChanged(new, committed: ledger[old].ledger.highestReceived + 1, start: start, end: logEnd))
        let map = CommitMap(doubtedBelow: ledger[old].sentEnd, logStart: start, logEnd: logEnd)
        ledger.begin(
            new, topic: ledger[old].topicText, number: ledger[old].number, group: ledger[old].group,
            tierDelayMs: ledger[old].tierDelayMs, committed: start, map: map, lastCommit: nil,
            metadataLimit: ledger[old].metadataLimit)
        store.budget.setRead(true, ledger[new.slot].group)
        release([id])
        return new
    }

    /// The share group and tier of a partition.
    private mutating func enterShare(_ role: PartitionRole, topic: String) -> (group: Int, delayMs: Int64) {
        switch role {
        case .requests(let weight, let app):
            let (group, isNew) = store.budget.group(of: topic, weight: weight)
            if isNew { dispatch.addGroup(weight: weight) } else { dispatch.setWeight(weight, of: group) }
            apps.setDefault(app, of: group)
            return (group, 0)
        case .retry(let delayMs):
            precondition(delayMs > 0, "a retry tier has a delay")
            return (0, delayMs)
        }
    }

    // MARK: Committed

    /// The next commit of this group. It is empty while a commit of it is in flight, before it is time, or when nothing
    /// changed. When it is not empty, `commitFinished` of the same group must follow.
    package mutating func takeCommit(of group: CommitGroup, now: DeliveryTime) -> [PartitionCommit] {
        self.now = now
        let entries = ledger.takeCommit(of: group, in: store, journal: &journal)
        if isAnyTierWritable { for entry in entries { shortenSpan(entry.partition.slot) } }
        return entries
    }

    /// The reply: one outcome for each entry of this group's `takeCommit`, in its order; `nil` if the commit was
    /// refused as a whole (`refusedByGroup`).
    package mutating func commitFinished(of group: CommitGroup, _ outcomes: [CommitOutcome]?, now: DeliveryTime) {
        self.now = now
        let moved = ledger.finishCommit(of: group, outcomes, journal: &journal)
        for partition in moved + ledger.renewLeases(nowNs: now.ns) { passHorizon(partition) }
    }

    /// Keeps what is settled above the oldest open record nameable: when the map is three quarters full, those of the
    /// older half that have waited for a second are deferred.
    private mutating func shortenSpan(_ partition: PartitionSlot) {
        guard let limit = ledger.shortenSpan(partition, nowNs: now.ns) else { return }
        var found: [(offset: Int64, index: Int32, slot: NotificationSlot)] = []
        forEachNotification(of: [ledger[partition].id]) { machine, slot in
            let record = machine.store[slot].record
            let offset = machine.store[record].offset
            guard machine.store[slot].state.isWaiting, machine.store[slot].deferral == nil, offset < limit,
                machine.now.ns - machine.store[record].receivedNs >= 1_000_000_000
            else { return }
            found.append((offset, machine.store[slot].index, slot))
        }
        found.sort { $0 < $1 }
        for each in found { deferToTier(each.slot, .span) }
    }

    // MARK: Lost

    /// Suspends partitions whose session was lost: nothing more of them is sent. What is on connections goes on to its
    /// end.
    ///
    /// When such a partition comes back to `assign` with the last commit of this worker, no other worker has sent
    /// anything of it meanwhile: it goes on where it was, and nothing is sent twice. Otherwise it is released.
    package mutating func suspend(_ ids: [PartitionID]) {
        let suspended = ids.filter { id in ledger.find(id).map { ledger[$0].phase == .active } ?? false }
        // One that is given up was not read to its end, so it cannot go on.
        release(ids.filter { !suspended.contains($0) })
        for id in suspended {
            store.budget.setRead(false, ledger[id.slot].group)
            ledger.suspend(id.slot, nowNs: now.ns)
        }
        forEachNotification(of: suspended) { machine, slot in
            if case .handed = machine.store[slot].state { machine.dispatch.recall(slot, in: machine.store) }
        }
    }

    // MARK: Given up

    /// Begins to give partitions up (revoked, or the worker stops): nothing more is admitted; what is not on a
    /// connection is dropped, or asked back (`recalls`); what is on one may settle. A last commit follows.
    package mutating func revoke(_ ids: [PartitionID]) {
        let revoked = ids.filter { id in ledger.find(id).map { ledger[$0].phase == .active } ?? false }
        for id in revoked {
            // If nothing was ever read or committed, there is nothing to say in a last commit.
            ledger[id.slot].phase = ledger[id.slot].ledger.committable == nil ? .left : .draining
            ledger[id.slot].isDirty = true
            dropWaitingRecords(id.slot)
        }
        forEachNotification(of: revoked) { machine, slot in
            if machine.store[slot].state.isWaiting {
                machine.drop(slot)
            } else if case .handed = machine.store[slot].state {
                machine.dispatch.recall(slot, in: machine.store)
            }
        }
    }

    /// The drain limit passed: the last commit goes out now, with a horizon that covers what is unanswered.
    package mutating func stopWaiting(_ ids: [PartitionID]) {
        for id in ids {
            guard let partition = ledger.find(id), ledger[partition].phase == .draining else { continue }
            ledger[partition].phase = .leaving
        }
    }

    /// Whether everything of a revoked partition ended and its last commit was acknowledged, so that it may be
    /// released; true of an assignment that is gone.
    package func isDrained(_ id: PartitionID) -> Bool { ledger.find(id).map { ledger[$0].phase == .left } ?? true }

    /// Forgets assignments: lost ones at once, revoked ones when they are drained or nothing more can be done. What
    /// still comes back for them is dropped, and counted as late.
    ///
    /// - Parameter event: logged for each, if given.
    package mutating func release(_ ids: [PartitionID], because event: ((PartitionID) -> DeliveryEvent)? = nil) {
        let released = ids.filter { ledger.find($0) != nil }
        for id in released {
            if let event { journal.events.append(event(id)) }
            dropWaitingRecords(id.slot)
        }
        forEachNotification(of: released) { machine, slot in
            if machine.store[slot].state.isWaiting {
                machine.drop(slot)
            } else if machine.store[slot].state.isConcluded {
                if machine.store[slot].unproduced > 0 { machine.store.releaseBytes(slot) }
                machine.free(slot)
            }
        }
        for id in released where ledger.find(id) != nil {
            if ledger[id.slot].phase != .suspended { store.budget.setRead(false, ledger[id.slot].group) }
            ledger.forget(id.slot, in: &store)
        }
    }

    /// Drops records, or their rest, that were not admitted.
    private mutating func dropWaitingRecords(_ partition: PartitionSlot) {
        while ledger[partition].firstAdmitting != .none {
            let record = ledger[partition].firstAdmitting
            ledger.finishAdmission(partition, in: &store)
            store[record].isDropped = true
            store.releaseBody(record)
        }
    }

    private mutating func forEachNotification(
        of ids: [PartitionID], _ body: (inout DeliveryMachine, NotificationSlot) -> Void
    ) {
        guard !ids.isEmpty else { return }
        var isChosen = [Bool](repeating: false, count: ledger.count)
        for id in ids { isChosen[Int(id.slot.number)] = true }
        for slot in store.slots where store[slot].state != .free {
            let partition = store[recordOf: slot].partition
            if partition != .none, isChosen[Int(partition.number)] { body(&self, slot) }
        }
    }

    /// Drops a notification that is not on a connection: its record does not settle in this assignment.
    mutating func drop(_ slot: NotificationSlot) {
        takeOut(slot)
        leaveDeviceQueue(slot)
        store[recordOf: slot].isDropped = true
        store.leaveDoubt(slot)
        store.releaseBytes(slot)
        free(slot)
    }
}
