import PushRecords

// Partitions are assigned, revoked, lost, given back and released, and their offsets are committed.
extension DeliveryMachine {
    // MARK: Assigned

    /// Begins an assignment.
    ///
    /// - Parameters:
    ///   - committedOffset: as read from the group at assignment; `nil` if there is none.
    ///   - metadata: of that commit, as the broker has it. Damaged or foreign bytes are not believed (there is an
    ///     event), but records from there on may have been sent.
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
        var sentBefore = ledger.detachedEnd(topic: topic, number)
        // The number by which the commits of the lost assignment are known.
        var lostOwner: Int64?
        var isCut = false
        if let suspended = ledger.suspended(topic: topic, number) {
            // A log that ends below what was received of it was cut: other records have, or will have, those offsets.
            isCut = logEnd.map { $0 <= ledger[suspended].ledger.highestReceived } ?? false
            if !isCut, case .at(let committed) = start,
                let mark = ledger[suspended].mark(committed, metadata)
            {
                // It goes on under a new name.
                _ = enterShare(role, topic: topic)
                let id = ledger.resume(suspended, mark, logEnd: logEnd)
                setShared(suspended, true)
                journal.events.append(.resumed(id))
                return id
            }
            sentBefore = max(sentBefore, ledger[suspended].sentEnd)
            if !isCut { lostOwner = ledger.writer.owner(of: ledger[suspended].id) }
            release([ledger[suspended].id], because: { .suspendedReleased($0) })
        }
        let id = ledger.nextID()
        var map = CommitMap()
        var base = committedOffset
        var lastCommit = committedOffset.map { LastCommit(offset: $0, metadata: metadata, horizon: .none) }
        var isTold = false
        if let committed = committedOffset {
            var isIgnored = false
            if !metadata.isEmpty {
                if let read = CommitMap(metadata: metadata, base: committed) {
                    map = read
                    isTold = true
                } else if OffsetLimit.holds(committed) {
                    // Its writer may have sent what is above its offset.
                    map.reach = committed + SendHorizon.maximum
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
            // A log that ends below what the map names was cut, too. Where is unknown, and it may have grown since, so
            // its records need not be the ones that were settled at their offsets.
            if let logEnd, map.end > (isCut ? 0 : logEnd) {
                map.doubt()
                journal.events.append(.logChanged(id, committed: committed, start: logStart, end: logEnd))
            }
            if let reach = map.reach, let logEnd, reach > max(logEnd, base ?? 0) {
                map.reach = max(logEnd, base ?? 0)
                map.reachIndexes = .max
            }
        }
        // The group has nothing of what was committed before, or something that no worker wrote, or an older commit
        // than its last one since the group's own log was cut. If this worker had the partition last, and lost it or
        // goes on with records of its log, it alone knows how far was sent.
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
    /// read by a successor: what lies at or above the old horizon is sent once a commit of the new beginning names it.
    ///
    /// - Parameters:
    ///   - start: where it is read from, which is committed at once; `nil` if what comes first tells.
    ///   - logEnd: of the log as it is now; `nil` if it is unknown.
    /// - Returns: the new assignment, which the records belong to from now on; the same one when it is gone or
    ///   draining.
    package mutating func beginAnew(
        _ id: PartitionID, from start: Int64? = nil, logEnd: Int64?, now: DeliveryTime
    ) -> PartitionID {
        self.now = now
        guard let old = ledger.find(id), ledger[old].phase == .active else { return id }
        let start = start.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let logEnd = logEnd.flatMap { OffsetLimit.holds($0) ? $0 : nil }
        let sent = max(
            ledger[old].sentEnd, ledger[old].ledger.committable ?? 0,
            ledger[old].ledger.highestReceived + 1)
        let new = ledger.nextID()
        journal.events.append(
            .logChanged(new, committed: ledger[old].ledger.highestReceived + 1, start: start, end: logEnd))
        let map = CommitMap(reach: doubt(below: sent, logStart: start, logEnd: logEnd))
        ledger.begin(
            new, topic: ledger[old].topicText, number: ledger[old].number,
            group: ledger[old].group, tierDelayMs: ledger[old].tierDelayMs, committed: start,
            map: map, lastCommit: nil, metadataLimit: ledger[old].metadataLimit)
        setShared(new.slot, true)
        setShared(old, false)
        ledger.detach(old)
        return new
    }

    /// Records of a changed log that are marked, although they may never have been sent: all below the offset that the
    /// old one had reached, as far as there were any.
    private func doubt(below sent: Int64, logStart: Int64?, logEnd: Int64?) -> Int64? {
        let end = min(sent, logEnd ?? OffsetLimit.highest, (logStart ?? 0) + CommitMap.highestReach)
        return end > (logStart ?? 0) ? end : nil
    }

    /// The new beginning of its log was committed, which names all that may be sent of the old one; or never will be.
    private mutating func openDetached(of id: PartitionID) {
        for old in ledger.detached(before: [id]) {
            guard let partition = ledger.find(old) else { continue }
            ledger[partition].horizon.allowAll()
            passHorizon(partition)
        }
    }

    /// Counts it as one that is read, or no longer.
    private mutating func setShared(_ partition: PartitionSlot, _ isShared: Bool) {
        guard ledger[partition].isShared != isShared else { return }
        ledger[partition].isShared = isShared
        budget.setRead(isShared, ledger[partition].group)
    }

    /// The share group and tier of what a partition is read for.
    private mutating func enterShare(_ role: PartitionRole, topic: String) -> (group: Int, delayMs: Int64) {
        switch role {
        case .requests(let weight, let app):
            let kept = budget.hasGroup(topic) ? [] : Set(ledger.slots.map { ledger[$0].group })
            let (group, isNew) = budget.group(of: topic, weight: weight, kept: kept)
            if isNew { dispatch.addGroup(weight: weight) } else { dispatch.setWeight(weight, of: group) }
            requests.directory.setDefault(app, of: group)
            return (group, 0)
        case .retry(let delayMs):
            precondition(delayMs > 0, "a retry tier has a delay")
            return (0, delayMs)
        }
    }

    // MARK: Committed

    /// What this group is to commit now. It is empty while a commit of it is in flight, before it is time, or when
    /// nothing changed. When it is not empty, `commitFinished` of the same group must follow.
    package mutating func takeCommit(of group: CommitGroup, now: DeliveryTime) -> [PartitionCommit] {
        self.now = now
        let ids = ledger.takeCommit(of: group, in: store, journal: &journal)
        guard !ids.isEmpty else { return [] }
        for id in ids { shortenSpan(id) }
        return ledger.commits[group.rawValue].entries
    }

    /// The reply: one outcome for each entry of this group's `takeCommit`, in its order; `nil` if the commit was
    /// refused as a whole (`refusedByGroup`).
    package mutating func commitFinished(of group: CommitGroup, _ outcomes: [CommitOutcome]?, now: DeliveryTime) {
        self.now = now
        let ids = ledger.beginReply(of: group, nowNs: now.ns)
        precondition(outcomes == nil || outcomes?.count == ids.count, "a commit is answered entry by entry")
        guard !ids.isEmpty else { return }
        let longest = ledger.longestPending(ids)
        for (index, id) in ids.enumerated() {
            switch ledger.replied(id, outcomes?[index] ?? .refusedByGroup, longest: longest, journal: &journal) {
            case .nothing:
                break
            case .acknowledged(let partition):
                passHorizon(partition)
                openDetached(of: id)
            case .impossible(let partition):
                // What waits for this commit lets others of its device go first, which other partitions brought.
                var slot = ledger[partition].behindHorizon.head
                while slot != .none {
                    park(slot, partition)
                    slot = store[slot].next
                }
                // No successor can be told, so what is open of the log before does not wait for ever.
                openDetached(of: id)
            }
        }
        ledger.endReply(of: group)
        renewLeases()
    }

    /// Until a commit proves that this worker is still in the group, nothing is sent.
    mutating func renewLeases() {
        for partition in ledger.renewLeases(nowNs: now.ns) { passHorizon(partition) }
    }

    /// Keeps what is settled above the oldest open record nameable: when the map is three quarters full, the oldest
    /// notifications that have waited for a second are deferred until it is half full. While it is nearly full all the
    /// same, since what is open is on connections or no tier can be written, nothing more is read of the partition.
    private mutating func shortenSpan(_ id: PartitionID) {
        guard let limit = ledger.shortenSpan(id, mayDefer: isAnyTierWritable, in: store, nowNs: now.ns) else { return }
        deferOldest([id]) { machine, record in
            machine.store[record].offset < limit && machine.now.ns - machine.store[record].receivedNs >= 1_000_000_000
        }
    }

    /// Defers notifications that wait, of these partitions and of records that fulfil something, oldest first.
    private mutating func deferOldest(
        _ ids: [PartitionID], where fits: (borrowing DeliveryMachine, RecordSlot) -> Bool
    ) {
        var found: [(offset: Int64, index: Int32, slot: NotificationSlot)] = []
        forEachNotification(of: ids) { machine, slot in
            guard machine.store[slot].state.isWaiting, machine.store[slot].deferral == nil,
                fits(machine, machine.store[slot].record)
            else { return }
            found.append((machine.store[recordOf: slot].offset, machine.store[slot].index, slot))
        }
        found.sort { $0 < $1 }
        for each in found { deferToTier(each.slot, .span) }
    }

    // MARK: Lost

    /// Takes partitions out whose session was lost: nothing more of them is sent. What is on connections goes on to its
    /// end.
    ///
    /// When the partition comes back to `assign` with what we committed last, no other worker owned it meanwhile, or
    /// none that got as far as a commit: it goes on with what it knew. Nothing that settled or is on a connection is
    /// sent again; what was not sent is, marked in doubt where it lies below the horizon that was committed. Otherwise,
    /// and after `suspendedLimitNs`, it is released (`release` does that, too).
    package mutating func suspend(_ ids: [PartitionID]) {
        dropWaiting(of: ledger.detached(before: ids))
        let suspended = ids.filter { id in ledger.find(id).map { ledger[$0].isAssigned } ?? false }
        for id in suspended {
            dropWaitingRecords(id.slot)
            setShared(id.slot, false)
            ledger.suspend(id.slot, in: &store, nowNs: now.ns)
        }
        forEachNotification(of: suspended) { machine, slot in
            switch machine.store[slot].state {
            case .queued, .ready, .behindHorizon, .backingOff:
                machine.drop(slot)
            case .handed:
                machine.store.noteUnderWay(slot)
                machine.dispatch.recall(slot, in: machine.store)
            case .concluded:
                machine.store.noteUnderWay(slot)
            case .admitted, .orphaned, .free:
                break
            }
        }
    }

    // MARK: Given up

    /// Begins to give partitions up (revoked, or the worker stops): nothing more is admitted; what is not on a
    /// connection is dropped, or asked back (`recalls`); what is on one may settle. A last commit follows.
    package mutating func revoke(_ ids: [PartitionID]) {
        let revoked = ids.filter { id in ledger.find(id).map { ledger[$0].phase == .active } ?? false }
        for id in revoked {
            ledger[id.slot].phase = .draining
            ledger[id.slot].isDirty = true
            dropWaitingRecords(id.slot)
            ledger.keepNameable(id.slot, in: store)
        }
        // What the map could not name if it were dropped is deferred. If that cannot be, or does not end in time, the
        // map is cut, and the send horizon covers it.
        deferOldest(revoked) { machine, record in machine.isDeferredToLeave(record) }
        forEachNotification(of: revoked) { machine, slot in
            switch machine.store[slot].state {
            case .behindHorizon where machine.isDeferred(slot):
                break
            case .queued, .ready, .behindHorizon, .backingOff:
                machine.drop(slot)
            case .handed:
                machine.dispatch.recall(slot, in: machine.store)
            case .admitted, .concluded, .orphaned, .free:
                break
            }
        }
        for id in ids {
            // Nothing was ever read or committed: there is nothing to say in a last commit.
            guard let partition = ledger.find(id), ledger[partition].ledger.committable == nil else { continue }
            ledger[partition].phase = .left
        }
    }

    /// Whether what waits of this record, in a partition that is given up, is deferred rather than dropped.
    private func isDeferredToLeave(_ record: RecordSlot) -> Bool {
        guard isAnyTierWritable, let partition = ledger.find(store[record].partition) else { return false }
        return ledger[partition].phase == .draining && store[record].offset < ledger[partition].nameableFrom
    }

    /// Whether it waits to be moved to a tier, and goes there although its partition is given up.
    private func isDeferred(_ slot: NotificationSlot) -> Bool {
        guard let deferral = store[slot].deferral else { return false }
        return deferral.reason == .span || isDeferredToLeave(store[slot].record)
    }

    /// It came back unprocessed, and nothing of its partition is sent any more.
    mutating func giveUp(_ slot: NotificationSlot) {
        if isDeferredToLeave(store[slot].record) { deferToTier(slot, .span) } else { drop(slot) }
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
    /// What is open of a log that one of them was read from before (`beginAnew`) belongs to no other worker: it goes on
    /// to its end (`hasDetached`). If the last commit was not acknowledged, only what is on connections does, since no
    /// commit names the rest to a successor.
    package mutating func release(_ ids: [PartitionID]) {
        for id in ids {
            guard let partition = ledger.find(id) else { continue }
            if ledger[partition].phase == .left {
                openDetached(of: id)
            } else {
                dropWaiting(of: ledger.detached(before: [id]))
            }
        }
        release(ids, because: nil)
    }

    /// Whether something is open of a log that is gone.
    package var hasDetached: Bool { ledger.hasDetached }

    /// Drops what waits of assignments that are detached; what is on connections goes on to its end.
    private mutating func dropWaiting(of ids: [PartitionID]) {
        for id in ids {
            guard let partition = ledger.find(id) else { continue }
            dropWaitingRecords(partition)
            // What comes back of it was named when it was sent first, and no other commit will come that it could wait
            // for.
            ledger[partition].horizon.allowAll()
        }
        forEachNotification(of: ids) { machine, slot in
            if machine.store[slot].state.isWaiting { machine.drop(slot) }
        }
    }

    /// - Parameter event: logged for each, if given.
    mutating func release(_ ids: [PartitionID], because event: ((PartitionID) -> DeliveryEvent)?) {
        let released = ids.filter { ledger.find($0) != nil }
        for id in released {
            ledger.beginRelease(id.slot)
            if let event { journal.events.append(event(id)) }
            dropWaitingRecords(id.slot)
        }
        forEachNotification(of: released) { machine, slot in
            switch machine.store[slot].state {
            case .queued, .ready, .behindHorizon, .backingOff:
                machine.drop(slot)
            case .handed:
                machine.store.move(slot, to: .orphaned)
            case .concluded:
                if machine.store[slot].unproduced > 0 { machine.releaseBytes(slot) }
                machine.free(slot)
            case .admitted, .orphaned, .free:
                break
            }
        }
        for id in released where ledger.find(id) != nil {
            setShared(id.slot, false)
            ledger.forget(id.slot, in: &store)
        }
    }

    /// Drops records, or their rest, that were not admitted.
    private mutating func dropWaitingRecords(_ partition: PartitionSlot) {
        while let record = ledger.dropWaiting(partition, in: &store) { releaseBody(record) }
    }

    private mutating func forEachNotification(
        of ids: [PartitionID], _ body: (inout DeliveryMachine, NotificationSlot) -> Void
    ) {
        guard !ids.isEmpty else { return }
        var isChosen = [Bool](repeating: false, count: ledger.count)
        for id in ids { if let partition = ledger.find(id) { isChosen[Int(partition.number)] = true } }
        for slot in store.slots where store[slot].state != .free {
            let partition = store[recordOf: slot].partition
            if partition != .none, isChosen[Int(partition.number)] { body(&self, slot) }
        }
    }

    /// Takes a notification out that is not on a connection: its record does not settle in this assignment.
    private mutating func drop(_ slot: NotificationSlot) {
        let record = store[slot].record
        takeOut(slot)
        leaveDeviceQueue(slot)
        store[record].drop()
        store.endUnderWay(slot)
        store.leaveDoubt(slot)
        releaseBytes(slot)
        free(slot)
    }

    /// The completion of a notification whose assignment is gone.
    mutating func forgetOrphan(_ slot: NotificationSlot) {
        let record = store[slot].record
        leaveDeviceQueue(slot)
        releaseBytes(slot)
        free(slot)
        if store[record].handed == 0 { store.giveBack(record) }
    }
}
