internal import Configuration
internal import Delivery
internal import PushRecords
internal import TLS

/// Detects the problems of apps: refused credentials, hosts that are unreachable or do not answer, bad device tokens,
/// expiring requests and certificates, notifications that are lost or in doubt, and failed feedback reads. Core thread.
struct AppHealth {
    private var openCircuits: [(name: CircuitName, reason: ReasonCode)] = []
    /// The time since which an app has had no usable connection (monotonic), by `AppIndex`.
    private var disconnectedSinceNs: [Int: Int64] = [:]
    private var lookedMs: Int64?
    /// For each app, the detector that reports when most of its notifications expire, by `AppIndex`.
    private var expiries: [Int: ExpiryWatch] = [:]

    /// The time without a usable connection after which an app has a problem. Opening a connection usually takes less
    /// time.
    private static let disconnectedNs: Int64 = 8_000_000_000
    /// The remaining validity below which a client certificate is a problem. A single log line already warns 30 days
    /// before the certificate expires, or when a certificate in its last 30 days is loaded.
    static let expiringMs: Int64 = 7 * 86_400_000
    /// The time for which dead tokens may wait without an acknowledgement before the worker reports a problem.
    private static let feedbackWaitingNs: Int64 = 10_000_000_000

    mutating func note(_ event: DeliveryEvent) {
        switch event {
        case .circuitOpened(let circuit, let reason): openCircuits.append((circuit, reason))
        case .circuitClosed(let circuit): openCircuits.removeAll { $0.name == circuit }
        default: break
        }
    }

    /// Updates, for each app, the time since which it has had no usable connection, and the detector of expired
    /// notifications. Logs a warning when the last 30 days of a certificate begin.
    mutating func update(
        _ apps: ConfiguredApps, _ counters: [DeliveryCounters.App], _ eventLog: EventLog, _ now: DeliveryTime
    ) {
        for (index, row) in apps.rows.enumerated() {
            expiries[index, default: ExpiryWatch()].update(counters[index].outcomes, nowNs: now.ns)
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
            // Skip an app whose credential cannot be used, because `ConfigurationFiles` reports it.
            guard !row.isRemoved, apps[index].faults.isEmpty else { return problems }
            problems += openCircuits.filter { $0.name.app.value == index }.map {
                circuitProblem($0.name, $0.reason, row, apps[index].settings)
            }
            if row.status?.isGuardTripped == true {
                problems.append(
                    Problem(
                        row.subject, .slowed, "APNs rejects most of the app's device tokens, so the app is slowed down",
                        "check whether the device tokens belong to the other environment"))
            }
            if let (expired, ended) = expiries[index]?.mostly {
                problems.append(
                    Problem(
                        row.subject, .expired,
                        "\(expired) of the app's last \(ended) notifications expired before APNs accepted them",
                        "compare this machine's clock with the producers' clocks and with the records' timestamps, and "
                            + "check the lag"))
            }
            problems += [
                certificateProblem(row, apps[index], now), feedbackProblem(row, deadTokens: deadTokens, now),
                apps[index].settings.binary == nil ? nil : gatewayProblem(row, now),
            ].compactMap(\.self)
            if problems.contains(where: { $0.kind == .unconnected }) { return problems }
            // An app without a usable credential gets no answers, so missing answers are not a separate problem.
            let isRefused = problems.contains { $0.subject == row.subject && $0.kind == .credential }
            return problems + [connectionProblem(row, index, isRefused: isRefused, now)].compactMap(\.self)
        }
    }

    private func circuitProblem(
        _ circuit: CircuitName, _ reason: ReasonCode, _ row: WorkerSnapshot.App, _ settings: AppSettings
    ) -> Problem {
        let (subject, name, topic): (Problem.Subject, String, String)
        switch circuit {
        case .connection:
            let cause = Self.connectFailure(row) ?? "no connection can be made"
            return Self.unconnected(row, "\(cause): the app's notifications are deferred")
        case .credential: (subject, name, topic) = (row.subject, "", settings.bundleIDs.joined(separator: ", "))
        case .topic(let refused, _):
            (subject, name, topic) = (.topicOfApp(row.name, topic: "\(refused)"), " for \(refused)", "\(refused)")
        }
        let word = reason.text?.description ?? "no known reason"
        let why = RefusalAdvice.text(of: reason, status: 403, topic, settings) ?? "APNs refuses it"
        return Problem(
            subject, .credential,
            "APNs refuses the credential\(name) (\(word)), so notifications that need it are deferred",
            "correct the credential: \(why); the worker reads changed key and certificate files within 10 s")
    }

    private static func connectFailure(_ row: WorkerSnapshot.App) -> String? {
        if let host = row.standing.streamlessHost {
            return "all connections to \(host) allow no stream (SETTINGS_MAX_CONCURRENT_STREAMS 0)"
        }
        guard case .connectFailed(let host, let reason, _)? = row.standing.unreachable else { return nil }
        return "cannot connect to \(reason.hasPrefix(host) ? "" : "\(host): ")\(reason)"
    }

    private static func unconnected(_ row: WorkerSnapshot.App, _ text: String) -> Problem {
        Problem(row.subject, .unconnected, text, "check the network, the proxy and the app's host")
    }

    private func certificateProblem(_ row: WorkerSnapshot.App, _ app: LoadedApp, _ now: DeliveryTime) -> Problem? {
        guard let endsMs = row.certificateEndsMs, let certificate = app.certificate,
            endsMs - now.wallMs <= Self.expiringMs
        else { return nil }
        return Problem(
            row.subject, .expiring,
            "the app's client certificate \(certificate.expiry(nowMs: now.wallMs))",
            "replace the certificate's file; the worker reads it within 10 s")
    }

    private func lossProblem(_ row: WorkerSnapshot.App, _ now: DeliveryTime) -> Problem? {
        let window = row.standing.window
        guard window.lostAtMost > 0, now.ns - window.lastNs < Problem.lossNs else { return nil }
        return Problem(
            row.subject, .acceptedLost,
            "errors arrived after their resend window closed (\(window.tooShort)), or a gateway read nothing: at most "
                + "\(window.lostAtMost) notifications whose results say accepted were not delivered",
            "raise binary.window.duration to the last window_ms in the log, and check the app's host")
    }

    private func gatewayProblem(_ row: WorkerSnapshot.App, _ now: DeliveryTime) -> Problem? {
        let ends = row.standing.doubtfulEnds
        guard ends.areMany(now.ns) else { return nil }
        return Problem(
            row.subject, .doubtful,
            "\(ends.connections) connections to the app's gateway ended without an error: "
                + "\(ends.notifications) notifications on them are in doubt, are sent again, and may be shown twice",
            "check in the gateway's log whether the gateway or a proxy limits the duration or the use of connections")
    }

    private func connectionProblem(
        _ row: WorkerSnapshot.App, _ index: Int, isRefused: Bool, _ now: DeliveryTime
    ) -> Problem? {
        let failure = Self.connectFailure(row)
        // A server may briefly allow no streams (RFC 9113, 6.5.2).
        if let failure, row.standing.streamlessHost == nil { return Self.unconnected(row, failure) }
        if let sinceNs = disconnectedSinceNs[index], now.ns - sinceNs >= Self.disconnectedNs, !isRefused {
            return Self.unconnected(row, failure ?? "the app has no connection")
        }
        guard let how = row.standing.unanswered, let status = row.status, !status.isPaused, !isRefused else {
            return nil
        }
        // A single unanswered notification may itself be the cause, so it does not prove that the host is at fault.
        guard status.open > 1 || how.endedBy != nil else { return nil }
        let ends = how.endedBy.map { "ends every request's stream without an answer (\($0))" }
        return Problem(
            row.subject, .unanswered, "\(how.host) \(ends ?? "accepts requests but answers none")",
            "check the proxy and the app's host; the first answer ends this problem")
    }

    private func feedbackProblem(_ row: WorkerSnapshot.App, deadTokens: String, _ now: DeliveryTime) -> Problem? {
        guard let feedback = row.feedback else { return nil }
        if feedback.waiting > 0, now.ns - feedback.waitingSinceNs >= Self.feedbackWaitingNs {
            return Problem(
                row.subject, .feedback,
                "\(feedback.waiting) dead tokens from the feedback service wait until Kafka accepts them",
                "check the brokers and topic \(deadTokens); do not stop the worker before Kafka acknowledges the "
                    + "tokens, because the feedback service has deleted them")
        }
        return feedback.failure.map { reason in
            Problem(
                row.subject, .feedback, "feedback cannot be read: \(reason)",
                "check binary.feedback, the network and the client certificate; the worker tries again "
                    + "after a minute, or after binary.feedback.interval if that is shorter")
        }
    }
}

/// Detects, over intervals of ten seconds, that most notifications of an app expire. The usual causes are a large lag,
/// and a wrong clock of this machine or of a producer.
struct ExpiryWatch {
    private var startNs: Int64 = 0
    private var start: [Int] = []
    /// The numbers of expired and of all concluded notifications in the last interval with concluded notifications.
    /// `nil` if fewer than `least` of these notifications expired, or at most half.
    private(set) var mostly: (expired: Int, ended: Int)?

    private static let spanNs: Int64 = 10_000_000_000
    /// The number of expired notifications in an interval below which the worker reports no problem.
    private static let least = 20

    /// - Parameter outcomes: The numbers of the app's concluded notifications since the start, by `Outcome.index`.
    mutating func update(_ outcomes: [Int], nowNs: Int64) {
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
    /// The app of this circuit breaker, or one of the apps that share the breaker.
    fileprivate var app: AppIndex {
        switch self {
        case .credential(let app), .topic(_, let app), .connection(let app): app
        }
    }
}
