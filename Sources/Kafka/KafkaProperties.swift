/// A librdkafka configuration property (librdkafka's manual, "Configuration properties").
package struct KafkaProperty: Hashable, Sendable {
    package let name: String
    package let value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }

    static func list(_ pairs: KeyValuePairs<String, String>) -> [KafkaProperty] {
        pairs.map { KafkaProperty($0.key, $0.value) }
    }
}

extension [KafkaProperty] {
    func value(_ names: String...) -> String? { last { names.contains($0.name) }?.value }
}

/// A property that the user may not set, because it would break the delivery guarantees or has its own configuration
/// key.
package struct RefusedProperty: Error, Hashable, Sendable, CustomStringConvertible {
    package let section: KafkaProperties.Section
    package let name: String
    package let reason: String

    package var description: String { "\(section.key): \(name) cannot be set: \(reason)" }
}

/// The user's librdkafka properties, without any that would break the worker's delivery guarantees.
package struct KafkaProperties: Sendable, Equatable {
    package enum Section: Hashable, Sendable, CaseIterable {
        case common, consumer, producer

        package var key: String { self == .common ? "kafka.librdkafka" : "kafka.\(self)" }
    }

    package let common: [KafkaProperty]
    /// Properties of all consumers, in addition to `common`.
    package let consumer: [KafkaProperty]
    /// Properties of all producers, in addition to `common`.
    package let producer: [KafkaProperty]

    package static let none = try! KafkaProperties()

    /// Checks the user's properties, and throws for the first one that users may not set. `validate()` checks the names
    /// and values of all other properties.
    ///
    /// - Parameter tokenCommand: The shell command that prints OAUTHBEARER tokens (`TokenCommand`), or `nil`.
    package init(
        common: [KafkaProperty] = [], consumer: [KafkaProperty] = [], producer: [KafkaProperty] = [],
        tokenCommand: String? = nil
    ) throws(RefusedProperty) {
        for (section, properties) in [(Section.common, common), (.consumer, consumer), (.producer, producer)] {
            for property in properties {
                guard let reason = Self.refusal(of: property) else { continue }
                throw RefusedProperty(section: section, name: property.name, reason: reason)
            }
        }
        for (section, own) in [(Section.consumer, consumer), (.producer, producer)] {
            guard tokenCommand == nil, let refusal = Self.tokenRefusal(common + own) else { continue }
            throw RefusedProperty(
                section: common.contains { $0.name == refusal.name } ? .common : section, name: refusal.name,
                reason: refusal.reason)
        }
        let all = common + producer
        let queueKilobytes = all.value("queue.buffering.max.kbytes").flatMap { Int($0) }
        let recordBytes = all.value("message.max.bytes").flatMap { Int($0) }
        if (queueKilobytes ?? ProducerSettings.queueKilobytes) << 10 < recordBytes ?? ProducerSettings.recordBytes {
            throw RefusedProperty(
                section: .producer, name: "queue.buffering.max.kbytes",
                reason: "the producer queue must hold at least one record of message.max.bytes (by default 10,000,000)")
        }
        self.common = common + (tokenCommand.map(TokenCommand.properties) ?? [])
        self.consumer = consumer
        self.producer = producer
    }

    private static func refusal(of property: KafkaProperty) -> String? {
        if property.name.hasPrefix("test.") { return "librdkafka would lose records or send them to test brokers" }
        // librdkafka also accepts a topic's properties with this prefix.
        let prefix = "topic."
        let plain = property.name.hasPrefix(prefix) ? String(property.name.dropFirst(prefix.count)) : property.name
        if plain == "partitioner", property.value == "random" {
            return "all records of one device must be in one partition; use a partitioner that hashes the key"
        }
        if property.name == "coordinator.query.interval.ms", Int(property.value) ?? 0 > Int32.max / 1_000 {
            return "librdkafka's maximum is \(Int32.max / 1_000)"
        }
        return refusals.first { $0.value.contains(property.name) || $0.value.contains(plain) }?.key
    }

    /// Returns the property that requires OAUTHBEARER tokens (RFC 7628) and the reason why the loaded librdkafka cannot
    /// create or fetch tokens. Returns `nil` if it can, or if no property requires tokens. Without this check,
    /// librdkafka would wait for tokens forever.
    static func tokenRefusal(
        _ properties: [KafkaProperty], libraryVersion: Int32 = KafkaLibrary.version,
        hasOIDC: Bool = KafkaLibrary.hasOIDC
    ) -> (name: String, reason: String)? {
        let mechanism = properties.last { $0.name == "sasl.mechanisms" || $0.name == "sasl.mechanism" }
        guard let mechanism, mechanism.value.uppercased() == "OAUTHBEARER" else { return nil }
        var reason: String?
        if properties.value("enable.sasl.oauthbearer.unsecure.jwt")?.lowercased() == "true" {
            if libraryVersion < 0x0202_0000 {
                reason =
                    "librdkafka before 2.2 crashes when it renews the tokens of enable.sasl.oauthbearer.unsecure.jwt: "
                    + "use a newer librdkafka, or another sasl.mechanism"
            }
        } else if !hasOIDC {
            reason =
                "the installed librdkafka was built without OIDC (libcurl), so it cannot fetch tokens: set "
                + "kafka.oauth.command, install one with OIDC, or use another sasl.mechanism"
        } else if properties.value("sasl.oauthbearer.method")?.lowercased() != "oidc" {
            reason =
                "OAUTHBEARER needs tokens; set sasl.oauthbearer.method: oidc, so that librdkafka fetches them, or "
                + "kafka.oauth.command"
        }
        return reason.map { (mechanism.name, $0) }
    }

    /// The names of properties that users may not set, by the reason.
    private static let refusals: KeyValuePairs<String, [String]> = [
        "the worker commits offsets itself, after Kafka has acknowledged the results": [
            "enable.auto.commit", "auto.commit.enable", "auto.commit.interval.ms", "enable.auto.offset.store",
            "offset.store.method", "offset.store.path", "offset.store.sync.interval.ms",
        ],
        "use delivery.start for request topics; other topics are read from the beginning": ["auto.offset.reset"],
        "use kafka.bootstrap_servers": ["bootstrap.servers", "metadata.broker.list"],
        "use kafka.group_id": ["group.id"],
        "use kafka.group_instance_id": ["group.instance.id"],
        "use kafka.assignment": ["partition.assignment.strategy"],
        "only the classic group protocol is supported": [
            "group.protocol", "group.protocol.type", "group.remote.assignor",
        ],
        "use kafka.session_timeout": ["session.timeout.ms"],
        "the worker needs acks=all and idempotence, so that no result is lost or written twice": [
            "acks", "request.required.acks", "enable.idempotence",
        ],
        "the worker needs the delivery report of every record": ["delivery.report.only.error"],
        "a result must stay queued until Kafka has acknowledged it; a timeout would drop the result": [
            "message.timeout.ms", "delivery.timeout.ms", "retries", "message.send.max.retries",
        ],
        "the worker uses no transactions, and `replay` sets its own transactional id": ["transactional.id"],
        "records of aborted transactions must not be sent (read_committed)": ["isolation.level"],
        "the worker sets the interval that its health checks need": ["statistics.interval.ms"],
        "the worker writes librdkafka's log lines to its own log": ["log.queue"],
        "use log.parts to set the level of librdkafka's log lines, for example kafka: warning": ["log_level"],
        "librdkafka would not read or write the listed topics; remove them from the worker's configuration instead "
            + "(patterns exclude Kafka's internal topics)": ["topic.blacklist"],
        "a plugin could change or drop records": ["plugin.library.paths", "interceptors"],
        "signals stop the worker; librdkafka's threads must not receive them": ["internal.termination.signal"],
        "the worker selects the events that librdkafka reports": ["enabled_events"],
        "the worker enables the events for partition ends where it needs them": ["enable.partition.eof"],
        "with check.crcs, librdkafka skips records after a batch with a wrong checksum; use TLS to protect batches": [
            "check.crcs"
        ],
        "use kafka.create_topics, because the worker must detect missing topics": ["allow.auto.create.topics"],
        "one record that a broker rejects would stop all later records": ["enable.gapless.guarantee"],
        "librdkafka must ask the brokers which API versions they support before it uses headers and idempotence": [
            "api.version.request", "api.version.fallback.ms", "broker.version.fallback",
        ],
    ]
}
