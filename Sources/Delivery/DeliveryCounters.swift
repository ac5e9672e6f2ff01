import PushRecords

/// What happened since the machine was made; only ever grows.
package struct DeliveryCounters: Sendable, Equatable {
    /// Of one app (or of notifications for which no app could be told).
    package struct App: Sendable, Equatable {
        /// Handed to a transport.
        package var handed = 0
        /// Ended, by `Outcome.allCases`' order.
        package var outcomes = [Int](repeating: 0, count: Outcome.allCases.count)
        /// Answers and refusals, by `ReasonCode`'s raw value.
        package var reasons = [Int](repeating: 0, count: 256)
        /// Sends whose fate stayed unknown, those of dead owners included.
        package var inDoubt = 0
        package var resends = 0
        /// Moved to a tier with an attempt used up, by tier.
        package var retries: [Int]
        /// Moved to a tier without one, by `HeldCause`'s raw value.
        package var heldByCause = [Int](repeating: 0, count: HeldCause.allCases.count)
        package var held: Int { heldByCause.reduce(0, +) }

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
    /// Fates and acknowledgements for assignments that are gone.
    package var late = 0
    package var commits = 0
    /// Partitions of commits that the broker took, or did not.
    package var commitsAcknowledged = 0
    package var commitsRefused = 0
    /// Commits whose map was cut.
    package var mapsCut = 0
    package var circuitsOpened = 0

    package init(apps: Int, tiers: Int) {
        self.apps = Array(repeating: App(tiers: tiers), count: apps + 1)
    }
}

/// How a partition stands now.
package struct PartitionStatus: Sendable, Equatable {
    package var topic: String
    package var partition: Int32
    /// The first offset that is not settled; `nil`: none is known.
    package var watermark: Int64?
    package var committed: Int64?
    /// -1: nothing was received.
    package var highestReceived: Int64
    /// Received records from the watermark on.
    package var span: Int
    package var openNotifications: Int
    /// Timestamp of the record at the watermark; `nil`: nothing is open.
    package var oldestOpenMs: Int64?
    package var isDraining: Bool
}

/// What is going on now, over all partitions.
package struct DeliveryGauges: Sendable, Equatable {
    package var openNotifications: Int
    package var openBytes: Int
    /// Handed to transports and unanswered, by app.
    package var inFlight: [Int]
    /// Waiting for a free stream, by app.
    package var waiting: [Int]
    package var productions: Int
}
