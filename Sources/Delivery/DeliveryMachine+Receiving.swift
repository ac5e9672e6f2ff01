package import CLinux
package import PushRecords

// Parses each record, and admits its notifications within the budget.
extension DeliveryMachine {
    /// While the dead-letter topic is not writable, a partition is not read if it has this many open dead letters.
    static let unwrittenDeadLetters = 100
    /// The maximum number of a record's notifications that are admitted before the next partition's turn.
    private static let admissionPiece = 256

    // MARK: Room

    /// Returns how many records may be read from this partition now. Call this again after at most that many calls of
    /// `receive`, because each received record changes the number.
    package func room(for id: PartitionID) -> Int {
        guard let partition = ledger.find(id), ledger[partition].takesRecords else { return 0 }
        if ledger[partition].deadLetters >= Self.unwrittenDeadLetters, !isWritable(.deadLetters) { return 0 }
        // The number of records above the send horizon is limited, because the commits that raise the horizon may fail.
        // While no commit is refused, one record is allowed, because the horizon rises when a record waits for it.
        let next = ledger[partition].nextOffset
        let below = min(
            Int(clamping: max(0, ledger[partition].horizon.allowed - next)), store.budget.notifications.total)
        let least = ledger[partition].commits.refusals == 0 ? 1 : 0
        let above = store.budget.aboveHorizon(
            open: ledger[partition].openAboveHorizon(at: next), partitions: ledger.count)
        let most = max(below + above, least)
        return min(
            store.budget.records(for: ledger[partition].group), most, ledger[partition].mapEighths >= 7 ? 1 : .max)
    }

    /// Returns an assignment's topic and partition for crash reports, or an empty `CrashPlace` if the assignment has
    /// ended.
    package func place(of id: PartitionID) -> CrashPlace { ledger.find(id).map { ledger[$0].place } ?? CrashPlace() }

    // MARK: Received

    /// Receives one record. The key, value and headers are borrowed for the call. A `nil` base address means that the
    /// record has no key, or no value (a tombstone).
    ///
    /// The offsets of a partition must ascend. If an offset is not above all previous ones, the result is `.ignored`.
    ///
    /// - Parameters:
    ///   - unread: The reason to make the record a dead letter without parsing it, or `nil` to parse the record.
    ///   - letterRoom: The number of bytes that a dead letter's key, value and headers may use now.
    package mutating func receive(
        _ id: PartitionID, offset: Int64, timestampMs: Int64, key: UnsafeRawBufferPointer,
        value: UnsafeRawBufferPointer, headers: UnsafeBufferPointer<RecordHeader>,
        unread: DeadLetterReason? = nil, letterRoom: Int = .max, now: DeliveryTime
    ) -> Receipt {
        self.now = now
        let timestampMs = RecordTime.checked(timestampMs)
        // After the record settles, the worker may commit this offset plus one, which must be valid too.
        guard let partition = ledger.find(id), ledger[partition].phase == .active,
            offset > ledger[partition].offsets.highestKnown, offset < OffsetLimit.highest
        else { return .ignored }

        let isRetry = ledger[partition].tierDelayMs > 0
        var request =
            unread.map { .unread($0) }
            ?? parser.parse(key: key, value: value, headers: headers, role: isRetry ? .retry : .request)
        // No worker writes a retry record that is scheduled more than a year ahead, because a request with that time is
        // invalid. Without this check, the record could stay in retry topics for decades.
        if request.retry != nil, Int64(request.notBefore) &* 1_000 - now.wallMs > MachineSettings.longestAheadMs {
            request.markDeadLetter(.badRetryHeaders, "push-not-before is more than a year ahead")
        }
        if let retry = request.retry, timestampMs != RecordTime.unknown {
            let delayMs = ledger[partition].tierDelayMs
            // The header has the due time by the clock of the worker that wrote the record. The timestamp may be by the
            // broker's clock (LogAppendTime). Both are checked, so that the records of a worker whose clock is ahead
            // are not due immediately.
            if retry.dueMs > now.wallMs, retry.dueMs - now.wallMs <= delayMs { return .notDue(untilMs: retry.dueMs) }
            // A worker with a wrong clock may have written a due time that is later than the tier's delay allows. In
            // this case, the record is due when the delay after its timestamp ends.
            let dueMs = min(retry.dueMs, RecordTime.adding(delayMs, to: timestampMs))
            if dueMs > now.wallMs, timestampMs - now.wallMs <= delayMs { return .notDue(untilMs: dueMs) }
        }
        let letterBytes = request.target == .none ? AdmissionBudget.letterBytes(key, value, headers) : 0
        if request.target == .none, letterBytes > letterRoom { return .noLetterRoom }
        journal.counters.recordsReceived &+= 1
        if let records = ledger[partition].unsetRecords {
            ledger[partition].unsetRecords = nil
            let ageMs = timestampMs == RecordTime.unknown ? nil : now.wallMs - timestampMs
            journal.events.append(.startedWithoutOffset(id, offset: offset, records: records, ageMs: ageMs))
        }

        guard let (record, settledIndexes) = ledger[partition].receive(offset, in: &store) else {
            journal.counters.duplicatesSkipped &+= 1
            return .ignored
        }
        store[record].timestampMs = timestampMs
        let firstMs = RecordTime.checked(request.retry?.firstMs ?? timestampMs)
        let isDue = Int64(request.notBefore) &* 1_000 <= now.wallMs
        store[record].startMs = isDue ? RecordTime.start(firstMs, notBefore: request.notBefore) : RecordTime.unknown
        store[record].receivedNs = now.ns
        if request.target == .none {
            // The index equals the record's `count` of 1, so the record counts as completely admitted.
            store[record].cursor.index = 1
            return admitDeadLetter(record, request, letterBytes)
        }

        let count = Int32(request.tokenCount)
        store[record].count = count
        store[record].holders = 1
        store[record].hasSettledIndexes = !settledIndexes.isEmpty
        if count > 1 { ledger[partition].fanOuts += 1 }
        ledger[partition].horizon.received(count: count)
        if request.target == .devices { store.makeIndexes(of: record, settled: settledIndexes) }
        makeBody(of: record, &request, partition, firstMs)
        if ledger[partition].firstAdmitting != .none || !admit(record, limit: Self.admissionPiece) {
            ledger[partition].waitForAdmission(record, in: &store)
        } else {
            // If the commit map lists all notifications of the record as settled, the record settles now.
            ledger[partition].finish(record, in: &store)
        }
        return .taken
    }

    private mutating func makeBody(
        of record: RecordSlot, _ request: inout ParsedRequest, _ partition: PartitionSlot, _ firstMs: Int64
    ) {
        // An invalid request is not in doubt, because the previous owner rejected it too.
        let isInDoubt = !request.isInvalid && store[record].offset < ledger[partition].offsets.inheritedHorizon
        // A scheduled time beyond `delivery.max_ahead` is probably a mistake. For a retry record, the time was accepted
        // when the original request was read. If this machine's clock is behind, the request's timestamp is later.
        let scheduledMs = Int64(request.notBefore) &* 1_000
        let isTooFarAhead =
            request.notBefore > 0 && request.retry == nil
            && (scheduledMs - max(now.wallMs, firstMs) > settlement.settings.maxAheadMs
                || scheduledMs - now.wallMs > MachineSettings.longestAheadMs)
        var (app, firstApp): (Int32, Int32) = (-1, -1)
        var defaultTopic = UnsafeRawBufferPointer.nothing
        switch apps.findApp(request, of: ledger[partition].group) {
        case .app(let found, let topic):
            app = Int32(found.value)
            firstApp = apps.firstApp(request, foundApp: found)
            defaultTopic = topic
            if isTooFarAhead {
                request.refuse(
                    .none,
                    Detail("push-not-before is further ahead than delivery.max_ahead: produce the request later"))
            }
        case .failure(let reason, let detail):
            request.refuse(reason, detail)
        }
        store.makeBody(
            of: record, request, in: ledger[partition], firstMs: firstMs, app: app, defaultTopic: defaultTopic)
        store[bodyOf: record].firstApp = firstApp
        store[bodyOf: record].isInDoubt = isInDoubt
        let maxAgeMs = settlement.settings.maxAgeMs
        store[bodyOf: record].isTooOld = maxAgeMs > 0 && store.isLate(record, limitMs: maxAgeMs, now: now)
    }

    /// Admits a record that becomes a dead letter, as one notification. The publisher retains the record's bytes until
    /// Kafka acknowledges the dead letter.
    private mutating func admitDeadLetter(_ record: RecordSlot, _ request: ParsedRequest, _ bytes: Int) -> Receipt {
        journal.counters.deadLetters &+= 1
        let slot = admitNotification(record, index: 0, app: -1)
        store[slot].state = .concluded(.deadLetter)
        store[slot].unacknowledged = 1
        if let partition = ledger.find(store[record].partition) { ledger[partition].deadLetters += 1 }
        store.takeBytes(bytes, for: slot)
        return .deadLetter(id: store.id(of: slot), reason: request.deadLetter ?? .badEnvelope, detail: request.detail)
    }

    /// Marks a record as settled without parsing it. This worker neither sends nor produces anything for the record.
    package mutating func passOver(_ id: PartitionID, offset: Int64) {
        guard let partition = ledger.find(id), ledger[partition].phase == .active,
            (0..<OffsetLimit.highest).contains(offset),
            let (record, _) = ledger[partition].receive(offset, in: &store)
        else { return }
        // The index equals the record's `count` of 1, so the record counts as completely admitted.
        store[record].cursor.index = 1
        ledger[partition].finish(record, in: &store)
    }

    // MARK: Admitted

    /// Admits the records that wait for admission, as far as the budget allows. Admits up to `admissionPiece`
    /// notifications of one partition before the next partition.
    mutating func admitWaiting() {
        var progress = true
        while progress {
            progress = false
            for partition in ledger.slots where ledger[partition].firstAdmitting != .none {
                let record = ledger[partition].firstAdmitting
                let before = store[record].cursor.index
                let isWhole = admit(record, limit: Self.admissionPiece)
                // `finish` may free the record, so its slot must not be read afterwards.
                if isWhole {
                    ledger[partition].finishAdmission(in: &store)
                    ledger[partition].finish(record, in: &store)
                }
                if isWhole || store[record].cursor.index > before { progress = true }
            }
        }
    }

    /// Admits up to `limit` notifications of a record. Returns whether all of its notifications are admitted. If so,
    /// the caller finishes the record.
    private mutating func admit(_ record: RecordSlot, limit: Int) -> Bool {
        guard store.hasBody(record) else { return true }
        let group = Int(store[record].group)
        var left = limit
        guard let partition = ledger.find(store[record].partition), ledger[partition].phase == .active else {
            return false
        }
        let offset = store[record].offset
        if !ledger[partition].horizon.allows(offset) {
            let open = ledger[partition].openAboveHorizon(at: offset)
            left = min(left, store.budget.aboveHorizon(open: open, partitions: ledger.count))
            if left == 0 { raiseHorizon(to: record, partition) }
        }
        while !store[record].isAdmitted {
            guard left > 0, store.budget.notifications.room(for: group) > 0 else { return false }
            // Each token of a list uses additional bytes. The byte limit allows each record one open notification, so
            // that every record makes progress.
            if store[bodyOf: record].isList, store[record].unsettled > 0, store.budget.bytes.room(for: group) == 0 {
                return false
            }
            left -= 1
            let app = Int(store[bodyOf: record].app)
            var isShareFull = false
            if apps.areMany, app >= 0, !store[bodyOf: record].isInvalid {
                if !store.budget.isFull(app: app) || dispatch.breakers.apps[app].isClosed {
                    store.budget.endFull(app: app)
                } else if store.budget.hasWaitedForShare(
                    app: app, oldestNs: dispatch.apps[app].ready.oldestNs(in: store), nowNs: now.ns)
                {
                    isShareFull = true
                } else {
                    return false
                }
            }
            admitNext(record, isShareFull: isShareFull)
        }
        store.releaseBody(record)
        return true
    }

    /// Makes the next commit raise the send horizon above a record that is not admitted because of the horizon. For
    /// admitted records, `waitForHorizon` does this. The horizon is raised immediately if the app is idle or unknown,
    /// and after 5 s if the record may block records of other apps.
    private mutating func raiseHorizon(to record: RecordSlot, _ partition: PartitionSlot) {
        guard ledger[partition].behindHorizon.isEmpty else { return }
        let app = store.hasBody(record) ? Int(store[bodyOf: record].app) : -1
        let isIdle = app < 0 || dispatch.isIdle(app)
        let hasWaited = now.ns - store[record].receivedNs >= AdmissionBudget.shareWaitNs
        guard isIdle || apps.areMany && hasWaited else { return }
        ledger[partition].horizon.advance(to: store[record].offset)
    }

    /// Returns when the machine may raise the horizon above a record that waits for admission, or may defer the record
    /// because its app's share stays full. Returns `nil` if no such time is known.
    func admissionChangeNs(_ record: RecordSlot) -> Int64? {
        let allowed = ledger.find(store[record].partition).map { ledger[$0].horizon.allowed } ?? 0
        let raisedNs = store[record].receivedNs + AdmissionBudget.shareWaitNs
        if raisedNs > now.ns, store[record].offset >= allowed { return raisedNs }
        guard store.hasBody(record), store[bodyOf: record].app >= 0 else { return nil }
        let app = Int(store[bodyOf: record].app)
        return store.budget.shareWaitEndNs(app: app, oldestNs: dispatch.apps[app].ready.oldestNs(in: store))
    }

    private mutating func admitNext(_ record: RecordSlot, isShareFull: Bool) {
        let index = store[record].cursor.index
        let isList = store[bodyOf: record].isList
        var token = store[bodyOf: record].tokens
        var failure = store[bodyOf: record].tokenFailure
        if isList {
            (token, failure) = store.nextToken(of: record)
        } else {
            store[record].cursor.index = 1
        }
        if store[record].hasSettledIndexes, store.isSettled(index, of: record) {
            journal.counters.duplicatesSkipped &+= 1
            return
        }

        let app = store[bodyOf: record].app
        let slot = admitNotification(record, index: index, app: app)
        store[record].holders += 1
        store[slot].tries.sends = store[bodyOf: record].sends
        store[slot].tries.inDoubt = store[bodyOf: record].inDoubt
        if store[bodyOf: record].isInDoubt, failure == .none {
            store[slot].tries.sends.countUp()
            store[slot].tries.inDoubt.countUp()
            journal.counters.apps[app >= 0 ? Int(app) : apps.count].inDoubt &+= 1
        }
        if isList { store.copyToken(token, for: slot) } else { store[slot].token = token }
        if store[bodyOf: record].repeatedBytes > 0 {
            store.takeBytes(Int(store[bodyOf: record].repeatedBytes), for: slot)
        }

        let isPast = store[bodyOf: record].isTooOld || store.isPastExpiration(record, now: now)
        let isExpired = isPast ? hasExpired(slot) : false
        if store[bodyOf: record].isInvalid || failure != .none {
            store[slot].answer.reason =
                store[bodyOf: record].isInvalid ? store[bodyOf: record].failureReason : failure
            conclude(slot, .invalid)
        } else if isExpired == true {
            conclude(slot, .expired)
        } else if isExpired == nil {
            deferToTier(slot, .clock)
        } else if store[bodyOf: record].notBeforeMs > now.wallMs {
            deferToTier(slot, .scheduled)
        } else if store[bodyOf: record].isInDoubt, settlement.settings.inDoubt == .abandon {
            conclude(slot, .abandoned)
        } else if isShareFull {
            deferToTier(slot, .share)
        } else if let reason = reasonToDefer(slot) {
            deferToTier(slot, reason)
        } else {
            waitForTurn(slot)
        }
    }

    /// Adds one notification to the store, and counts it.
    private mutating func admitNotification(_ record: RecordSlot, index: Int32, app: Int32) -> NotificationSlot {
        let slot = store.take(of: record, index: index, app: app)
        if let partition = ledger.find(store[record].partition) { ledger[partition].open += 1 }
        journal.counters.notificationsAdmitted &+= 1
        return slot
    }
}
