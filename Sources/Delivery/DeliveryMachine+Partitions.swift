import PushRecords

// Assigns, revokes, suspends and releases partitions, and commits their offsets.
extension DeliveryMachine {
    // MARK: Assigned

    /// Begins an assignment of a partition.
    ///
    /// - Parameters:
    ///   - committedOffset: The group's committed offset, or `nil` if the group has committed none. If `nil`, the
    ///     machine immediately commits `logStart`, if known, and marks all records below `logEnd` in doubt.
    ///   - metadata: The metadata of the group's commit. If no worker wrote the metadata (it is empty, foreign or
    ///     damaged), all records from the committed offset to the log's end are in doubt.
    ///   - logStart: The log start offset of the partition's leader, or another offset at which to start if the group
    ///     has committed none. `nil` or a negative number if unknown.
    ///   - logEnd: The end of the log, as for `AssignmentStart`, queried from the partition's leader after the
    ///     assignment, or `logStart` for a new partition. No previous owner can have sent records at or above `logEnd`,
    ///     even if the inherited send horizon is higher. If `nil`, all records below that horizon are in doubt.
    package mutating func assign(
        topic: String, partition number: Int32, role: PartitionRole, committedOffset: Int64?,
        metadata: UnsafeRawBufferPointer, logStart: Int64? = nil, logEnd: Int64? = nil
    ) -> PartitionID {
        let logStart = logStart.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let logEnd = logEnd.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let start = AssignmentStart(committed: committedOffset, logStart: logStart, logEnd: logEnd)
        ledger.shortenSuspensions(flight: role.group.rawValue, nowNs: now.ns)
        var isCut = false
        if let suspended = ledger.suspended(topic: topic, number) {
            // If the log ends below an offset that was received or settled, it was truncated, and new records reuse the
            // offsets from the log's end on.
            isCut = logEnd.map { $0 < ledger[suspended].offsets.mapEnd } ?? false
            if !isCut, case .at(let committed) = start, let mark = ledger[suspended].mark(committed, metadata) {
                let share = enterShare(role, topic: topic)
                ledger[suspended].group = share.group
                let id = ledger.resume(suspended, mark)
                store.budget.setRead(true, share.group)
                journal.events.append(.resumed(id))
                return id
            }
            release([ledger[suspended].id])
        }
        let id = ledger.nextID()
        var base = committedOffset ?? logStart
        let written = committedOffset.flatMap { CommitMap(metadata: metadata, base: $0) }
        // Metadata that no worker wrote does not show which commit it belongs to: two such commits may be equal.
        var lastCommit = written == nil ? nil : committedOffset.map { LastCommit(offset: $0, metadata: metadata) }
        // Without a worker's metadata it is unknown which records were sent, so all records are in doubt: up to the
        // log's end or, if the end is unknown, for `SendHorizon.maximum` offsets.
        let from = base.flatMap { OffsetLimit.holds($0) ? $0 : nil } ?? 0
        var map = written ?? CommitMap(horizon: logEnd ?? from + Partition.SendHorizon.maximum)
        if let committed = committedOffset {
            if written == nil, OffsetLimit.holds(committed) {
                journal.events.append(.foreignCommit(id, committed: committed, doubtedBelow: map.horizon))
            }
            switch start {
            case .logChanged:
                let sent = OffsetLimit.holds(committed) ? max(map.horizon, committed) : OffsetLimit.highest
                map = CommitMap(doubtedBelow: sent, logStart: logStart, logEnd: logEnd)
                base = logStart
                // If the partition is lost and assigned again before the next commit, it must not be resumed from a
                // commit for the old log.
                lastCommit = nil
                journal.events.append(.logChanged(id, committed: committed, start: logStart, end: logEnd))
            case .overtaken:
                // The machine commits `logStart` immediately, so that a later assignment does not report the skipped
                // offsets again.
                base = logStart
                journal.events.append(.overtaken(id, committed: committed, start: logStart ?? committed))
            case .nothingCommitted, .at:
                break
            }
            if let logEnd {
                // If the log ends below the map's end, or was cut (`isCut`), it was truncated at an unknown offset. The
                // log may have grown since then, so other records may have the offsets that the map lists as settled.
                if map.end > (isCut ? 0 : logEnd) {
                    map.doubt()
                    journal.events.append(.logChanged(id, committed: committed, start: logStart, end: logEnd))
                }
                map.horizon = min(map.horizon, max(logEnd, base ?? 0))
            }
        }
        let share = enterShare(role, topic: topic)
        ledger.begin(
            Partition(
                id: id, topic: topic, number: number, group: share.group, tierDelayMs: share.delayMs, committed: base,
                map: map, lastCommit: lastCommit, settings: settlement.settings))
        if committedOffset == nil, let logEnd, logEnd > from { ledger[id.slot].unsetRecords = logEnd - from }
        store.budget.setRead(true, share.group)
        return id
    }

    /// Reports that all records below `offset` were received. Offsets that were not received have no record to consume,
    /// for example transaction markers. `offset` is committed once no record below it is open.
    package mutating func reachedEnd(_ id: PartitionID, offset: Int64) {
        guard let partition = ledger.find(id), ledger[partition].phase == .active, OffsetLimit.holds(offset) else {
            return
        }
        if ledger[partition].offsets.reachedEnd(offset) { ledger[partition].isDirty = true }
    }

    /// Handles an assignment that adds no partition. Unless they are assigned again, the group's suspended partitions
    /// are released within ten seconds, because the group may have assigned them to another worker.
    package mutating func endAssignment(of group: CommitGroup) {
        ledger.shortenSuspensions(flight: group.rawValue, nowNs: now.ns)
    }

    /// Begins a new assignment after the topic was recreated or the partition's log was truncated.
    ///
    /// No more notifications of the old log are sent, and unanswered sends get no results. Records of the new log below
    /// the highest offset that may have been sent are marked in doubt.
    ///
    /// - Parameters:
    ///   - start: The offset at which to start consuming the new log, committed immediately. If `nil`, the first
    ///     received record determines the offset.
    ///   - logEnd: The end of the new log, or `nil` if unknown.
    /// - Returns: The id of the new assignment, or `id` if the old assignment is no longer active.
    package mutating func beginAnew(
        _ id: PartitionID, from start: Int64? = nil, logEnd: Int64?, now: DeliveryTime
    ) -> PartitionID {
        self.now = now
        guard let old = ledger.find(id), ledger[old].phase == .active else { return id }
        let start = start.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let logEnd = logEnd.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let new = ledger.nextID()
        journal.events.append(
            .logChanged(new, committed: ledger[old].offsets.highestReceived + 1, start: start, end: logEnd))
        let map = CommitMap(doubtedBelow: ledger[old].sentEnd, logStart: start, logEnd: logEnd)
        ledger.begin(
            Partition(
                id: new, topic: ledger[old].topicText, number: ledger[old].number, group: ledger[old].group,
                tierDelayMs: ledger[old].tierDelayMs, committed: start, map: map, settings: settlement.settings))
        ledger[new.slot].metadataLimit = ledger[old].metadataLimit
        store.budget.setRead(true, ledger[new.slot].group)
        release([id])
        return new
    }

    /// Sets the weight and default app of a request topic. Returns the partition's topic group, and the delay of its
    /// retry tier (0 for a request topic).
    private mutating func enterShare(_ role: PartitionRole, topic: String) -> (group: Int, delayMs: Int64) {
        switch role {
        case .requests(let weight, let app):
            let group = store.budget.group(of: topic, weight: weight)
            dispatch.setWeight(weight, of: group)
            apps.setDefault(app, of: group)
            return (group, 0)
        case .retry(let delayMs):
            precondition(delayMs > 0, "The delay of a retry tier must be above 0")
            return (0, delayMs)
        }
    }

    // MARK: Committed

    /// Returns the next commit of this consumer group, or an empty array if a commit is in flight, not yet due, or not
    /// needed. After the reply to the commit, call `commitFinished` with the same group.
    package mutating func takeCommit(of group: CommitGroup, now: DeliveryTime) -> [PartitionCommit] {
        self.now = now
        let entries = ledger.takeCommit(of: group, in: store, journal: &journal)
        if settlement.tiers.isAnyWritable { for entry in entries { shortenSpan(entry.partition.slot) } }
        return entries
    }

    /// Handles the reply to a commit, with one outcome for each entry of `takeCommit`, in the same order. `outcomes` is
    /// `nil` if the group or its coordinator refused the whole commit (`refusedByGroup`).
    package mutating func commitFinished(of group: CommitGroup, _ outcomes: [CommitOutcome]?, now: DeliveryTime) {
        self.now = now
        let moved = ledger.finishCommit(of: group, outcomes, journal: &journal)
        for partition in moved + ledger.renewLeases(nowNs: now.ns) { passHorizon(partition) }
    }

    /// If the commit map is at least three quarters full, defers the waiting notifications of the older half of the
    /// partition's open records, so that the watermark can advance. Records received less than a second ago are not
    /// deferred.
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

    /// Suspends partitions after the worker's session in the group was lost. Notifications of these partitions are no
    /// longer sent, and those already on a connection are completed.
    ///
    /// If no other worker has committed by the next `assign`, no other worker has sent anything, because a worker
    /// commits before it sends. The partition then resumes, and nothing is sent twice. Otherwise the partition is
    /// released.
    package mutating func suspend(_ ids: [PartitionID]) {
        let suspended = ids.filter { id in ledger.find(id).map { ledger[$0].phase == .active } ?? false }
        // A draining partition may have dropped records, so it cannot be resumed.
        release(ids.filter { !suspended.contains($0) })
        for id in suspended {
            store.budget.setRead(false, ledger[id.slot].group)
            ledger.suspend(id.slot, nowNs: now.ns)
        }
        forEachNotification(of: suspended) { machine, slot in
            machine.dispatch.recallHanded(slot, in: machine.store)
        }
    }

    // MARK: Given up

    /// Begins to give up partitions, because they were revoked or the worker stops. No more of their notifications are
    /// admitted. Notifications on a connection may settle. All others are dropped, or recalled from the transport
    /// (`recalls`). A last commit of each partition follows, unless none is needed.
    package mutating func revoke(_ ids: [PartitionID]) {
        let revoked = ids.filter { id in ledger.find(id).map { ledger[$0].phase == .active } ?? false }
        for id in revoked {
            // If no record was received or committed, no last commit is needed.
            ledger[id.slot].phase = ledger[id.slot].offsets.committable == nil ? .left : .draining
            ledger[id.slot].isDirty = true
            dropWaitingRecords(id.slot)
        }
        forEachNotification(of: revoked) { machine, slot in
            if machine.store[slot].state.isWaiting { machine.drop(slot) }
            machine.dispatch.recallHanded(slot, in: machine.store)
        }
    }

    /// Stops waiting for the open notifications of draining partitions, at the drain limit. The last commits are sent
    /// now, with send horizons above the records of unanswered sends.
    package mutating func stopWaiting(_ ids: [PartitionID]) {
        for id in ids {
            guard let partition = ledger.find(id), ledger[partition].phase == .draining else { continue }
            ledger[partition].phase = .leaving
        }
    }

    /// Returns whether the last commit of a revoked partition is acknowledged, impossible or not needed, so that the
    /// partition may be released. An assignment that has ended counts as drained.
    package func isDrained(_ id: PartitionID) -> Bool { ledger.find(id).map { ledger[$0].phase == .left } ?? true }

    /// Ends assignments. Call this for revoked partitions once they are drained or the time limit has passed. The
    /// machine drops later completions and acknowledgements of these assignments, and counts them as late.
    package mutating func release(_ ids: [PartitionID]) {
        let released = ids.filter { ledger.find($0) != nil }
        for id in released { dropWaitingRecords(id.slot) }
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

    /// Drops the partition's records that wait for admission, including the rest of a partly admitted one.
    private mutating func dropWaitingRecords(_ partition: PartitionSlot) {
        while ledger[partition].firstAdmitting != .none {
            let record = ledger[partition].firstAdmitting
            ledger[partition].finishAdmission(in: &store)
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

    /// Drops a notification that is not on a connection. Its record does not settle in this assignment.
    mutating func drop(_ slot: NotificationSlot) {
        takeOut(slot)
        leaveDeviceQueue(slot)
        store[recordOf: slot].isDropped = true
        // `Record.doubts` still counts the notification, so that the horizon of the final commit is above the record.
        if store[slot].tries.past == .inDoubt { store[slot].tries.past = .tried }
        store.releaseBytes(slot)
        free(slot)
    }
}
