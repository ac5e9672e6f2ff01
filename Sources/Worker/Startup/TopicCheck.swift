package import Configuration
package import Kafka

/// Compares the topics of a configuration with those of the cluster, and names what would lose records.
package struct TopicCheck {
    private let configuration: WorkerConfiguration

    package init(_ configuration: WorkerConfiguration) { self.configuration = configuration }

    /// Topics named in the configuration, with the key that names each; patterns name none.
    package var expected: [(path: String, name: String)] {
        configuration.requestTopics.filter { !$0.isPattern }.map { ("requests.topics", $0.name) }
            + configuration.outputTopics
    }

    /// Those that the cluster does not have, in the order of the configuration.
    package func missing(in topics: [String: TopicDescription]) -> [(path: String, name: String)] {
        expected.filter { topics[$0.name] == nil }
    }

    /// A line for the missing topics; `nil`: all are there. Their names are its end, since they may be many.
    package func missingLine(in topics: [String: TopicDescription]) -> String? {
        let missing = missing(in: topics)
        guard let first = missing.first else { return nil }
        let servers = configuration.kafka.bootstrapServers
        func advice(_ them: String) -> String {
            "create \(them), set kafka.create_topics: true (on a cluster of one broker "
                + "{partitions: 8, replication_factor: 1}), or allow Describe on \(them)"
        }
        guard missing.count > 1 else {
            return "topic \(first.name) (\(first.path)) does not exist at \(servers), or may not be described by this "
                + "worker: \(advice("it"))"
        }
        return "\(missing.count) topics do not exist at \(servers), or may not be described by this worker: "
            + "\(advice("them")): \(missing.map { "\($0.name) (\($0.path))" }.joined(separator: ", "))"
    }

    /// What `kafka.create_topics` makes of the missing ones. Dead tokens are compacted; a retry topic keeps its records
    /// for at least its tier and a week.
    package func creations(in topics: [String: TopicDescription], _ how: KafkaSettings.TopicCreation) -> [NewTopic] {
        missing(in: topics).map { topic in
            var new = NewTopic(topic.name, partitions: how.partitions, replicationFactor: how.replicationFactor)
            if topic.name == configuration.unregistered.topic {
                new.configuration = [Kafka.KafkaProperty("cleanup.policy", "compact")]
            } else if let tier = configuration.retry.tiers.first(where: { $0.topic == topic.name }) {
                let weekMs: Int64 = 7 * 86_400_000
                new.configuration = [
                    Kafka.KafkaProperty("retention.ms", "\(tier.delay.milliseconds + weekMs)")
                ]
            }
            return new
        }
    }

    /// A line for the topics that brokers refuse to make for the same reason.
    ///
    /// - Parameter results: what became of each, by its name.
    func uncreatedLines(_ results: [String: KafkaError]) -> [String] {
        let failed = results.filter { $0.value.code != .none && $0.value.code != .topicAlreadyExists }
        let alike = Dictionary(grouping: failed.keys.sorted()) { failed[$0] }
        return alike.compactMap { error, names in
            guard let error else { return nil }
            // Brokers end some of their sentences with a full stop.
            let text = error.text.hasSuffix(".") ? String(error.text.dropLast()) : error.text
            let advice = Self.advice(error.code)
            return "the brokers do not make \(names.count == 1 ? "topic" : "topics") \(names.joined(separator: ", ")) "
                + "(kafka.create_topics): \(text) (\(error.code.name)): \(advice)"
        }.sorted()
    }

    private static func advice(_ code: KafkaCode) -> String {
        switch code {
        case .invalidReplicationFactor:
            "set kafka.create_topics.replication_factor to the number of brokers at most (for one broker: "
                + "{partitions: 8, replication_factor: 1}), or start more of them"
        case .invalidPartitions: "set kafka.create_topics.partitions to another number"
        case .topicAuthorizationFailed, .clusterAuthorizationFailed:
            "allow Create on the cluster, or on these topics, to the worker's user, or make them yourself"
        case .policyViolation: "look which policy of the brokers that breaks, or make them yourself"
        default: "look at the brokers' logs, or make them yourself"
        }
    }

    /// A line for what may lose records one day, or cannot be known to be safe; the worker starts all the same.
    ///
    /// - Parameters:
    ///   - configurations: of the topics that the brokers told about; `nil`: they told nothing.
    ///   - topics: those that are there; `nil`: all.
    package func warningLines(
        _ configurations: [String: TopicConfiguration]?, of topics: [String]? = nil
    ) -> [String] {
        var lines: [String] = []
        let unread = (topics ?? expected.map(\.name)).filter { configurations?[$0] == nil }
        if !unread.isEmpty, configuration.kafka.tellsTopicConfigurations {
            lines.append(
                "the configuration of these topics cannot be read, so nobody looks whether it loses records: "
                    + "\(unread.joined(separator: ", ")): allow DescribeConfigs on them to the worker's user")
        }
        return lines + bounded(configurations ?? [:]).map(Self.line)
    }

    /// A topic whose configuration would lose records.
    struct Unsafe: Sendable, Hashable {
        let topic: String
        /// The key that names it.
        let path: String
        /// What it has, and what that does.
        let text: String
        let advice: String
    }

    /// A line for each topic whose configuration would lose records.
    package func unsafeLines(_ configurations: [String: TopicConfiguration]) -> [String] {
        unsafe(configurations).map(Self.line)
    }

    private static func line(_ topic: Unsafe) -> String {
        "topic \(topic.topic) (\(topic.path)) has \(topic.text): \(topic.advice)"
    }

    /// The retry topics that have a limit of bytes. Many do well with one, as long as few records wait.
    private func bounded(_ configurations: [String: TopicConfiguration]) -> [Unsafe] {
        expected.compactMap { topic in
            guard configuration.retry.tiers.contains(where: { $0.topic == topic.name }),
                let bytes = configurations[topic.name]?.retentionBytes
            else { return nil }
            return Unsafe(
                topic: topic.name, path: topic.path,
                text: "retention.bytes=\(bytes), which may drop records before they are due when many wait",
                advice: "set it to -1")
        }
    }

    /// The topics whose configuration would lose records.
    func unsafe(_ configurations: [String: TopicConfiguration]) -> [Unsafe] {
        var all: [Unsafe] = []
        for topic in expected {
            guard let found = configurations[topic.name] else { continue }
            if found.isCompacted, topic.name != configuration.unregistered.topic {
                all.append(
                    Unsafe(
                        topic: topic.name, path: topic.path,
                        text: "cleanup.policy=compact, which drops all but the last record of a key",
                        advice: "set it to delete"))
            }
            if let tier = configuration.retry.tiers.first(where: { $0.topic == topic.name }),
                let retentionMs = found.retentionMs
            {
                let leastMs = tier.delay.milliseconds + 86_400_000
                if retentionMs < leastMs {
                    all.append(
                        Unsafe(
                            topic: topic.name, path: topic.path,
                            text: "retention.ms=\(retentionMs), which may drop records before they are due",
                            advice: "set it to at least \(leastMs)"))
                }
            }
        }
        return all
    }
}
