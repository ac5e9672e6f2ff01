import CRdkafka

extension Producer {
    /// Makes the client fail fatally, as a broker's answer would, to test what follows.
    func failFatally(_ code: KafkaCode) {
        _ = unsafe rd_kafka_test_fatal_error(client.handle.raw, code.c, "a test asked for it")
    }
}
