internal import Configuration
internal import Delivery
internal import PushRecords

/// The worker's state as shown on the admin pages. The core thread copies it a few times a second, so that neither the
/// core thread nor a page request waits for the other.
struct WorkerSnapshot: Sendable {
    enum Phase: String, Sendable {
        /// The worker has not reached Kafka yet, or has not checked its topics yet.
        case starting
        case joining
        case running
        case stopping
    }

    /// The state of one app. Its index in `apps` is also its index in `DeliveryCounters.apps`.
    struct App: Sendable {
        var name: String
        var environment: PushEnvironment
        var isRemoved = false
        var status: AppStatus?
        var standing = AppTransports.Standing()
        /// The state of the app's feedback reads, or `nil` if the worker does not read feedback for the app.
        var feedback: FeedbackStanding?
        /// The expiry of the loaded client certificate (wall clock), or `nil` if there is none.
        var certificateEndsMs: Int64?
    }

    struct Partition: Sendable {
        var role: Role
        var status: PartitionStatus
        /// The log end offset, or `nil` if it is unknown.
        var logEnd: Int64?
        /// When the next retry record is due (wall clock), or `nil` if it is due now or unknown. The later records of a
        /// retry partition are due later.
        var nextDueMs: Int64?

        /// The number of offsets from the watermark to the log end, or `nil` while the log end is unknown. Without a
        /// watermark, counts from offset 0.
        var lag: Int64? {
            logEnd.map { max(0, $0 &- (status.watermark ?? 0)) }
        }
    }

    enum Role: String, CaseIterable, Sendable { case requests, retries }

    typealias TopicCounts = [(topic: String, records: Int)]

    var phase = Phase.starting
    var groupID: String
    var startedMs: Int64
    /// The time of the last successful reload (wall clock), or `nil` if there was none since the start.
    var reloadedMs: Int64?
    var isReloadRefused = false
    /// The settings in use, by path.
    var settings: [String: Setting] = [:]
    var takenMs: Int64
    /// The time at which the snapshot was taken (monotonic). An old time means that the core thread is stuck.
    var takenNs: Int64 = 0
    var problems: [Problem] = []
    /// The number of problems beyond `ProblemList.limit`, which `problems` does not contain.
    var problemsLeftOut = 0
    /// The roles whose total lag is unknown, because the worker is not a member of the group, Kafka does not answer, or
    /// a topic is unavailable.
    var unknownLags = Set(Role.allCases)
    var apps: [App]
    /// The names of the tiers by ascending delay, which is also the order of `DeliveryCounters.App.retries`.
    var tiers: [String]
    var partitions: [Partition] = []
    var counters: DeliveryCounters
    var gauges: DeliveryGauges
    var crashes = CrashHistory()
    /// The rebalances of the consumer groups since the start, as seen by this worker. Empty before the worker creates
    /// its Kafka clients.
    var memberships: [Role: (rebalances: Int, partitionsLost: Int)] = [:]
    /// The statistics of the Kafka clients, by name: those of `Role`, and `producer`.
    var clients: [(name: String, health: BrokerHealth)] = []
    var unacknowledged = 0
    var refused = 0
    var tooLarge: TopicCounts = []
    var rejected: TopicCounts = []
    /// The lag of each retry topic that was removed from the configuration, summed over this worker's partitions.
    var removedRetryTopics: TopicCounts = []

    var hour = RecentHour()
    /// The name of this machine or container, or empty if it is unknown.
    var host = ""
    /// When the worker's partitions last changed, usually in a rebalance, or `nil` if it has not had any yet.
    var partitionsChanged: DeliveryTime?

    /// Whether the worker has received its first assignment, even an empty one, in both consumer groups.
    var isReady = false

    var health: String { isReady ? problems.isEmpty ? "fine" : "degraded" : "starting" }

    /// Returns the total lag of the role's assigned partitions, or `nil` if it is unknown.
    func lag(of role: Role) -> Int64? {
        unknownLags.contains(role) ? nil : Self.lag(of: partitions.filter { $0.role == role })
    }

    /// Returns the total lag of the partitions, or `nil` if the lag of one of them is unknown.
    static func lag(of partitions: [Partition]) -> Int64? {
        let lags = partitions.compactMap(\.lag)
        return lags.count < partitions.count ? nil : lags.reduce(0, &+)
    }
}
