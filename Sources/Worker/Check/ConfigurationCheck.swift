internal import APNs
package import Configuration
internal import EventLoop
internal import Kafka
internal import Network
internal import Observability
internal import TLS

/// What `check` does: tries everything that `run` will need, sends nothing unless asked to, and says a line about each
/// thing.
package struct ConfigurationCheck {
    /// One line of the answer.
    package struct Finding: Sendable, Equatable {
        package enum Kind: String, Sendable {
            case fine
            /// It can be used, and may not do what it seems to.
            case warning
            case notFine = "not fine"
        }

        package let kind: Kind
        package let text: String

        init(_ kind: Kind, _ text: String) {
            self.kind = kind
            self.text = namesOnce(text)
        }

        /// As `check` prints it.
        package var line: String { "\(kind.rawValue): \(text)" }
    }

    /// Bundle ids of an app that are probed at most.
    private static let probeLimit = 400

    private let configuration: WorkerConfiguration
    private let probesCredentials: Bool
    private let report: (Finding) -> Void

    /// - Parameters:
    ///   - probesCredentials: each app sends one request for a token of zeros with each of its bundle ids.
    ///   - report: gets each finding as soon as it is made.
    package init(
        _ configuration: WorkerConfiguration, probesCredentials: Bool = false,
        report: @escaping (Finding) -> Void
    ) {
        self.configuration = configuration
        self.probesCredentials = probesCredentials
        self.report = report
    }

    /// True: everything is fine. Waits for brokers and hosts, some 10 s at most for each.
    package func run() -> Bool {
        let isKafkaFine = checkKafka()
        var areAppsFine = true
        for app in configuration.apps where !check(app) { areAppsFine = false }
        for line in ConfigurationWarnings.ofKeys(configuration.apps) { warn(line) }
        return isKafkaFine && areAppsFine
    }

    private func warn(_ line: String) { report(Finding(.warning, line)) }

    private func checkKafka() -> Bool {
        let servers = configuration.kafka.bootstrapServers
        var readiness: ClusterReadiness
        do throws(StartFailure) {
            readiness = try ClusterReadiness(configuration, try configuration.cluster(), makesTopics: false)
        } catch {
            // Each line says itself what it is about.
            for line in error.lines { report(Finding(.notFine, line)) }
            return false
        }
        do throws(StartFailure) {
            switch try readiness.attempt(timeoutMs: 10_000) {
            case .ready(_, let denied, let warnings, let toBeMade):
                for line in warnings { warn("kafka: \(line)") }
                for line in denied { report(Finding(.notFine, "kafka: \(line)")) }
                let topics =
                    toBeMade.isEmpty
                    ? "all topics are there"
                    : "run makes the topics that are missing: \(toBeMade.joined(separator: ", "))"
                report(Finding(.fine, "kafka: \(servers) reached, \(topics)"))
                return denied.isEmpty
            case .unreachable(let reason):
                report(Finding(.notFine, "kafka: \(servers) cannot be reached: \(reason)"))
            case .uncreated(let lines):
                for line in lines { report(Finding(.notFine, "kafka: \(line)")) }
            }
        } catch {
            for line in error.lines { report(Finding(.notFine, "kafka: \(line)")) }
        }
        return false
    }

    /// True: the app can be used.
    func check(_ settings: AppSettings) -> Bool {
        let app: LoadedApp
        do throws(StartFailure) {
            app = try LoadedApp(settings)
        } catch {
            for line in error.lines { report(Finding(.notFine, line)) }
            return false
        }
        var isFine = checkCertificate(of: app)
        for line in ConfigurationWarnings.ofBundleIDs(settings) { warn(line) }
        if settings.isPaused {
            warn("app \(settings.name): it is paused: nothing of it is sent, its notifications are held")
        }
        if app.settings.binary != nil {
            if !reachGateway(app) { isFine = false }
            if let feedback = app.settings.binary?.feedback, !reach(feedback, of: app) { isFine = false }
            return isFine
        }
        guard reach(app) else { return false }
        if probesCredentials, !probe(app) { isFine = false }
        return isFine
    }

    /// What is known of the credential without Apple.
    private func checkCertificate(of app: LoadedApp) -> Bool {
        let nowMs = LoopTime.read().wallMs
        let faults = app.certificateFaults(nowMs: nowMs)
        for line in faults { report(Finding(.notFine, line)) }
        guard faults.isEmpty else { return false }
        let validity = app.certificate.map { ", valid until \($0.notAfterDay)" } ?? ""
        report(Finding(.fine, "app \(app.settings.name): the credential can be used\(validity)"))
        if let warning = app.certificateWarning(nowMs: nowMs) { warn(warning) }
        if let topics = ConfigurationWarnings.ofCertificate(app) { warn(topics) }
        return true
    }

    private func reach(_ app: LoadedApp) -> Bool {
        let settings = app.settings
        do {
            let answer = try HostProbe.run(
                host: settings.host, port: UInt16(clamping: settings.port), proxy: app.proxy, context: app.context)
            let place = DialTarget.text(settings.host, UInt16(clamping: settings.port))
            let way = app.proxy.map { "through the proxy \($0.text)" } ?? "at \(answer.address)"
            report(
                Finding(
                    .fine,
                    "app \(settings.name): \(place) reached \(way), "
                        + "\(answer.tlsVersion), HTTP/2 with \(Self.streams(answer.streams))"))
            return true
        } catch {
            report(Finding(.notFine, "app \(settings.name): \(error)"))
            return false
        }
    }

    /// Apple allows one before it has seen a provider token.
    private static func streams(_ count: Int) -> String { count == 1 ? "1 stream to begin with" : "\(count) streams" }

    /// A gateway of the binary protocol says nothing of a certificate that it takes; asked, it refuses a token of
    /// zeros.
    private func reachGateway(_ app: LoadedApp) -> Bool {
        let settings = app.settings
        if settings.binary?.format == .simple {
            warn(
                "app \(settings.name): format simple has no identifiers: no error says whose it is, and whatever is open when "
                    + "the gateway closes is sent again; take framed or enhanced where the gateway knows them")
        }
        let port = UInt16(clamping: settings.port)
        do {
            let answer = try GatewayProbe.run(
                host: settings.host, port: port, proxy: app.proxy, context: app.context,
                asking: probesCredentials ? settings.binary?.format.ofTransport : nil)
            let way = app.proxy.map { "through the proxy \($0.text)" } ?? "at \(answer.address)"
            report(
                Finding(
                    .fine,
                    "app \(settings.name): \(DialTarget.text(settings.host, port)) reached \(way), "
                        + "\(answer.tlsVersion), binary protocol"))
            guard probesCredentials else { return true }
            let said = Self.meaning(ofProbe: answer.status, isExpected: settings.binary?.answersFence ?? true)
            report(Finding(said.isFine ? .fine : .notFine, "app \(settings.name): the probe: \(said.text)"))
            return said.isFine
        } catch {
            report(Finding(.notFine, "app \(settings.name): \(error)"))
            return false
        }
    }

    /// Only that it can be connected to: whoever shakes hands with it takes its list, which it forgets then.
    private func reach(_ feedback: BinarySettings.Feedback, of app: LoadedApp) -> Bool {
        let name = app.settings.name
        let target = DialTarget(host: feedback.host, port: UInt16(clamping: feedback.port), proxy: app.proxy)
        do {
            let address = try ReachProbe.run(target)
            let way = app.proxy.map { "through the proxy \($0.text)" } ?? "at \(address)"
            report(
                Finding(
                    .fine,
                    "app \(name): its feedback service \(DialTarget.text(target.host, target.port)) reached \(way), and not asked, "
                        + "since it forgets what it tells: neither TLS nor the certificate is tried there"))
            return true
        } catch {
            report(Finding(.notFine, "app \(name): its feedback service: \(error)"))
            return false
        }
    }

    private static func meaning(ofProbe status: UInt8?, isExpected: Bool) -> (isFine: Bool, text: String) {
        switch status {
        case 8: (true, "status 8: the gateway reads, and refuses a token of zeros")
        case nil where !isExpected: (true, "no answer within 5 s to a token of zeros, as binary.fence: false says")
        case nil:
            (
                false,
                "no answer within 5 s to a token of zeros: the gateway reads nothing, or takes such a token (then say so: "
                    + "binary.fence: false)"
            )
        case let other?: (false, "status \(other) for a token of zeros, not 8: look at format, and at what the host is")
        }
    }

    /// Each of its bundle ids, over one connection.
    private func probe(_ app: LoadedApp) -> Bool {
        let settings = app.settings
        var isFine = true
        var tried = 0
        CredentialProbe.run(
            app.transportConfiguration(10_000_000_000), token: ProviderTokens().token(of: app),
            topics: Array(settings.bundleIDs.prefix(Self.probeLimit))
        ) { topic, result in
            tried += 1
            switch result {
            case .success(let answer):
                let finding = Finding(answer, to: settings, topic)
                report(finding)
                if finding.kind == .notFine { isFine = false }
                return !answer.isAboutAllTopics
            case .failure(let end):
                report(Finding(.notFine, "app \(settings.name): the probe: \(end)"))
                isFine = false
                return false
            }
        }
        let left = settings.bundleIDs.count - tried
        if left > 0 {
            report(
                Finding(
                    isFine ? .warning : .notFine,
                    "app \(settings.name): not probed: \(left) more of its bundle ids"
                        + (isFine ? " (beyond \(Self.probeLimit))" : "")))
        }
        return isFine
    }
}
