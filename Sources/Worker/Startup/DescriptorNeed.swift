internal import CLinux
package import Configuration
internal import HTTPServer
package import Observability

/// How many descriptors a worker may have open at once, by its configuration.
package enum DescriptorNeed {
    /// librdkafka's clients at once: two producers (for all records, and for one at a time), a consumer for each of two
    /// groups, two that look for removed retry topics (`RemovedRetryTopics`), and one more producer where feedback is
    /// read. Each connects to every broker, and to its coordinator once more.
    private static let kafkaClients = 2 + 2 + 3
    /// Of a client, besides its connections: pipes between its threads.
    private static let ofClient = 8
    /// What is always open: the process's own files, event loops, watched files; and a file that is read.
    private static let own = 64

    /// The most that it counts with. A credential that is replaced takes the connections of its app once more, for as
    /// long as the old ones take to finish.
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

    /// What to say where they do not fit; `nil`: they do.
    package static func warning(of configuration: WorkerConfiguration, limit: Int64) -> String? {
        let most = most(of: configuration)
        guard Int64(most) > limit else { return nil }
        return
            "up to \(most) descriptors may be open at once (apps' connections, brokers, admin pages), and the process may have \(limit): raise its limit (LimitNOFILE=, ulimit -n), or lower connections.max"
    }
}
