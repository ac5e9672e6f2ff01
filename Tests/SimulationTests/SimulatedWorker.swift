import PushRecords

@testable import Delivery

/// One worker process of the simulation: a machine, and what is under way around it.
final class SimulatedWorker {
    struct Assignment {
        var id: PartitionID
        /// Counts assignments over all workers.
        var number: Int
        /// The next record of the log.
        var position: Int
        /// Monotonic.
        var waitUntilMs: Int64 = 0
        /// The step in which it was revoked.
        var drainsSince: Int?
        var isLate = false
        /// Another one owns the partition, and this worker does not know yet.
        var fenced: Fenced?
    }

    struct Fenced {
        /// The step in which it learns.
        var untilStep: Int
        /// What it had fetched, and the reach that it knew to be committed.
        var end: Int
        var reach: Int64
    }

    /// A request at a transport, until the machine hears of its end.
    struct Flight {
        var place: SimulatedPlace
        var original: SimulatedPlace
        /// Token and topic.
        var laneKey: [UInt8]
        /// As the machine counts them.
        var app: Int
        /// Number of its assignment.
        var assignment: Int
        var isSuspect: Bool
        /// Waits at the transport: on no connection, and not ended.
        var isQueued = true
    }

    /// A record on its way to Kafka.
    struct Producing {
        var id: NotificationID
        /// Number of its assignment.
        var assignment: Int
        var place: SimulatedPlace
        var appendMs: Int64
        var ackMs: Int64
        var isAppended = false
        /// Says whether it may be there twice.
        var append: (SimulatedWorld, _ again: Bool) -> Void
    }

    struct Committing {
        var log: Int
        /// Number of its assignment.
        var assignment: Int
        var commit: SimulatedLog.Commit
        var outcome: CommitOutcome
        /// Whether the broker takes it; a refusal may come after it did.
        var isTaken: Bool
    }

    /// The assignment of one of its notifications' partitions, by slot of its id.
    func log(ofSlot slot: UInt32) -> Int? { assignments.first { $0.value.id.slot == slot }?.key }

    func log(of id: PartitionID) -> Int? { assignments.first { $0.value.id == id }?.key }

    /// The commit of one group that is under way.
    struct CommitFlight {
        var entries: [Committing] = []
        var appliesMs: Int64 = 0
        var replyMs: Int64 = 0
        var isApplied = false
    }

    var machine: DeliveryMachine
    var assignments: [Int: Assignment] = [:]
    var flights: [NotificationID: Flight] = [:]
    /// Of all apps.
    var connections: [SimulatedConnection] = []
    /// Ends of requests that the machine has yet to hear of.
    var fates: [(dueMs: Int64, fate: Fate)] = []
    var producing: [Producing] = []
    /// By `CommitGroup`.
    var commits = [CommitFlight(), CommitFlight()]
    var retryWriter: RetryWriter
    /// By app, as the machine counts them; 0: cannot be reached.
    var capacities: [Int]
    /// Suspects that go alone next time: the quarantine connection died under them and others.
    var marked: Set<NotificationID> = []
    /// How wrong its wall clock is.
    var skewMs: Int64 = 0
    /// Nothing that it sends to APNs is answered until then.
    var deafUntilMs: Int64 = 0
    /// Of apps with a `rate_limit`: since when, and what was sent since.
    var rates: [Int: (sinceNs: Int64, sent: Int)] = [:]

    init(_ settings: DeliverySettings, apps: [AppRoute], capacity: Int) {
        machine = DeliveryMachine(settings: settings, apps: apps)
        retryWriter = Self.writer(apps)
        capacities = apps.map { _ in capacity }
        for app in apps.indices { machine.setCapacity(AppIndex(app), requests: capacity) }
    }

    private static func writer(_ routes: [AppRoute]) -> RetryWriter {
        RetryWriter(apps: routes.map { RecordApp(name: $0.name, environment: $0.environment) })
    }

    func reload(_ routes: [AppRoute], now: DeliveryTime) {
        let mapping = machine.replaceApps(routes, now: now)
        rates = [:]
        for app in mapping.added {
            capacities.append(capacities[0])
            machine.setCapacity(app, requests: capacities[0])
        }
        retryWriter = Self.writer(machine.controls.map(\.route))
    }

    var isIdle: Bool {
        let gauges = machine.gauges
        return flights.isEmpty && producing.isEmpty && commits.allSatisfy(\.entries.isEmpty)
            && gauges.openNotifications == 0 && gauges.openBytes == 0 && machine.lanes.count == 0
            && assignments.values.allSatisfy { $0.fenced == nil }
    }
}
