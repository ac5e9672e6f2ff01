package import PushRecords

/// The current time. The machine's owner reads its clocks and passes the time. The machine never reads a clock.
package struct DeliveryTime: Sendable, Equatable {
    /// Monotonic nanoseconds, for intervals.
    package var ns: Int64
    /// Wall clock in milliseconds since the epoch, for comparison with the timestamps of records and of APNs.
    package var wallMs: Int64

    @inlinable package init(ns: Int64, wallMs: Int64) {
        self.ns = ns
        self.wallMs = wallMs
    }
}

/// The configuration of the machine: the sections `delivery` and `retry`, parts of `results` and `unregistered`, and
/// times derived from `kafka.session_timeout`.
package struct MachineSettings: Sendable {
    package enum Ordering: Sendable { case device, none }
    package enum InDoubtPolicy: Sendable { case resend, abandon }

    package var ordering = Ordering.device
    /// Whether the worker derives the `apns-id` of requests without one (`apns_id: derived`). If not, Apple creates it.
    package var derivesIDs = true
    package var inDoubt = InDoubtPolicy.resend
    /// The maximum number of resends of a notification after an answer or a send in doubt. Instead of a further resend,
    /// the notification moves to a tier of at least 15 minutes, which uses up one attempt.
    package var resendMax = 5
    /// The maximum age of a request when it is read, or 0 for no limit. An older request is `expired`.
    package var maxAgeMs: Int64 = 24 * 3_600_000
    /// How far in the future `push-not-before` may be when a request is read. A request with a later time is `invalid`.
    package var maxAheadMs: Int64 = 7 * 24 * 3_600_000
    /// The largest `maxAheadMs` that the configuration allows, plus a day for clock differences.
    static let longestAheadMs: Int64 = 366 * 24 * 3_600_000
    /// The maximum number of open notifications over all partitions. `mostOpen(streams:)` may return less.
    package var maxOpen = 20_000
    /// Reading stops when the open records of all partitions use this many bytes.
    package var maxOpenBytes = 16 << 20
    /// The maximum number of notifications in the queue of a device. Further notifications are deferred.
    package var deviceQueueLimit = 100
    package var commitIntervalNs: Int64 = 20_000_000
    /// The duration of the lease, counted from when the last acknowledged commit was sent. Shorter than the session
    /// timeout. When the lease has ended, nothing is sent until the next commit is acknowledged. `Int64.max` disables
    /// the lease.
    package var leaseNs = Int64.max
    /// How long the state of a suspended partition is retained.
    package var suspendedLimitNs: Int64 = 600_000_000_000
    /// The minimum number of notifications, on average, between the highest record sent and the send horizon.
    package var horizonMargin: Int64 = 100
    /// The maximum length of commit metadata in characters.
    package var metadataLimit = 4_000
    /// Whether `accepted` results that are not in doubt are counted but not published (`results.publish: failures`).
    package var publishesOnlyFailures = false
    /// Whether bad tokens are published as dead (`unregistered.include_bad_tokens`).
    package var includesBadTokens = false
    /// Headers to copy to results, besides those that are always copied (`results.copy_headers`).
    package var copiedHeaders: [String] = []
    /// The delays of the retry tiers in ascending order, at least one. `ProductionTarget.retry` contains an index in
    /// this array.
    package var tierDelaysMs: [Int64] = [30_000, 900_000, 7_200_000]
    /// The maximum number of attempts. A notification that would need another attempt is `abandoned`.
    package var maxAttempts = 5
    /// The verdicts that override the defaults, by Apple's reason (`delivery.verdicts`).
    package var verdicts: [String: Verdict] = [:]
    /// The seed of device hashes and owner numbers. The caller chooses it, so that the machine is deterministic.
    package var hashSeed: UInt64 = 0

    package init() {}

    /// The limit of open notifications while there are no streams. It is above 0, so that notifications can still be
    /// deferred to retry topics.
    private static let openAtLeast = 1_000
    private static let openBesideStreams = 4_000

    /// Returns the maximum number of open notifications for a number of concurrent requests.
    ///
    /// The number is only large enough to keep the connections busy, because records wait in Kafka without cost. For
    /// each stream, one notification is in flight, one follows, and one waits for Kafka's acknowledgement. The last two
    /// add at most 4,000 to the limit, because they only bridge the time until the next turn or acknowledgement. In a
    /// test with eight connections of 1,000 streams, a higher limit lowered the rate and used more memory.
    package func mostOpen(streams: Int) -> Int {
        min(maxOpen, Self.openAtLeast + streams + min(2 * streams, Self.openBesideStreams))
    }
}

/// The configuration of one app, as far as the machine needs it.
package struct AppRoute: Sendable {
    /// The reaction when Apple rejects more than half of the last 1,000 device tokens, or all of the first 20. Such
    /// tokens usually belong to the other environment. Set by `environment_guard`.
    package enum GuardPolicy: String, Sendable {
        /// Slows the app down and logs an event.
        case warn
        /// Slows the app down like `warn`, and moves notifications with rejected tokens to the retry tiers.
        case hold
        case off
    }

    package var name: String
    package var environment: PushEnvironment
    package var bundleIDs: [String]
    /// Whether the app's notifications are deferred instead of sent (`paused`).
    package var isPaused: Bool
    /// The maximum number of requests per second, including resends, or 0 for no limit.
    package var rateLimit: Int
    package var guardPolicy: GuardPolicy
    /// The name of an app with these bundle ids in the other environment. A notification with BadDeviceToken is
    /// forwarded to that app once.
    package var otherEnvironment: String?

    package init(
        name: String, environment: PushEnvironment, bundleIDs: [String], isPaused: Bool = false, rateLimit: Int = 0,
        guardPolicy: GuardPolicy = .warn, otherEnvironment: String? = nil
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

/// The result of `DeliveryMachine.replaceApps`: the index of each app.
package struct AppMapping: Sendable, Equatable {
    /// The index of each given route, in order.
    package var indexes: [AppIndex]
    /// The indexes of new apps.
    package var added: [AppIndex]
    /// The indexes of removed apps. No new request uses these apps, and their indexes are never reused.
    package var removed: [AppIndex]
}

/// The kind of topic that a partition belongs to.
package enum PartitionRole: Sendable, Equatable {
    /// A request topic with its weight (at least 1), and the name of the app for requests that name none.
    case requests(weight: Int, app: String? = nil)
    /// A retry topic with its tier's delay. The tier may no longer be configured.
    case retry(delayMs: Int64)

    var group: CommitGroup { if case .retry = self { .retries } else { .requests } }
}

/// The consumer group that reads a partition. Each group commits separately, so that a slow coordinator does not delay
/// the other group.
package enum CommitGroup: Int, CaseIterable, Sendable {
    case requests
    case retries
}

/// The id of one assignment of a partition. Every assignment gets a new id, so that the machine recognizes completions
/// and replies for an assignment that has ended.
package struct PartitionID: Hashable, Sendable {
    package var slot: PartitionSlot
    package var generation: UInt32
}
