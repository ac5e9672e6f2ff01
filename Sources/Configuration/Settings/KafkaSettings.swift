package struct KafkaSettings: Hashable, Sendable {
    package enum Assignment: String, CaseIterable, Sendable { case eager, cooperative }

    package struct TopicCreation: Hashable, Sendable, CustomStringConvertible {
        package var partitions = 8
        package var replicationFactor = 3

        package var description: String { "{partitions: \(partitions), replication_factor: \(replicationFactor)}" }
    }

    /// The bootstrap servers as comma-separated `host:port` pairs, as in librdkafka.
    package var bootstrapServers: String
    /// The consumer group of the request topics. The group `<groupID>.retry` reads the retry topics.
    package var groupID = "apns-worker"
    /// The id of a static member, or empty for dynamic membership.
    package var groupInstanceID = ""
    package var sessionTimeout = Duration.seconds(10)
    package var assignment = Assignment.eager
    /// The partition count and replication factor of topics to create, or `nil` to create no topics.
    package var createTopics: TopicCreation?
    /// The shell command that prints OAUTHBEARER tokens, or empty for none.
    package var oauthCommand = ""
    /// Whether the brokers answer DescribeConfigs requests. librdkafka's in-process brokers (`MockCluster`) do not.
    /// Only code sets this property, because it has no configuration key.
    package var tellsTopicConfigurations = true
    /// librdkafka properties of all clients, both consumers and producers. The Kafka module rejects unsafe properties.
    package var properties: [UserProperty] = []
    package var consumerProperties: [UserProperty] = []
    package var producerProperties: [UserProperty] = []

    package var allProperties: [UserProperty] { properties + consumerProperties + producerProperties }

    /// Returns the position where the user last set a property, as the prefix of an error message.
    package func place(ofProperty name: String) -> String? {
        allProperties.last { $0.name == name }?.place
    }
}

/// A librdkafka property set by the user. Its value may be a secret and must not be shown.
package struct UserProperty: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    package var name: String
    package var value: String
    /// The property's position, as the prefix of an error message: `worker.yaml:12:5: kafka.librdkafka.acks`.
    package var place: String
    /// The file from which the value was read (`NAME_file`), or the file whose path is the value (such as
    /// `ssl.ca.location`). `nil` for a property that refers to no file.
    package var file: String?

    package var description: String { name }
    package var customMirror: Mirror { Mirror(self, children: ["name": name]) }

    // Compares only name and value, so that a property whose line has moved in the file counts as unchanged.
    package static func == (left: UserProperty, right: UserProperty) -> Bool {
        left.name == right.name && left.value == right.value
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(name)
        hasher.combine(value)
    }
}

extension KafkaSettings {
    mutating func read(_ section: inout Section) {
        section.required("bootstrap_servers", into: &bootstrapServers) { value in
            value.text("a comma-separated list of host:port", where: Self.areServers)
        }
        section.read("group_id", into: &groupID) {
            $0.text("at most 200 printable ASCII characters", where: Self.isGroupName)
        }
        section.read("group_instance_id", into: &groupInstanceID) {
            $0.text("at most 200 printable ASCII characters", orEmpty: true, where: Self.isGroupName)
        }
        section.read("session_timeout", into: &sessionTimeout) { $0.duration(.seconds(1)...(.seconds(3_600))) }
        section.read("assignment", into: &assignment) { $0.choice() }
        section.read("create_topics", into: &createTopics) { TopicCreation.read($0) }
        section.read("oauth", into: &oauthCommand) { value in
            value.section { section in
                var command = ""
                section.required("command", into: &command) { $0.text("a shell command that prints a token") }
                return command
            }
        }
        if !oauthCommand.isEmpty {
            section.reading.settings.append((section.path(of: "oauth"), Setting(secret: oauthCommand)))
        }
        section.read("librdkafka", into: &properties) { UserProperty.list(reading: $0) }
        section.read("consumer", into: &consumerProperties) { UserProperty.list(reading: $0) }
        section.read("producer", into: &producerProperties) { UserProperty.list(reading: $0) }
    }

    private static func isGroupName(_ text: String) -> Bool { text.utf8.count <= 200 && text.isPrintableASCII }

    /// Returns whether the text is a list of servers. The port is optional (librdkafka uses 9092), and a protocol
    /// (`SSL://`) may precede the host.
    private static func areServers(_ text: String) -> Bool {
        guard text.isPrintableASCII, !text.contains(" ") else { return false }
        return text.split(separator: ",", omittingEmptySubsequences: false).allSatisfy { server in
            guard let colon = server.lastIndex(of: ":"), server.last != "]" else { return !server.isEmpty }
            return colon != server.startIndex && (1...65_535).contains(Int(server[server.index(after: colon)...]) ?? 0)
        }
    }
}

extension KafkaSettings.TopicCreation {
    /// Reads `create_topics`: `false`, `true` or a mapping. Returns `nil` after rejecting an invalid value, and
    /// `.some(nil)` if the worker must create no topics.
    fileprivate static func read(_ value: Value) -> Self?? {
        guard value.isMapping else {
            return value.boolean("false, true or {partitions: …, replication_factor: …}").map { $0 ? Self() : nil }
        }
        return value.section { section in
            var creation = Self()
            section.read("partitions", into: &creation.partitions) { $0.integer(1...10_000) }
            section.read("replication_factor", into: &creation.replicationFactor) { $0.integer(1...32_767) }
            return creation
        }
    }
}

extension UserProperty {
    /// Reads a mapping of librdkafka's property names to scalars. For secrets, `NAME_file` sets NAME to the content of
    /// a file without the line breaks at its end. Relative paths are relative to the configuration's folder.
    fileprivate static func list(reading value: Value) -> [UserProperty]? {
        guard let section = value.section() else { return nil }
        return section.pairs.compactMap { name, _, value in
            let place = value.reading.place(value.path)
            guard name.hasSuffix("_file") else {
                return value.text("a text", orEmpty: true, where: { _ in true }).map { text in
                    let isPath = isPath(text, of: name)
                    let isSecret = !isPath && mayBeSecret(name)
                    value.reading.settings.append(
                        (value.path, isSecret ? Setting(secret: text) : Setting(text: text)))
                    guard isPath else { return UserProperty(name: name, value: text, place: place) }
                    let path = value.reading.absolute(text)
                    return UserProperty(name: name, value: path, place: place, file: path)
                }
            }
            return value.fileText().map {
                UserProperty(
                    name: String(name.dropLast("_file".count)), value: $0, place: place, file: value.filePath())
            }
        }
    }

    /// Returns whether a property may have a secret as its value, also if its name is misspelled.
    private static func mayBeSecret(_ name: String) -> Bool {
        ["password", "secret", "pem", "ssl_key", "jaas", "token", "oauth", "config"]
            .contains(where: name.lowercased().contains)
    }

    /// Returns whether a property's value is a path. In `ssl.ca.location: probe` the value is not a path: it selects
    /// the system's CA certificates.
    private static func isPath(_ text: String, of name: String) -> Bool {
        name.hasSuffix(".location") && !text.isEmpty && text != "probe"
    }
}
