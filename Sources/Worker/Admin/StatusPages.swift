internal import Configuration
internal import Delivery
internal import EventLoop
internal import HTTPServer
internal import JSON
internal import Kafka
internal import Observability

/// Creates a snapshot of the worker up to four times a second, for the thread that serves the admin pages. Core thread.
struct StatusPages {
    let board: StatusBoard
    private var snapshot: WorkerSnapshot

    private static let intervalNs: Int64 = 250_000_000

    init(
        _ configuration: WorkerConfiguration, _ machine: borrowing DeliveryMachine, _ crashes: CrashHistory,
        now: DeliveryTime
    ) {
        snapshot = WorkerSnapshot(
            groupID: configuration.kafka.groupID, startedMs: now.wallMs, takenMs: now.wallMs, takenNs: now.ns, apps: [],
            tiers: configuration.retry.tiers.map(\.name), counters: machine.counters, gauges: machine.gauges)
        snapshot.crashes = crashes
        snapshot.settings = configuration.settings
        let host = (try? readFile("/proc/sys/kernel/hostname")) ?? []
        snapshot.host = String(decoding: host.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        board = StatusBoard(snapshot)
    }

    func isDue(_ now: DeliveryTime) -> Bool { now.ns - snapshot.takenNs >= Self.intervalNs }

    /// Notes the end of a reload of the configuration.
    ///
    /// - Parameter settings: The settings in use since the reload, or `nil` if the reload failed.
    mutating func reloaded(_ settings: [String: Setting]?, now: DeliveryTime) {
        snapshot.isReloadRefused = settings == nil
        guard let settings else { return }
        snapshot.settings = settings
        snapshot.reloadedMs = now.wallMs
    }

    /// - Parameter parts: The worker's parts, or `nil` before they are started.
    mutating func post(
        _ machine: borrowing DeliveryMachine, _ apps: ConfiguredApps, _ parts: WorkerParts?, _ health: WorkerHealth,
        isStopping: Bool, now: DeliveryTime
    ) {
        if let parts, parts.readers.allSatisfy(\.hasJoined) { snapshot.isReady = true }
        (snapshot.takenMs, snapshot.takenNs) = (now.wallMs, now.ns)
        snapshot.apps = apps.rows
        (snapshot.counters, snapshot.gauges) = (machine.counters, machine.gauges)
        snapshot.phase = isStopping ? .stopping : parts == nil ? .starting : snapshot.isReady ? .running : .joining
        snapshot.problems = health.list.problems
        snapshot.problemsLeftOut = health.list.leftOut
        if let parts { snapshot.take(parts, machine, now) }
        if snapshot.hour.isDue(nowNs: now.ns) { snapshot.hour.append(RecentHour.Sample(snapshot)) }
        board.post(snapshot)
    }
}

extension WorkerSnapshot {
    fileprivate mutating func take(
        _ parts: WorkerParts, _ machine: borrowing DeliveryMachine, _ now: DeliveryTime
    ) {
        let before = partitions
        unacknowledged = parts.publisher.unacknowledgedCount
        refused = parts.publisher.refusedCount
        // If no broker answers, the log ends that librdkafka last fetched may be outdated.
        let isSilent = BrokerHealth.areAllSilent(parts.brokerHealth)
        (partitions, unknownLags) = ([], Set(Role.allCases))
        tooLarge = parts.publisher.counts(\.tooLargeCount)
        rejected = parts.publisher.counts(\.rejectedCount)
        clients = zip(Role.allCases.map(\.rawValue) + ["producer"], parts.brokerHealth).map { ($0, $1) }
        for (reader, role) in zip(parts.readers, Role.allCases) {
            memberships[role] = (reader.rebalances, reader.partitionsLost)
            for one in reader.partitions {
                guard let status = machine.status(of: one.id) else { continue }
                let logEnd = isSilent ? nil : reader.consumer.logEnd(of: one.partition)
                reader.remember(one.partition, status, logEnd: logEnd)
                let waitMs = one.nextDeadlineNs(nowNs: now.ns).map { ($0 - now.ns) / 1_000_000 }
                partitions.append(
                    Partition(role: role, status: status, logEnd: logEnd, nextDueMs: waitMs.map { now.wallMs + $0 }))
            }
            let read = Set(reader.partitions.map(\.partition.topic))
            let isMember = reader.hasJoined && reader.brokers.isMemberSteady && !isSilent
            // An unavailable topic may contain records, so the total lag of its role is unknown.
            if isMember, read.isSuperset(of: reader.problems.unavailableTopics) { unknownLags.remove(role) }
        }
        let isSame = partitions.elementsEqual(before) {
            $0.role == $1.role && $0.status.partition == $1.status.partition && $0.status.topic == $1.status.topic
        }
        if !isSame { partitionsChanged = now }
        removedRetryTopics = parts.removedRetryTopics.topics.map { topic in
            let lag = partitions.reduce(Int64(0)) { $0 + ($1.status.topic == topic ? $1.lag ?? 0 : 0) }
            return (topic, Int(clamping: lag))
        }
    }
}

final class StatusBoard: Sendable {
    private let snapshot: Guarded<WorkerSnapshot>

    /// The time without a turn of the core thread after which `/livez` reports the thread as stuck.
    static let stallNs: Int64 = 10_000_000_000

    init(_ first: WorkerSnapshot) { snapshot = Guarded(first) }

    var newest: WorkerSnapshot { snapshot.withLock { $0 } }

    func post(_ new: WorkerSnapshot) { snapshot.withLock { $0 = new } }

    func isAlive(nowNs: Int64) -> Bool { nowNs - snapshot.withLock(\.takenNs) <= Self.stallNs }
}

/// The read-only admin endpoint (`admin.listen`). Its handlers run on the page server's thread and read snapshots from
/// `StatusBoard`.
enum AdminPages {
    static func routes(_ board: StatusBoard) -> [Route] {
        [
            Route(.get, "/") { request in
                let isAlive = board.isAlive(nowNs: LoopTime.read().monotonicNs)
                let page = StatusPage(
                    board.newest, isAlive: isAlive, isUnfolded: request.parameter("unfold") != nil)
                var response = HTTPResponse.text(page.text, contentType: "text/html; charset=utf-8")
                response.headers.append((name: "Content-Security-Policy", value: StatusPage.contentSecurityPolicy))
                return response
            },
            Route(.get, "/livez") { _ in
                board.isAlive(nowNs: LoopTime.read().monotonicNs)
                    ? .text("alive\n") : .text("the core thread has been stuck for more than 10 s\n", status: 503)
            },
            Route(.get, "/readyz") { _ in readiness(board.newest) },
            Route(.get, "/metrics") { request in
                let isOpenMetrics = request.accept.contains("application/openmetrics-text")
                let format: PrometheusText.Format = isOpenMetrics ? .openMetrics : .prometheus
                return .text(
                    MetricsText(board.newest, ProcessFigures.read(), format).text, contentType: format.contentType)
            },
            Route(.get, "/status") { _ in .json(StatusDocument(board.newest).text) },
            Route(.get, "/configuration") { _ in
                var json = JSONWriter()
                json.beginObject()
                for (path, setting) in board.newest.settings.sorted(by: { $0.key < $1.key }) {
                    json.member(path, setting.text)
                }
                json.endObject()
                return .json(json.text + "\n")
            },
        ]
    }

    /// Returns 200 once the worker has joined its groups. The worker stays ready during a later outage, because
    /// otherwise a rollout that fixes the outage could not finish.
    private static func readiness(_ snapshot: WorkerSnapshot) -> HTTPResponse {
        if snapshot.isReady { return .text("ready\n") }
        let reason =
            switch snapshot.phase {
            case .starting, .running: snapshot.problems.first?.text ?? "starting"
            case .joining: "waiting for the group's first assignment"
            case .stopping: "the worker is stopping and was never ready"
            }
        return .text("not ready: \(reason)\n", status: 503)
    }

    static func serve(_ settings: AdminSettings, board: StatusBoard) throws(StartFailure) -> PageServer? {
        guard let listen = settings.listen else { return nil }
        do {
            return try PageServer(
                host: listen.host, port: UInt16(clamping: listen.port), routes: routes(board))
        } catch {
            throw StartFailure([
                "admin.listen: \(error); choose another address, or turn the pages off (admin: {listen: off})"
            ])
        }
    }
}
