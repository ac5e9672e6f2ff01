internal import Configuration
internal import Delivery
internal import Kafka
internal import Observability

/// What keeps the worker from doing its work: looks at its parts a few times a second, and logs what begins, what lasts
/// and what is over. Core thread.
struct WorkerHealth {
    private let logger: Logger
    private var list = ProblemList()
    private var apps = AppHealth()
    private var lostRecords = LostRecords()
    /// When the worker began to read (monotonic).
    private var startedNs: Int64 = 0

    init(_ logger: Logger) { self.logger = logger }

    var problems: [Problem] { list.problems }
    /// Problems beyond those that are named.
    var leftOut: Int { list.leftOut }

    // MARK: Events

    mutating func begin(nowNs: Int64) { startedNs = nowNs }

    mutating func note(_ event: DeliveryEvent) { apps.note(event) }

    /// Reading went on beyond so many offsets that were gone before they were read.
    mutating func noteLost(_ partition: TopicPartition, offsets: Int64, nowNs: Int64) {
        lostRecords.note(partition, offsets: offsets, nowNs: nowNs)
    }

    mutating func forget(_ app: AppIndex) { apps.forget(app) }

    // MARK: Problems

    /// Logs what has begun to keep the worker from its work, what goes on to, and what is over.
    ///
    /// - Parameters:
    ///   - parts: `nil` while the worker stops.
    ///   - others: faults that the parts do not show.
    mutating func look(
        _ parts: WorkerParts?, _ configuration: WorkerConfiguration, _ configured: ConfiguredApps, others: [Fault],
        _ eventLog: EventLog, _ now: DeliveryTime
    ) {
        var faults: [Fault] = []
        if let parts {
            apps.look(configured, parts.transports, eventLog, now)
            faults =
                kafkaFaults(parts, configuration, now)
                + apps.faults(configured, parts.transports, configuration, now) + others
        }
        for line in list.update(faults, nowNs: now.ns, nowMs: now.wallMs) {
            switch line {
            case .lasts(let problem):
                logger.remind(
                    .worker, "degraded",
                    [
                        "subject": .text(problem.subject), "problem": .text(problem.text),
                        "advice": .text(problem.advice),
                        "for_ms": .count(max(0, now.wallMs.subtractingReportingOverflow(problem.sinceMs).partialValue)),
                    ])
            case .isOver(let subject, let afterMs):
                logger.notice(
                    .worker, "no longer degraded by this", ["subject": .text(subject), "after_ms": .count(afterMs)])
            }
        }
    }

    private func kafkaFaults(
        _ parts: WorkerParts, _ configuration: WorkerConfiguration, _ now: DeliveryTime
    ) -> [Fault] {
        let reason = parts.readers.lazy.compactMap { $0.lastError?.text }.first
        var faults = BrokerHealth.faults(
            parts.brokerHealth, bootstrapServers: configuration.kafka.bootstrapServers, reason: reason)
        let isSilent = BrokerHealth.areAllSilent(parts.brokerHealth)
        if !isSilent { faults += parts.readers.compactMap { groupFault($0, configuration, now) } }
        var named = Set(faults.map(\.subject))
        for problem in parts.publisher.problems(nowNs: now.ns) + parts.groups.problems(now: now) {
            // Where no broker answers at all, nothing is acknowledged either.
            if isSilent, problem.trouble == .unacknowledged { continue }
            let subject = "\(problem.subject)"
            guard named.insert(subject).inserted else { continue }
            faults.append(Fault(subject, problem.trouble.kind, problem.text, problem.advice))
        }
        // After those: they are no other words for the same trouble.
        return faults + lostRecords.faults(nowNs: now.ns)
    }

    /// What keeps a group from being joined, or its coordinator from answering.
    private func groupFault(_ reader: GroupReader, _ configuration: WorkerConfiguration, _ now: DeliveryTime) -> Fault?
    {
        let subject = "group \(reader.name)"
        if reader.hasJoined {
            guard reader.brokers.coordinatorSilentSinceNs != nil else { return nil }
            return Fault(
                subject, .silent, "the group's coordinator does not answer",
                "look at the brokers: one of them leads the group's partition of __consumer_offsets")
        }
        if reader.lastError?.code == .groupAuthorizationFailed {
            return Fault(
                subject, .denied, "the group may not be used: nothing can be read or committed",
                "allow Read on the group (kafka.group_id) to the worker's user")
        }
        // A member that died is waited for until its session is over.
        let limitNs = max(9_000_000_000, configuration.kafka.sessionTimeout.nanoseconds + 5_000_000_000)
        guard now.ns - startedNs > limitNs else { return nil }
        let cause = reader.lastError.map { ": \($0.text)" } ?? ""
        return Fault(
            subject, .unjoined, "the group cannot be joined\(cause)",
            "look at the broker that coordinates the group; give all its workers the same kafka.assignment, and allow Read "
                + "on it")
    }

    // MARK: Waits

    /// Logs once what the groups are waited for, and how long that may take: a member that died keeps its place until
    /// its session is over, as far as its configuration is the same.
    ///
    /// - Parameter deadlineNs: when leaving the groups is given up, where they are left (monotonic).
    func logWaits(
        _ parts: WorkerParts, _ configuration: WorkerConfiguration, leavingUntil deadlineNs: Int64?,
        _ now: DeliveryTime
    ) {
        func seconds(_ milliseconds: Int64) -> String { "\((milliseconds + 999) / 1_000) s at most" }
        let session =
            "a member that died, until its session is over (\(seconds(configuration.kafka.sessionTimeout.milliseconds)))"
        // Where no broker answers, that is a problem of its own, and it is what is waited for.
        let isSilent = BrokerHealth.areAllSilent(parts.brokerHealth)
        let joining = isSilent ? [] : parts.readers.filter { $0.mustSayJoining(now) }
        if !joining.isEmpty {
            let drainMs = configuration.drain.rebalance.milliseconds + WorkerConfiguration.lastCommitMs
            logger.info(
                .kafka, "waiting for partitions",
                [
                    "groups": .text(joining.map(\.name).joined(separator: ",")),
                    "for": .text(
                        "\(session), one that drains (\(seconds(drainMs))), or, of a new group, the brokers' "
                            + "group.initial.rebalance.delay.ms"),
                ])
        }
        let leaving = parts.readers.filter { $0.mustSayLeaving(now) }
        if !leaving.isEmpty, let deadlineNs {
            logger.info(
                .kafka, "waiting for the groups' coordinator, to leave them",
                [
                    "groups": .text(leaving.map(\.name).joined(separator: ",")), "for": .text(session),
                    "gives_up_in_ms": .count(max(0, (deadlineNs - now.ns) / 1_000_000)),
                ])
        }
    }
}
