internal import Configuration
internal import Delivery
internal import Kafka
internal import Observability
internal import PushRecords
internal import TLS

/// What keeps apps from sending: refused credentials, hosts that cannot be reached or do not answer, certificates that
/// end, feedback that cannot be read. Core thread.
struct AppHealth {
    private var openCircuits: [(name: CircuitName, reason: ReasonCode)] = []
    /// Since when an app has had no connection (monotonic).
    private var disconnectedSinceNs: [Int: Int64] = [:]
    private var expiries = CertificateExpiries()

    /// How long an app may be without a connection or a way to one, or with such only that allow no stream, before that
    /// is a problem: one is made anew in less.
    private static let disconnectedNs: Int64 = 8_000_000_000

    mutating func note(_ event: DeliveryEvent) {
        switch event {
        case .circuitOpened(let circuit, let reason): openCircuits.append((circuit, reason))
        case .circuitClosed(let circuit): openCircuits.removeAll { $0.name == circuit }
        default: break
        }
    }

    /// The app was taken out.
    mutating func forget(_ app: AppIndex) { openCircuits.removeAll { $0.name.app == app } }

    /// Notes since when apps have had no connection, and warns of certificates whose last 30 days have begun.
    mutating func look(
        _ apps: ConfiguredApps, _ transports: AppTransports, _ eventLog: EventLog, _ now: DeliveryTime
    ) {
        for (index, row) in apps.rows.enumerated() {
            let standing = transports[index]
            let isOfUse = standing.connections.open > 0 || standing.takesRequests
            if row.isRemoved || isOfUse && Self.streamlessHost(standing) == nil {
                disconnectedSinceNs[index] = nil
            } else if disconnectedSinceNs[index] == nil {
                disconnectedSinceNs[index] = now.ns
            }
            guard !row.isRemoved, let endsMs = row.certificateEndsMs,
                expiries.beginsToEnd(index, endsMs: endsMs, nowMs: now.wallMs),
                let warning = apps[index].certificateWarning(nowMs: now.wallMs)
            else { continue }
            eventLog.write(.certificate(warning), of: AppIndex(index))
        }
    }

    /// The host whose connections all allow no stream.
    private static func streamlessHost(_ standing: AppTransports.Standing) -> String? {
        if case .noStreams(let host)? = standing.unreachable { host } else { nil }
    }

    func faults(
        _ apps: ConfiguredApps, _ transports: AppTransports, _ configuration: WorkerConfiguration, _ now: DeliveryTime
    ) -> [Fault] {
        var faults = circuitFaults(apps, transports) + ownFaults(apps, now)
        faults += feedbackFaults(apps, deadTokens: configuration.unregistered.topic, now)
        faults += gatewayFaults(apps, transports, now)
        let unsendable = Set(faults.filter(\.kind.explainsNoAnswers).map(\.subject))
        return faults + connectionFaults(apps, transports, unsendable, now)
    }

    /// What is held because Apple or a host refuses it.
    private func circuitFaults(_ apps: ConfiguredApps, _ transports: AppTransports) -> [Fault] {
        openCircuits.map { circuit, reason in
            let app = circuit.app.value
            let subject = "app \(apps.rows[app].name)"
            let word = reason.text?.description ?? "no known reason"
            func mend(_ topic: String?) -> String {
                let settings = apps[app].settings
                let topic = topic ?? settings.bundleIDs.joined(separator: ", ")
                let why = RefusalAdvice.of(reason, status: 403, topic, settings)?.text ?? "the credential is refused"
                return "\(why); changed key and certificate files are read by themselves"
            }
            switch circuit {
            case .credential:
                return Fault(
                    subject, .credential, "Apple refuses the credential (\(word)): its notifications are held",
                    mend(nil))
            case .topic(let topic, _):
                return Fault(
                    subject, .topicCredential("\(topic)"),
                    "Apple refuses the credential for \(topic) (\(word)): its notifications are held", mend(topic))
            case .connection:
                return Self.unconnected(
                    subject, transports[app], "no connection can be made", ": its notifications are held")
            }
        }
    }

    /// An app without a connection, in these words unless it has connections that allow no stream.
    private static func unconnected(
        _ subject: String, _ standing: AppTransports.Standing, _ text: String, _ effect: String = ""
    ) -> Fault {
        guard let host = streamlessHost(standing) else {
            return Fault(
                subject, .unconnected, text + effect, "look at the network, the proxy and the app's host")
        }
        return Fault(
            subject, .unconnected,
            "all connections to \(host) allow no stream (SETTINGS_MAX_CONCURRENT_STREAMS 0)\(effect)",
            "it goes on by itself once streams are allowed; look at the proxy, and at what the app's host is")
    }

    /// What an app is the cause of itself.
    private func ownFaults(_ apps: ConfiguredApps, _ now: DeliveryTime) -> [Fault] {
        let rows = apps.rows
        var faults: [Fault] = []
        func add(_ app: Int, _ kind: Fault.Kind, _ text: String, _ advice: String) {
            faults.append(Fault("app \(rows[app].name)", kind, text, advice))
        }
        for (index, row) in rows.enumerated() where row.status.map(\.isSlowedByGuard) == true {
            add(
                index, .slowed, "Apple calls most of its device tokens bad: it is slowed down",
                "do the device tokens belong to the other environment?")
        }
        for (index, row) in rows.enumerated() where !row.isRemoved {
            guard let endsMs = row.certificateEndsMs,
                CertificateExpiries.isWithin(CertificateExpiries.problemMs, endsMs: endsMs, nowMs: now.wallMs),
                let certificate = apps[index].certificate
            else { continue }
            let words = endsMs <= now.wallMs ? "expired" : "expires"
            add(
                index, .expiring, "its client certificate \(words) on \(certificate.notAfterDay)",
                "put a new one in its place; it is read within 10 s")
        }
        for (index, row) in rows.enumerated()
        where row.window.tooShort > 0 && now.ns - row.window.lastNs < LostRecords.namedNs {
            add(
                index, .lost,
                "errors came after their window had closed (\(row.window.tooShort)): at most \(row.window.lostAtMost) "
                    + "notifications whose results say accepted were not delivered",
                "make binary.window.duration longer; the log says how long it is now")
        }
        return faults
    }

    private func gatewayFaults(
        _ apps: ConfiguredApps, _ transports: AppTransports, _ now: DeliveryTime
    ) -> [Fault] {
        apps.living.compactMap { index in
            guard apps[index].settings.binary != nil else { return nil }
            let ends = transports[index].doubtfulEnds
            guard ends.areMany(now.ns) else { return nil }
            return Fault(
                "app \(apps.rows[index].name)", .doubtful,
                "\(ends.connections) connections to its gateway ended without a word: \(ends.notifications) notifications "
                    + "that were on them are in doubt, are sent again, and may be shown twice",
                "look at the gateway's log, and whether it, or what is in between, closes connections after some time or number"
            )
        }
    }

    /// - Parameter unsendable: apps of which nothing is answered anyway.
    private func connectionFaults(
        _ apps: ConfiguredApps, _ transports: AppTransports, _ unsendable: Set<String>, _ now: DeliveryTime
    ) -> [Fault] {
        apps.living.compactMap { index in
            let subject = "app \(apps.rows[index].name)"
            let standing = transports[index]
            if case .connectFailed(let host, let reason, _)? = standing.unreachable {
                return Self.unconnected(subject, standing, "cannot connect to \(host): \(reason)")
            }
            if let sinceNs = disconnectedSinceNs[index], now.ns - sinceNs >= Self.disconnectedNs {
                return Self.unconnected(subject, standing, "it has no connection")
            }
            guard let how = standing.unanswered, apps.rows[index].status?.isPaused != true,
                !unsendable.contains(subject)
            else { return nil }
            let ends = how.endedBy.map { "ends every request's stream without an answer (\($0))" }
            return Fault(
                subject, .unanswered, "\(how.host) \(ends ?? "takes requests and answers none")",
                "look at the proxy, and at what the app's host is; it is over with the first answer")
        }
    }

    /// How long Kafka may take no dead token before that is named.
    private static let feedbackWaitingNs: Int64 = 10_000_000_000

    private func feedbackFaults(_ apps: ConfiguredApps, deadTokens: String, _ now: DeliveryTime) -> [Fault] {
        apps.rows.compactMap { row in
            guard let feedback = row.feedback else { return nil }
            let subject = "app \(row.name)"
            if feedback.waiting > 0, now.ns - feedback.waitingSinceNs >= Self.feedbackWaitingNs {
                return Fault(
                    subject, .feedback, "\(feedback.waiting) dead tokens of its feedback wait for Kafka to take them",
                    "look at the brokers and at \(deadTokens); do not stop the worker before they are "
                        + "written: nobody else has them")
            }
            return feedback.failure.map { reason in
                Fault(
                    subject, .feedback, "feedback cannot be read: \(reason)",
                    "look at binary.feedback, at the network between, and at the client certificate; it is tried again every "
                        + "minute, or as often as its interval says")
            }
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
