package import Configuration
internal import Glibc
package import Kafka

extension WorkerConfiguration {
    /// What all Kafka clients share.
    ///
    /// - Throws: `StartFailure` when the user set a property that would break the promise, that librdkafka does not know, or
    ///   whose value it does not take.
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
            let names = KafkaLibrary.propertyNames
            let isKnown = names.isEmpty || names.contains(name)
            let suggestion = nearest(to: name, among: names).map { "; did you mean \($0)?" } ?? ""
            let text = isKnown ? error.text : "librdkafka has no such property\(suggestion)"
            throw StartFailure(["\(kafka.place(ofProperty: name) ?? name): \(text)"])
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

    /// A line for a client that could not be made: with the place of the property that is to blame, and the file it names.
    func line(of error: KafkaError) -> String {
        let all = kafka.properties + kafka.consumerProperties + kafka.producerProperties
        guard let property = all.last(where: { error.text.hasPrefix("\($0.name) ") }) else { return "kafka: \(error)" }
        // Other values may be secrets.
        guard property.name.hasSuffix(".location") else { return "\(property.place): \(error.text)" }
        // OpenSSL's words for a file that is not there do not say so.
        let isReadable = access(property.value, R_OK) == 0
        let reason = isReadable ? error.text : "cannot be read: \(String(cString: strerror(errno)))"
        return "\(property.place): \(property.value): \(reason)"
    }

    /// 2.10.0, as `KafkaLibrary.version` counts.
    private static let cooperativeVersion: Int32 = 0x020A_0000

    /// - Parameter partitions: of all request topics; of no use to the retries.
    package func consumer(
        _ role: ConsumerSettings.Role, of cluster: ClusterSettings, partitions: Int = 8
    ) -> ConsumerSettings {
        var cluster = cluster
        // They tell whether a broker is reached: librdkafka has no event for that.
        if role == .requests { cluster.statisticsIntervalMs = 5_000 }
        var settings = ConsumerSettings(
            cluster: cluster, role: role, groupID: kafka.groupID, groupInstanceID: kafka.groupInstanceID,
            sessionTimeoutMs: Int(kafka.sessionTimeout.milliseconds),
            assignment: kafka.assignment == .eager ? .eager : .cooperative, partitions: partitions)
        settings.maxBatchBytes = kafka.maxBatchBytes
        settings.ignoredTopics = RequestTopic.internalTopics
        return settings
    }
}
