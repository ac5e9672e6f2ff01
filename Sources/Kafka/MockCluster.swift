import CRdkafka

/// librdkafka's in-process brokers: real TCP ports that other processes can use, nothing durable, no scale
/// (<doc:KafkaFacts>). Topics are made on first use with 4 partitions, or by `create`.
@safe package final class MockCluster {
    private let client: ClientHandle
    private let raw: OpaquePointer
    private let brokerCount: Int

    package init(brokers: Int = 1) throws(KafkaError) {
        // The client is only the place the brokers live in; its own connection is never used.
        client = try ClientHandle(RD_KAFKA_PRODUCER, KafkaProperty.list(["client.id": "mock", "log_level": "0"]))
        guard let raw = unsafe rd_kafka_mock_cluster_new(client.raw, Int32(clamping: brokers)) else {
            throw KafkaError(.wrongState, "the in-process brokers could not be started")
        }
        unsafe self.raw = raw
        brokerCount = brokers
    }

    deinit { unsafe rd_kafka_mock_cluster_destroy(raw) }

    /// `host:port`, comma separated; on loopback.
    package var bootstrapServers: String { unsafe String(cString: rd_kafka_mock_cluster_bootstraps(raw)) }

    package func create(_ topic: String, partitions: Int) throws(KafkaError) {
        try check(
            unsafe rd_kafka_mock_topic_create(raw, topic, Int32(clamping: partitions), Int32(clamping: brokerCount)))
    }

    /// The next requests of this kind (the protocol's number: 0 Produce, 1 Fetch, 8 OffsetCommit, 11 JoinGroup …) are
    /// answered with these errors, one each.
    package func fail(_ apiKey: Int16, with codes: [KafkaCode]) {
        let list = codes.map { $0.c }
        unsafe list.withUnsafeBufferPointer {
            unsafe rd_kafka_mock_push_request_errors_array(raw, apiKey, $0.count, $0.baseAddress)
        }
    }

    /// Answers of a broker (counted from 1) take so long from now on.
    package func setRoundTrip(milliseconds: Int, broker: Int = 1) throws(KafkaError) {
        try check(
            unsafe rd_kafka_mock_broker_set_rtt(raw, Int32(clamping: broker), Int32(clamping: milliseconds)))
    }

    /// Takes a broker (counted from 1) off the network, or puts it back.
    package func setReachable(_ isReachable: Bool, broker: Int = 1) throws(KafkaError) {
        if isReachable {
            try check(unsafe rd_kafka_mock_broker_set_up(raw, Int32(clamping: broker)))
        } else {
            try check(unsafe rd_kafka_mock_broker_set_down(raw, Int32(clamping: broker)))
        }
    }
}
