internal import Configuration
internal import Delivery
internal import Kafka

extension PushWorker {
    /// What the pages show beside what the machine and its partners know.
    struct PageState {
        let board: StatusBoard
        let startedMs: Int64
        /// Why it is still starting.
        var waitingFor = ""
        fileprivate(set) var lastSnapshotNs: Int64 = 0
        fileprivate var hasBeenReady = false

        init(_ snapshot: WorkerSnapshot, nowNs: Int64) {
            board = StatusBoard(snapshot, nowNs: nowNs)
            startedMs = snapshot.startedMs
        }
    }

    /// Leaves a fresh copy of how things stand for the pages, where there are any.
    func postSnapshot(_ now: DeliveryTime) {
        pageState.lastSnapshotNs = now.ns
        guard configuration.admin.listen != nil else { return }
        if readers.count > 0, readers.allSatisfy(\.hasJoined) { pageState.hasBeenReady = true }
        for (index, status) in machine.appStatuses.enumerated() {
            appRows[index].status = status
            guard let standing = transports?[index] else { continue }
            appRows[index].connections = standing.connections
            appRows[index].tokenIssuedMs = standing.tokenIssuedMs
            appRows[index].window = standing.window
        }
        var snapshot = WorkerSnapshot(
            groupID: configuration.kafka.groupID, startedMs: pageState.startedMs, takenMs: now.wallMs, apps: appRows,
            tiers: configuration.retry.tiers.map(\.name), counters: machine.counters, gauges: machine.gauges)
        snapshot.crashes = crashes
        snapshot.phase = phase
        snapshot.waitingFor = pageState.waitingFor
        snapshot.hasBeenReady = pageState.hasBeenReady
        snapshot.problems = observations.problems.problems
        snapshot.problemsLeftOut = observations.problems.leftOut
        snapshot.unacknowledged = publisher?.unacknowledgedCount ?? 0
        snapshot.refused = publisher?.refusedCount ?? 0
        snapshot.tooLarge = publisher?.tooLarge ?? []
        snapshot.rejected = publisher?.rejected ?? []
        for (reader, role) in zip(readers, WorkerSnapshot.Role.allCases) {
            reader.forEachAssigned { id, partition in
                guard let status = machine.status(of: id) else { return }
                let high = reader.consumer.watermarks(of: partition).high
                snapshot.partitions.append(
                    WorkerSnapshot.Partition(role: role, status: status, logEnd: high < 0 ? nil : high))
            }
        }
        snapshot.unknownLags = unknownLags(snapshot)
        snapshot.leftTiers = (removedRetryTopics?.topics ?? []).map { topic in
            let lag = snapshot.partitions.reduce(Int64(0)) { $0 + ($1.status.topic == topic ? $1.lag ?? 0 : 0) }
            return (topic, Int(clamping: lag))
        }
        pageState.board.post(snapshot)
    }

    /// Roles with a topic of which nothing is known, and no partition is assigned: there may be records in it.
    private func unknownLags(_ snapshot: WorkerSnapshot) -> Set<WorkerSnapshot.Role> {
        let read = Set(snapshot.partitions.map(\.status.topic))
        var unknown: Set<WorkerSnapshot.Role> = []
        for (reader, role) in zip(readers, WorkerSnapshot.Role.allCases)
        where reader.unavailableTopics.contains(where: { !read.contains($0) }) {
            unknown.insert(role)
        }
        return unknown
    }

    private var phase: WorkerSnapshot.Phase {
        if stopping != nil { return .stopping }
        if publisher == nil { return .starting }
        return pageState.hasBeenReady ? .running : .joining
    }
}
