internal import Configuration
internal import Delivery
internal import PushRecords

/// The state of a worker that its pages show. The core makes a copy a few times a second, so that neither it nor a
/// reader of a page waits for the other.
struct WorkerSnapshot: Sendable {
    enum Phase: String, Sendable {
        /// Kafka was not reached yet, or its topics were not checked.
        case starting
        case joining
        case running
        case stopping
    }

    /// An app, at its place in the machine's counters.
    struct App: Sendable {
        var name: String
        var environment: PushEnvironment
        var isRemoved = false
        var status: AppStatus?
        var standing = AppTransports.Standing()
        /// `nil` if the app's feedback is not read.
        var feedback: FeedbackStanding?
        /// The end of the client certificate, or `nil` if a provider token is used.
        var certificateEndsMs: Int64?
    }

    struct Partition: Sendable {
        var role: Role
        var status: PartitionStatus
        /// The next offset to be written, or `nil` before the first fetch.
        var logEnd: Int64?

        /// Records from the watermark to the log's end, or `nil` while that is not known.
        var lag: Int64? {
            guard let logEnd else { return nil }
            guard let watermark = status.watermark else { return logEnd }
            // A committed offset may be any number.
            let (lag, overflow) = logEnd.subtractingReportingOverflow(watermark)
            return overflow ? nil : max(0, lag)
        }
    }

    enum Role: String, CaseIterable, Sendable { case requests, retries }

    typealias TopicCounts = [(topic: String, records: Int)]

    var phase = Phase.starting
    var groupID: String
    var startedMs: Int64
    var takenMs: Int64
    /// When the snapshot was taken, by the monotonic clock. An old one means that the core does not turn any more.
    var takenNs: Int64 = 0
    var problems: [Problem] = []
    /// Problems beyond those that are named.
    var problemsLeftOut = 0
    /// Roles whose assigned partitions are not all known: the group is being joined, or Kafka does not answer.
    var unknownLags = Set(Role.allCases)
    var apps: [App]
    /// Names of the tiers by delay, as in `DeliveryCounters.App.retries`.
    var tiers: [String]
    var partitions: [Partition] = []
    var counters: DeliveryCounters
    var gauges: DeliveryGauges
    var crashes = CrashHistory()
    var unacknowledged = 0
    var refused = 0
    var tooLarge: TopicCounts = []
    var rejected: TopicCounts = []
    /// Records left in retry topics that were removed from the configuration, in this worker's partitions.
    var leftTiers: TopicCounts = []

    /// Whether the groups have answered once. An empty assignment is an answer.
    var isReady = false

    var health: String { isReady ? problems.isEmpty ? "fine" : "degraded" : "starting" }

    /// The lag over all assigned partitions, or `nil` if that of any is not known.
    func lag(of role: Role) -> Int64? {
        guard !unknownLags.contains(role) else { return nil }
        var sum: Int64 = 0
        for partition in partitions where partition.role == role {
            guard let lag = partition.lag else { return nil }
            sum = sum.addingReportingOverflow(lag).overflow ? .max : sum + lag
        }
        return sum
    }
}
