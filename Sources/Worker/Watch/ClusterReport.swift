internal import Kafka

/// What the brokers told about the worker's topics and groups, in one round of questions.
struct ClusterReport: Sendable {
    /// A topic of the configuration, or one that a pattern of it finds.
    struct Topic: Sendable {
        enum Use: Sendable { case requests, retries, written }

        var name: String
        /// The key that names it.
        var path: String
        var use: Use
        /// `.none`, or why it cannot be used; `nil`: nobody answered for it.
        var metadata: KafkaCode?
        /// `.none`, or why its group may not read it; `nil`: nobody answered, or it is not read.
        var reading: KafkaCode?
        /// Its partitions that no broker leads, in this round and the one before.
        var leaderless: LastingPartitions.Found?
        /// Its partitions with fewer replicas in sync than that, in this round and the one before: where it is written.
        var outOfSync: OutOfSync?

        struct OutOfSync: Sendable {
            var partitions: LastingPartitions.Found
            /// `min.insync.replicas`.
            var least: Int
        }

        /// Whether its partitions and their ends can be known.
        var isKnown: Bool { metadata == KafkaCode.none }
    }

    /// One of the two consumer groups.
    struct Group: Sendable {
        var id: String
        /// `.none`: its coordinator answers and the group may be read; `nil`: nobody answered.
        var code: KafkaCode?
        /// Whether it was so a round before, where it may be over by itself (`SilentGroups`).
        var hasLasted = true
    }

    /// When it was made (monotonic).
    var atNs: Int64
    /// Why no broker answered; `nil`: one did. With it there is nothing else.
    var silence: String?
    var topics: [Topic] = []
    var groups: [Group] = []
    /// The next offset of each partition that is to be read.
    var ends: [TopicPartition: Int64] = [:]
    /// Topics whose configuration loses records, or may; `nil`: not asked this time, or not told.
    var unsafeTopics: [TopicCheck.Unsafe]?
    /// Retry topics that hold records of the group and are in no configuration; `nil`: not asked this time.
    var leftTiers: [LeftTiers.Tier]?
    /// All topics of the cluster that are in no configuration, where `leftTiers` was asked.
    var otherTopics: Set<String> = []
    /// Why these could not be asked for.
    var leftTiersFailure: KafkaError?
}

extension ClusterReport {
    /// What keeps the worker from its work as far as Kafka goes.
    func faults(bootstrapServers: String) -> [Fault] {
        if let silence {
            return [
                Fault(
                    "kafka", .silent, "no broker of \(bootstrapServers) answers: \(silence)",
                    "nothing is lost meanwhile; look at the brokers and at the network between")
            ]
        }
        return groups.compactMap(fault(of:)) + topics.compactMap(fault(of:))
    }

    /// Of a topic that was altered since the start, which refuses one or warns of it.
    static func fault(of topic: TopicCheck.Unsafe) -> Fault {
        Fault(
            "topic \(topic.topic)", topic.trouble == .bytes ? .bounded : .unsafe,
            "the topic (\(topic.path)) has \(topic.text)", topic.advice)
    }

    private func fault(of group: Group) -> Fault? {
        guard group.hasLasted else { return nil }
        return switch group.code {
        // A coordinator that answers who is no member is of use (librdkafka's mock broker does).
        case KafkaCode.none?, .unknownMember?: nil
        case .groupAuthorizationFailed?:
            Fault(
                "group \(group.id)", .denied, "the group may not be used: nothing can be read or committed",
                "allow Read on the group (kafka.group_id) to the worker's user")
        case let code?:
            Fault(
                "group \(group.id)", .unusable, "the group's coordinator cannot be used: \(code.text)",
                "look at the brokers: one of them leads the group's partition of __consumer_offsets")
        case nil:
            Fault(
                "group \(group.id)", .silent, "the group's coordinator does not answer",
                "look at the brokers: one of them leads the group's partition of __consumer_offsets")
        }
    }

    private func fault(of topic: Topic) -> Fault? {
        let subject = "topic \(topic.name)"
        switch topic.metadata {
        case KafkaCode.none?: break
        // A broker that is just not told yet by its controller: the next round shows.
        case nil: return nil
        case .unknownTopicOrPartition?:
            return Fault(
                subject, .missing, "the topic (\(topic.path)) does not exist",
                "create it again, or take it out of the configuration")
        case .topicAuthorizationFailed?:
            return Fault(
                subject, .denied, "the topic (\(topic.path)) may not be used",
                "allow \(topic.use == .written ? "Write" : "Read") on it to the worker's user")
        case let code?:
            return Fault(
                subject, .unusable, "the topic (\(topic.path)) cannot be used: \(code.text)",
                "look at the brokers that hold its partitions")
        }
        if topic.reading == .topicAuthorizationFailed {
            return Fault(
                subject, .denied, "the topic (\(topic.path)) may not be read: its records wait",
                "allow Read on it to the worker's user")
        }
        return topic.leaderless.map { fault(of: topic, leaderless: $0) }
            ?? topic.outOfSync.map { fault(of: topic, outOfSync: $0) }
    }

    private func fault(of topic: Topic, outOfSync: Topic.OutOfSync) -> Fault {
        let partitions = outOfSync.partitions
        return Fault(
            "topic \(topic.name)", .outOfSync,
            "the topic (\(topic.path)) has \(partitions.count) of \(partitions.partitions) partitions with fewer replicas in "
                + "sync than min.insync.replicas=\(outOfSync.least) (the first: \(partitions.first)): they take nothing, and "
                + "what is to be written to them waits, until enough of their brokers are back",
            "look at the brokers that hold the replicas; with a replication factor of 3 and min.insync.replicas=2 one may be "
                + "lost")
    }

    private func fault(of topic: Topic, leaderless: LastingPartitions.Found) -> Fault {
        let effect =
            switch topic.use {
            case .requests: "what is in them waits"
            case .retries: "what is in them waits, and what is to be written to them"
            case .written: "what is to be written to them waits"
            }
        return Fault(
            "topic \(topic.name)", .leaderless,
            "the topic (\(topic.path)) has \(leaderless.count) of \(leaderless.partitions) partitions without a leader "
                + "(the first: \(leaderless.first)): \(effect), until a broker that holds them is back",
            "look at the brokers; with a replication factor of 3 another one leads when one is lost")
    }
}
