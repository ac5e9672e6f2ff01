import PushRecords

@testable import Delivery

/// One simulated worker process: a machine and the work in progress around it.
final class SimulatedWorker {
    struct Assignment {
        var id: PartitionID
        /// The number of the assignment, counted over all workers.
        var number: Int
        /// The offset at which reading began.
        var firstPosition: Int64
        /// The next offset to read.
        var position: Int64
        /// The log's life, as known to the worker.
        var life: Int
        /// The monotonic time until which reading waits.
        var waitUntilMs: Int64 = 0
        /// The step in which the partition was revoked.
        var drainsSince: Int?
        var isLate = false
        /// Set if another worker owns the partition and this worker has not detected that yet.
        var fenced: Fenced?
    }

    struct Fenced {
        /// The step in which the worker detects its loss.
        var untilStep: Int
        /// The end of the fetched records (`Int64.max` if fetching continues), and the last horizon it saw committed.
        var end: Int64
        var horizon: Int64
        /// The log's end as read by its successor.
        var successorEnd: Int64?
        /// Whether its lease is older than its session.
        var isExpired = false
        /// Whether the partition was assigned to a worker since then.
        var wasFollowed = false
    }

    /// A partition whose session was lost and which may return.
    struct Suspended {
        var id: PartitionID
        /// Whether no other worker owned it since then.
        var isUntouched = true
        var sinceNs: Int64
        var life: Int
    }

    /// A request in a transport, until the machine receives its completion.
    struct Flight {
        var place: SimulatedPlace
        var original: SimulatedPlace
        /// The token, topic and environment.
        var deviceKey: [UInt8]
        /// The machine's index of the app.
        var app: Int
        /// Whether the request goes to the environment that no request names.
        var isOther: Bool
        /// The number of its assignment.
        var assignment: Int
        var chain: Int
        var isSuspect: Bool
        /// Whether it waits in the transport, on no connection.
        var isQueued = true
    }

    /// A record on its way to Kafka.
    struct Producing {
        var id: NotificationID
        /// The number of its assignment.
        var assignment: Int
        var place: SimulatedPlace
        var appendMs: Int64
        var ackMs: Int64
        var isAppended = false
        /// Writes the record. `again` is whether it may already be in Kafka.
        var append: (SimulatedWorld, _ again: Bool) -> Void
    }

    struct Committing {
        var log: Int
        /// The number of its assignment.
        var assignment: Int
        var commit: SimulatedLog.Commit
        var outcome: CommitOutcome
        /// Whether the broker applies the commit. An error may still be reported.
        var isTaken: Bool
    }

    /// Returns the place at which a notification was read, even if its assignment has ended.
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

    /// Returns the assignment of a notification, unless its log has changed.
    func assignment(of id: NotificationID, in machine: borrowing DeliveryMachine) -> Assignment? {
        let slot = machine.store[recordOf: id.slot].partition
        return assignments.values.first { $0.id.slot == slot }
    }

    func log(of id: PartitionID) -> Int? { assignments.first { $0.value.id == id }?.key }

    /// The pending commit of one group.
    struct InFlightCommit {
        var entries: [Committing] = []
        var appliesMs: Int64 = 0
        var replyMs: Int64 = 0
        var isApplied = false
    }

    let number: Int
    var machine: DeliveryMachine
    var turn = DeliveryTurn()
    /// The places read, by partition slot and offset.
    var reads: [PartitionSlot: [Int64: SimulatedPlace]] = [:]
    /// The number of the first assignment by partition slot. Lost sessions that returned do not change it.
    var chains: [PartitionSlot: Int] = [:]
    /// The time since which none of its commits reach the broker, or `nil`.
    var cutOffSinceNs: Int64?
    /// Partitions whose session was lost, by log.
    var suspended: [Int: Suspended] = [:]
    /// The writer and the number of the commit read at the assignment, by log.
    var readMarks: [Int: [Int]] = [:]
    var assignments: [Int: Assignment] = [:]
    var flights: [NotificationID: Flight] = [:]
    /// The connections of all apps.
    var connections: [SimulatedConnection] = []
    /// The completions that the machine has not received yet.
    var completions: [(dueMs: Int64, completion: Completion)] = []
    var producing: [Producing] = []
    /// The pending commits by `CommitGroup`.
    var commits = [InFlightCommit(), InFlightCommit()]
    var retryWriter: RetryWriter
    /// The capacity by app index, 0 if the host is unreachable.
    var capacities: [Int]
    /// Suspects that will be sent alone, because the quarantine connection was lost with several of them.
    var marked: Set<NotificationID> = []
    /// The difference between its wall clock and the true time.
    var skewMs: Int64 = 0
    /// The time until which nothing it sends to APNs is answered.
    var deafUntilMs: Int64 = 0
    /// For apps with a `rate_limit`: the start of the measurement and the number of sends since then.
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
