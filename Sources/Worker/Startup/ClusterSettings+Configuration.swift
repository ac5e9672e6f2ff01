package import Configuration
package import Kafka

extension WorkerConfiguration {
    /// What all Kafka clients share.
    ///
    /// - Throws: `StartFailure` when the user set a property that would break the promise.
    package func cluster() throws(StartFailure) -> ClusterSettings {
        let properties: KafkaProperties
        do throws(RefusedProperty) {
            properties = try KafkaProperties(
                common: kafka.properties.map { Kafka.KafkaProperty($0.name, $0.value) },
                consumer: kafka.consumerProperties.map { Kafka.KafkaProperty($0.name, $0.value) },
                producer: kafka.producerProperties.map { Kafka.KafkaProperty($0.name, $0.value) })
        } catch {
            let place = kafka.place(ofProperty: error.name).map { "\($0): " } ?? ""
            throw StartFailure(["\(place)\(error)"])
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
        return settings
    }
}
