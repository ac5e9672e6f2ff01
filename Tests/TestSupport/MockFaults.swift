import CRdkafka
package import Kafka

/// Faults of librdkafka's in-process broker.
extension MockCluster {
    /// Makes the broker answer the next requests of this kind with these errors, one each.
    ///
    /// - Parameter apiKey: The number of the request in the protocol: 0 Produce, 1 Fetch, 8 OffsetCommit, 11 JoinGroup
    ///   …
    package func fail(_ apiKey: Int16, with codes: [KafkaCode]) {
        let list = codes.map { rd_kafka_resp_err_t(rawValue: $0.rawValue) }
        list.withUnsafeBufferPointer {
            rd_kafka_mock_push_request_errors_array(raw, apiKey, $0.count, $0.baseAddress)
        }
    }

    /// Delays each answer by this time from now on.
    package func setRoundTrip(milliseconds: Int) throws {
        try check(rd_kafka_mock_broker_set_rtt(raw, 1, Int32(clamping: milliseconds)))
    }

    /// Takes the broker off the network, or puts it back.
    package func setReachable(_ isReachable: Bool) throws {
        try check(isReachable ? rd_kafka_mock_broker_set_up(raw, 1) : rd_kafka_mock_broker_set_down(raw, 1))
    }

    private func check(_ code: rd_kafka_resp_err_t) throws {
        if code != RD_KAFKA_RESP_ERR_NO_ERROR { throw KafkaError(KafkaCode(rawValue: code.rawValue)) }
    }
}
