internal import CLinux
package import PushRecords

extension DeliveryMachine {
    // MARK: Decided

    /// Ends a notification: its productions are queued, its lane goes on.
    mutating func conclude(_ slot: UInt32, _ outcome: Outcome) {
        notifications[slot].outcome = outcome
        let isDeadToken = publishesDeadToken(slot)
        // It was shown to nobody, and will be answered so again.
        if isDeadToken, !productions.isWritable(.unregistered), isAnyTierWritable { return hold(slot, .unwritable) }
        if notifications[slot].isProbe { endProbe(slot) }
        leaveLane(slot)
        notifications[slot].state = .concluded
        let app = notifications[slot].app >= 0 ? Int(notifications[slot].app) : apps.count
        counters.apps[app].outcomes[outcome.place] &+= 1
        if outcome == .invalid { counters.apps[app].reasons[Int(notifications[slot].reason.rawValue)] &+= 1 }

        if outcome == .accepted, settings.publishesOnlyFailures, notifications[slot].inDoubt == 0 {
            releaseBytes(slot)
            settle(slot)
            return
        }
        if isDeadToken { produce(slot, .unregistered) }
        produce(slot, .result)
    }

    /// A 410 without its time publishes none; a token that was dead for other reasons is so since it was sent.
    private mutating func publishesDeadToken(_ slot: UInt32) -> Bool {
        switch notifications[slot].outcome {
        case .unregistered where notifications[slot].status == 410:
            return notifications[slot].unregisteredAtMs != 0
        case .rejected:
            let isBadToken =
                notifications[slot].reason == .badDeviceToken || notifications[slot].reason == .deviceTokenNotForTopic
            guard isBadToken, settings.includesBadTokens else { return false }
            notifications[slot].unregisteredAtMs = notifications[slot].sentAtMs
            return true
        case .unregistered:
            notifications[slot].unregisteredAtMs = notifications[slot].sentAtMs
            return true
        case .accepted, .invalid, .expired, .abandoned:
            return false
        }
    }

    mutating func produce(_ slot: UInt32, _ kind: Production.Kind) {
        notifications[slot].unproduced += 1
        notifications[slot].unacknowledged += 1
        let production = Production(
            id: NotificationID(slot: slot, generation: notifications[slot].generation), kind: kind)
        productions[production.target].append(production)
    }

    // MARK: Produced

    /// The next record to be produced to this topic; `nil`: none. The same one until `produced` is called: when the
    /// producer's queue is full, try again later. The results of one device come in the order of their endings.
    ///
    /// Whether the topic can be written is not looked at: who finds that out may try.
    package mutating func nextProduction(for target: ProductionTarget) -> Production? {
        guard target != .deadLetters else { return nil }
        while !productions[target].isEmpty {
            let production = productions[target][productions[target].head]
            if isCurrent(production.id) { return production }
            productions[target].removeFirst()
        }
        return nil
    }

    /// Whether something waits to be produced to this topic.
    package mutating func hasProductions(for target: ProductionTarget) -> Bool { nextProduction(for: target) != nil }

    func isCurrent(_ id: NotificationID) -> Bool {
        notifications[id.slot].generation == id.generation && notifications[id.slot].state == .concluded
    }

    /// The producer copied what `nextProduction` gave for its target: its bytes may go. Exactly one `acknowledged` with
    /// its id must follow.
    package mutating func produced(_ production: Production) {
        let head = productions[production.target].head
        precondition(
            !productions[production.target].isEmpty && productions[production.target][head].id == production.id
                && isCurrent(production.id), "productions are made in their order")
        productions[production.target].removeFirst()
        let slot = production.id.slot
        notifications[slot].unproduced -= 1
        if notifications[slot].unproduced == 0 { releaseBytes(slot) }
    }

    /// Kafka acknowledged one production, or the dead letter, of this notification.
    package mutating func acknowledged(_ id: NotificationID, now: DeliveryTime) {
        self.now = now
        guard Int(id.slot) < notifications.capacity, isCurrent(id), notifications[id.slot].unacknowledged > 0 else {
            counters.late &+= 1
            return
        }
        notifications[id.slot].unacknowledged -= 1
        if notifications[id.slot].unacknowledged == 0 {
            precondition(notifications[id.slot].unproduced == 0, "what is acknowledged was produced")
            settle(id.slot)
        }
    }

    /// Lends what a `result` or `unregistered` production says, for the time of the call.
    package func withResult<R>(
        _ id: NotificationID, now: DeliveryTime, _ body: (borrowing NotificationContent, borrowing Ending) -> R
    ) -> R {
        let slot = id.slot
        let record = lendBody(id)
        defer { crash_nowhere() }
        var ending = Ending(
            outcome: notifications[slot].outcome, status: notifications[slot].status,
            reason: notifications[slot].reason, reasonText: texts[notifications[slot].reasonText],
            detail: detail(slot, record), unregisteredAtMs: notifications[slot].unregisteredAtMs,
            attempts: notifications[slot].sends, inDoubt: notifications[slot].inDoubt,
            sentAtMs: notifications[slot].sentAtMs, settledAtMs: now.wallMs)
        guard !uniqueIDs.isEmpty, var uniqueID = uniqueIDs[slot] else { return body(content(slot, record), ending) }
        return uniqueID.withUTF8 { bytes in
            ending.uniqueID = UnsafeRawBufferPointer(bytes)
            return body(content(slot, record), ending)
        }
    }

    /// Lends what a `retry` production says, for the time of the call.
    package func withRetry<R>(
        _ id: NotificationID, _ body: (borrowing NotificationContent, borrowing RetryOrder) -> R
    ) -> R {
        let slot = id.slot
        let record = lendBody(id)
        defer { crash_nowhere() }
        let isAttempt = notifications[slot].isRetryAttempt
        var reason = StaticString("held").lentBytes
        if isAttempt { reason = notifications[slot].reason.text?.lentBytes ?? texts[notifications[slot].reasonText] }
        let order = RetryOrder(
            attempt: record.pointee.attempt + (isAttempt ? 1 : 0), dueMs: notifications[slot].due,
            reason: reason, sends: notifications[slot].sends, inDoubt: notifications[slot].inDoubt)
        return body(content(slot, record), order)
    }

    private func lendBody(_ id: NotificationID) -> UnsafeMutablePointer<RecordBody> {
        precondition(isCurrent(id), "what is lent is to be produced")
        guard let body = records[notifications[id.slot].record].body else {
            preconditionFailure("what is to be produced has its bytes")
        }
        crash_at(body.place)
        return body
    }

    private func detail(_ slot: UInt32, _ body: UnsafeMutablePointer<RecordBody>) -> Detail {
        if notifications[slot].outcome != .invalid { return .none }
        if body.pointee.isInvalid { return body.pointee.detail }
        return Detail("the device token is not 1 to 100 bytes in hex")
    }

    private func content(_ slot: UInt32, _ body: UnsafeMutablePointer<RecordBody>) -> NotificationContent {
        var place = body.pointee.request
        place.index &+= notifications[slot].index
        var headers = body.pointee.headers
        headers.apnsID = requestID(body, index: notifications[slot].index)
        if headers.apnsID == .none { headers.apnsID = notifications[slot].answeredID }
        return NotificationContent(
            token: notifications[slot].token, isBroadcast: body.pointee.isBroadcast, headers: headers,
            app: Int(body.pointee.app), payload: body.pointee.payload, request: place, requestKey: body.pointee.key,
            requestedAtMs: body.pointee.firstMs, copiedHeaders: body.pointee.copiedHeaders)
    }

    // MARK: Settled

    mutating func settle(_ slot: UInt32) {
        let record = notifications[slot].record
        let index = notifications[slot].index
        if let words = records[record].settledIndexes {
            words[Int(index / 64)] |= 1 << UInt64(index % 64)
            records[record].hasSettledIndexes = true
        }
        partitions[Int(records[record].partition)]?.pointee.isDirty = true
        counters.notificationsSettled &+= 1
        let firstMs = records[record].firstMs
        if firstMs != RecordTime.unknown {
            counters.settleTimes.count(RecordTime.age(of: firstMs, nowMs: now.wallMs))
        }
        free(slot)
        finish(record: record)
    }

    /// Enters a record into the ledger once all of it is settled.
    mutating func finish(record slot: UInt32) {
        guard records[slot].isAdmitted, records[slot].unsettled == 0, !records[slot].isDropped,
            records[slot].nextAdmitting == noSlot, let partition = partitions[Int(records[slot].partition)],
            partition.pointee.firstAdmitting != slot
        else { return }
        if records[slot].count > 1 { partition.pointee.fanOuts -= 1 }
        partition.pointee.ledger.settle(records[slot].position) { records[$0].position = $1 }
        partition.pointee.isDirty = true
        free(record: slot)
    }

    /// Gives a notification's slot back and takes it out of every count. It is in no list and no lane any more.
    mutating func free(_ slot: UInt32) {
        let record = notifications[slot].record
        if notifications[slot].isProbe { endProbe(slot) }
        records[record].unsettled -= 1
        if notifications[slot].isDoubted { records[record].doubts -= 1 }
        if records[record].partition != noSlot {
            partitions[Int(records[record].partition)]?.pointee.open -= 1
            if notifications[slot].isDeadLetter {
                partitions[Int(records[record].partition)]?.pointee.deadLetters -= 1
            }
        }
        shares.giveBack(1, for: Int(records[record].group))
        if notifications[slot].countedBytes > 0 { giveBackBytes(slot) }
        if notifications[slot].app >= 0 { apps[Int(notifications[slot].app)].open -= 1 }
        if !uniqueIDs.isEmpty { uniqueIDs[slot] = nil }
        notifications[slot].state = .free
        notifications.giveBack(slot)
    }

    /// The bytes of a notification are needed no more.
    mutating func releaseBytes(_ slot: UInt32) {
        if notifications[slot].tokenBlockSize > 0, let token = notifications[slot].token.baseAddress {
            let size = Int(notifications[slot].tokenBlockSize)
            blocks.giveBack(UnsafeMutableRawPointer(mutating: token), size: size)
            byteShares.giveBack(BlockStore.rounded(size), for: Int(records[notifications[slot].record].group))
            let app = Int(notifications[slot].app)
            if app >= 0 { apps[app].openBytes -= BlockStore.rounded(size) }
            notifications[slot].tokenBlockSize = 0
        }
        notifications[slot].token = UnsafeRawBufferPointer(start: nil, count: 0)
        releaseBody(notifications[slot].record)
    }

    /// One who needs the record's body less.
    mutating func releaseBody(_ slot: UInt32) {
        guard let body = records[slot].body else { return }
        records[slot].holders -= 1
        guard records[slot].holders == 0 else { return }
        let size = body.pointee.blockSize
        byteShares.giveBack(BlockStore.rounded(size), for: Int(records[slot].group))
        let app = Int(body.pointee.app)
        if app >= 0 { apps[app].openBytes -= BlockStore.rounded(size) }
        records[slot].body = nil
        blocks.giveBack(UnsafeMutableRawPointer(body), size: size)
    }

    mutating func free(record slot: UInt32) {
        precondition(records[slot].body == nil, "a record's bytes go before it")
        records[slot].settledIndexes?.deallocate()
        records[slot].lentIndexes?.deallocate()
        records[slot] = Record()
        records.giveBack(slot)
    }
}

extension Outcome {
    /// Its place in `allCases`.
    package var place: Int {
        switch self {
        case .accepted: 0
        case .unregistered: 1
        case .rejected: 2
        case .invalid: 3
        case .expired: 4
        case .abandoned: 5
        }
    }
}
