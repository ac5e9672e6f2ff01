import CRdkafka

/// One `rd_kafka_t` of a producer, with the handles of the producer's topics.
@safe final class ProducerClient {
    let handle: ClientHandle
    /// The handles of the topics by `ProducerTopic.index`. This object owns them.
    private(set) var topics: [OpaquePointer] = unsafe []

    init(_ properties: [KafkaProperty], wakeUpDescriptor: Int32 = -1) throws(KafkaError) {
        handle = try ClientHandle(
            RD_KAFKA_PRODUCER, properties, events: RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_STATS,
            wakeUpDescriptor: wakeUpDescriptor)
    }

    deinit { unsafe topics.forEach { unsafe rd_kafka_topic_destroy($0) } }

    /// Adds a topic. The opaque pointer of its handle, which delivery reports return, is the topic's index plus one.
    func add(_ name: String) throws(KafkaError) {
        let configuration: OpaquePointer = unsafe rd_kafka_default_topic_conf_dup(handle.raw)
        unsafe rd_kafka_topic_conf_set_opaque(configuration, UnsafeMutableRawPointer(bitPattern: topics.count + 1))
        unsafe topics.append(try handle.makeTopic(name, configuration))
    }

    var outstanding: Int { Int(unsafe rd_kafka_outq_len(handle.raw)) }

    /// Drops all records, including those in flight, without waiting. Each record gets a delivery report.
    func purge() {
        // Without RD_KAFKA_PURGE_F_NON_BLOCKING, the call waits without limit for all brokers' threads, one of which
        // may be resolving a name.
        let flags = RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING
        _ = unsafe rd_kafka_purge(handle.raw, flags)
    }

    func serve(timeoutMs: Int32, report: (borrowing DeliveryReport) -> Void, event: (ClientEvent) -> Void) {
        handle.poll(timeoutMs: timeoutMs) { next in
            if next.type == RD_KAFKA_EVENT_DR {
                while let message = unsafe rd_kafka_event_message_next(next.raw) {
                    report(unsafe DeliveryReport(of: message))
                }
            } else if let translated = next.clientEvent(of: handle) {
                event(translated)
            }
        }
    }
}
