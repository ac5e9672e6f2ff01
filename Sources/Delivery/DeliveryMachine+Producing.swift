internal import CLinux
package import PushRecords

extension DeliveryMachine {
    /// The next record to be produced to this topic; `nil`: none. The same one until `produced` is called: when the
    /// producer's queue is full, try again later. The results of one device come in the order of their endings.
    ///
    /// Whether the topic can be written is not looked at: who finds that out may try.
    package mutating func nextProduction(for target: ProductionTarget) -> Production? {
        settlement.next(for: target, in: store)
    }

    /// Lends what a `result` or `unregistered` production says, for the time of the call.
    package func withResult<R>(
        _ id: NotificationID, now: DeliveryTime, _ body: (borrowing NotificationContent, borrowing Ending) -> R
    ) -> R {
        lendBody(id)
        defer { crash_nowhere() }
        let tried = triedEnvironment(id.slot)
        return settlement.withResult(id.slot, in: store, nowMs: now.wallMs, tried: tried, body)
    }

    /// Lends what a `retry` production says, for the time of the call.
    package func withRetry<R>(
        _ id: NotificationID, _ body: (borrowing NotificationContent, borrowing RetryOrder) -> R
    ) -> R {
        lendBody(id)
        defer { crash_nowhere() }
        return settlement.withRetry(id.slot, in: store, triedApp: triedApp(id.slot), body)
    }

    /// Whoever dies over it has its record's place.
    private func lendBody(_ id: NotificationID) {
        precondition(store.isCurrent(id), "what is lent is to be produced")
        guard let place = store.place(of: store[id.slot].record) else {
            preconditionFailure("what is to be produced has its bytes")
        }
        crash_at(place)
    }

    // MARK: Topics

    /// The publisher says that a topic cannot be written now, or that it can again.
    ///
    /// - A retry tier: the choice of a tier passes over it, and what waits for it goes to another that can be written.
    ///   When none can, it waits, and `isAnyTierWritable` is false.
    /// - The dead-token topic: what is answered so is held in a tier instead (`HeldCause.unwritable`), and so is what
    ///   waits for it, unless its result was produced already: that one waits.
    /// - Dead letters: a partition in which `unwrittenDeadLetters` of them wait is read no further.
    /// - Results: what needs them waits; the rest goes on.
    package mutating func setWritable(_ target: ProductionTarget, _ isWritable: Bool, now: DeliveryTime) {
        self.now = now
        guard settlement.setWritable(target, isWritable) else { return }
        if target == .unregistered, isWritable { breakers.endHolding(.unwritable) }
        guard isAnyTierWritable else { return }
        settlement.emptyUnwritableTiers(in: &store, nowMs: now.wallMs)
        guard !self.isWritable(.unregistered) else { return }
        for slot in settlement.takeDeadTokens(in: &store) { moveHeld(slot, .unwritable) }
    }

    /// As `setWritable` said last; true until it did.
    package func isWritable(_ target: ProductionTarget) -> Bool { settlement.isWritable(target) }

    /// Whether there is a place for what has to wait: without one, only what can be sent may be read.
    package var isAnyTierWritable: Bool { settlement.tiers.isAnyWritable }

    // MARK: Bytes

    /// The bytes of a notification are needed no more.
    mutating func releaseBytes(_ slot: NotificationSlot) {
        let bytes = store.releaseToken(slot)
        let record = store[slot].record
        if bytes > 0 {
            room.giveBackBlock(bytes, group: Int(store[record].group), app: Int(store[slot].app))
        }
        releaseBody(record)
    }

    /// One who needs the record's body less.
    mutating func releaseBody(_ record: RecordSlot) {
        guard let released = store.releaseBody(record) else { return }
        room.giveBackBlock(released.bytes, group: Int(store[record].group), app: released.app)
    }
}
