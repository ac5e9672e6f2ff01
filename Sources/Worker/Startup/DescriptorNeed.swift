internal import CLinux
package import Configuration
internal import HTTPServer
package import Observability

/// The number of descriptors that a worker may have open at once, by its configuration.
package enum DescriptorNeed {
    /// Kafka clients: two producers, a consumer for each of two groups, and two that look for removed retry topics
    /// (`RemovedRetryTopics`). Each connects to every broker, and to its coordinator once more.
    private static let kafkaClients = 2 + 2 + 2
    /// Pipes between the threads of a client.
    private static let ofClient = 8
    /// The process's own files, event loops and watched files.
    private static let own = 64

    /// The most descriptors. A replaced credential takes the connections of its app once more, until the old ones have
    /// finished.
    package static func most(of configuration: WorkerConfiguration) -> Int {
        // The quarantine connection is one beyond the maximum.
        let connections = configuration.apps.reduce(0) { $0 + $1.connections.max + 1 }
        let brokers = configuration.kafka.bootstrapServers.split(separator: ",").count
        let reads = configuration.apps.count { $0.binary?.feedback != nil }
        let kafka = (kafkaClients + min(reads, 1)) * (brokers + 1 + ofClient)
        return connections + reads + kafka + (configuration.admin.listen == nil ? 0 : PageServer.connectionLimit) + own
    }

    /// Raises the process's limit as far as it may be, and warns where that is too few.
    package static func raiseLimit(for configuration: WorkerConfiguration, _ logger: Logger) {
        if let warning = warning(of: configuration, limit: linux_raise_descriptor_limit()) {
            logger.warning(.worker, "too few descriptors", ["text": .text(warning)])
        }
    }

    /// Returns a warning if they do not fit, or `nil`.
    package static func warning(of configuration: WorkerConfiguration, limit: Int64) -> String? {
        let most = most(of: configuration)
        guard Int64(most) > limit else { return nil }
        return
            "up to \(most) descriptors may be open at once (apps' connections, brokers, admin pages), and the process may "
            + "have \(limit): raise its limit (LimitNOFILE=, ulimit -n), or lower connections.max"
    }
}
