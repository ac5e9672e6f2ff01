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
        snapshot.quotaDelaysMs = observations.quotas.totalsMs
        snapshot.leftTiers = leftTiers.waiting.map { ($0.topic, Int(clamping: $0.records)) }
        for (reader, role) in zip(readers, WorkerSnapshot.Role.allCases) {
            reader.forEachAssigned { id, partition in
                guard let status = machine.status(of: id) else { return }
                // The last fetch tells it too; what is not fetched, the watch alone.
                let high = max(
                    reader.consumer.watermarks(of: partition).high, observations.clusterReport?.ends[partition] ?? -1)
                snapshot.partitions.append(
                    WorkerSnapshot.Partition(role: role, status: status, logEnd: high < 0 ? nil : high))
            }
        }
        snapshot.unknownLags = unknownLags(snapshot)
        pageState.board.post(snapshot)
    }

    /// Roles with a topic of which nothing is known, and no partition is assigned: there may be records in it.
    private func unknownLags(_ snapshot: WorkerSnapshot) -> Set<WorkerSnapshot.Role> {
        guard let report = observations.clusterReport, report.silence == nil else { return [] }
        let read = Set(snapshot.partitions.map(\.status.topic))
        let unknown = report.topics.filter { !$0.isKnown && !read.contains($0.name) }
        return Set(unknown.compactMap { $0.use == .requests ? .requests : $0.use == .retries ? .retries : nil })
    }

    private var phase: WorkerSnapshot.Phase {
        if stopping != nil { return .stopping }
        if publisher == nil { return .starting }
        return pageState.hasBeenReady ? .running : .joining
    }
}
