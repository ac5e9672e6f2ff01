internal import CLinux
package import Configuration
internal import Delivery
internal import HTTPServer
package import Kafka
package import Observability
internal import PushRecords

extension WorkerConfiguration {
    /// Returns the brokers and librdkafka's properties for all Kafka clients.
    ///
    /// - Throws: `StartFailure` if the configuration sets a librdkafka property that would break the delivery
    ///   guarantees, is unknown, or has an invalid value, or if librdkafka is too old for cooperative assignment.
    package func cluster() throws(StartFailure) -> ClusterSettings {
        let properties: KafkaProperties
        do throws(RefusedProperty) {
            properties = try KafkaProperties(
                common: kafka.properties.map { Kafka.KafkaProperty($0.name, $0.value) },
                consumer: kafka.consumerProperties.map { Kafka.KafkaProperty($0.name, $0.value) },
                producer: kafka.producerProperties.map { Kafka.KafkaProperty($0.name, $0.value) },
                tokenCommand: kafka.oauthCommand.isEmpty ? nil : kafka.oauthCommand)
        } catch {
            guard let place = kafka.place(ofProperty: error.name) else { throw StartFailure(["\(error)"]) }
            throw StartFailure(["\(place): cannot be set: \(error.reason)"])
        }
        do throws(InvalidProperty) {
            try properties.validate()
        } catch {
            let name = error.property.name
            throw StartFailure(["\(kafka.place(ofProperty: name) ?? name): \(Self.text(of: error))"])
        }
        if kafka.assignment == .cooperative, KafkaLibrary.version < Self.cooperativeVersion {
            let found = KafkaLibrary.version
            throw StartFailure([
                "kafka.assignment: cooperative needs librdkafka 2.10.0 or newer, but the worker uses "
                    + "\(found >> 24).\(found >> 16 & 0xFF).\(found >> 8 & 0xFF), which may leave a member without "
                    + "partitions after a rebalance; use eager, or a newer librdkafka"
            ])
        }
        return ClusterSettings(bootstrapServers: kafka.bootstrapServers, properties: properties)
    }

    /// librdkafka's version 2.10.0, encoded as in `KafkaLibrary.version`.
    private static let cooperativeVersion: Int32 = 0x020A_0000

    /// - Parameter partitions: The number of partitions of all request topics. The retry role does not use the number.
    package func consumer(
        _ role: ConsumerSettings.Role, of cluster: ClusterSettings, partitions: Int = 8
    ) -> ConsumerSettings {
        var settings = ConsumerSettings(
            cluster: ofWorker(cluster), role: role, groupID: kafka.groupID, groupInstanceID: kafka.groupInstanceID,
            sessionTimeoutMs: Int(kafka.sessionTimeout.milliseconds),
            assignment: kafka.assignment == .eager ? .eager : .cooperative, partitions: partitions)
        settings.ignoredTopics = RequestTopic.internalTopics
        return settings
    }

    /// Returns the cluster settings for the clients that process notifications: with statistics, which feed
    /// `BrokerHealth`, and with the waits of `delivery.latency`.
    func ofWorker(_ cluster: ClusterSettings) -> ClusterSettings {
        var settings = cluster
        settings.statisticsIntervalMs = ClientStatistics.intervalMs
        settings.waitsForMore = delivery.latency == .balanced
        return settings
    }
}

extension WorkerConfiguration {
    var machineSettings: MachineSettings {
        var settings = MachineSettings()
        settings.ordering = delivery.ordering == .device ? .device : .none
        settings.derivesIDs = delivery.apnsID == .derived
        settings.inDoubt = delivery.inDoubt == .resend ? .resend : .abandon
        settings.resendMax = delivery.resendMax
        settings.maxAgeMs = delivery.maxAge?.milliseconds ?? 0
        settings.maxAheadMs = delivery.maxAhead.milliseconds
        settings.maxOpen = delivery.maxOpen
        settings.maxOpenBytes = delivery.maxOpenBytes
        settings.commitIntervalNs = delivery.commitInterval.nanoseconds
        // The send lease must end before the session, after which the group may assign the partitions to other members.
        settings.leaseNs = kafka.sessionTimeout.nanoseconds / 5 * 4
        settings.publishesOnlyFailures = results.publish == .failures
        settings.copiedHeaders = results.copyHeaders
        settings.includesBadTokens = unregistered.includeBadTokens
        settings.tierDelaysMs = retry.tiers.map(\.delay.milliseconds)
        settings.maxAttempts = retry.maxAttempts
        for (reason, verdict) in delivery.verdicts {
            settings.verdicts[reason.rawValue] = Verdict(rawValue: verdict.rawValue)
        }
        settings.hashSeed = UInt64.random(in: .min ... .max)
        return settings
    }
}

/// The number of file descriptors that a worker may need at once, according to its configuration.
package enum DescriptorNeed {
    /// The number of Kafka clients: two producers, a consumer for each of two groups, and two clients that look for
    /// removed retry topics (`RemovedRetryTopics`). Each client connects to every broker, and a second time to its
    /// coordinator.
    private static let kafkaClients = 2 + 2 + 2
    /// The number of descriptors of the pipes between the threads of one client.
    private static let ofClient = 8
    /// The number of descriptors for other files, event loops and file watches.
    private static let own = 64

    /// Returns an estimate of the maximum, which assumes that the configuration names all brokers. The number does not
    /// account for a replaced credential, which doubles its app's connections until the old connections are closed.
    package static func most(of configuration: WorkerConfiguration) -> Int {
        // The quarantine connection is not included in `max`.
        let connections = configuration.apps.reduce(0) { $0 + $1.connections.max + 1 }
        let brokers = configuration.kafka.bootstrapServers.split(separator: ",").count
        let reads = configuration.apps.count { $0.binary?.feedback != nil }
        let kafka = (kafkaClients + min(reads, 1)) * (brokers + 1 + ofClient)
        return connections + reads + kafka + (configuration.admin.listen == nil ? 0 : PageServer.connectionLimit) + own
    }

    /// Raises the process's descriptor limit as far as permitted, and logs a warning if the resulting limit is too low.
    package static func raiseLimit(for configuration: WorkerConfiguration, _ logger: Logger) {
        if let warning = warning(of: configuration, limit: linux_raise_descriptor_limit()) {
            logger.warning(.worker, "descriptor limit too low", ["advice": .text(warning)])
        }
    }

    package static func warning(of configuration: WorkerConfiguration, limit: Int64) -> String? {
        let most = most(of: configuration)
        guard Int64(most) > limit else { return nil }
        return
            "the worker needs up to \(most) descriptors (apps' connections, brokers, admin pages), but the process can "
            + "open only \(limit): raise this limit (LimitNOFILE=, ulimit -n), or lower connections.max of the apps"
    }
}
