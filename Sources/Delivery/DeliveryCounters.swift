import PushRecords

extension FixedWidthInteger {
    /// Counts one more, up to the largest number there is: what was counted before may come from outside.
    @inline(__always)
    mutating func countUp() { self &+= self < .max ? 1 : 0 }
}

/// What happened since the machine was made; only ever grows. Counted without a check: a counter wraps, it never traps.
package struct DeliveryCounters: Sendable, Equatable {
    /// Counters of one app, or of notifications without a known app. A counter has no value where it is declared, so
    /// that the compiler asks for each wherever they begin or are added up.
    package struct App: Sendable, Equatable {
        /// Handed to a transport.
        package var handed: Int
        /// Ended, by `Outcome.allCases`' order.
        package var outcomes: [Int]
        /// Answers and refusals, by `ReasonCode`'s raw value.
        package var reasons: [Int]
        /// Sends whose completion stayed unknown, those of dead owners included.
        package var inDoubt: Int
        package var resends: Int
        /// Called a bad token, and sent to the app of the other environment.
        package var sentToOtherEnvironment: Int
        /// Moved to a tier with an attempt used up, by tier.
        package var retries: [Int]
        /// Moved to a tier without one, by `DeferralReason`'s raw value.
        package var heldByCause: [Int]
        /// From being handed out to the answer.
        package var answerTimes: LatencyCounts

        package var held: Int { heldByCause.reduce(0, +) }
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

extension DeliveryCounters.App {
    package init(tiers: Int) {
        self.init(
            handed: 0,
            outcomes: Array(repeating: 0, count: Outcome.allCases.count),
            reasons: Array(repeating: 0, count: 256),
            inDoubt: 0,
            resends: 0,
            sentToOtherEnvironment: 0,
            retries: Array(repeating: 0, count: tiers),
            heldByCause: Array(repeating: 0, count: DeferralReason.allCases.count),
            answerTimes: LatencyCounts())
    }
}

/// The current time, and what happened, for logs and metrics. The parts of the machine write here; none decides by it.
struct Journal {
    var now = DeliveryTime(ns: 0, wallMs: 0)
    var events: [DeliveryEvent] = []
    var counters: DeliveryCounters
}

/// How long something took, counted in classes: a fixed histogram that costs no allocation.
package struct LatencyCounts: Sendable, Equatable {
    package static let bucketCount = 24

    /// How many took a number of milliseconds that is this many bits wide: bucket 0 is below 1 ms, bucket n from
    /// 2^(n-1) up to, and not with, 2^n ms; all that took longer is in the last.
    private var buckets = [24 of Int](repeating: 0)
    /// All their milliseconds.
    package private(set) var sumMs: Int64 = 0

    package init() {}

    /// Negative durations (the wall clock was set back) count as none.
    @inline(__always)
    mutating func count(_ ms: Int64) {
        let ms = max(0, ms)
        buckets[min(Self.bucketCount - 1, Int64.bitWidth - ms.leadingZeroBitCount)] &+= 1
        sumMs &+= ms
    }

    package subscript(bucket: Int) -> Int { buckets[bucket] }

    package var count: Int {
        var all = 0
        for bucket in 0..<Self.bucketCount { all += buckets[bucket] }
        return all
    }

    package static func == (left: LatencyCounts, right: LatencyCounts) -> Bool {
        left.sumMs == right.sumMs && (0..<bucketCount).allSatisfy { left.buckets[$0] == right.buckets[$0] }
    }
}
