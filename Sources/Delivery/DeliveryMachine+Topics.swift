import PushRecords

extension DeliveryMachine {
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
        guard productions.isWritable(target) != isWritable else { return }
        productions.setWritable(target, isWritable)
        tiers.setWritable(productions.writableTiers)
        if target == .unregistered, isWritable {
            for app in controls.indices { endHolding(.unwritable, of: app) }
        }
        guard isAnyTierWritable else { return }
        for tier in 0..<tiers.count where !productions.isWritable(.retry(tier: tier)) { emptyTier(tier) }
        if !productions.isWritable(.unregistered) { holdDeadTokens() }
    }

    /// As `setWritable` said last; true until it did.
    package func isWritable(_ target: ProductionTarget) -> Bool { productions.isWritable(target) }

    /// Whether there is a place for what has to wait: without one, only what can be sent may be read.
    package var isAnyTierWritable: Bool { tiers.isAnyWritable }

    /// What waits for this tier goes to another one.
    private mutating func emptyTier(_ tier: Int) {
        let target = ProductionTarget.retry(tier: tier)
        let other = tiers.writable(tier)
        while !productions[target].isEmpty {
            let production = productions[target][productions[target].head]
            productions[target].removeFirst()
            guard isCurrent(production.id) else { continue }
            notifications[production.id.slot].due = RecordTime.adding(tiers.delayMs(of: other), to: now.wallMs)
            let moved = Production(id: production.id, kind: .retry(tier: other))
            productions[moved.target].append(moved)
        }
    }

    /// What waits for the dead-token topic, and whose result waits as well, goes to a tier: either both records are
    /// written, or the retry record. Its ending stays counted; it will have another one.
    private mutating func holdDeadTokens() {
        var left = productions[.unregistered].count
        while left > 0 {
            left -= 1
            let production = productions[.unregistered][productions[.unregistered].head]
            productions[.unregistered].removeFirst()
            let slot = production.id.slot
            guard isCurrent(production.id) else { continue }
            guard notifications[slot].unproduced == 2 else {
                productions[.unregistered].append(production)
                continue
            }
            // Nobody has seen its id: what is queued under the old generation is void.
            notifications[slot].generation &+= 1
            notifications[slot].unproduced = 0
            notifications[slot].unacknowledged = 0
            moveHeld(slot, .unwritable)
        }
    }
}
