/// Who the cluster is and what the user set for every client.
package struct ClusterSettings: Sendable, Equatable {
    /// `host:port`, comma separated.
    package var bootstrapServers: String
    package var clientID: String
    package var properties: KafkaProperties
    /// How often a client reports statistics (`ClientEvent.statistics`), in milliseconds; 0: never.
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

    /// What every client gets; the user's may replace it.
    private var defaults: [KafkaProperty] {
        [
            KafkaProperty("client.id", clientID),
            KafkaProperty("socket.nagle.disable", "true"),
            KafkaProperty("topic.metadata.refresh.interval.ms", "10000"),
        ]
    }

    /// What nobody may replace.
    private var fixed: [KafkaProperty] {
        [
            KafkaProperty("bootstrap.servers", bootstrapServers), KafkaProperty("log.queue", "true"),
            KafkaProperty("statistics.interval.ms", "\(statisticsIntervalMs)"),
        ]
    }

    /// All properties of a client in the order in which they are set: a later one replaces an earlier one.
    func all(
        ours: [KafkaProperty], users: [KafkaProperty], fixed: [KafkaProperty]
    ) -> [KafkaProperty] {
        defaults + ours + properties.common + users + self.fixed + fixed
    }
}

/// One consumer of the worker's.
package struct ConsumerSettings: Sendable, Equatable {
    /// Request topics are read ahead; retry tiers have a group of their own (`<group>.retry`) and small queues.
    package enum Role: Sendable { case requests, retries }

    /// How partitions move at a rebalance; the whole group must agree.
    package enum Assignment: Sendable { case eager, cooperative }

    package var cluster: ClusterSettings
    package var role: Role
    /// The group of the configuration; `.retries` reads as `<groupID>.retry`.
    package var groupID: String
    /// Static membership; empty: dynamic.
    package var groupInstanceID: String
    package var sessionTimeoutMs: Int
    package var assignment: Assignment
    /// Of all its request topics, as far as one knows: they share `readAheadKilobytes`.
    package var partitions: Int
    /// Topics that no pattern fits, nor are they read by their names: as if the cluster had none such.
    package var ignoredTopics: [String] = []

    /// Keys and values read ahead by a consumer of request topics that has all partitions; at least 64 for each, and
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

    /// The group this consumer joins.
    package var memberGroupID: String { role == .retries ? "\(groupID).retry" : groupID }

    package var all: [KafkaProperty] {
        var ours = [
            KafkaProperty("heartbeat.interval.ms", "\(max(1, min(3000, sessionTimeoutMs / 3)))"),
            ClusterSettings.patience,
        ]
        // Limits are per partition, because each has a queue of its own (KafkaFacts, Reading).
        switch role {
        case .requests:
            ours += [
                KafkaProperty("queued.min.messages", "100000"),
                KafkaProperty(
                    "queued.max.messages.kbytes", "\(max(64, Self.readAheadKilobytes / max(1, partitions)))"),
                KafkaProperty("fetch.max.bytes", "1048576"),
                KafkaProperty("max.partition.fetch.bytes", "131072"),
            ]
        case .retries:
            ours += [
                KafkaProperty("queued.min.messages", "100"),
                KafkaProperty("queued.max.messages.kbytes", "256"),
                KafkaProperty("fetch.max.bytes", "1048576"),
                KafkaProperty("max.partition.fetch.bytes", "262144"),
            ]
        }
        if KafkaLibrary.hasFetchQueueBackOff { ours.append(KafkaProperty("fetch.queue.backoff.ms", "20")) }
        var fixed = [
            KafkaProperty("group.id", memberGroupID),
            KafkaProperty("session.timeout.ms", "\(sessionTimeoutMs)"),
            KafkaProperty("partition.assignment.strategy", assignment == .eager ? "range" : "cooperative-sticky"),
            KafkaProperty("enable.auto.commit", "false"),
            KafkaProperty("enable.auto.offset.store", "false"),
            KafkaProperty("auto.offset.reset", "earliest"),
            KafkaProperty("isolation.level", "read_committed"),
            KafkaProperty("enable.partition.eof", "false"),
        ]
        if !ignoredTopics.isEmpty {
            // Regular expressions, which fit the names as a whole.
            fixed.append(
                KafkaProperty(
                    "topic.blacklist",
                    ignoredTopics.map { "^\($0.replacing(".", with: "\\."))$" }.joined(separator: ",")))
        }
        if !groupInstanceID.isEmpty { fixed.append(KafkaProperty("group.instance.id", groupInstanceID)) }
        return cluster.all(ours: ours, users: cluster.properties.consumer, fixed: fixed)
    }
}

extension ClusterSettings {
    /// A connection on which nothing comes back, though others can be made, stands for so long: librdkafka's 60 s would
    /// be those of all its partitions. What a broker answers late is asked for again; the group's own requests have
    /// their limits beside it.
    fileprivate static let patience = KafkaProperty("socket.timeout.ms", "10000")
}

/// A producer: the worker's, or one that writes in transactions.
package struct ProducerSettings: Sendable, Equatable {
    package var cluster: ClusterSettings
    /// Each record is sent by itself, and at once: a broker that refuses a batch as too large refuses all that is in
    /// it.
    package var sendsSingly: Bool
    /// `nil`: it has none, and each record counts by itself.
    package var transaction: Transaction?

    /// Of a producer that writes in transactions (`Producer.beginTransaction`).
    package struct Transaction: Sendable, Equatable {
        /// Of producers with the same one the last that began is the only one that may write.
        package var id: String
        /// Within which a transaction is to end, else the brokers abort it: so long it holds up readers of committed
        /// records when the producer dies.
        package var timeoutMs: Int

        package init(id: String, timeoutMs: Int) {
            self.id = id
            self.timeoutMs = timeoutMs
        }
    }

    package init(cluster: ClusterSettings, sendsSingly: Bool = false, transaction: Transaction? = nil) {
        self.cluster = cluster
        self.sendsSingly = sendsSingly
        self.transaction = transaction
    }

    package var all: [KafkaProperty] {
        let ours = [
            ClusterSettings.patience,
            KafkaProperty("linger.ms", "10"),
            KafkaProperty("compression.type", "lz4"),
            // As Java's producer divides keys; and librdkafka's own, a CRC-32, took 4 % of the core thread.
            KafkaProperty("partitioner", "murmur2_random"),
            KafkaProperty("queue.buffering.max.messages", "1000000"),
            // The default is a gigabyte. Full means that the worker stops reading.
            KafkaProperty("queue.buffering.max.kbytes", "65536"),
            KafkaProperty("message.max.bytes", "10000000"),
        ]
        var fixed = [
            KafkaProperty("acks", "all"),
            KafkaProperty("enable.idempotence", "true"),
            KafkaProperty("message.timeout.ms", "0"),
            KafkaProperty("delivery.report.only.error", "false"),
        ]
        if sendsSingly {
            fixed += [
                KafkaProperty("batch.num.messages", "1"), KafkaProperty("linger.ms", "0"),
                // Its first requests are those that may be refused. One behind them, already under way, could be taken
                // as the first of a new producer, and librdkafka would count those before it as written (KafkaFacts,
                // Producing).
                KafkaProperty("max.in.flight.requests.per.connection", "1"),
            ]
        }
        if let transaction {
            fixed += [
                KafkaProperty("transactional.id", transaction.id),
                KafkaProperty("transaction.timeout.ms", "\(transaction.timeoutMs)"),
                // A record waits no longer than its transaction, as librdkafka asks: what is over is aborted and comes
                // again.
                KafkaProperty("message.timeout.ms", "\(transaction.timeoutMs)"),
            ]
        }
        return cluster.all(ours: ours, users: cluster.properties.producer, fixed: fixed)
    }
}
