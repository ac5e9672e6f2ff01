import PushRecords

extension FixedWidthInteger {
    /// Adds one, unless the value is at its maximum. The value may come from an untrusted record, so the addition must
    /// not trap.
    @inline(__always)
    mutating func countUp() { self &+= self < .max ? 1 : 0 }
}

/// Counts since the machine was created. They are never reset, and wrap on overflow instead of trapping.
package struct DeliveryCounters: Sendable {
    /// Counters of one app, or of notifications without a known app.
    package struct App: Sendable {
        /// Sends handed to a transport.
        package var handed = 0
        /// The numbers of concluded notifications by outcome, in the order of `Outcome.allCases`.
        package var outcomes = [Int](repeating: 0, count: Outcome.allCases.count)
        /// Negative answers of APNs, and rejections by the worker, by `ReasonCode.rawValue`.
        package var reasons = [Int](repeating: 0, count: 256)
        /// Sends in doubt, including possible sends by previous owners of a partition.
        package var inDoubt = 0
        package var resends = 0
        /// Notifications forwarded to the app of the other environment after BadDeviceToken.
        package var sentToOtherEnvironment = 0
        /// Moves of a notification to a retry tier that used up an attempt, by the index of the tier.
        package var retries: [Int]
        /// Deferrals of a notification, by `DeferralReason.rawValue`.
        package var heldByCause = [Int](repeating: 0, count: DeferralReason.allCases.count)
        /// The times from handing a send to the transport until its answer.
        package var answerTimes = LatencyCounts()
        /// The times from the original request's timestamp, or from its scheduled time if that is later, to the
        /// settlement, by the wall clock.
        package var settleTimes = LatencyCounts()

        package init(tiers: Int) { retries = Array(repeating: 0, count: tiers) }

        package var held: Int { heldByCause.reduce(0, +) }
    }

    /// The counters by app. The last entry is for notifications without an app.
    package var apps: [App]
    package var recordsReceived = 0
    package var deadLetters = 0
    package var notificationsAdmitted = 0
    package var notificationsSettled = 0
    /// Notifications and records that were skipped because the commit map lists them as settled.
    package var duplicatesSkipped = 0
    /// Completions and acknowledgements for assignments that have ended.
    package var late = 0
    package var commits = 0
    /// Partition entries in commits that the broker acknowledged.
    package var commitsAcknowledged = 0
    /// Partition entries in commits that the broker refused.
    package var commitsRefused = 0
    /// Partition entries whose commit map was truncated.
    package var mapsCut = 0
    package var circuitsOpened = 0
    package var guardsTripped = 0
    /// Offsets committed, counted when the commit is acknowledged.
    package var offsetsCommitted: Int64 = 0

    package init(apps: Int, tiers: Int) {
        self.apps = Array(repeating: App(tiers: tiers), count: apps + 1)
    }
}

/// The current time, its difference to the brokers' time, and the events and counts that the parts of the machine add.
/// No decision depends on an event or a count.
struct Journal {
    var now = DeliveryTime(ns: 0, wallMs: 0)
    var brokersClock = BrokersClock()
    var events: [DeliveryEvent] = []
    var counters: DeliveryCounters
}

/// A histogram of durations in fixed buckets, without allocation.
package struct LatencyCounts: Sendable {
    package static let bucketCount = 24

    /// The number of durations in each bucket. Bucket 0 contains those below 1 ms. Bucket n contains those from 2^(n-1)
    /// ms up to, but not including, 2^n ms. The last bucket also contains all longer ones.
    private var buckets = [24 of Int](repeating: 0)
    /// The sum of all durations.
    package private(set) var sumMs: Int64 = 0

    package init() {}

    /// Counts a duration. A negative one, which can occur if a clock is set back or wrong, counts as 0.
    @inline(__always)
    mutating func count(_ ms: Int64) {
        let ms = max(0, ms)
        buckets[min(Self.bucketCount - 1, Int64.bitWidth - ms.leadingZeroBitCount)] &+= 1
        sumMs &+= ms
    }

    package subscript(bucket: Int) -> Int { buckets[bucket] }
}
