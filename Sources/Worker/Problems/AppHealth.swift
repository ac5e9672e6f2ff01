internal import Configuration
internal import Delivery
internal import Observability
internal import PushRecords
internal import TLS

/// What keeps apps from sending: refused credentials, hosts that cannot be reached or do not answer, certificates that
/// end, feedback that cannot be read. Core thread.
struct AppHealth {
    private var openCircuits: [(name: CircuitName, reason: ReasonCode)] = []
    /// The time since when an app has had no usable connection (monotonic), by `AppIndex`.
    private var disconnectedSinceNs: [Int: Int64] = [:]
    private var lookedMs: Int64?
    /// By `AppIndex`.
    private var expiries: [Int: ExpiryWatch] = [:]

    /// The time without a usable connection after which an app has a problem. Dialing usually takes less.
    private static let disconnectedNs: Int64 = 8_000_000_000
    /// The time before the end of a client certificate in which that is a problem. In its last 30 days one line of the
    /// log warns of it, when it is loaded or when these days begin.
    private static let expiringMs: Int64 = 7 * 86_400_000
    /// The time without an acknowledged dead token after which feedback has a problem.
    private static let feedbackWaitingNs: Int64 = 10_000_000_000

    mutating func note(_ event: DeliveryEvent) {
        switch event {
        case .circuitOpened(let circuit, let reason): openCircuits.append((circuit, reason))
        case .circuitClosed(let circuit): openCircuits.removeAll { $0.name == circuit }
        default: break
        }
    }

    /// Notes since when apps have had no usable connection and which have mostly expired requests, and warns of
    /// certificates whose last 30 days have begun.
    mutating func look(
        _ apps: ConfiguredApps, _ counters: [DeliveryCounters.App], _ eventLog: EventLog, _ now: DeliveryTime
    ) {
        for (index, row) in apps.rows.enumerated() {
            expiries[index, default: ExpiryWatch()].look(counters[index].outcomes, nowNs: now.ns)
            let standing = row.standing
            let isUsable = (standing.connections.open > 0 || standing.takesRequests) && standing.streamlessHost == nil
            disconnectedSinceNs[index] = row.isRemoved || isUsable ? nil : disconnectedSinceNs[index] ?? now.ns
            guard !row.isRemoved, let lookedMs, let warning = apps[index].certificateWarning(nowMs: now.wallMs),
                apps[index].certificateWarning(nowMs: lookedMs) == nil
            else { continue }
            eventLog.write(.certificate(warning), of: AppIndex(index))
        }
        lookedMs = now.wallMs
    }

    func problems(_ apps: ConfiguredApps, deadTokens: String, _ now: DeliveryTime) -> [Problem] {
        apps.rows.indices.flatMap { index in
            let row = apps.rows[index]
            var problems = [lossProblem(row, now)].compactMap(\.self)
            // `ConfigurationFiles` reports an app whose credential cannot be used.
            guard !row.isRemoved, apps[index].faults.isEmpty else { return problems }
            problems += openCircuits.filter { $0.name.app.value == index }.map {
                circuitProblem($0.name, $0.reason, row, apps[index].settings)
            }
            if row.status?.isGuardTripped == true {
                problems.append(
                    Problem(
                        row.subject, .slowed, "Apple calls most of its device tokens bad: it is slowed down",
                        "check whether the device tokens belong to the other environment"))
            }
            if let (expired, ended) = expiries[index]?.mostly {
                problems.append(
                    Problem(
                        row.subject, .expired,
                        "\(expired) of its last \(ended) notifications expired before they could be sent",
                        "compare this machine's clock with the producers' clocks and with the records' timestamps, and "
                            + "look at the lag"))
            }
            problems += [
                certificateProblem(row, apps[index], now), feedbackProblem(row, deadTokens: deadTokens, now),
                apps[index].settings.binary == nil ? nil : gatewayProblem(row, now),
            ].compactMap(\.self)
            // Nothing of such an app is answered anyway.
            let isCutOff = problems.contains {
                $0.subject == row.subject && $0.kind == .credential || $0.kind == .unconnected
            }
            return problems + [connectionProblem(row, index, isCutOff: isCutOff, now)].compactMap(\.self)
        }
    }

    private func circuitProblem(
        _ circuit: CircuitName, _ reason: ReasonCode, _ row: WorkerSnapshot.App, _ settings: AppSettings
    ) -> Problem {
        let (subject, name, topic): (Problem.Subject, String, String)
        switch circuit {
        case .connection:
            return unconnected(row, "no connection can be made", ": its notifications are held")
        case .credential: (subject, name, topic) = (row.subject, "", settings.bundleIDs.joined(separator: ", "))
        case .topic(let refused, _):
            (subject, name, topic) = (.topicOfApp(row.name, topic: "\(refused)"), " for \(refused)", "\(refused)")
        }
        let word = reason.text?.description ?? "no known reason"
        let why = RefusalAdvice.text(of: reason, status: 403, topic, settings) ?? "the credential is refused"
        return Problem(
            subject, .credential, "Apple refuses the credential\(name) (\(word)): its notifications are held",
            "correct the credential: \(why); changed key and certificate files are read within 10 s")
    }

    /// - Parameter text: the problem, unless the app has connections that allow no stream.
    /// - Parameter text: the problem, unless the app has connections that allow no stream.
    private func unconnected(_ row: WorkerSnapshot.App, _ text: String, _ effect: String = "") -> Problem {
        let streamless = row.standing.streamlessHost.map {
            "all connections to \($0) allow no stream (SETTINGS_MAX_CONCURRENT_STREAMS 0)"
        }
        return Problem(
            row.subject, .unconnected, (streamless ?? text) + effect,
            "look at the network, the proxy and the app's host")
    }

    private func certificateProblem(_ row: WorkerSnapshot.App, _ app: LoadedApp, _ now: DeliveryTime) -> Problem? {
        guard let endsMs = row.certificateEndsMs, let certificate = app.certificate,
            endsMs - now.wallMs <= Self.expiringMs
        else { return nil }
        return Problem(
            row.subject, .expiring,
            "its client certificate \(endsMs <= now.wallMs ? "expired" : "expires") on \(certificate.notAfterDay)",
            "put a new certificate in its place; it is read within 10 s")
    }

    private func lossProblem(_ row: WorkerSnapshot.App, _ now: DeliveryTime) -> Problem? {
        let window = row.standing.window
        guard window.lostAtMost > 0, now.ns - window.lastNs < Problem.lossNs else { return nil }
        return Problem(
            row.subject, .acceptedLost,
            "errors came after their window had closed (\(window.tooShort)), or a gateway read nothing: at most "
                + "\(window.lostAtMost) notifications whose results say accepted were not delivered",
            "raise binary.window.duration to what the log says it is now, and look at what the app's host is")
    }

    private func gatewayProblem(_ row: WorkerSnapshot.App, _ now: DeliveryTime) -> Problem? {
        let ends = row.standing.doubtfulEnds
        guard ends.areMany(now.ns) else { return nil }
        return Problem(
            row.subject, .doubtful,
            "\(ends.connections) connections to its gateway ended without an error: \(ends.notifications) notifications on "
                + "them are in doubt, are sent again, and may be shown twice",
            "look in the gateway's log whether it, or a proxy before it, limits how long or how much a connection is "
                + "used")
    }

    private func connectionProblem(
        _ row: WorkerSnapshot.App, _ index: Int, isCutOff: Bool, _ now: DeliveryTime
    ) -> Problem? {
        if case .connectFailed(let host, let reason, _)? = row.standing.unreachable {
            return unconnected(row, "cannot connect to \(host): \(reason)")
        }
        if let sinceNs = disconnectedSinceNs[index], now.ns - sinceNs >= Self.disconnectedNs, !isCutOff {
            return unconnected(row, "it has no connection")
        }
        guard let how = row.standing.unanswered, let status = row.status, !status.isPaused, !isCutOff else {
            return nil
        }
        // One notification that is not answered says something about the notification, and nothing about the host.
        guard status.open > 1 || how.endedBy != nil else { return nil }
        let ends = how.endedBy.map { "ends every request's stream without an answer (\($0))" }
        return Problem(
            row.subject, .unanswered, "\(how.host) \(ends ?? "takes requests and answers none")",
            "look at the proxy and at what the app's host is; the first answer ends this problem")
    }

    private func feedbackProblem(_ row: WorkerSnapshot.App, deadTokens: String, _ now: DeliveryTime) -> Problem? {
        guard let feedback = row.feedback else { return nil }
        if feedback.waiting > 0, now.ns - feedback.waitingSinceNs >= Self.feedbackWaitingNs {
            return Problem(
                row.subject, .feedback, "\(feedback.waiting) dead tokens of its feedback wait for Kafka to take them",
                "look at the brokers and at \(deadTokens); do not stop the worker before they are written, because the "
                    + "feedback service has forgotten them")
        }
        return feedback.failure.map { reason in
            Problem(
                row.subject, .feedback, "feedback cannot be read: \(reason)",
                "look at binary.feedback, the network between and the client certificate; the read is repeated every "
                    + "minute, or at its interval if that is shorter")
        }
    }
}

/// Whether most notifications of an app expire, in spans of ten seconds. A wrong clock does that, here or at a
/// producer.
struct ExpiryWatch {
    private var startNs: Int64 = 0
    private var start: [Int] = []
    /// What ended in the last span with endings, if more than half of it had expired.
    private(set) var mostly: (expired: Int, ended: Int)?

    private static let spanNs: Int64 = 10_000_000_000
    /// Fewer in a span say nothing.
    private static let least = 20

    /// - Parameter outcomes: how many notifications of the app ended, by `Outcome.index`.
    mutating func look(_ outcomes: [Int], nowNs: Int64) {
        if start.isEmpty { (start, startNs) = (outcomes, nowNs) }
        guard nowNs - startNs >= Self.spanNs else { return }
        let ended = outcomes.reduce(0, &+) &- start.reduce(0, &+)
        let expired = outcomes[Outcome.expired.index] &- start[Outcome.expired.index]
        if ended > 0 { mostly = expired >= Self.least && expired > ended / 2 ? (expired, ended) : nil }
        (start, startNs) = (outcomes, nowNs)
    }
}

extension WorkerSnapshot.App {
    fileprivate var subject: Problem.Subject { .app(name) }
}

extension CircuitName {
    /// The app of the circuit, or one of those that share it.
    fileprivate var app: AppIndex {
        switch self {
        case .credential(let app), .topic(_, let app), .connection(let app): app
        }
    }
}
