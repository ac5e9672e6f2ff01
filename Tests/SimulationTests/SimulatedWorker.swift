import PushRecords

@testable import Delivery

/// One worker process of the simulation: a machine, and what is under way around it.
final class SimulatedWorker {
    struct Assignment {
        var id: PartitionID
        /// Counts assignments over all workers.
        var number: Int
        /// It was read from here.
        var firstPosition: Int64
        /// The next offset.
        var position: Int64
        /// Of the log, as the worker knows it.
        var life: Int
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
        /// What it had fetched; `Int64.max`: it goes on fetching. And the horizon that it knew to be committed.
        var end: Int64
        var horizon: Int64
        /// The log's end as its successor asked for it.
        var successorEnd: Int64?
        /// Its proof of being a member is older than its session.
        var isExpired = false
        /// Somebody was given the partition since.
        var wasFollowed = false
    }

    /// A partition whose session was lost, and may come back.
    struct Suspended {
        var id: PartitionID
        /// Nobody owned it since.
        var isUntouched = true
        var sinceNs: Int64
        var life: Int
    }

    /// A request at a transport, until the machine hears of its end.
    struct Flight {
        var place: SimulatedPlace
        var original: SimulatedPlace
        /// Token, topic and environment.
        var deviceKey: [UInt8]
        /// As the machine counts them.
        var app: Int
        /// It goes to the environment that no request is for.
        var isOther: Bool
        /// Number of its assignment.
        var assignment: Int
        var chain: Int
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

    /// Where a notification was read, whatever became of its assignment since.
    func place(of id: NotificationID, in machine: borrowing DeliveryMachine) -> SimulatedPlace? {
        let notification = machine.store[id.slot]
        let record = machine.store[notification.record]
        guard record.partition != .none, var place = reads[record.partition]?[record.offset] else { return nil }
        place.index = notification.index
        return place
    }

    func keep(_ record: SimulatedRecord, of log: Int, _ assignment: Assignment) {
        let place = SimulatedPlace(log: log, life: record.life, offset: record.offset)
        reads[assignment.id.slot, default: [:]][record.offset] = place
    }

    /// The assignment of a place, unless its log is another one by now.
    func assignment(of id: NotificationID, in machine: borrowing DeliveryMachine) -> Assignment? {
        let slot = machine.store[recordOf: id.slot].partition
        return assignments.values.first { $0.id.slot == slot }
    }

    func log(of id: PartitionID) -> Int? { assignments.first { $0.value.id == id }?.key }

    /// The commit of one group that is under way.
    struct InFlightCommit {
        var entries: [Committing] = []
        var appliesMs: Int64 = 0
        var replyMs: Int64 = 0
        var isApplied = false
    }

    let number: Int
    var machine: DeliveryMachine
    var turn = DeliveryTurn()
    /// By slot of a partition, and offset: what was read there.
    var reads: [PartitionSlot: [Int64: SimulatedPlace]] = [:]
    /// By slot of a partition: the number of its first assignment, before it was lost and came back.
    var chains: [PartitionSlot: Int] = [:]
    /// Since when no commit of it reaches the broker.
    var cutOffSinceNs: Int64?
    /// Partitions whose session was lost, by log.
    var suspended: [Int: Suspended] = [:]
    /// By log: who wrote the commit that was read at the assignment, and when.
    var readMarks: [Int: [Int]] = [:]
    var assignments: [Int: Assignment] = [:]
    var flights: [NotificationID: Flight] = [:]
    /// Of all apps.
    var connections: [SimulatedConnection] = []
    /// Ends of requests that the machine has yet to hear of.
    var completions: [(dueMs: Int64, completion: Completion)] = []
    var producing: [Producing] = []
    /// By `CommitGroup`.
    var commits = [InFlightCommit(), InFlightCommit()]
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

    init(_ number: Int, _ settings: MachineSettings, apps: [AppRoute], capacity: Int) {
        self.number = number
        var settings = settings
        settings.hashSeed &+= UInt64(number) &* 0xD134_2543_DE82_EF95
        machine = DeliveryMachine(settings: settings, apps: apps)
        retryWriter = Self.writer(apps)
        capacities = apps.map { _ in capacity }
        let start = DeliveryTime(ns: 0, wallMs: 0)
        for app in apps.indices { machine.setCapacity(AppIndex(app), requests: capacity, now: start) }
    }

    private static func writer(_ routes: [AppRoute]) -> RetryWriter {
        RetryWriter(apps: routes.map { RecordApp(name: $0.name, environment: $0.environment) })
    }

    func reload(_ routes: [AppRoute], now: DeliveryTime) {
        let mapping = machine.replaceApps(routes, now: now)
        rates = [:]
        for app in mapping.added {
            capacities.append(capacities[0])
            machine.setCapacity(app, requests: capacities[0], now: now)
        }
        retryWriter = Self.writer(machine.apps.indices.map { machine.apps.route($0) })
    }

    var isIdle: Bool {
        let gauges = machine.gauges
        return flights.isEmpty && producing.isEmpty && commits.allSatisfy(\.entries.isEmpty)
            && gauges.openNotifications == 0 && gauges.openBytes == 0 && machine.dispatch.devices.heads.count == 0
            && assignments.values.allSatisfy { $0.fenced == nil }
    }
}
