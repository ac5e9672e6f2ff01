import CRdkafka

/// librdkafka's in-process brokers: real TCP ports that other processes can use, nothing durable, no scale
/// (<doc:KafkaFacts>). Topics are made on first use with 4 partitions, or by `create`.
@safe package final class MockCluster {
    private let client: ClientHandle
    package let raw: OpaquePointer

    package init() throws(KafkaError) {
        // The client is only the place the brokers live in; its own connection is never used.
        client = try ClientHandle(RD_KAFKA_PRODUCER, KafkaProperty.list(["client.id": "mock", "log_level": "0"]))
        guard let raw = unsafe rd_kafka_mock_cluster_new(client.raw, 1) else {
            throw KafkaError(.wrongState, "the in-process brokers could not be started")
        }
        unsafe self.raw = raw
    }

    deinit { unsafe rd_kafka_mock_cluster_destroy(raw) }

    /// `host:port`, comma separated; on loopback.
    package var bootstrapServers: String { unsafe String(cString: rd_kafka_mock_cluster_bootstraps(raw)) }

    package func create(_ topic: String, partitions: Int) throws(KafkaError) {
        try check(unsafe rd_kafka_mock_topic_create(raw, topic, Int32(clamping: partitions), 1))
    }
}
