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
        /// Wall clock at which the provider token in use was made; `nil`: none yet, or a certificate is used.
        var tokenMadeMs: Int64?
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
            return status.watermark.map { max(0, logEnd - $0) } ?? logEnd
        }
    }

    enum Role: String, CaseIterable, Sendable { case requests, retries }

    /// Something that keeps the worker from doing its work as it should; it works on.
    struct Problem: Sendable, Equatable {
        /// The thing: `kafka`, `app shop`.
        var subject: String
        var text: String
    }

    var phase = Phase.starting
    /// Why it is still starting; empty otherwise.
    var waitingFor = ""
    var groupID: String
    var startedMs: Int64
    var takenMs: Int64
    var problems: [Problem] = []
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

    /// Whether the groups have answered once, which an empty assignment does too.
    var isReady: Bool { phase == .running || phase == .stopping && hasBeenReady }
    var hasBeenReady = false

    func lag(of role: Role) -> Int64 {
        partitions.reduce(0) { $1.role == role ? $0 + ($1.lag ?? 0) : $0 }
    }
}
