/// Which tier a notification to be tried again goes to. One whose topic cannot be written is passed over.
package struct RetryTiers: Sendable {
    private let tiers: [MachineSettings.Tier]
    private var isWritable: [Bool]
    package private(set) var isAnyWritable = true

    /// - Parameter tiers: ascending by delay, at least one.
    package init(_ tiers: [MachineSettings.Tier]) {
        precondition(!tiers.isEmpty, "there is at least one retry tier")
        precondition(
            zip(tiers, tiers.dropFirst()).allSatisfy { $0.delayMs < $1.delayMs }, "retry tiers ascend by their delays")
        self.tiers = tiers
        isWritable = Array(repeating: true, count: tiers.count)
    }

    package var count: Int { tiers.count }

    /// Which topics can be written now, by tier.
    package mutating func setWritable(_ isWritable: some Collection<Bool>) {
        precondition(isWritable.count == tiers.count, "every tier can be written or not")
        self.isWritable = Array(isWritable)
        isAnyWritable = self.isWritable.contains(true)
    }

    /// The tier itself, or instead the next longer one that can be written, else the next shorter; when none can,
    /// itself.
    package func writable(_ tier: Int) -> Int {
        if isWritable[tier] { return tier }
        return isWritable[tier...].firstIndex(of: true) ?? isWritable[..<tier].lastIndex(of: true) ?? tier
    }

    /// Where held notifications go.
    package var shortest: Int { writable(0) }

    /// Where one goes whose turn comes when what is held was tried again so often: the longest that is not longer than
    /// that takes, so that few come back too early; whether it can be written is not asked.
    ///
    /// - Parameter roundMs: from one time to the next.
    package func tier(inRounds rounds: Int64, ofMs roundMs: Int64) -> Int {
        let (turnMs, isFar) = rounds.multipliedReportingOverflow(by: roundMs)
        return isFar ? tiers.count - 1 : tiers.lastIndex { $0.delayMs <= turnMs } ?? 0
    }

    /// A device that is sent one after the other takes them no faster than one in so long, as far as is known
    /// beforehand.
    private static let deviceQueueStepMs: Int64 = 50

    /// The tier of the notification that a full device queue turned away after so many others: as many as the queue
    /// takes pass each time they are tried.
    package func tier(turnedAway: UInt16, limit: Int) -> UInt8 {
        let limit = max(1, limit)
        let roundMs = max(patienceMs, Int64(limit) * Self.deviceQueueStepMs)
        let rounds = turnedAway == .max ? Int64.max : Int64(Int(turnedAway) / limit + 1)
        return UInt8(clamping: tier(inRounds: rounds, ofMs: roundMs))
    }

    /// Where one waits that is due in so long: the longest that is over by then, or within the shortest delay after
    /// that.
    ///
    /// What it is due before its tier's delay is over, it may come late: its topic is read in order, and what was
    /// written before it waits for the whole delay. So it is late by the shortest delay at most, and one that is due in
    /// nearly a tier's delay needs no stay in each of the shorter ones. Where that tier cannot be written, it waits in
    /// the next shorter one, from which it goes on; without one in a longer one, which makes it later.
    package func tier(dueInMs ms: Int64) -> Int {
        let tier = tiers.lastIndex { $0.delayMs - tiers[0].delayMs <= ms } ?? 0
        return isWritable[...tier].lastIndex(of: true) ?? isWritable[tier...].firstIndex(of: true) ?? tier
    }

    /// What is held in great numbers waits longer than it might have to: each return writes it once more.
    package var patienceMs: Int64 { 3 * tiers[0].delayMs }

    /// Where they go once that has lasted.
    package var long: Int { tier(delayMs: VerdictTable.longDelayMs, previousMs: 0) }

    package func delayMs(of tier: Int) -> Int64 { tiers[tier].delayMs }

    /// The first tier of at least the delay asked for, and longer than the tier it came from; else the longest.
    ///
    /// - Parameter previousMs: delay of the tier it was read from, or 0 for a request topic.
    package func tier(delayMs: Int64, previousMs: Int64) -> Int {
        writable(tiers.firstIndex { $0.delayMs >= delayMs && $0.delayMs > previousMs } ?? tiers.count - 1)
    }
}
