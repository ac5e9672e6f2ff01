internal import CLinux
package import Configuration
internal import Delivery
internal import Glibc
internal import HTTPServer
package import Kafka
package import Observability
internal import PushRecords

extension WorkerConfiguration {
    /// - Throws: `StartFailure` when the user set a property that would break the promise, that librdkafka does not
    ///   know, or whose value it does not take.
    package func cluster() throws(StartFailure) -> ClusterSettings {
        let properties: KafkaProperties
        do throws(RefusedProperty) {
            properties = try KafkaProperties(
                common: kafka.properties.map { Kafka.KafkaProperty($0.name, $0.value) },
                consumer: kafka.consumerProperties.map { Kafka.KafkaProperty($0.name, $0.value) },
                producer: kafka.producerProperties.map { Kafka.KafkaProperty($0.name, $0.value) })
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
                "kafka.assignment: cooperative needs librdkafka 2.10.0 or newer, and this is "
                    + "\(found >> 24).\(found >> 16 & 0xFF).\(found >> 8 & 0xFF), which may leave a member without "
                    + "partitions after a rebalance; use eager, or a newer library"
            ])
        }
        return ClusterSettings(bootstrapServers: kafka.bootstrapServers, properties: properties)
    }

    /// Returns what is wrong with a property, and what would be right. The value is not shown: it may be a secret.
    private static func text(of error: InvalidProperty) -> String {
        let known = KafkaLibrary.knownProperties
        let name = error.property.name
        guard known.isEmpty || known.contains(where: { $0.name == name }) else {
            let suggestion = nearest(to: name, among: known.map(\.name)).map { "; did you mean \($0)?" } ?? ""
            return "librdkafka has no such property\(suggestion)"
        }
        // A topic's property may stand in the table twice; the first is the client's.
        guard let range = known.first(where: { $0.name == name })?.range, !range.isEmpty else { return error.text }
        return range.contains(" .. ")
            ? "expected a number from \(range.replacing(" .. ", with: " to "))" : "expected one of \(range)"
    }

    /// Returns a line for a client that could not be made, with the place of the property to blame and the file it
    /// names.
    func line(of error: KafkaError) -> String {
        let all = kafka.properties + kafka.consumerProperties + kafka.producerProperties
        guard let property = all.last(where: { error.text.hasPrefix("\($0.name) ") }) else {
            // Of two that belong together librdkafka quotes both, and one of them may be there.
            let place = all.last { error.text.contains("`\($0.name)`") }?.place
            return place.map { "\($0): \(error.text)" } ?? "kafka: \(error)"
        }
        // Only a path may be quoted, because other properties' values may be secrets.
        guard property.name.hasSuffix(".location") else { return "\(property.place): \(error.text)" }
        // OpenSSL's words for a file that is not there do not say so.
        let isReadable = access(property.value, R_OK) == 0
        let reason =
            isReadable
            ? error.text.replacing("\(property.name) failed: ", with: "cannot be used: ")
            : "cannot be read: \(String(cString: strerror(errno)))"
        return "\(property.place): \(property.value): \(reason)"
    }

    /// 2.10.0, as `KafkaLibrary.version` counts.
    private static let cooperativeVersion: Int32 = 0x020A_0000

    /// - Parameter partitions: of all request topics; unused for the retries.
    package func consumer(
        _ role: ConsumerSettings.Role, of cluster: ClusterSettings, partitions: Int = 8
    ) -> ConsumerSettings {
        var settings = ConsumerSettings(
            cluster: cluster.withStatistics, role: role, groupID: kafka.groupID, groupInstanceID: kafka.groupInstanceID,
            sessionTimeoutMs: Int(kafka.sessionTimeout.milliseconds),
            assignment: kafka.assignment == .eager ? .eager : .cooperative, partitions: partitions)
        settings.ignoredTopics = RequestTopic.internalTopics
        return settings
    }
}

extension ClusterSettings {
    /// The settings of clients whose statistics show the brokers' health.
    var withStatistics: ClusterSettings {
        var settings = self
        settings.statisticsIntervalMs = ClientStatistics.intervalMs
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
        // Less than the time after which the group may have given the partitions to others.
        settings.leaseNs = kafka.sessionTimeout.nanoseconds / 5 * 4
        settings.publishesOnlyFailures = results.publish == .failures
        settings.copiedHeaders = results.copyHeaders
        settings.includesBadTokens = unregistered.includeBadTokens
        settings.tiers = retry.tiers.map { MachineSettings.Tier(delayMs: $0.delay.milliseconds) }
        settings.maxAttempts = retry.maxAttempts
        for (reason, verdict) in delivery.verdicts {
            settings.verdicts[reason.rawValue] = Verdict(rawValue: verdict.rawValue)
        }
        settings.hashSeed = UInt64.random(in: .min ... .max)
        return settings
    }
}

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
            logger.warning(.worker, "too few descriptors", ["advice": .text(warning)])
        }
    }

    package static func warning(of configuration: WorkerConfiguration, limit: Int64) -> String? {
        let most = most(of: configuration)
        guard Int64(most) > limit else { return nil }
        return
            "up to \(most) descriptors may be open at once (apps' connections, brokers, admin pages), and the process may "
            + "have \(limit): raise its limit (LimitNOFILE=, ulimit -n), or lower connections.max"
    }
}
