internal import Configuration
internal import Delivery
internal import Kafka
internal import PushRecords

extension CircuitName {
    /// The app it is of, or one of those that share it.
    var app: AppIndex {
        switch self {
        case .credential(let app), .topic(_, let app), .connection(let app): app
        }
    }
}

extension AppStatus {
    fileprivate var isSlowedByGuard: Bool {
        switch guardState {
        case .tripped: true
        case .off, .unproven, .proven: false
        }
    }
}

extension PushWorker {
    /// Leaves a fresh copy of how things stand for the pages, where there are any.
    func postSnapshot(_ now: DeliveryTime) {
        lastSnapshotNs = now.ns
        guard configuration.admin.listen != nil else { return }
        if readers.count > 0, readers.allSatisfy(\.hasJoined) { hasBeenReady = true }
        for (index, status) in machine.appStatuses.enumerated() { appRows[index].status = status }
        var snapshot = WorkerSnapshot(
            groupID: configuration.kafka.groupID, startedMs: startedMs, takenMs: now.wallMs, apps: appRows,
            tiers: configuration.retry.tiers.map(\.name), counters: machine.counters, gauges: machine.gauges)
        snapshot.crashes = crashes
        snapshot.phase = phase
        snapshot.waitingFor = waitingFor
        snapshot.hasBeenReady = hasBeenReady
        snapshot.problems = problems
        snapshot.unacknowledged = publisher?.unacknowledgedCount ?? 0
        snapshot.refused = publisher?.refusedCount ?? 0
        for (reader, role) in zip(readers, WorkerSnapshot.Role.allCases) {
            reader.forEachAssigned { id, partition in
                guard let status = machine.status(of: id) else { return }
                let high = reader.consumer.watermarks(of: partition).high
                snapshot.partitions.append(
                    WorkerSnapshot.Partition(role: role, status: status, logEnd: high < 0 ? nil : high))
            }
        }
        board.post(snapshot)
    }

    private var phase: WorkerSnapshot.Phase {
        if stopping != nil { return .stopping }
        if publisher == nil { return .starting }
        return hasBeenReady ? .running : .joining
    }

    /// What keeps the worker from its work now.
    private var problems: [WorkerSnapshot.Problem] {
        var problems: [WorkerSnapshot.Problem] = []
        if readers.contains(where: { !$0.isBrokerReached }) {
            problems.append(
                WorkerSnapshot.Problem(
                    subject: "kafka", text: "no broker of \(configuration.kafka.bootstrapServers) is connected"))
        }
        if let refused = publisher?.refusedCount, refused > 0 {
            problems.append(
                WorkerSnapshot.Problem(
                    subject: "kafka", text: "\(refused) records were refused and are written again"))
        }
        for (circuit, reason) in openCircuits {
            let cause =
                switch circuit {
                case .credential: "Apple refuses the credential (\(reason.text?.description ?? "no known reason"))"
                case .topic(let topic, _):
                    "Apple refuses the credential for \(topic) (\(reason.text?.description ?? "no known reason"))"
                case .connection: "no connection can be made"
                }
            problems.append(
                WorkerSnapshot.Problem(
                    subject: "app \(appRows[circuit.app.value].name)", text: "\(cause): its notifications are held"))
        }
        for row in appRows where row.status.map(\.isSlowedByGuard) == true {
            problems.append(
                WorkerSnapshot.Problem(
                    subject: "app \(row.name)",
                    text:
                        "nearly all its device tokens are bad: do they belong to the other environment? It is slowed down"
                ))
        }
        for (app, note) in unreachable.sorted(by: { $0.key < $1.key }) {
            guard case .connectFailed(let host, let reason, _) = note else { continue }
            problems.append(
                WorkerSnapshot.Problem(
                    subject: "app \(appRows[app].name)", text: "cannot connect to \(host): \(reason)"))
        }
        return problems
    }
}
