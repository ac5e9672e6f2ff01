internal import Configuration
internal import Delivery
internal import Kafka
internal import Observability

/// Detects all problems of the worker, and logs the lines that `ProblemList` returns. Core thread.
struct WorkerHealth {
    private let logger: Logger
    private(set) var list = ProblemList()
    var apps = AppHealth()
    /// The time at which the worker began to consume (monotonic).
    var startedNs: Int64 = 0
    /// The time when the worker was last a member of each group (monotonic), by the group's name.
    private var lastMemberNs: [String: Int64] = [:]

    init(_ logger: Logger) { self.logger = logger }

    /// Checks all parts of the worker, and logs the lines that are due. Called a few times a second.
    ///
    /// - Parameter parts: The worker's parts, or `nil` while the worker starts.
    mutating func update(
        _ parts: WorkerParts?, _ configuration: WorkerConfiguration, _ configured: ConfiguredApps,
        _ counters: [DeliveryCounters.App], others: [Problem], _ eventLog: EventLog, _ now: DeliveryTime
    ) {
        var found = others
        if let parts {
            apps.update(configured, counters, eventLog, now)
            found =
                kafkaProblems(parts, configuration, now)
                + apps.problems(configured, deadTokens: configuration.unregistered.topic, now) + others
        }
        for line in list.update(found, nowNs: now.ns, nowMs: now.wallMs) {
            switch line {
            case .lasts(let problem, let forMs):
                logger.remind(
                    .worker, "degraded",
                    [
                        "kind": "\(problem.kind.rawValue)", "subject": "\(problem.subject)",
                        "problem": .text(problem.text), "advice": .text(problem.advice),
                        "for_ms": .count(forMs),
                    ])
            case .isOver(let subject, let afterMs):
                logger.notice(.worker, "problem resolved", ["subject": "\(subject)", "after_ms": .count(afterMs)])
            }
        }
    }

    private mutating func kafkaProblems(
        _ parts: WorkerParts, _ configuration: WorkerConfiguration, _ now: DeliveryTime
    ) -> [Problem] {
        var problems = BrokerHealth.problems(
            parts.brokerHealth, bootstrapServers: configuration.kafka.bootstrapServers,
            errors: parts.readers.compactMap(\.lastError))
        var others = parts.publisher.problems(nowNs: now.ns) + parts.readers.flatMap { $0.problems(now) }
        if BrokerHealth.areAllSilent(parts.brokerHealth) {
            others.removeAll { $0.kind == .unacknowledged }
        } else {
            for reader in parts.readers {
                if let problem = groupProblem(reader, configuration, now) { problems.append(problem) }
            }
        }
        var named = Set(problems.map(\.subject))
        problems += others.filter { named.insert($0.subject).inserted }
        // Unlike other problems, a loss of records is also reported if its partition already has a problem.
        return problems + parts.readers.flatMap { $0.lostRecords.problems(nowNs: now.ns) }
    }

    private mutating func groupProblem(
        _ reader: GroupReader, _ configuration: WorkerConfiguration, _ now: DeliveryTime
    ) -> Problem? {
        let group = Problem.Subject.group(reader.name)
        if reader.isMember {
            lastMemberNs[reader.name] = now.ns
            guard reader.brokers.isCoordinatorSilent else { return nil }
            return Problem(
                group, .coordinatorSilent, "the group's coordinator does not answer",
                "check the broker that leads the group's partition of __consumer_offsets")
        }
        // Once the member has joined, a denial counts only after the member has been outside the group for 5 s,
        // because librdkafka may recover earlier.
        let outsideNs = now.ns - (lastMemberNs[reader.name] ?? startedNs)
        let isDenied = reader.lastError?.code == .groupAuthorizationFailed
        if isDenied, !reader.hasJoined || outsideNs > 5_000_000_000 {
            return Problem(
                group, .groupDenied, "the worker's user has no access to the group: nothing can be read or committed",
                "grant Read on the group (kafka.group_id) to the worker's user")
        }
        // After a member has crashed, the group cannot be joined until the session of that member has timed out.
        let limitNs = max(9_000_000_000, configuration.kafka.sessionTimeout.nanoseconds + 5_000_000_000)
        guard outsideNs > limitNs else { return nil }
        let cause = reader.lastError.map { ": \($0.text)" } ?? ""
        return Problem(
            group, .unjoined, "the group cannot be joined\(cause)",
            "check the broker that coordinates the group; run kafka-consumer-groups --describe --members to find a "
                + "member that does not rejoin; give all workers of the group the same kafka.assignment")
    }
}
