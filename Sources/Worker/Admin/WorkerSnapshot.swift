internal import Configuration
internal import Delivery
internal import PushRecords

/// How a worker stands: what its pages show. A copy that the core makes a few times a second, so that no reader of a
/// page ever waits for the core, or it for them.
struct WorkerSnapshot: Sendable {
    enum Phase: String, Sendable {
        /// Kafka was not reached yet, or its topics were not checked.
        case starting
        /// Waiting for the groups' first assignment.
        case joining
        case running
        /// Draining, or on its way out.
        case stopping
    }

    /// An app, at its place in the machine's counters.
    struct App: Sendable {
        var name: String
        var environment: PushEnvironment
        var isRemoved = false
        var connections = ConnectionCounts()
        /// As the machine has it.
        var status: AppStatus?
        /// The `iat` of the provider token in use (wall clock); `nil`: none yet, or a certificate is used.
        var tokenIssuedMs: Int64?
        /// Of the binary protocol: errors that came too late.
        var window = AppTransports.WindowFaults()
        /// Of the binary protocol; `nil`: it is not read.
        var feedback: FeedbackStanding?
        /// When the client certificate ends; `nil`: a provider token is used.
        var certificateEndsMs: Int64?
    }

    /// An assigned partition.
    struct Partition: Sendable {
        var role: Role
        var status: PartitionStatus
        /// The next offset that will be written to it; `nil`: no fetch has told yet.
        var logEnd: Int64?

        /// Records from the watermark to the log's end; `nil`: not known yet.
        var lag: Int64? {
            guard let logEnd else { return nil }
            guard let watermark = status.watermark else { return logEnd }
            // A committed offset may be any number.
            let (lag, overflow) = logEnd.subtractingReportingOverflow(watermark)
            return overflow ? nil : max(0, lag)
        }
    }

    enum Role: String, CaseIterable, Sendable { case requests, retries }

    var phase = Phase.starting
    /// Why it is still starting; empty otherwise.
    var waitingFor = ""
    var groupID: String
    var startedMs: Int64
    var takenMs: Int64
    var problems: [Problem] = []
    /// Further ones that are not named.
    var problemsLeftOut = 0
    /// Roles of which not even the topics' partitions are known.
    var unknownLags: Set<Role> = []
    var apps: [App]
    /// By delay; names of the tiers, as in `DeliveryCounters.App.retries`.
    var tiers: [String]
    var partitions: [Partition] = []
    var counters: DeliveryCounters
    var gauges: DeliveryGauges
    var crashes = CrashHistory()
    /// Handed to the producer and not acknowledged.
    var unacknowledged = 0
    /// Records refused by Kafka that wait to be written again.
    var refused = 0
    /// Records that were too large for a topic, by topic, since the start.
    var tooLarge: [(topic: String, records: Int)] = []
    /// Records that a topic refused for their own sake, by topic, since the start.
    var rejected: [(topic: String, records: Int)] = []
    /// Retry topics that the configuration does not name and that are read all the same, with what is left in the
    /// partitions of this worker.
    var leftTiers: [(topic: String, records: Int)] = []

    /// Whether the groups have answered once, which an empty assignment does too.
    var isReady: Bool { phase == .running || phase == .stopping && hasBeenReady }
    var hasBeenReady = false

    /// Over all partitions assigned; `nil`: not known of all.
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
