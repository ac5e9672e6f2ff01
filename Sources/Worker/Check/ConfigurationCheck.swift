internal import APNs
package import Configuration
internal import EventLoop
internal import Kafka
internal import Network
internal import Observability
internal import PushRecords
internal import TLS

/// The command `check`: tests every file, credential and host that `run` needs, and reports a line about each. The
/// command sends notifications only if `probesCredentials` is set.
package final class ConfigurationCheck {
    package struct Finding: Sendable, Equatable {
        package enum Kind: String, Sendable {
            case fine
            case warning
            case notFine = "not fine"
        }

        package let kind: Kind
        package let text: String

        package var line: String { "\(kind.rawValue): \(text)" }
    }

    private static let probeLimit = 400

    private let configuration: WorkerConfiguration
    private let probesCredentials: Bool
    private let onFinding: (Finding) -> Void
    /// Whether the worker can run in spite of all findings so far.
    private(set) var isFine = true

    /// - Parameter probesCredentials: Whether to send APNs a request with a token of zeros for each bundle id of an app
    ///   (at most 400), and a frame with such a token to each gateway.
    package init(
        _ configuration: WorkerConfiguration, probesCredentials: Bool = false,
        report: @escaping (Finding) -> Void
    ) {
        self.configuration = configuration
        self.probesCredentials = probesCredentials
        onFinding = report
    }

    /// Runs all checks, and returns whether all passed. Waits up to 15 s for each answer from Kafka or a host.
    package func run() -> Bool {
        checkKafka()
        // Every app is checked, even if an earlier app has failed.
        for app in configuration.apps { check(app) }
        for line in ConfigurationWarnings.ofKeys(configuration.apps) { report(.warning, line) }
        return isFine
    }

    /// Reports a finding, and returns whether the worker can run in spite of the finding.
    @discardableResult
    private func report(_ kind: Finding.Kind, _ text: String) -> Bool {
        onFinding(Finding(kind: kind, text: namesOnce(text)))
        if kind == .notFine { isFine = false }
        return kind != .notFine
    }

    // MARK: Kafka

    private func checkKafka() {
        let servers = configuration.kafka.bootstrapServers
        var readiness: ClusterReadiness
        do throws(StartFailure) {
            let cluster = try configuration.cluster()
            try makeClients(cluster)
            readiness = try ClusterReadiness(configuration, cluster, onlyChecks: true)
        } catch {
            // These lines already begin with their subject, so they get no prefix.
            for line in error.lines { report(.notFine, line) }
            return
        }
        do throws(StartFailure) {
            switch try readiness.attempt(timeoutMs: 10_000) {
            case .ready(_, _, _, let denied, let warnings, let toBeMade):
                for line in warnings { report(.warning, "kafka: \(line)") }
                for line in denied { report(.notFine, "kafka: \(line)") }
                let topics =
                    toBeMade.isEmpty
                    ? "all topics exist"
                    : "run creates the missing topics: \(toBeMade.joined(separator: ", "))"
                report(.fine, "kafka: \(servers) reached, \(topics)")
            case .waiting(_, let lines, let advice):
                for line in lines { report(.notFine, "kafka: \(line): \(advice)") }
            }
        } catch {
            for line in error.lines { report(.notFine, "kafka: \(line)") }
        }
    }

    /// Creates every Kafka client that `run` creates, because librdkafka validates combinations of properties only when
    /// it creates a client.
    private func makeClients(_ cluster: ClusterSettings) throws(StartFailure) {
        do throws(KafkaError) {
            for role in [ConsumerSettings.Role.requests, .retries] {
                _ = try Consumer(configuration.consumer(role, of: cluster))
            }
            for sendsSingly in [false, true] {
                _ = try Producer(
                    ProducerSettings(cluster: configuration.ofWorker(cluster), sendsSingly: sendsSingly))
            }
        } catch {
            throw StartFailure(of: error, configuration)
        }
    }

    // MARK: Apps

    func check(_ settings: AppSettings) {
        let app: LoadedApp
        do throws(StartFailure) {
            app = try LoadedApp(settings)
        } catch {
            for line in error.lines { report(.notFine, line) }
            return
        }
        checkCertificate(of: app)
        for line in ConfigurationWarnings.ofBundleIDs(settings) { report(.warning, line) }
        if settings.isPaused {
            report(.warning, "app \(settings.name): paused; its notifications are deferred and not sent")
        }
        guard let binary = settings.binary else {
            if reach(app), probesCredentials { probe(app) }
            return
        }
        reachGateway(app, binary)
        if let feedback = binary.feedback { reach(feedback, of: app) }
    }

    /// Checks the app's certificate as far as possible without contacting Apple.
    private func checkCertificate(of app: LoadedApp) {
        let nowMs = LoopTime.read().wallMs
        let faults = app.certificateFaults(nowMs: nowMs)
        for line in faults { report(.notFine, line) }
        guard faults.isEmpty else { return }
        let name = "app \(app.settings.name)"
        let validity = app.certificate.map { ", valid until \($0.notAfterDay)" } ?? ""
        report(.fine, "\(name): the credential can be used\(validity)")
        if let warning = app.certificateWarning(nowMs: nowMs) { report(.warning, warning) }
        if let topics = app.certificate?.topics, !topics.isEmpty {
            report(
                .warning,
                "\(name): the certificate is only for the topics \(topics.joined(separator: ", ")); APNs refuses "
                    + "other topics, and accepts push type location only with a token")
        }
    }

    /// Runs a probe, and reports the host with the address that the probe returns and its findings, or its error.
    @discardableResult
    private func report(
        reaching target: DialTarget, of app: LoadedApp, as subject: String = "",
        _ probe: () throws -> (address: String, findings: String)
    ) -> Bool {
        let name = "app \(app.settings.name):"
        do {
            let (address, findings) = try probe()
            let way = app.proxy.map { "through the proxy \($0.text)" } ?? "at \(address)"
            return report(.fine, "\(name)\(subject) \(target.text) reached \(way)\(findings)")
        } catch {
            return report(.notFine, "\(name)\(subject.isEmpty ? "" : subject + ":") \(error)")
        }
    }

    private func reach(_ app: LoadedApp) -> Bool {
        report(reaching: app.target, of: app) {
            let answer = try HostProbe.run(app.target, context: app.context)
            // Apple allows one stream before it has received a provider token.
            let streams = answer.streams == 1 ? "1 stream to begin with" : "\(answer.streams) streams"
            return (answer.address, ", \(answer.tlsVersion), HTTP/2 with \(streams)")
        }
    }

    /// Checks a gateway of the binary protocol. A gateway does not confirm a valid certificate. The optional probe is a
    /// frame with a token of zeros, which the gateway must reject.
    private func reachGateway(_ app: LoadedApp, _ binary: BinarySettings) {
        let name = "app \(app.settings.name)"
        if binary.format == .simple {
            report(
                .warning,
                "\(name): format simple has no identifiers: an error does not name its notification, and all "
                    + "unconfirmed notifications are sent again when the gateway closes the connection; set "
                    + "binary.format to framed or enhanced if the gateway supports it")
        }
        var status: UInt8?
        let isReached = report(reaching: app.target, of: app) {
            let answer = try GatewayProbe.run(
                app.target, context: app.context, asking: probesCredentials ? binary.format.ofTransport : nil)
            status = answer.status
            return (answer.address, ", \(answer.tlsVersion), binary protocol")
        }
        guard isReached, probesCredentials else { return }
        let isExpected = status == 8 || status == nil && !binary.answersFence
        let text =
            switch status {
            case 8: "status 8: the gateway rejected a token of zeros, as it should"
            case nil where isExpected: "no answer within 5 s to a token of zeros, as expected with binary.fence: false"
            case nil:
                "no answer within 5 s to a token of zeros: the gateway reads nothing, or it accepts this token and needs "
                    + "binary.fence: false"
            case let other?: "status \(other) for a token of zeros instead of 8: check binary.format and the host"
            }
        report(isExpected ? .fine : .notFine, "\(name): the probe: \(text)")
    }

    /// Connects to the feedback service without TLS, because the service sends its tokens to any client that completes
    /// the TLS handshake, and then deletes them.
    private func reach(_ feedback: BinarySettings.Feedback, of app: LoadedApp) {
        let target = DialTarget(host: feedback.host, port: UInt16(clamping: feedback.port), proxy: app.proxy)
        report(reaching: target, of: app, as: " the feedback service") {
            let address = try HostProbe.reach(target)
            return (
                address,
                "; TLS and the certificate were not tested, because the service would send its tokens and delete them"
            )
        }
    }

    // MARK: Probes

    /// Probes up to `probeLimit` bundle ids of the app over one connection. Stops when the connection fails, or at an
    /// answer that applies to all bundle ids.
    private func probe(_ app: LoadedApp) {
        let settings = app.settings
        var isAccepted = true
        var tried = 0
        CredentialProbe.run(
            app.transportConfiguration(10_000_000_000), token: ProviderTokens().token(of: app),
            topics: Array(settings.bundleIDs.prefix(Self.probeLimit))
        ) { topic, result in
            tried += 1
            switch result {
            case .success(let answer):
                if !report(answer, to: settings, topic) { isAccepted = false }
                return !answer.isAboutAllTopics
            case .failure(let end):
                isAccepted = report(.notFine, "app \(settings.name): the probe: \(end)")
                return false
            }
        }
        let left = settings.bundleIDs.count - tried
        if left > 0 {
            report(
                isAccepted ? .warning : .notFine,
                "app \(settings.name): \(left) of its bundle ids were not probed"
                    + (isAccepted ? " (the limit is \(Self.probeLimit))" : ""))
        }
    }

    /// Reports whether the answer to a probe (a request for a token of zeros) shows that APNs accepts the credential.
    /// Source: Apple, "Handling notification responses from APNs".
    private func report(_ answer: Exchange.Answer, to app: AppSettings, _ topic: String) -> Bool {
        let said = "\(answer.status) \(answer.text ?? "without a reason")"
        let accepted = "app \(app.name): the credential is accepted for \(topic)"
        switch answer.reason {
        case .badDeviceToken, .deviceTokenNotForTopic, .unregistered, .expiredToken:
            return report(.fine, "\(accepted) (\(said))")
        case _ where answer.status == 200:
            return report(.fine, "\(accepted) (200 for a token of zeros, so the host is probably a simulator)")
        default:
            let advice = advice(answer, app, topic).map { ": \($0)" } ?? ""
            return report(.notFine, "app \(app.name): the probe for \(topic) was answered with \(said)\(advice)")
        }
    }

    private func advice(_ answer: Exchange.Answer, _ app: AppSettings, _ topic: String) -> String? {
        if answer.reason == .invalidPushType, let (bundleID, type) = ConfigurationWarnings.split(topic) {
            return
                "\(topic) is the topic of push type \(type.text), but the probe is an alert: set \(bundleID) in bundle_ids"
        }
        return RefusalAdvice.text(of: answer.reason, status: Int(answer.status), topic, app)
    }
}

extension Exchange.Answer {
    /// Whether to stop probing, because APNs would give this answer for other bundle ids too, or because APNs should
    /// receive no more requests now.
    fileprivate var isAboutAllTopics: Bool {
        switch reason {
        // Apple may limit a key to some topics, so other bundle ids may get another answer.
        case .topicMismatch, .unrelatedKeyIdInToken: false
        default: status == 403 || status == 429 || status >= 500
        }
    }
}

/// Warnings, one line each, about a valid configuration that may not have the intended effect.
enum ConfigurationWarnings {
    /// Returns a warning for each key that apps of both environments use. Since February 2025, Apple may limit a key to
    /// one environment.
    static func ofKeys(_ apps: [AppSettings]) -> [String] {
        let users = Dictionary(grouping: apps) { app -> [String] in
            if case .token(let token) = app.credential { [token.teamID, token.keyID] } else { [] }
        }
        return users.sorted { $0.key.lexicographicallyPrecedes($1.key) }.compactMap { key, apps in
            guard let keyID = key.last, let production = apps.first(where: { $0.environment == .production }),
                let development = apps.first(where: { $0.environment == .development })
            else { return nil }
            return
                "key \(keyID) is used in production (app \(production.name)) and in development (app "
                + "\(development.name)): if the key is limited to one environment, APNs answers "
                + "BadEnvironmentKeyIdInToken in the other environment; check with --probe"
        }
    }

    static func ofBundleIDs(_ app: AppSettings) -> [String] {
        app.bundleIDs.compactMap { id in
            guard let (bundleID, type) = split(id) else { return nil }
            let line = "app \(app.name): \(id) in bundle_ids is the topic of push type \(type.text)"
            if type == .location, case .certificate = app.credential {
                return "\(line), which Apple accepts only with a token, but the app has a certificate"
            }
            return
                "\(line): set \(bundleID), which includes this topic; without apns-push-type a request for \(id) is an "
                + "alert, which APNs refuses for this topic"
        }
    }

    /// Splits a topic with a push type's suffix into the bundle id and the push type. Returns `nil` if the topic has no
    /// such suffix.
    static func split(_ topic: String) -> (bundleID: Substring, PushType)? {
        for type in PushType.allCases {
            guard let suffix = type.topicSuffix, topic.hasSuffix(suffix), topic.count > suffix.count else { continue }
            return (topic.dropLast(suffix.count), type)
        }
        return nil
    }
}
