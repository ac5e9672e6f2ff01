package import PushRecords

/// An element of `apps`: bundle ids that share a credential, an environment and connections.
package struct AppSettings: Hashable, Sendable {
    package enum Credential: Hashable, Sendable {
        case token(TokenCredential)
        case certificate(CertificateCredential)
    }

    /// The reaction to many bad tokens (`BadDeviceToken`, `DeviceTokenNotForTopic`): more than half of the last 1,000
    /// responses, or all of the first 20. Such a share suggests that the tokens belong to the other environment.
    package enum EnvironmentGuard: String, CaseIterable, Sendable {
        /// Slows down the app, and logs an error.
        case warn
        /// Slows down the app, logs an error, and retries the notifications with bad tokens.
        case hold
        case off
    }

    package enum Transport: String, CaseIterable, Sendable { case http2, binary }

    package struct Connections: Hashable, Sendable {
        package var min = 1
        package var max = 8
        /// The idle time after which the worker pings a connection.
        package var ping = Duration.seconds(60)
        /// The time without requests after which the worker closes a connection, if the app has more than `min`
        /// connections.
        package var idle = Duration.seconds(600)
        /// The maximum age of a connection, or 0 for no limit. The worker replaces each connection at a random age of
        /// 75 to 100 % of this time.
        package var maxAge = Duration.zero
    }

    package var name: String
    /// The bundle ids, at least one and without duplicates.
    package var bundleIDs: [String]
    package var credential: Credential
    package var environment = PushEnvironment.production
    /// The APNs host: a name or an address (IPv6 without brackets).
    package var host: String
    package var port = 443
    /// The settings of the binary protocol, or `nil` for HTTP/2.
    package var binary: BinarySettings?
    package var manageHost: String
    package var managePort: Int
    package var connections = Connections()
    /// The certificate authorities (PEM) to trust for the host, or `nil` for the system's CA certificates.
    package var authorities: Secret?
    package var verifiesHost = true
    /// Whether HPACK indexes the `authorization` header, which saves about 155 bytes per request.
    package var indexesAuthorization = true
    /// The HTTP proxy, or `nil` to connect directly.
    package var proxy: ProxySettings?
    package var environmentGuard = EnvironmentGuard.warn
    /// The name of the app with the same bundle ids in the other environment. If APNs answers a notification with
    /// BadDeviceToken, the worker sends it once more, through that app. With `nil`, the notification is rejected.
    package var otherEnvironment: String?
    /// The maximum number of notifications per second, or 0 for no limit.
    package var rateLimit = 0
    package var isPaused = false

    /// - Parameter host: The APNs host, or `nil` for Apple's host of the environment.
    init(
        name: String, bundleIDs: [String], credential: Credential, environment: PushEnvironment = .production,
        host: String? = nil
    ) {
        self.name = name
        self.bundleIDs = bundleIDs
        self.credential = credential
        self.environment = environment
        let apple = Self.apple(environment)
        self.host = host ?? apple.host
        manageHost = apple.manageHost
        managePort = apple.managePort
    }

    /// Returns Apple's hosts of an environment. Source: Apple, "Sending channel management requests to APNs".
    private static func apple(_ environment: PushEnvironment) -> (host: String, manageHost: String, managePort: Int) {
        switch environment {
        case .production: ("api.push.apple.com", "api-manage-broadcast.push.apple.com", 2196)
        case .development: ("api.development.push.apple.com", "api-manage-broadcast.sandbox.push.apple.com", 2195)
        }
    }
}

extension AppSettings {
    static func list(reading value: Value) -> [AppSettings]? {
        value.list(limit: 1_000) { item in item.section { AppSettings(reading: &$0) } }
    }

    private init(reading section: inout Section) {
        let start = section.reading.settings.count
        var environment = PushEnvironment.production
        section.read("environment", into: &environment) { value in
            value.choice(of: PushEnvironment.allCases.map { ($0.text.description, $0) })
        }
        let nothing = TokenCredential(key: .text(""), keyID: "", teamID: "")
        self.init(name: "", bundleIDs: [], credential: .token(nothing), environment: environment)

        var transport = Transport.http2
        section.read("transport", into: &transport) { $0.choice() }

        section.required("name", into: &name) {
            $0.text("1 to 100 letters, digits, dots, hyphens or underscores", where: Self.isName)
        }
        section.required("bundle_ids", into: &bundleIDs) { value in
            value.distinctTexts(limit: 1_000) {
                $0.text("a bundle id: letters, digits, dots, hyphens, such as com.example.shop", where: Self.isBundleID)
            }
        }
        if let credential = Credential(reading: &section) { self.credential = credential }
        section.read("host", into: &host) { $0.hostName() }
        if transport == .binary { port = BinarySettings.port }
        section.read("port", into: &port) { $0.integer(1...65_535) }
        let binaryStart = section.reading.settings.count
        let binary = BinarySettings(in: &section)
        if transport == .binary {
            self.binary = binary
        } else {
            section.reading.settings.removeSubrange(binaryStart...)
        }
        checkTransport(transport, section)
        section.section("broadcast") { section in
            section.read("manage_host", into: &manageHost) { $0.hostName() }
            section.read("manage_port", into: &managePort) { $0.integer(1...65_535) }
        }
        section.section("connections") { section in
            section.read("min", into: &connections.min) { $0.integer(0...1_000) }
            section.read("max", into: &connections.max) { $0.integer(1...1_000) }
            let range = Duration.seconds(1)...Duration.seconds(86_400)
            section.read("ping", into: &connections.ping) { $0.duration(range) }
            section.read("idle", into: &connections.idle) { $0.duration(range) }
            section.read("max_age", into: &connections.maxAge) {
                $0.duration(.seconds(10)...(.seconds(7 * 86_400)), orZero: true)
            }
            if connections.min > connections.max {
                section.reading.refuse(
                    section.path, "min (\(connections.min)) must not exceed max (\(connections.max))")
            }
        }
        section.read("index_authorization", into: &indexesAuthorization) { $0.boolean() }
        proxy = ProxySettings.read(&section)
        section.read("environment_guard", into: &environmentGuard) { $0.choice() }
        section.read("other_environment", into: &otherEnvironment) { $0.text("the name of an app") }
        section.read("rate_limit", into: &rateLimit) { $0.integer(0...10_000_000) }
        section.read("paused", into: &isPaused) { $0.boolean() }
        section.section("tls") { section in
            authorities = section.secret("ca")
            section.read("verify", into: &verifiesHost) { $0.boolean() }
            if !verifiesHost {
                section.reading.warn(
                    section.path(of: "verify"),
                    "while it is false, any server that answers for \(host) can receive this app's notifications")
            }
        }
        for index in section.reading.settings.indices[start...] {
            let key = section.reading.settings[index].path.dropFirst(section.path.count)
            section.reading.settings[index].path = "apps[\(name)]\(key)"
        }
    }

    private func checkTransport(_ transport: Transport, _ section: Section) {
        guard transport == .binary else {
            guard section.has("binary") else { return }
            return section.refuse("binary", "needs transport: binary; the default transport is HTTP/2")
        }
        if !section.has("host") {
            section.refuseMissing(
                "host",
                ": Apple shut down its own gateways in March 2021; set the host of another gateway")
        }
        if let feedback = binary?.feedback, feedback.host == host, feedback.port == port {
            section.refuse(
                "port",
                "\(host):\(port) is also the feedback service, which accepts no notifications; set the gateway's port")
        }
        if case .token = credential, section.has("token") {
            section.refuse("token", "the binary protocol has no provider tokens: use a certificate")
        }
    }

    private static func isName(_ text: String) -> Bool {
        text.utf8.count <= 100 && text.unicodeScalars.allSatisfy { $0.isASCIIWord || $0 == "." || $0 == "-" }
    }

    private static func isBundleID(_ text: String) -> Bool {
        text.utf8.count <= 155
            && text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { !$0.isEmpty }
            && text.unicodeScalars.allSatisfy { $0.isASCIIWord || $0 == "." || $0 == "-" }
    }
}
