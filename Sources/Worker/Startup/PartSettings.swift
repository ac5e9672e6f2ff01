package import Configuration
internal import Delivery
internal import Glibc
package import Kafka
internal import PushRecords

extension WorkerConfiguration {
    /// Returns the settings that all Kafka clients share.
    ///
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
    /// For the clients whose statistics say how the brokers answer.
    var withStatistics: ClusterSettings {
        var settings = self
        settings.statisticsIntervalMs = ClientStatistics.intervalMs
        return settings
    }
}

extension WorkerConfiguration {
    /// The settings of the delivery machine.
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
            settings.verdicts[reason.rawValue] =
                switch verdict {
                case .accept: .accept
                case .unregister: .unregister
                case .reject: .reject
                case .resend: .resend
                case .retry: .retry
                case .credentialFault: .credentialFault
                }
        }
        settings.hashSeed = UInt64.random(in: .min ... .max)
        return settings
    }
}
