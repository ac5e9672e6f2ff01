import PushRecords

extension FixedWidthInteger {
    /// Counts one more, up to the largest number there is: what was counted before may come from outside.
    @inline(__always)
    mutating func countUp() { self &+= self < .max ? 1 : 0 }
}

/// What happened since the machine was made; only ever grows. Counted without a check: a counter wraps, it never traps.
package struct DeliveryCounters: Sendable, Equatable {
    /// Of one app (or of notifications for which no app could be told).
    package struct App: Sendable, Equatable {
        /// Handed to a transport.
        package var handed = 0
        /// Ended, by `Outcome.allCases`' order.
        package var outcomes = [Int](repeating: 0, count: Outcome.allCases.count)
        /// Answers and refusals, by `ReasonCode`'s raw value.
        package var reasons = [Int](repeating: 0, count: 256)
        /// Sends whose completion stayed unknown, those of dead owners included.
        package var inDoubt = 0
        package var resends = 0
        /// Called a bad token, and sent to the app of the other environment.
        package var sentOn = 0
        /// Moved to a tier with an attempt used up, by tier.
        package var retries: [Int]
        /// Moved to a tier without one, by `HeldCause`'s raw value.
        package var heldByCause = [Int](repeating: 0, count: HeldCause.allCases.count)
        package var held: Int { heldByCause.reduce(0, +) }
        /// From being handed out to the answer.
        package var answerTimes = LatencyCounts()

        /// Of an app that was taken out of the configuration and came back.
        package mutating func add(_ other: App) {
            handed &+= other.handed
            for index in outcomes.indices { outcomes[index] &+= other.outcomes[index] }
            for index in reasons.indices { reasons[index] &+= other.reasons[index] }
            inDoubt &+= other.inDoubt
            resends &+= other.resends
            sentOn &+= other.sentOn
            for index in retries.indices { retries[index] &+= other.retries[index] }
            for index in heldByCause.indices { heldByCause[index] &+= other.heldByCause[index] }
            answerTimes.add(other.answerTimes)
        }

        package init(tiers: Int) { retries = Array(repeating: 0, count: tiers) }
    }

    /// By app; the last is for notifications without one.
    package var apps: [App]
    package var recordsReceived = 0
    package var deadLetters = 0
    package var notificationsAdmitted = 0
    package var notificationsSettled = 0
    /// Notifications and records that a map read back named settled.
    package var duplicatesSkipped = 0
    /// Completions and acknowledgements for assignments that are gone.
    package var late = 0
    package var commits = 0
    /// Partitions of commits that the broker took, or did not.
    package var commitsAcknowledged = 0
    package var commitsRefused = 0
    /// Commits whose map was cut.
    package var mapsCut = 0
    package var circuitsOpened = 0
    package var guardsTripped = 0
    /// From the original record's timestamp to being settled, by the wall clock.
    package var settleTimes = LatencyCounts()
    /// Offsets that acknowledged commits moved past.
    package var offsetsCommitted: Int64 = 0

    package init(apps: Int, tiers: Int) {
        self.apps = Array(repeating: App(tiers: tiers), count: apps + 1)
    }
}
