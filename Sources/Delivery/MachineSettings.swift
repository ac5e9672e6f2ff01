package import PushRecords

/// The two clocks as the caller's loop read them this turn; the machine never reads one itself.
package struct DeliveryTime: Sendable, Equatable {
    /// Monotonic nanoseconds: for intervals.
    package var ns: Int64
    /// Wall clock, milliseconds since the epoch: for what is compared with records and Apple.
    package var wallMs: Int64

    @inlinable package init(ns: Int64, wallMs: Int64) {
        self.ns = ns
        self.wallMs = wallMs
    }
}

/// The part of the configuration that the machine decides by: its sections `delivery` and `retry`, and what it needs of
/// `results`, `unregistered` and `kafka.session_timeout`.
package struct MachineSettings: Sendable {
    package enum Ordering: Sendable { case device, none }
    package enum InDoubtPolicy: Sendable { case resend, abandon }

    /// One retry tier; its index in `tiers` is what `ProductionTarget.retry` names.
    package struct Tier: Sendable, Equatable {
        package var delayMs: Int64
        package init(delayMs: Int64) { self.delayMs = delayMs }
    }

    package var ordering = Ordering.device
    /// `apns_id: derived`; otherwise Apple makes the id.
    package var derivesIDs = true
    package var inDoubt = InDoubtPolicy.resend
    /// Resends after an answer or in doubt, before a notification goes to the tier of 15 minutes as one attempt.
    package var resendMax = 5
    /// Requests older than this when read are `expired`, unless it is 0.
    package var maxAgeMs: Int64 = 24 * 3_600_000
    /// Requests whose `push-not-before` is further ahead than this when they are read are `invalid`.
    package var maxAheadMs: Int64 = 7 * 24 * 3_600_000
    /// The largest `maxAheadMs`, and a day for clocks that differ.
    static let longestAheadMs: Int64 = 366 * 24 * 3_600_000
    /// Notifications open at once, over all partitions, at most; fewer while the connections take fewer.
    package var maxOpen = 20_000
    /// Bytes of records held at once, over all partitions.
    package var maxOpenBytes = 16 << 20
    /// Notifications of one device open at once; what exceeds it is held.
    package var deviceQueueLimit = 100
    package var commitIntervalNs: Int64 = 20_000_000
    /// How long an acknowledged commit proves, from when it was sent, that this worker is a member of its group: less
    /// than the session timeout. Nothing is handed out on an older proof. `Int64.max`: for ever.
    package var leaseNs = Int64.max
    /// How long what a lost partition knew is kept.
    package var suspendedLimitNs: Int64 = 600_000_000_000
    /// The least number of offsets by which the send horizon is kept ahead.
    package var horizonMargin: Int64 = 500
    /// Characters of commit metadata.
    package var metadataLimit = 4_000
    /// `results.publish: failures`: an `accepted` without doubt is only counted.
    package var publishesOnlyFailures = false
    /// `unregistered.include_bad_tokens`.
    package var includesBadTokens = false
    /// `results.copy_headers`, beside `traceparent` and `tracestate`.
    package var copiedHeaders: [String] = []
    /// Ascending by delay; at least one.
    package var tiers: [Tier] = [Tier(delayMs: 30_000), Tier(delayMs: 900_000), Tier(delayMs: 7_200_000)]
    /// How many stays in a tier for a reason of its own (held ones are not counted) a notification has before it is
    /// `abandoned`.
    package var maxAttempts = 5
    /// `delivery.verdicts`: overrides by Apple's word.
    package var verdicts: [String: Verdict] = [:]
    /// Seeds the hash of the device queues (any number; chosen by the caller so that the machine has no chance of its
    /// own).
    package var hashSeed: UInt64 = 0

    package init() {}

    /// Also while there is no stream: what is held passes through.
    private static let openAtLeast = 1_000
    private static let openBesideStreams = 4_000

    /// Notifications that may be open while the connections take so many requests at once.
    ///
    /// No more is held open than keeps the connections busy: what cannot be sent soon waits in Kafka, where it costs
    /// nothing, rather than in memory and in the caches. For each stream one is on it, one waits to follow it, and one
    /// waits for Kafka to acknowledge its result. The last two are 4,000 at most: they come within the milliseconds
    /// that a turn and Kafka take, however many streams there are. With more of them eight connections of 1,000 streams
    /// carried less, in more memory ("What it costs", in the documentation of `Worker`).
    package func mostOpen(streams: Int) -> Int {
        min(maxOpen, Self.openAtLeast + streams + min(2 * streams, Self.openBesideStreams))
    }
}

/// What the machine knows of an app.
package struct AppRoute: Sendable {
    /// What follows when Apple calls more than half of the last 1,000 device tokens bad, or all of the first 20, which
    /// most often means that they belong to the other environment (`environment_guard`).
    package enum GuardPolicy: Sendable {
        /// The app is slowed down, and an event is logged.
        case warn
        /// As `warn`; what is answered so meanwhile goes to the retry tiers instead of being rejected.
        case hold
        case off
    }

    package var name: String
    package var environment: PushEnvironment
    package var bundleIDs: [String]
    /// `paused`: nothing of it is sent, its notifications are held.
    package var isPaused: Bool
    /// Requests a second, resends included, or 0 for as many as the transport takes.
    package var rateLimit: Int
    package var guardPolicy: GuardPolicy
    /// The app that has the same bundle ids in the other environment, to which what is BadDeviceToken here is sent
    /// once.
    package var otherEnvironment: String?

    package init(
        name: String, environment: PushEnvironment, bundleIDs: [String], isPaused: Bool = false, rateLimit: Int = 0,
        guardPolicy: GuardPolicy = .warn,
        otherEnvironment: String? = nil
    ) {
        self.name = name
        self.environment = environment
        self.bundleIDs = bundleIDs
        self.isPaused = isPaused
        self.rateLimit = rateLimit
        self.guardPolicy = guardPolicy
        self.otherEnvironment = otherEnvironment
    }
}

/// Which app is which after `DeliveryMachine.replaceApps`.
package struct AppMapping: Sendable, Equatable {
    /// Of each route given, in its order.
    package var indexes: [AppIndex]
    /// Those of them that are new.
    package var added: [AppIndex]
    /// Apps that are gone; no record finds them, and their indexes are never used again.
    package var removed: [AppIndex]
}

/// What a partition is read for.
package enum PartitionRole: Sendable, Equatable {
    /// A request topic: its weight (at least 1), and the app, by name, of requests that name none.
    case requests(weight: Int, app: String? = nil)
    /// A retry topic with the delay of its tier, which may be one that is no longer configured.
    case retry(delayMs: Int64)

    var group: CommitGroup { if case .retry = self { .retries } else { .requests } }
}

/// The consumer group that a partition is read by. Each has commits of its own, so that a slow coordinator of the one
/// does not delay the other.
package enum CommitGroup: Int, CaseIterable, Sendable {
    case requests
    case retries
}

/// An assignment of a partition: a new name each time, so that replies to an old one are recognized.
package struct PartitionID: Hashable, Sendable {
    package var slot: PartitionSlot
    package var generation: UInt32

    @inlinable package init(slot: PartitionSlot, generation: UInt32) {
        self.slot = slot
        self.generation = generation
    }
}
