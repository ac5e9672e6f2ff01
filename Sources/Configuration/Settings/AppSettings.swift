package import PushRecords

/// One of `apps`: bundle ids that share a credential, an environment and connections.
package struct AppSettings: Hashable, Sendable {
    package enum Credential: Hashable, Sendable {
        case token(TokenCredential)
        case certificate(CertificateCredential)
    }

    /// What happens once more than half of the last 1,000 answers called the token bad, or all of the first 20: they
    /// look as if they were of the other environment.
    package enum EnvironmentGuard: String, CaseIterable, Sendable {
        /// The app slows down, and says so.
        case warn
        /// The notifications wait in the retry tiers, too.
        case hold
        case off
    }

    /// What is spoken with the host.
    package enum Transport: String, CaseIterable, Sendable { case http2, binary }

    package struct Connections: Hashable, Sendable {
        package var min = 1
        package var max = 8
        /// A connection on which nothing came for so long is asked whether it lives.
        package var ping = Duration.seconds(60)
        /// One beyond `min` that was unused for so long closes.
        package var idle = Duration.seconds(600)

        package init() {}
    }

    package var name: String
    /// At least one; no two the same.
    package var bundleIDs: [String]
    package var credential: Credential
    package var environment = PushEnvironment.production
    /// A name or an address (IPv6 without brackets).
    package var host: String
    package var port = 443
    /// `nil`: HTTP/2.
    package var binary: BinarySettings?
    /// Where broadcast channels are managed.
    package var manageHost: String
    package var managePort: Int
    package var connections = Connections()
    /// The authorities (PEM) that may sign for the host, in place of the system's; `nil`: the system's.
    package var authorities: Secret?
    /// False: anyone may answer for the host.
    package var verifiesHost = true
    /// `authorization` is sent so that HPACK indexes it, which saves some 155 bytes a request.
    package var indexesAuthorization = true
    /// `nil`: the host is dialled itself.
    package var proxy: ProxySettings?
    package var environmentGuard = EnvironmentGuard.warn
    /// The app that has the same bundle ids in the other environment: what is BadDeviceToken here is sent there once;
    /// `nil`: it is rejected.
    package var otherEnvironment: String?
    /// Notifications a second; 0: as many as APNs takes.
    package var rateLimit = 0
    /// Nothing is sent; its notifications are held.
    package var isPaused = false

    /// `host`: `nil` is Apple's of the environment.
    package init(
        name: String, bundleIDs: [String], credential: Credential, environment: PushEnvironment = .production,
        host: String? = nil
    ) {
        self.name = name
        self.bundleIDs = bundleIDs
        self.credential = credential
        self.environment = environment
        self.host = host ?? Self.appleHost(environment)
        manageHost = Self.appleManageHost(environment)
        managePort = Self.appleManagePort(environment)
    }

    package static func appleHost(_ environment: PushEnvironment) -> String {
        switch environment {
        case .production: "api.push.apple.com"
        case .development: "api.development.push.apple.com"
        }
    }

    /// Source: Apple, "Sending channel management requests to APNs".
    package static func appleManageHost(_ environment: PushEnvironment) -> String {
        switch environment {
        case .production: "api-manage-broadcast.push.apple.com"
        case .development: "api-manage-broadcast.sandbox.push.apple.com"
        }
    }

    /// Source: Apple, "Sending channel management requests to APNs".
    package static func appleManagePort(_ environment: PushEnvironment) -> Int {
        switch environment {
        case .production: 2196
        case .development: 2195
        }
    }
}

extension AppSettings {
    static func list(reading value: Value) -> [AppSettings]? {
        guard let items = value.list(limit: 1_000) else { return nil }
        let apps = items.map { item -> AppSettings? in
            guard var section = item.section() else { return nil }
            defer { section.finish() }
            return AppSettings(reading: &section)
        }
        return apps.contains(nil) ? nil : apps.compactMap(\.self)
    }

    private init(reading section: inout Section) {
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
        section.required("bundle_ids", into: &bundleIDs) { Self.bundleIDs(reading: $0) }
        if let credential = Credential(reading: &section) { self.credential = credential }
        section.read("host", into: &host) { $0.hostName() }
        if transport == .binary { port = BinarySettings.port }
        section.read("port", into: &port) { $0.integer(1...65_535) }
        let binary = BinarySettings(in: &section)
        if transport == .binary { self.binary = binary }
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
            if connections.min > connections.max {
                section.reading.refuse(
                    section.path, "min (\(connections.min)) is more than max (\(connections.max))")
            }
        }
        section.read("index_authorization", into: &indexesAuthorization) { $0.boolean() }
        proxy = ProxySettings(in: &section)
        section.read("environment_guard", into: &environmentGuard) { $0.choice() }
        section.read("other_environment", into: &otherEnvironment) { $0.text("the name of an app") }
        section.read("rate_limit", into: &rateLimit) { $0.integer(0...10_000_000) }
        section.read("paused", into: &isPaused) { $0.boolean() }
        section.section("tls") { section in
            authorities = section.secret("ca")
            section.read("verify", into: &verifiesHost) { $0.boolean() }
            if !verifiesHost {
                section.reading.warn(
                    section.path(of: "verify"), "anyone who answers for \(host) gets this app's notifications")
            }
        }
    }

    private func checkTransport(_ transport: Transport, _ section: Section) {
        guard transport == .binary else {
            guard section.has("binary") else { return }
            return section.reading.refuse(
                section.path(of: "binary"), "is for apps with transport: binary; without it an app speaks HTTP/2")
        }
        if !section.has("host") {
            section.reading.refuse(
                section.path(of: "host"),
                "is missing: Apple's own gateways are gone since March 2021; give the host that speaks the binary protocol",
                at: section.mark)
        }
        if let feedback = binary?.feedback, feedback.host == host, feedback.port == port {
            section.reading.refuse(
                section.path(of: "port"),
                "\(host):\(port) is the feedback service as well, which would tell its list to whoever connects")
        }
        if case .token = credential, section.has("token") {
            section.reading.refuse(
                section.path(of: "token"), "the binary protocol has no provider tokens: give a certificate")
        }
    }

    private static func isName(_ text: String) -> Bool {
        text.utf8.count <= 100 && text.unicodeScalars.allSatisfy { $0.isASCIIWord || $0 == "." || $0 == "-" }
    }

    private static func bundleIDs(reading value: Value) -> [String]? {
        guard let items = value.list(limit: 1_000) else { return nil }
        var ids: [String] = []
        for item in items {
            guard
                let id = item.text(
                    "a bundle id: letters, digits, dots, hyphens, such as com.example.shop", where: isBundleID)
            else { return nil }
            guard !ids.contains(id) else {
                item.refuse("\(quoted(id)) stands twice")
                return nil
            }
            ids.append(id)
        }
        return ids
    }

    private static func isBundleID(_ text: String) -> Bool {
        text.utf8.count <= 155
            && text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { !$0.isEmpty }
            && text.unicodeScalars.allSatisfy { $0.isASCIIWord || $0 == "." || $0 == "-" }
    }
}
