package struct ClusterSettings: Sendable, Equatable {
    /// The brokers as `host:port`, separated by commas.
    package var bootstrapServers: String
    package var clientID: String
    package var properties: KafkaProperties
    /// The interval in milliseconds at which a client reports statistics (`ClientEvent.statistics`), or 0 for never.
    package var statisticsIntervalMs = 0
    /// Whether brokers collect requests before they answer a fetch, and producers wait longer for a full batch
    /// (`delivery.latency: balanced`).
    package var waitsForMore = false

    package init(
        bootstrapServers: String, clientID: String = "apns-worker", properties: KafkaProperties = .none
    ) {
        self.bootstrapServers = bootstrapServers
        self.clientID = clientID
        self.properties = properties
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

    /// The timeout of a request. With librdkafka's default of 60 s, one unanswered request could block all partitions
    /// of its connection for a minute. librdkafka repeats a request that times out. Requests of the consumer group have
    /// their own limits.
    fileprivate static let patience = KafkaProperty("socket.timeout.ms", "10000")
}

package struct ConsumerSettings: Sendable, Equatable {
    /// The kind of topics to read. For retry topics, the consumer joins a separate group (`<group>.retry`) and reads
    /// fewer records ahead.
    package enum Role: Sendable { case requests, retries }

    /// The rebalance protocol of the group. All members of the group must use the same one.
    package enum Assignment: Sendable { case eager, cooperative }

    package var cluster: ClusterSettings
    package var role: Role
    /// The configured group id. A consumer with the role `.retries` joins the group `<groupID>.retry`.
    package var groupID: String
    /// The instance id for static membership, or empty for dynamic membership.
    package var groupInstanceID: String
    package var sessionTimeoutMs: Int
    package var assignment: Assignment
    /// The number of partitions of all request topics together. The partitions share `readAheadKilobytes`.
    package var partitions: Int
    /// Topics to which the consumer never subscribes, neither by a pattern nor by name.
    package var ignoredTopics: [String] = []

    /// The total size of the keys and values that a consumer reads ahead if it owns all partitions of the request
    /// topics. The limit of each partition is at least 64 KB, and one fetch response can exceed the limit. A record of
    /// 200 bytes takes about three times its size in memory (<doc:KafkaFacts>).
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
        // librdkafka applies these limits to each partition, because each partition has its own queue (KafkaFacts,
        // Reading).
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
        if role == .requests {
            // The time after which a broker answers a fetch with less than `fetch.min.bytes`. While the queue of a full
            // partition is full, librdkafka fetches from the other partitions, and cannot fetch from the full one until
            // the broker answers. With the default of 500 ms, a backlog in one of eight partitions was read at 7,600
            // records a second.
            ours.append(KafkaProperty("fetch.wait.max.ms", "40"))
            let users = cluster.properties.common + cluster.properties.consumer
            // With a user's longer wait, a single request would wait as long.
            if cluster.waitsForMore, !users.contains(where: { $0.name == "fetch.wait.max.ms" }) {
                ours.append(KafkaProperty("fetch.min.bytes", "16384"))
            }
        }
        if KafkaLibrary.hasFetchQueueBackOff { ours.append(KafkaProperty("fetch.queue.backoff.ms", "20")) }
        var fixed = KafkaProperty.list([
            "group.id": memberGroupID, "session.timeout.ms": "\(sessionTimeoutMs)",
            "partition.assignment.strategy": assignment == .eager ? "range" : "cooperative-sticky",
            "enable.auto.commit": "false", "enable.auto.offset.store": "false", "auto.offset.reset": "error",
            "isolation.level": "read_committed", "enable.partition.eof": "true",
        ])
        if !ignoredTopics.isEmpty {
            // `topic.blacklist` contains regular expressions. Anchor each expression, so that it matches whole names
            // only.
            let patterns = ignoredTopics.map { "^\($0.replacing(".", with: "\\."))$" }
            fixed.append(KafkaProperty("topic.blacklist", patterns.joined(separator: ",")))
        }
        if !groupInstanceID.isEmpty { fixed.append(KafkaProperty("group.instance.id", groupInstanceID)) }
        return cluster.all(ours: ours, users: cluster.properties.consumer, fixed: fixed)
    }
}

package struct ProducerSettings: Sendable, Equatable {
    package var cluster: ClusterSettings
    /// Whether each record is sent immediately in a separate batch. Use it for records that a broker has rejected: if
    /// one record of a batch is too large, the broker rejects all records in the batch.
    package var sendsSingly: Bool
    /// The transactional id. Brokers fence a producer when another one starts with this id.
    package var transactionalID: String?

    /// The time after which brokers abort an open transaction. If the producer dies, readers of committed records wait
    /// up to this long.
    package static let transactionTimeoutMs = 20_000
    static let (queueKilobytes, recordBytes) = (65_536, 10_000_000)

    package init(cluster: ClusterSettings, sendsSingly: Bool = false, transactionalID: String? = nil) {
        self.cluster = cluster
        self.sendsSingly = sendsSingly
        self.transactionalID = transactionalID
    }

    package var all: [KafkaProperty] {
        let ours = KafkaProperty.list([
            "linger.ms": cluster.waitsForMore ? "50" : "10", "compression.type": "lz4",
            // The partitioner of the Java client. librdkafka's default, CRC-32, used 4 % of the core thread's CPU time.
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": "1000000",
            // librdkafka's default is a gigabyte. When the producer's queue is full, the worker stops reading requests.
            "queue.buffering.max.kbytes": "\(Self.queueKilobytes)",
            "message.max.bytes": "\(Self.recordBytes)",
        ])
        var fixed = KafkaProperty.list([
            "acks": "all", "enable.idempotence": "true", "message.timeout.ms": "0",
            "delivery.report.only.error": "false",
        ])
        if sendsSingly {
            // Allow only one request in flight. Otherwise a broker could reject one request with a retriable error, and
            // accept the next one as the first request of a new producer. librdkafka would then report the rejected
            // records as written (KafkaFacts, Producing).
            fixed += KafkaProperty.list([
                "batch.num.messages": "1", "linger.ms": "0", "max.in.flight.requests.per.connection": "1",
            ])
        }
        if let transactionalID {
            // librdkafka requires that `message.timeout.ms` is not longer than `transaction.timeout.ms`.
            fixed += KafkaProperty.list([
                "transactional.id": transactionalID, "transaction.timeout.ms": "\(Self.transactionTimeoutMs)",
                "message.timeout.ms": "\(Self.transactionTimeoutMs)",
            ])
        }
        return cluster.all(ours: [ClusterSettings.patience] + ours, users: cluster.properties.producer, fixed: fixed)
    }
}
