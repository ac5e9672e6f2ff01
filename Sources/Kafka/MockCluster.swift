import CRdkafka

/// librdkafka's in-process mock brokers. Clients in any process can connect to their TCP ports. The brokers store only
/// the last 5 MiB of a partition, in memory (<doc:KafkaFacts>). If a client uses a topic that does not exist, the
/// brokers create the topic with 4 partitions.
@safe package final class MockCluster {
    private let client: ClientHandle
    package let raw: OpaquePointer

    package init() throws(KafkaError) {
        // This client only hosts the mock brokers, and sends nothing to them.
        client = try ClientHandle(RD_KAFKA_PRODUCER, KafkaProperty.list(["client.id": "mock", "log_level": "0"]))
        guard let raw = unsafe rd_kafka_mock_cluster_new(client.raw, 1) else {
            throw KafkaError(.wrongState, "the in-process brokers could not be started")
        }
        unsafe crdkafka_mock_assign_immediately(raw)
        unsafe self.raw = raw
    }

    deinit { unsafe rd_kafka_mock_cluster_destroy(raw) }

    /// The brokers' addresses as `host:port`, separated by commas, on the loopback interface.
    package var bootstrapServers: String { unsafe String(cString: rd_kafka_mock_cluster_bootstraps(raw)) }

    package func create(_ topic: String, partitions: Int) throws(KafkaError) {
        try check(unsafe rd_kafka_mock_topic_create(raw, topic, Int32(clamping: partitions), 1))
    }
}
