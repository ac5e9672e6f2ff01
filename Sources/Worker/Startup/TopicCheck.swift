internal import Configuration
internal import Kafka

/// Compares the configured topics with those of the cluster, and reports settings that may lose records.
struct TopicCheck {
    private let configuration: WorkerConfiguration
    let permissions: RequiredPermissions

    /// The largest record that librdkafka can fetch: the default `receive.message.max.bytes`, less some overhead.
    private static let fetchedBytes: Int64 = 99_000_000
    /// The shortest outage that request topics should survive: one day.
    private static let outageMs: Int64 = 86_400_000

    init(_ configuration: WorkerConfiguration) {
        self.configuration = configuration
        permissions = RequiredPermissions(configuration)
    }

    /// The topics named in the configuration, without patterns, and the configuration key of each topic.
    var expected: [(path: String, name: String)] {
        permissions.topics.map { ($0.path, $0.name) }
    }

    /// Returns the topics that match a request pattern, without the topics that the configuration names.
    func matched(in topics: some Sequence<String>) -> [(path: String, name: String)] {
        let named = Set(expected.map(\.name))
        let patterns = configuration.requestTopics.filter(\.isPattern)
        return Set(patterns.flatMap { $0.matching(topics) }).subtracting(named).sorted().map { ("requests.topics", $0) }
    }

    func missing(in topics: [String: TopicDescription]) -> [(path: String, name: String)] {
        expected.filter { topics[$0.name] == nil }
    }

    /// Returns a line about the missing topics, which ends with their names, or `nil` if all topics exist.
    func missingLine(in topics: [String: TopicDescription]) -> String? {
        let missing = missing(in: topics)
        guard !missing.isEmpty else { return nil }
        return
            "topics do not exist at \(configuration.kafka.bootstrapServers): create them, or set kafka.create_topics: true "
            + "(on a cluster of one broker {partitions: 8, replication_factor: 1}): "
            + missing.map { "\($0.name) (\($0.path))" }.joined(separator: ", ")
    }

    /// Returns the topics that `kafka.create_topics` creates. With three replicas, a record is acknowledged once two
    /// have it. The topic of dead tokens is compacted, and keeps them for 30 days. A retry topic keeps records for its
    /// delay plus a week, and the broker sets their timestamps (`BrokersClock`).
    func creations(in topics: [String: TopicDescription], _ how: KafkaSettings.TopicCreation) -> [NewTopic] {
        let dayMs: Int64 = 86_400_000
        return missing(in: topics).map { topic in
            var settings: KeyValuePairs<String, String> = [:]
            if topic.name == configuration.unregistered.topic {
                settings = ["cleanup.policy": "compact,delete", "retention.ms": "\(30 * dayMs)"]
            } else if let delay = delay(of: topic.name) {
                settings = [
                    "message.timestamp.type": "LogAppendTime", "retention.ms": "\(delay.milliseconds + 7 * dayMs)",
                ]
            }
            var properties = settings.map { Kafka.KafkaProperty($0.key, $0.value) }
            if how.replicationFactor >= 3 { properties.append(Kafka.KafkaProperty("min.insync.replicas", "2")) }
            return NewTopic(
                topic.name, partitions: how.partitions, replicationFactor: how.replicationFactor,
                configuration: properties)
        }
    }

    /// Returns a line for each reason why the brokers did not create topics.
    func uncreatedLines(_ results: [String: KafkaError]) -> [String] {
        let failed = results.filter { $0.value.code != .none && $0.value.code != .topicAlreadyExists }
        let alike = Dictionary(grouping: failed.keys.sorted()) { failed[$0] }
        return alike.compactMap { error, names in
            guard let error else { return nil }
            // Some brokers' messages end with a full stop.
            let text = error.text.hasSuffix(".") ? String(error.text.dropLast()) : error.text
            let advice = Self.advice(error.code)
            return
                "the brokers did not create \(names.count == 1 ? "topic" : "topics") \(names.joined(separator: ", ")) "
                + "(kafka.create_topics): \(text) (\(error.code.name)): \(advice)"
        }.sorted()
    }

    private static func advice(_ code: KafkaCode) -> String {
        switch code {
        case .invalidReplicationFactor:
            "set kafka.create_topics.replication_factor to at most the number of brokers (for one broker: "
                + "{partitions: 8, replication_factor: 1}), or start more brokers"
        case .invalidPartitions: "set kafka.create_topics.partitions to a number that the brokers accept"
        case .topicAuthorizationFailed, .clusterAuthorizationFailed:
            "grant Create on the cluster or on these topics to the worker's user, or create the topics yourself"
        case .policyViolation:
            "set kafka.create_topics to values that the brokers' create.topic.policy.class.name accepts"
        default: "check the brokers' logs, or create the topics yourself"
        }
    }

    /// Returns lines about settings that may lose records later, or that cannot be checked. The worker starts in spite
    /// of these settings.
    ///
    /// - Parameters:
    ///   - matched: The topics that match a pattern. Their settings only cause warnings, because the topics may belong
    ///     to another team.
    ///   - unmade: The missing topics that `run` would create.
    func warningLines(
        _ configurations: [String: TopicConfiguration]?, in descriptions: [String: TopicDescription] = [:],
        matched: [(path: String, name: String)] = [], unmade: [String] = []
    ) -> [String] {
        var lines: [String] = []
        let topics = (expected + matched).filter { !unmade.contains($0.name) }
        let unread = topics.map(\.name).filter { configurations?[$0] == nil }
        if !unread.isEmpty, configuration.kafka.tellsTopicConfigurations {
            lines.append(
                "the configuration of these topics cannot be read, so the worker cannot check whether they lose records: "
                    + "\(unread.joined(separator: ", ")): grant DescribeConfigs on them to the worker's user")
        }
        let requestBytes =
            topics.filter { $0.path == "requests.topics" }
            .compactMap { configurations?[$0.name]?.maxMessageBytes }.max() ?? 0
        for topic in topics {
            guard let found = configurations?[topic.name] else { continue }
            func warn(_ text: String) { lines.append("topic \(topic.name) (\(topic.path)) has \(text)") }
            if let replicas = descriptions[topic.name]?.replicas {
                if replicas < 3 {
                    warn("only \(replicas) replicas of each record: add replicas until there are 3")
                } else if found.minInSyncReplicas == 1 {
                    warn(
                        "min.insync.replicas=1, so a record counts as written while only one broker has it: set it to "
                            + "2")
                }
            }
            if found.electsUncleanLeaders {
                warn(
                    "unclean.leader.election.enable=true, so a new leader may lack the last records and reuse their "
                        + "offsets: set it to false")
            }
            if found.isCompacted, matched.contains(where: { $0.name == topic.name }) {
                warn(
                    "cleanup.policy=compact, which drops all but the last request of a key: set it to delete, or "
                        + "exclude the topic from the pattern")
            }
            if topic.path == "requests.topics", let retentionMs = found.retentionMs, retentionMs < Self.outageMs {
                warn(
                    "retention.ms=\(retentionMs), so requests are deleted unsent if the worker does not read them for "
                        + "that long: set it to at least \(Self.outageMs)")
            }
            if topic.path == "requests.topics", let bytes = found.maxMessageBytes, bytes > Self.fetchedBytes {
                warn(
                    "max.message.bytes=\(bytes), but librdkafka fetches at most \(Self.fetchedBytes) bytes at once, and "
                        + "a larger record stops its partition: set it to at most that")
            }
            guard delay(of: topic.name) != nil else { continue }
            // `retention.bytes` only causes a warning, because it is harmless as long as few records wait.
            if let bytes = found.retentionBytes {
                warn(
                    "retention.bytes=\(bytes), which may drop records before they are due when many wait: set it to -1")
            }
            if found.hasProducersTime {
                warn(
                    "message.timestamp.type=CreateTime, so the worker cannot compare its clock with the brokers' clocks, "
                        + "and records of a clock that is behind are deleted early: set it to LogAppendTime")
            }
            if let bytes = found.maxMessageBytes, bytes < requestBytes {
                warn(
                    "max.message.bytes=\(bytes), so the broker rejects large requests that the worker defers: set it to "
                        + "\(requestBytes), as for the request topics")
            }
        }
        return lines
    }

    func unsafeLines(_ configurations: [String: TopicConfiguration]) -> [String] {
        var lines: [String] = []
        for topic in expected {
            guard let found = configurations[topic.name] else { continue }
            func add(_ text: String) { lines.append("topic \(topic.name) (\(topic.path)) has \(text)") }
            if found.isCompacted, topic.name != configuration.unregistered.topic {
                add("cleanup.policy=compact, which drops all but the last record of a key: set it to delete")
            }
            if let delay = delay(of: topic.name), let retentionMs = found.retentionMs,
                case let leastMs = delay.milliseconds + 86_400_000, retentionMs < leastMs
            {
                add(
                    "retention.ms=\(retentionMs), which may drop records before they are due: set it to at least "
                        + "\(leastMs)")
            }
        }
        return lines
    }

    private func delay(of topic: String) -> Duration? {
        configuration.retry.tiers.first { $0.topic == topic }?.delay
    }
}
