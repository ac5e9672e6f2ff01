/// Selects the retry tier of a notification. Tiers whose topic is not writable are skipped.
package struct RetryTiers: Sendable {
    private let delaysMs: [Int64]
    private var isWritable: [Bool]
    package private(set) var isAnyWritable = true

    /// - Parameter delaysMs: The tiers' delays in ascending order, at least one.
    package init(_ delaysMs: [Int64]) {
        precondition(!delaysMs.isEmpty, "There must be at least one retry tier")
        precondition(zip(delaysMs, delaysMs.dropFirst()).allSatisfy { $0 < $1 }, "Delays of tiers must be ascending")
        self.delaysMs = delaysMs
        isWritable = Array(repeating: true, count: delaysMs.count)
    }

    package var count: Int { delaysMs.count }

    /// Sets which tiers' topics are writable.
    package mutating func setWritable(_ isWritable: some Collection<Bool>) {
        precondition(isWritable.count == delaysMs.count, "There must be one value for each retry tier")
        self.isWritable = Array(isWritable)
        isAnyWritable = self.isWritable.contains(true)
    }

    /// Returns `tier` if it is writable, else the next longer writable tier, else the next shorter writable tier, else
    /// `tier`.
    package func writable(_ tier: Int) -> Int {
        if isWritable[tier] { return tier }
        return isWritable[tier...].firstIndex(of: true) ?? isWritable[..<tier].lastIndex(of: true) ?? tier
    }

    /// Returns the tier of a deferred notification that can be sent after about `rounds` rounds: the longest tier whose
    /// delay does not exceed this time. Ignores whether the tier is writable.
    ///
    /// - Parameter roundMs: The duration of one round: how long a deferred notification takes to return.
    package func tier(inRounds rounds: Int64, ofMs roundMs: Int64) -> Int {
        let (turnMs, isFar) = rounds.multipliedReportingOverflow(by: roundMs)
        return isFar ? delaysMs.count - 1 : delaysMs.lastIndex { $0 <= turnMs } ?? 0
    }

    /// The assumed minimum time between the sends of two notifications of a device.
    private static let deviceQueueStepMs: Int64 = 50

    /// Returns the tier of a notification that is deferred because its device queue is full. `turnedAway` others were
    /// deferred before it, and the queue accepts `limit` notifications per round.
    package func tier(turnedAway: UInt16, limit: Int) -> UInt8 {
        let limit = max(1, limit)
        let roundMs = max(patienceMs, Int64(limit) * Self.deviceQueueStepMs)
        let rounds = turnedAway == .max ? Int64.max : Int64(Int(turnedAway) / limit + 1)
        return UInt8(clamping: tier(inRounds: rounds, ofMs: roundMs))
    }

    /// Returns the tier of a notification that is due in `ms` milliseconds: the longest one whose delay is at most `ms`
    /// plus the shortest tier's delay.
    ///
    /// A topic is read in order. A notification that is due before its tier's delay ends may therefore be read late, by
    /// at most the shortest delay. In return, a notification that is due in slightly less than a tier's delay skips the
    /// shorter tiers. If the tier is not writable, the next shorter one is used, or else a longer one, which delays the
    /// notification.
    package func tier(dueInMs ms: Int64) -> Int {
        let tier = delaysMs.lastIndex { $0 - delaysMs[0] <= ms } ?? 0
        return isWritable[...tier].lastIndex(of: true) ?? isWritable[tier...].firstIndex(of: true) ?? tier
    }

    /// The minimum duration of a round: three stays in the shortest tier. With longer rounds, notifications move to
    /// longer tiers, so each one needs fewer retry records.
    package var patienceMs: Int64 { 3 * delaysMs[0] }

    package func delayMs(of tier: Int) -> Int64 { delaysMs[tier] }

    /// Returns the first tier with at least this delay that is longer than the previous tier, or else the longest tier.
    ///
    /// - Parameter previousMs: The delay of the tier that the record was read from, or 0 for a request topic.
    package func tier(delayMs: Int64, previousMs: Int64) -> Int {
        writable(delaysMs.firstIndex { $0 >= delayMs && $0 > previousMs } ?? delaysMs.count - 1)
    }
}
