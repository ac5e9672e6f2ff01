/// A property as librdkafka names it (librdkafka's manual, "Configuration properties"), and its value.
package struct KafkaProperty: Hashable, Sendable {
    package let name: String
    package let value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// A property of the user's that would break the promise, or that has a key of its own.
package struct RefusedProperty: Error, Hashable, Sendable, CustomStringConvertible {
    package let section: KafkaProperties.Section
    package let name: String
    /// Why, and what to do instead.
    package let reason: String

    /// One line for the user, which names the property.
    package var description: String { "\(section.key): \(name) cannot be set: \(reason)" }
}

/// The librdkafka properties of the user's configuration, none of which breaks the promise.
package struct KafkaProperties: Sendable, Equatable {
    /// Where in the configuration a property stands.
    package enum Section: Hashable, Sendable, CaseIterable {
        case common, consumer, producer

        /// The section's key in the configuration file.
        package var key: String {
            switch self {
            case .common: "kafka.librdkafka"
            case .consumer: "kafka.consumer"
            case .producer: "kafka.producer"
            }
        }
    }

    /// For every client.
    package let common: [KafkaProperty]
    /// For both consumers (requests and retries); stands above `common`.
    package let consumer: [KafkaProperty]
    /// For the producer; stands above `common`.
    package let producer: [KafkaProperty]

    package static let none = KafkaProperties(unchecked: [], [], [])

    private init(unchecked common: [KafkaProperty], _ consumer: [KafkaProperty], _ producer: [KafkaProperty]) {
        self.common = common
        self.consumer = consumer
        self.producer = producer
    }

    /// Throws for the first property that may not be set. Whether librdkafka knows the others, and takes their values,
    /// shows when a client is made (`validate()`).
    package init(
        common: [KafkaProperty] = [], consumer: [KafkaProperty] = [], producer: [KafkaProperty] = []
    ) throws(RefusedProperty) {
        for (section, properties) in [(Section.common, common), (.consumer, consumer), (.producer, producer)] {
            for property in properties {
                guard let reason = Self.refusal(of: property) else { continue }
                throw RefusedProperty(section: section, name: property.name, reason: reason)
            }
        }
        for (section, own) in [(Section.consumer, consumer), (.producer, producer)] {
            guard let name = Self.mechanismWithoutTokens(common + own) else { continue }
            throw RefusedProperty(
                section: common.contains { $0.name == name } ? .common : section, name: name,
                reason: "OAUTHBEARER needs sasl.oauthbearer.method: oidc beside it, since the worker makes no tokens")
        }
        self.init(unchecked: common, consumer, producer)
    }

    /// Why a property may not be set so; `nil`: it may.
    private static func refusal(of property: KafkaProperty) -> String? {
        if property.name.hasPrefix("test.") { return testing }
        // Whichever goes by the key is fine: only where a device's results are changes.
        if property.name == "partitioner", property.value == "random" {
            return "what is written of one device has to be in one partition; take one that goes by the key"
        }
        return refusals[property.name]
    }

    /// The property that asks for tokens (RFC 7628) which nobody would make: librdkafka would wait for them for ever.
    private static func mechanismWithoutTokens(_ properties: [KafkaProperty]) -> String? {
        func value(_ names: String...) -> KafkaProperty? { properties.last { names.contains($0.name) } }
        guard let mechanism = value("sasl.mechanisms", "sasl.mechanism"), mechanism.value.uppercased() == "OAUTHBEARER",
            value("sasl.oauthbearer.method")?.value.lowercased() != "oidc",
            value("enable.sasl.oauthbearer.unsecure.jwt")?.value.lowercased() != "true"
        else { return nil }
        return mechanism.name
    }

    private static let testing = "records would go to brokers in memory, or be lost"
    private static let committing = "offsets are committed by the worker, after the results are acknowledged"
    private static let acknowledging = "results count as published only when all replicas have them, once each"
    private static let waiting = "a result waits as long as an outage lasts; a timeout would lose it"
    private static let starting = "a partition without a commit is read from its beginning"
    private static let transactions = "the worker does not use transactions, and each replay has one of its own"
    private static let classic = "only the classic group protocol is supported"
    private static let asking = "headers and idempotence need brokers that tell what they know"

    /// Every property that may not be set, with its aliases, and why.
    private static let refusals: [String: String] = [
        "enable.auto.commit": committing,
        "auto.commit.enable": committing,
        "auto.commit.interval.ms": committing,
        "enable.auto.offset.store": committing,
        "offset.store.method": committing,
        "offset.store.path": committing,
        "offset.store.sync.interval.ms": committing,
        "auto.offset.reset": starting,
        "bootstrap.servers": "use kafka.bootstrap_servers",
        "metadata.broker.list": "use kafka.bootstrap_servers",
        "group.id": "use kafka.group_id",
        "group.instance.id": "use kafka.group_instance_id",
        "partition.assignment.strategy": "use kafka.assignment",
        "group.protocol": classic,
        "group.protocol.type": classic,
        "group.remote.assignor": classic,
        "session.timeout.ms": "use kafka.session_timeout",
        "acks": acknowledging,
        "request.required.acks": acknowledging,
        "enable.idempotence": acknowledging,
        "delivery.report.only.error": "the worker waits for the report of every result",
        "message.timeout.ms": waiting,
        "delivery.timeout.ms": waiting,
        "retries": waiting,
        "message.send.max.retries": waiting,
        "transactional.id": transactions,
        "isolation.level": "records of aborted transactions must not be sent (read_committed)",
        "statistics.interval.ms": "the worker's own clients report them as often as its health needs",
        "log.queue": "librdkafka's log goes to the worker's",
        "log_level": "the worker reads librdkafka's log; use log.parts (kafka: warning)",
        "topic.blacklist":
            "its topics would never be read or written; take them out of the configuration (patterns leave out Kafka's own)",
        "plugin.library.paths": "no code but librdkafka's own may come between the worker and Kafka",
        "interceptors": "no code but librdkafka's own may come between the worker and Kafka",
        "internal.termination.signal": "signals stop the worker; librdkafka's threads get none",
        "enabled_events": "the worker chooses what it is told",
        "enable.partition.eof": "the worker asks for the ends of partitions itself",
        "allow.auto.create.topics": "a topic that is gone has to be seen to be; create topics by themselves",
        "enable.gapless.guarantee": "one record that is refused would stop all that follow it",
        "api.version.request": asking,
        "api.version.fallback.ms": asking,
        "broker.version.fallback": asking,
    ]
}
