import Configuration

/// The demo's topics: the defaults, with one short retry tier so that nobody waits for half a minute.
enum DemoTopics {
    static let requests = "apns.requests"
    static let retryDelay = Duration.seconds(1)
    static let retry = "apns.retry.1s"
    static let partitions = 4

    /// A worker's configuration for the demo's broker and simulator.
    static func configuration(
        bootstrapServers: String, host: String, port: UInt16, caFile: String, key: TokenCredential, bundleID: String
    ) -> WorkerConfiguration {
        var app = AppSettings(name: "demo", bundleIDs: [bundleID], credential: .token(key), host: host)
        app.port = Int(port)
        app.caFile = caFile
        app.connections.max = 2
        var configuration = WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: bootstrapServers), apps: [app])
        // The in-process broker lets a group wait for its session timeout less a second before it first assigns.
        configuration.kafka.sessionTimeout = .seconds(2)
        configuration.retry.tiers = [
            RetrySettings.Tier(name: "1s", delay: retryDelay, topic: retry)
        ]
        configuration.log.level = .error
        return configuration
    }
}
