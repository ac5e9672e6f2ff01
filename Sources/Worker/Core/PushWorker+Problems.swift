internal import Configuration
internal import Delivery
internal import Kafka
internal import Observability
internal import PushRecords
internal import TLS

extension PushWorker {
    /// What is known of all that may keep the worker from its work: what its clients met, what became of each app's
    /// connections. Faults are made of it.
    struct Observations {
        var lostRecords = LostRecords()
        /// When it began to read (monotonic).
        var startedNs: Int64 = 0
        fileprivate(set) var problems = ProblemList()
        fileprivate var openCircuits: [(name: CircuitName, reason: ReasonCode)] = []
        /// Since when an app has had no connection (monotonic).
        fileprivate var disconnectedSinceNs: [Int: Int64] = [:]
        fileprivate var expiries = CertificateExpiries()

        mutating func note(_ event: DeliveryEvent) {
            switch event {
            case .circuitOpened(let circuit, let reason): openCircuits.append((circuit, reason))
            case .circuitClosed(let circuit): openCircuits.removeAll { $0.name == circuit }
            default: break
            }
        }

        /// The app was taken out.
        mutating func forgetCircuits(of app: AppIndex) { openCircuits.removeAll { $0.name.app == app } }
    }

    /// Says what has begun to keep the worker from its work, what goes on to, and what is over.
    func lookForProblems(_ now: DeliveryTime) {
        noteDisconnected(now)
        warnOfCertificates(now)
        for line in observations.problems.update(faults(now), nowNs: now.ns, nowMs: now.wallMs) {
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

    /// How long an app may be without a connection or a way to one, or with such only that allow no stream, before that
    /// is a problem: one is made anew in less.
    private static let disconnectedNs: Int64 = 8_000_000_000
    /// How long joining a group may take: a member that died is waited for until its session is over.
    private var joiningNs: Int64 {
        max(9_000_000_000, configuration.kafka.sessionTimeout.nanoseconds + 5_000_000_000)
    }

    private func noteDisconnected(_ now: DeliveryTime) {
        for (index, row) in appRows.enumerated() {
            let isOfUse = transports.map { $0[index].connections.open > 0 || $0[index].takesRequests } ?? false
            if row.isRemoved || isOfUse && streamlessHost(of: index) == nil {
                observations.disconnectedSinceNs[index] = nil
            } else if observations.disconnectedSinceNs[index] == nil {
                observations.disconnectedSinceNs[index] = now.ns
            }
        }
    }

    private func warnOfCertificates(_ now: DeliveryTime) {
        for (index, row) in appRows.enumerated() where !row.isRemoved {
            guard let endsMs = row.certificateEndsMs,
                observations.expiries.beginsToEnd(index, endsMs: endsMs, nowMs: now.wallMs),
                let warning = apps[index].certificateWarning(nowMs: now.wallMs)
            else { continue }
            eventLog.write(.certificate(warning), of: AppIndex(index))
        }
    }

    /// The host whose connections all allow no stream.
    private func streamlessHost(of app: Int) -> String? {
        if case .noStreams(let host)? = transports?[app].unreachable { host } else { nil }
    }

    private func faults(_ now: DeliveryTime) -> [Fault] {
        guard publisher != nil, stopping == nil else { return [] }
        return kafkaFaults(now) + appFaults(now) + refusalFaults() + hangingFaults(now)
    }

    private func kafkaFaults(_ now: DeliveryTime) -> [Fault] {
        let reason = readers.lazy.compactMap { $0.lastError?.text }.first
        var faults = BrokerHealth.faults(
            brokerHealth, bootstrapServers: configuration.kafka.bootstrapServers, reason: reason)
        let isSilent = BrokerHealth.areAllSilent(brokerHealth)
        if !isSilent { faults += readers.compactMap { groupFault($0, now) } }
        var named = Set(faults.map(\.subject))
        for problem in kafkaProblems(now) {
            // Where no broker answers at all, nothing is acknowledged either.
            if isSilent, problem.trouble == .unacknowledged { continue }
            let subject = "\(problem.subject)"
            guard named.insert(subject).inserted else { continue }
            faults.append(Fault(subject, problem.trouble.kind, problem.text, problem.advice))
        }
        // After those: they are no other words for the same trouble.
        return faults + observations.lostRecords.faults(nowNs: now.ns)
    }

    /// How the brokers answer each of the clients.
    private var brokerHealth: [BrokerHealth] {
        readers.map(\.brokers) + [publisher?.brokers].compactMap(\.self)
    }

    /// What keeps a group from being joined, or its coordinator from answering.
    private func groupFault(_ reader: GroupReader, _ now: DeliveryTime) -> Fault? {
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
        guard now.ns - observations.startedNs > joiningNs else { return nil }
        let cause = reader.lastError.map { ": \($0.text)" } ?? ""
        return Fault(
            subject, .unjoined, "the group cannot be joined\(cause)",
            "look at the broker that coordinates the group; give all its workers the same kafka.assignment, and allow Read "
                + "on it")
    }

    func noteOvertaken(_ id: PartitionID, from committed: Int64, to start: Int64, _ now: DeliveryTime) {
        guard let partition = readers.lazy.compactMap({ $0.name(of: id) }).first else { return }
        observations.lostRecords.note(partition, offsets: start - committed, nowNs: now.ns)
    }

    /// What the worker's own clients met.
    private func kafkaProblems(_ now: DeliveryTime) -> [KafkaProblem] {
        (publisher?.problems(nowNs: now.ns) ?? []) + (groups?.problems(now: now) ?? [])
    }

    private func appFaults(_ now: DeliveryTime) -> [Fault] {
        var faults: [Fault] = []
        func add(_ app: Int, _ kind: Fault.Kind, _ text: String, _ advice: String) {
            faults.append(Fault("app \(appRows[app].name)", kind, text, advice))
        }
        /// In these words, unless it has connections that allow no stream.
        func addUnconnected(_ app: Int, _ text: String, _ effect: String = "") {
            if let host = streamlessHost(of: app) {
                add(
                    app, .unconnected,
                    "all connections to \(host) allow no stream (SETTINGS_MAX_CONCURRENT_STREAMS 0)\(effect)",
                    "it goes on by itself once streams are allowed; look at the proxy, and at what the app's host is")
            } else {
                add(app, .unconnected, text + effect, "look at the network, the proxy and the app's host")
            }
        }
        for (circuit, reason) in observations.openCircuits {
            let word = reason.text?.description ?? "no known reason"
            func mend(_ app: AppIndex, _ topic: String?) -> String {
                let settings = apps[app.value].settings
                let topic = topic ?? settings.bundleIDs.joined(separator: ", ")
                let why = RefusalAdvice.of(reason, status: 403, topic, settings)?.text ?? "the credential is refused"
                return "\(why); changed key and certificate files are read by themselves"
            }
            switch circuit {
            case .credential(let app):
                add(
                    app.value, .credential, "Apple refuses the credential (\(word)): its notifications are held",
                    mend(app, nil))
            case .topic(let topic, let app):
                add(
                    app.value, .topicCredential("\(topic)"),
                    "Apple refuses the credential for \(topic) (\(word)): its notifications are held",
                    mend(app, topic))
            case .connection(let app):
                addUnconnected(app.value, "no connection can be made", ": its notifications are held")
            }
        }
        for (index, row) in appRows.enumerated() where row.status.map(\.isSlowedByGuard) == true {
            add(
                index, .slowed, "Apple calls most of its device tokens bad: it is slowed down",
                "do the device tokens belong to the other environment?")
        }
        for (index, row) in appRows.enumerated() where !row.isRemoved {
            guard let endsMs = row.certificateEndsMs,
                CertificateExpiries.isWithin(CertificateExpiries.problemMs, endsMs: endsMs, nowMs: now.wallMs),
                let certificate = apps[index].certificate
            else { continue }
            let words = endsMs <= now.wallMs ? "expired" : "expires"
            add(
                index, .expiring, "its client certificate \(words) on \(certificate.notAfterDay)",
                "put a new one in its place; it is read within 10 s")
        }
        for (index, row) in appRows.enumerated()
        where row.window.tooShort > 0 && now.ns - row.window.lastNs < LostRecords.namedNs {
            add(
                index, .lost,
                "errors came after their window had closed (\(row.window.tooShort)): at most \(row.window.lostAtMost) "
                    + "notifications whose results say accepted were not delivered",
                "make binary.window.duration longer; the log says how long it is now")
        }
        faults += feedbackFaults(now)
        for index in appRows.indices where !appRows[index].isRemoved && apps[index].settings.binary != nil {
            guard let ends = transports?[index].doubtfulEnds, ends.areMany(now.ns) else { continue }
            add(
                index, .doubtful,
                "\(ends.connections) connections to its gateway ended without a word: \(ends.notifications) notifications "
                    + "that were on them are in doubt, are sent again, and may be shown twice",
                "look at the gateway's log, and whether it, or what is in between, closes connections after some time or number"
            )
        }
        for index in appRows.indices where !appRows[index].isRemoved {
            if case .connectFailed(let host, let reason, _)? = transports?[index].unreachable {
                addUnconnected(index, "cannot connect to \(host): \(reason)")
            } else if let sinceNs = observations.disconnectedSinceNs[index], now.ns - sinceNs >= Self.disconnectedNs {
                addUnconnected(index, "it has no connection")
            } else if let how = transports?[index].unanswered, appRows[index].status?.isPaused != true,
                !faults.contains(where: { $0.subject == "app \(appRows[index].name)" && $0.kind.explainsNoAnswers })
            {
                let ends = how.endedBy.map { "ends every request's stream without an answer (\($0))" }
                add(
                    index, .unanswered, "\(how.host) \(ends ?? "takes requests and answers none")",
                    "look at the proxy, and at what the app's host is; it is over with the first answer")
            }
        }
        return faults
    }

    /// Says in a line what the groups are waited for, and how long that may take: one that died keeps its place until
    /// its session is over, as far as its configuration is ours.
    func sayWaits(_ now: DeliveryTime) {
        func seconds(_ milliseconds: Int64) -> String { "\((milliseconds + 999) / 1_000) s at most" }
        let session =
            "a member that died, until its session is over (\(seconds(configuration.kafka.sessionTimeout.milliseconds)))"
        // Where no broker answers, that is said, and it is what is waited for.
        let joining = !BrokerHealth.areAllSilent(brokerHealth) ? readers.filter { $0.mustSayJoining(now) } : []
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
        let leaving = readers.filter { $0.mustSayLeaving(now) }
        if !leaving.isEmpty, case .draining(let deadlineNs)? = stopping {
            logger.info(
                .kafka, "waiting for the groups' coordinator, to leave them",
                [
                    "groups": .text(leaving.map(\.name).joined(separator: ",")), "for": .text(session),
                    "gives_up_in_ms": .count(max(0, (deadlineNs - now.ns) / 1_000_000)),
                ])
        }
    }
}

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

extension Fault.Kind {
    /// Nothing of the app is answered while it is so.
    fileprivate var explainsNoAnswers: Bool { self == .credential || self == .unconnected }
}
