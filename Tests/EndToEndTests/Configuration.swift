/// The worker's configuration file in a scene.
struct Configuration {
    var servers: String
    var requests: String
    var results: String
    var unregistered: String
    var deadLetters: String
    var retry: String
    var group: String

    var host = "localhost"
    var port = 443
    var environment = "production"
    var keyFile = "AuthKey_SIMULATOR1.p8"
    /// The CA file, or empty for none.
    var caFile = "ca.pem"
    var admin = "off"
    var sessionTimeout = "6s"
    /// Further keys of the sections `kafka`, `results` and `unregistered`, further apps and sections, as YAML.
    var kafka = ""
    var resultKeys = ""
    var unregisteredKeys = ""
    /// The value of `requests.topics` if there are several topics.
    var requestTopics = ""
    var apps = ""
    /// The complete list of apps in YAML, instead of the ones above.
    var allApps: String?
    /// Further keys of the first app, as YAML.
    var appKeys = ""
    /// The apps' section `broadcast`, as YAML.
    var broadcast = "{}"
    /// The URL of the apps' proxy, if any.
    var proxy = ""
    var more = ""
    /// The keys of `retry`.
    var retries: String

    init(servers: String, name: String) {
        self.servers = servers
        requests = "\(name).requests"
        results = "\(name).results"
        unregistered = "\(name).unregistered"
        deadLetters = "\(name).dead-letters"
        retry = "\(name).retry.1s"
        group = "\(name).worker"
        retries = "tiers: {1s: \(retry)}, max_attempts: 1"
    }

    /// Returns further keys for a section that already has some.
    private static func also(_ keys: String) -> String { keys.isEmpty ? "" : ", " + keys }

    /// Returns the app, or a similar one with another name and bundle id.
    func app(
        named name: String, bundle: String? = nil, port other: Int? = nil, environment otherEnvironment: String? = nil
    ) -> String {
        """
          - name: \(name)
            bundle_ids: [com.example.\(bundle ?? name)]
            environment: \(otherEnvironment ?? environment)
            host: \(host)
            port: \(other ?? port)
            token: {key_file: \(keyFile), key_id: SIMULATOR1, team_id: TEAM123456}
            \(caFile.isEmpty ? "" : "tls: {ca_file: \(caFile)}")
            connections: {min: 2, max: 4}
            broadcast: \(broadcast)
            \(proxy.isEmpty ? "" : "proxy: \(proxy)")
        """
    }

    var text: String {
        """
        kafka: {bootstrap_servers: "\(servers)", group_id: \(group), session_timeout: \(sessionTimeout)\(Self.also(kafka))}
        requests: {topics: [\(requestTopics.isEmpty ? requests : requestTopics)]}
        results: {topic: \(results)\(Self.also(resultKeys))}
        unregistered: {topic: \(unregistered)\(Self.also(unregisteredKeys))}
        dead_letters: {topic: \(deadLetters)}
        retry: {\(retries)}
        apps:
        \(allApps ?? app(named: "shop") + "\n    \(appKeys)\n\(apps)")
        admin: {listen: \(admin)}
        \(more)
        """
    }
}
