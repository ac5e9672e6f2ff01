package struct ClusterSettings: Sendable, Equatable {
    /// `host:port`, comma separated.
    package var bootstrapServers: String
    package var clientID: String
    package var properties: KafkaProperties
    /// How often a client reports statistics (`ClientEvent.statistics`), in milliseconds; 0 for never.
    package var statisticsIntervalMs: Int

    package init(
        bootstrapServers: String, clientID: String = "apns-worker", properties: KafkaProperties = .none,
        statisticsIntervalMs: Int = 0
    ) {
        self.bootstrapServers = bootstrapServers
        self.clientID = clientID
        self.properties = properties
        self.statisticsIntervalMs = statisticsIntervalMs
    }

    func all(ours: [KafkaProperty] = [], users: [KafkaProperty], fixed: [KafkaProperty] = []) -> [KafkaProperty] {
        let defaults = KafkaProperty.list([
            "client.id": clientID, "socket.nagle.disable": "true", "topic.metadata.refresh.interval.ms": "10000",
        ])
        let clusters = KafkaProperty.list([
            "bootstrap.servers": bootstrapServers, "log.queue": "true",
            "statistics.interval.ms": "\(statisticsIntervalMs)",
        ])
        return defaults + ours + properties.common + users + clusters + fixed
    }

    /// How long a connection may leave requests unanswered. librdkafka's 60 s would delay all its partitions. What a
    /// broker answers late is asked for again, and the group's own requests have their limits besides.
    fileprivate static let patience = KafkaProperty("socket.timeout.ms", "10000")
}

package struct ConsumerSettings: Sendable, Equatable {
    /// Request topics are read ahead. Retry topics have a group of their own (`<group>.retry`) and small queues.
    package enum Role: Sendable { case requests, retries }

    /// How partitions move at a rebalance. The whole group must agree.
    package enum Assignment: Sendable { case eager, cooperative }

    package var cluster: ClusterSettings
    package var role: Role
    /// The group of the configuration; `.retries` reads as `<groupID>.retry`.
    package var groupID: String
    /// Static membership; empty for dynamic.
    package var groupInstanceID: String
    package var sessionTimeoutMs: Int
    package var assignment: Assignment
    /// The known number of partitions of all request topics, which share `readAheadKilobytes`.
    package var partitions: Int
    /// Topics that neither a pattern nor their own name subscribes to.
    package var ignoredTopics: [String] = []

    /// Keys and values read ahead by a consumer of request topics that has all partitions: at least 64 for each, and
    /// one response of a broker more. In memory a record of 200 bytes takes three times as much (<doc:KafkaFacts>).
    private static let readAheadKilobytes = 1_024

    package init(
        cluster: ClusterSettings, role: Role, groupID: String, groupInstanceID: String = "",
        sessionTimeoutMs: Int = 10_000, assignment: Assignment = .eager, partitions: Int = 8
    ) {
        self.cluster = cluster
        self.role = role
        self.groupID = groupID
        self.groupInstanceID = groupInstanceID
        self.sessionTimeoutMs = sessionTimeoutMs
        self.assignment = assignment
        self.partitions = partitions
    }

    package var memberGroupID: String { role == .retries ? "\(groupID).retry" : groupID }

    package var all: [KafkaProperty] {
        // Limits are per partition, because each has a queue of its own (KafkaFacts, Reading).
        let (messages, kilobytes, fetchBytes) =
            switch role {
            case .requests: (100_000, max(64, Self.readAheadKilobytes / max(1, partitions)), 131_072)
            case .retries: (100, 256, 262_144)
            }
        var ours = KafkaProperty.list([
            "heartbeat.interval.ms": "\(max(1, min(3000, sessionTimeoutMs / 3)))",
            "queued.min.messages": "\(messages)", "queued.max.messages.kbytes": "\(kilobytes)",
            "fetch.max.bytes": "1048576", "max.partition.fetch.bytes": "\(fetchBytes)",
        ])
        ours.append(ClusterSettings.patience)
        if KafkaLibrary.hasFetchQueueBackOff { ours.append(KafkaProperty("fetch.queue.backoff.ms", "20")) }
        var fixed = KafkaProperty.list([
            "group.id": memberGroupID, "session.timeout.ms": "\(sessionTimeoutMs)",
            "partition.assignment.strategy": assignment == .eager ? "range" : "cooperative-sticky",
            "enable.auto.commit": "false", "enable.auto.offset.store": "false", "auto.offset.reset": "error",
            "isolation.level": "read_committed", "enable.partition.eof": "true",
        ])
        if !ignoredTopics.isEmpty {
            // Regular expressions, which match whole names.
            let patterns = ignoredTopics.map { "^\($0.replacing(".", with: "\\."))$" }
            fixed.append(KafkaProperty("topic.blacklist", patterns.joined(separator: ",")))
        }
        if !groupInstanceID.isEmpty { fixed.append(KafkaProperty("group.instance.id", groupInstanceID)) }
        return cluster.all(ours: ours, users: cluster.properties.consumer, fixed: fixed)
    }
}

package struct ProducerSettings: Sendable, Equatable {
    package var cluster: ClusterSettings
    /// Whether each record is sent by itself, and at once: a broker that refuses a batch as too large refuses all its
    /// records.
    package var sendsSingly: Bool
    /// Of the producers with the same id, only the last that began may write.
    package var transactionalID: String?

    /// The time after which the brokers abort a transaction. It delays readers of committed records for so long when
    /// the producer dies.
    package static let transactionTimeoutMs = 20_000
    static let (queueKilobytes, recordBytes) = (65_536, 10_000_000)

    package init(cluster: ClusterSettings, sendsSingly: Bool = false, transactionalID: String? = nil) {
        self.cluster = cluster
        self.sendsSingly = sendsSingly
        self.transactionalID = transactionalID
    }

    package var all: [KafkaProperty] {
        let ours = KafkaProperty.list([
            "linger.ms": "10", "compression.type": "lz4",
            // The same as Java's producer. librdkafka's own, a CRC-32, took 4 % of the core thread.
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": "1000000",
            // The default is a gigabyte. The worker stops reading when the queue is full.
            "queue.buffering.max.kbytes": "\(Self.queueKilobytes)",
            "message.max.bytes": "\(Self.recordBytes)",
        ])
        var fixed = KafkaProperty.list([
            "acks": "all", "enable.idempotence": "true", "message.timeout.ms": "0",
            "delivery.report.only.error": "false",
        ])
        if sendsSingly {
            // The first requests are likely to be refused. One in flight behind them could be taken as the first of a
            // new producer, and librdkafka would count those before it as written (KafkaFacts, Producing).
            fixed += KafkaProperty.list([
                "batch.num.messages": "1", "linger.ms": "0", "max.in.flight.requests.per.connection": "1",
            ])
        }
        if let transactionalID {
            // librdkafka demands that a record waits no longer than its transaction.
            fixed += KafkaProperty.list([
                "transactional.id": transactionalID, "transaction.timeout.ms": "\(Self.transactionTimeoutMs)",
                "message.timeout.ms": "\(Self.transactionTimeoutMs)",
            ])
        }
        return cluster.all(ours: [ClusterSettings.patience] + ours, users: cluster.properties.producer, fixed: fixed)
    }
}
