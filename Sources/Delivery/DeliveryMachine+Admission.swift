import PushRecords

extension DeliveryMachine {
    /// Goes on with the records that are not wholly admitted, as far as there is room; partitions in turn, a piece
    /// each.
    mutating func admitWaiting() {
        var progress = ledger.admittingCount > 0
        while progress {
            progress = false
            for partition in ledger.partitions.slots where ledger.partitions[partition].firstAdmitting != .none {
                let record = ledger.partitions[partition].firstAdmitting
                let before = store[record].cursor.index
                let isWhole = admit(record, limit: Self.admissionPiece)
                // A record that was admitted and settled at once is gone: its slot is not looked at again.
                if isWhole {
                    ledger.finishAdmission(partition, in: &store)
                    ledger.finish(record, in: &store)
                }
                if isWhole || store[record].cursor.index > before { progress = true }
            }
        }
    }

    /// Admits the next notifications of a record, at most `limit`; whether all of it is admitted now.
    ///
    /// The last one being admitted, the body is no longer held for the rest. The record itself is not freed here while
    /// it waits for admission.
    mutating func admit(_ record: RecordSlot, limit: Int) -> Bool {
        guard store.hasBody(record) else { return true }
        let group = Int(store[record].group)
        var left = limit
        if let partition = ledger.partitions.find(store[record].partition),
            ledger.partitions[partition].phase == .active
        {
            left = min(left, notificationsBehindCommit(record, partition))
            if left == 0 { raiseReach(to: record, partition) }
        }
        while !store[record].isAdmitted {
            guard left > 0, room.hasRoom(for: group) else { return false }
            // Each holds bytes of its own. One of a record may always be open, so that it comes to its end.
            if store[bodyOf: record].isList, store[record].unsettled > 0, !room.hasBytes(for: group) {
                return false
            }
            left -= 1
            let app = Int(store[bodyOf: record].app)
            var cause: HeldCause?
            if apps.areMany, app >= 0, !store[bodyOf: record].isInvalid {
                if !room.isFull(app: app) || breakers.isClosed(app) {
                    room.endFull(app: app)
                } else if room.hasWaitedForShare(app: app, oldestNs: dispatch.oldestNs(app, in: store), nowNs: now.ns) {
                    cause = .share
                } else {
                    return false
                }
            }
            admitNext(record, heldFor: cause)
        }
        releaseBody(record)
        return true
    }

    /// How many more of this record may be admitted: those below the reach, and a share of those above.
    @inline(__always)
    private func notificationsBehindCommit(_ record: RecordSlot, _ partition: PartitionSlot) -> Int {
        let offset = store[record].offset
        let below = ledger.partitions[partition].reach.allowed.indexes(at: offset)
        guard below < store[record].count else { return .max }
        return Int(max(0, below - store[record].cursor.index)) + roomAboveReach(partition, at: offset)
    }

    /// A record that is not admitted because of the reach has no notification that could wait for a commit, so it asks
    /// for one itself: at once where its app has free streams, and after 5 s where other apps' records may be stuck
    /// behind it.
    private mutating func raiseReach(to record: RecordSlot, _ partition: PartitionSlot) {
        guard ledger.partitions[partition].behindReach.isEmpty else { return }
        let app = store.hasBody(record) ? Int(store[bodyOf: record].app) : -1
        let isIdle = app < 0 || dispatch.isIdle(app)
        guard isIdle || apps.areMany && now.ns - store[record].receivedNs >= Room.shareWaitNs else { return }
        ledger.raiseReach(to: record, partition, in: store)
    }

    /// When a record that waits for the reach has it raised; `nil`: it waits for something else, or that time has come.
    func reachRaiseNs(_ record: RecordSlot) -> Int64? {
        let partition = ledger.partitions.find(store[record].partition)
        let reach = partition.map { ledger.partitions[$0].reach.allowed } ?? .none
        let raisedNs = store[record].receivedNs + Room.shareWaitNs
        guard raisedNs > now.ns, reach.indexes(at: store[record].offset) < store[record].count else { return nil }
        return raisedNs
    }

    /// When a record that waits for its app's share is held instead.
    func shareWaitEndNs(_ record: RecordSlot) -> Int64? {
        guard store.hasBody(record), store[bodyOf: record].app >= 0 else { return nil }
        let app = Int(store[bodyOf: record].app)
        return room.shareWaitEndNs(app: app, oldestNs: dispatch.oldestNs(app, in: store))
    }

    private mutating func admitNext(_ record: RecordSlot, heldFor cause: HeldCause?) {
        let index = store[record].cursor.index
        var token = store[bodyOf: record].tokens
        var failure = store[bodyOf: record].tokenFailure
        if store[bodyOf: record].isList {
            (token, failure) = store.nextToken(of: record)
        } else {
            store[record].cursor.index = 1
        }
        if store[record].hasSettledIndexes, store.isTaken(index, of: record) {
            journal.counters.duplicatesSkipped &+= 1
            return
        }

        let app = store[bodyOf: record].app
        let slot = admitNotification(record: record, index: index, app: app)
        store[record].need()
        store[slot].sends = store[bodyOf: record].sends
        store[slot].inDoubt = store[bodyOf: record].inDoubt
        let isInvalid = store[bodyOf: record].isInvalid || failure != .none
        if index < store[bodyOf: record].inheritedDoubtEnd, failure == .none {
            store[slot].sends.countUp()
            store[slot].inDoubt.countUp()
            journal.counters.apps[app >= 0 ? Int(app) : apps.count].inDoubt &+= 1
        }
        if store[bodyOf: record].isList { copyToken(token, for: slot) } else { store[slot].token = token }
        if store[bodyOf: record].repeatedBytes > 0 {
            room.takeBytes(Int(store[bodyOf: record].repeatedBytes), for: slot, in: &store)
        }

        if isInvalid {
            store[slot].reason = store[bodyOf: record].isInvalid ? store[bodyOf: record].failureReason : failure
            conclude(slot, .invalid)
        } else if store[bodyOf: record].isExpired {
            conclude(slot, .expired)
        } else if store[bodyOf: record].notBeforeMs > now.wallMs {
            hold(slot, .scheduled)
        } else if let cause = cause ?? causeToHold(slot) {
            hold(slot, cause)
        } else if settings.ordering == .device {
            joinDeviceQueue(slot)
        } else {
            dispatch.becomeReady(slot, first: false, in: &store, nowNs: now.ns)
        }
    }

    private mutating func copyToken(_ token: UnsafeRawBufferPointer, for slot: NotificationSlot) {
        let bytes = store.copyToken(token, for: slot)
        room.takeBlock(bytes, group: Int(store[recordOf: slot].group), app: Int(store[slot].app))
    }

    /// A slot of its own for one notification, counted everywhere.
    mutating func admitNotification(record: RecordSlot, index: Int32, app: Int32) -> NotificationSlot {
        let slot = store.take(of: record, index: index, app: app)
        room.take(group: Int(store[record].group), app: Int(app))
        ledger.countOpen(of: record, in: store)
        journal.counters.notificationsAdmitted &+= 1
        return slot
    }

}
