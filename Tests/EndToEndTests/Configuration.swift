/// The worker's configuration file in a scene: short, but for what a test must have quicker or on a port of its own.
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
    var keyFile = "AuthKey_SIMULATOR1.p8"
    var caFile = "ca.pem"
    /// Where the admin pages are served; several workers of a scene cannot share one port.
    var admin = "off"
    /// A further key of the section `kafka`, further apps, and a further section, as YAML.
    var kafka = ""
    var apps = ""
    var more = ""

    init(servers: String, name: String) {
        self.servers = servers
        requests = "\(name).requests"
        results = "\(name).results"
        unregistered = "\(name).unregistered"
        deadLetters = "\(name).dead-letters"
        retry = "\(name).retry.1s"
        group = "\(name).worker"
    }

    var text: String {
        """
        kafka: {bootstrap_servers: "\(servers)", group_id: \(group), session_timeout: 6s\(kafka.isEmpty ? "" : ", ")\(kafka)}
        requests: {topics: [\(requests)]}
        results: {topic: \(results)}
        unregistered: {topic: \(unregistered)}
        dead_letters: {topic: \(deadLetters)}
        retry: {tiers: {1s: \(retry)}, max_attempts: 2}
        apps:
          - name: shop
            bundle_ids: [com.example.shop]
            environment: production
            host: \(host)
            port: \(port)
            token: {key_file: \(keyFile), key_id: SIMULATOR1, team_id: TEAM123456}
            tls: {ca_file: \(caFile)}
            connections: {min: 2, max: 4}
        \(apps)
        admin: {listen: \(admin)}
        \(more)
        """
    }
}
