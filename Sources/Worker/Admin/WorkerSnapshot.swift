internal import Configuration
internal import Delivery
internal import PushRecords

/// The worker's state as shown on the admin pages. The core thread copies it a few times a second, so that neither the
/// core nor a page request waits for the other.
struct WorkerSnapshot: Sendable {
    enum Phase: String, Sendable {
        /// Kafka has not been reached yet, or its topics have not been checked yet.
        case starting
        case joining
        case running
        case stopping
    }

    /// An app. Its index in `apps` is also its index in `DeliveryCounters.apps`.
    struct App: Sendable {
        var name: String
        var environment: PushEnvironment
        var isRemoved = false
        var status: AppStatus?
        var standing = AppTransports.Standing()
        /// The state of the app's feedback reads, or `nil` if its feedback is not read.
        var feedback: FeedbackStanding?
        /// The expiry of the client certificate (wall clock), or `nil` if the app uses a provider token.
        var certificateEndsMs: Int64?
    }

    struct Partition: Sendable {
        var role: Role
        var status: PartitionStatus
        /// The offset of the next record that is produced to the partition, or `nil` before the first fetch.
        var logEnd: Int64?

        /// The number of records between the watermark and the log end, or `nil` while the log end is unknown.
        var lag: Int64? {
            guard let logEnd else { return nil }
            guard let watermark = status.watermark else { return logEnd }
            // Another program may have committed any number, so the difference can overflow.
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
    /// The time of the snapshot (monotonic). An old time means that the core thread is stuck.
    var takenNs: Int64 = 0
    var problems: [Problem] = []
    /// The number of problems that `problems` leaves out.
    var problemsLeftOut = 0
    /// The roles whose total lag is unknown, because the group has not been joined or Kafka does not answer.
    var unknownLags = Set(Role.allCases)
    var apps: [App]
    /// The names of the retry topics by delay, in the order of `DeliveryCounters.App.retries`.
    var tiers: [String]
    var partitions: [Partition] = []
    var counters: DeliveryCounters
    var gauges: DeliveryGauges
    var crashes = CrashHistory()
    var unacknowledged = 0
    var refused = 0
    var tooLarge: TopicCounts = []
    var rejected: TopicCounts = []
    /// The records in this worker's partitions of retry topics that were removed from the configuration.
    var removedRetryTopics: TopicCounts = []

    /// Whether all consumer groups have received their first assignment, which may be empty.
    var isReady = false

    var health: String { isReady ? problems.isEmpty ? "fine" : "degraded" : "starting" }

    /// Returns the total lag of the role's assigned partitions, or `nil` if the lag of any of them is unknown.
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
