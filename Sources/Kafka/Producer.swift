import CRdkafka

/// A topic a producer knows; stays good when the producer is rebuilt.
package struct ProducerTopic: Hashable, Sendable {
    /// Its place among the topics that were looked up.
    package let index: Int
}

/// An idempotent producer whose reports come in batches.
///
/// `produce` and `serve` belong to one thread. A result counts as written only when its report says so; a full queue is
/// answered by reading less until reports drain it. A fatal error is an event: then `rebuild`.
@safe package final class Producer {
    private let settings: ProducerSettings
    private let wakeUpDescriptor: Int32
    private(set) var client: ProducerClient
    /// Those that met a fatal error, until the last of their reports was handed out.
    private var former: [ProducerClient] = []
    /// The topics looked up so far, by `ProducerTopic.index`.
    package private(set) var topicNames: [String] = []

    /// Makes a client; no broker needs to be there.
    ///
    /// `wakeUpDescriptor`: an eventfd(2) that gets 1 added whenever there are reports or events after there were none;
    /// non-blocking; kept open until the producer is gone. -1: none.
    package init(_ settings: ProducerSettings, wakeUpDescriptor: Int32 = -1) throws(KafkaError) {
        self.settings = settings
        self.wakeUpDescriptor = wakeUpDescriptor
        client = try ProducerClient(settings, wakeUpDescriptor: wakeUpDescriptor)
    }

    /// Drops what is not acknowledged.
    deinit { client.purge() }

    /// The topic's handle, to be looked up once. The topic should exist: one that the first record creates was seen to
    /// wedge an idempotent producer.
    package func topic(_ name: String) throws(KafkaError) -> ProducerTopic {
        if let index = topicNames.firstIndex(of: name) { return ProducerTopic(index: index) }
        try client.add(name)
        topicNames.append(name)
        return ProducerTopic(index: topicNames.count - 1)
    }

    package func name(of topic: ProducerTopic) -> String { topicNames[topic.index] }

    /// Fetches what the brokers know about the topics looked up so far, so that the first record does not wait for it.
    package func warmUp(timeoutMs: Int32) throws(KafkaError) {
        let topics = try client.handle.describeTopics(onlyKnown: true, timeoutMs: timeoutMs)
        for topic in topics.values where topic.code != .none {
            throw KafkaError(topic.code, "topic \(topic.name): \(topic.code.text)")
        }
    }

    // MARK: Producing

    /// Queues a record; its bytes are copied before this returns. A `nil` base address of key, value or a header's
    /// value means null. `timestampMs` 0: now. `partition` -1: by the key. `tag` comes back in the report.
    ///
    /// `.none`: a report will come. `.queueFull`: nothing was queued; try again after reports were served. `.fatal`:
    /// rebuild.
    package func produce(
        to topic: ProducerTopic, partition: Int32 = -1, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer,
        headers: UnsafeBufferPointer<MessageHeader>, timestampMs: Int64 = 0, tag: UInt64
    ) -> KafkaCode {
        unsafe queue(
            topic, partition: partition, key: key, value: value,
            headers: headers.isEmpty ? nil : makeHeaders(headers), timestampMs: timestampMs, tag: tag)
    }

    /// Queues a record with headers from a reused array.
    package func produce(
        to topic: ProducerTopic, partition: Int32 = -1, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer,
        headers: [MessageHeader], timestampMs: Int64 = 0, tag: UInt64
    ) -> KafkaCode {
        unsafe headers.withUnsafeBufferPointer {
            unsafe produce(
                to: topic, partition: partition, key: key, value: value, headers: $0, timestampMs: timestampMs, tag: tag
            )
        }
    }

    /// Queues a record that could not be written, again, under its old tag; may be called again when it was not queued.
    package func produce(_ record: UndeliveredRecord, timestampMs: Int64 = 0) -> KafkaCode {
        let headers = unsafe record.headers.flatMap { unsafe rd_kafka_headers_copy($0) }
        return unsafe UndeliveredRecord.withBytes(of: record.key) { key in
            unsafe UndeliveredRecord.withBytes(of: record.value) { value in
                unsafe queue(
                    record.topic, partition: -1, key: key, value: value, headers: headers, timestampMs: timestampMs,
                    tag: record.tag)
            }
        }
    }

    private func queue(
        _ topic: ProducerTopic, partition: Int32, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer,
        headers: OpaquePointer?, timestampMs: Int64, tag: UInt64
    ) -> KafkaCode {
        let code = unsafe crdkafka_produce(
            client.handle.raw, client.topics[topic.index], partition, key.baseAddress, key.count, value.baseAddress,
            value.count, headers, timestampMs, tag)
        // The headers are librdkafka's only when the record was taken (rdkafka.h, RD_KAFKA_V_HEADERS).
        if code != RD_KAFKA_RESP_ERR_NO_ERROR, let headers = unsafe headers { unsafe rd_kafka_headers_destroy(headers) }
        return KafkaCode(code)
    }

    // MARK: Reports

    /// Records whose report was not handed out yet.
    package var outstanding: Int { former.reduce(client.outstanding) { $0 + $1.outstanding } }

    /// Hands out what has happened, waiting at most `timeoutMs` for the first of it; returns how many reports there
    /// were. `report` may produce.
    @discardableResult
    package func serve(
        timeoutMs: Int32 = 0, report: (borrowing DeliveryReport) -> Void, event: (ClientEvent) -> Void
    ) -> Int {
        var count = client.serve(timeoutMs: timeoutMs, report: report, event: event)
        guard !former.isEmpty else { return count }
        // Their errors are over with them.
        for old in former { count += old.serve(timeoutMs: 0, report: report, event: { _ in }) }
        former.removeAll { $0.outstanding == 0 }
        return count
    }

    /// Makes a new client in the place of one that met a fatal error. Every record that the old one still held has its
    /// report from `serve`, mostly the next: its code says that it was purged, whether or not a broker has it. Waits
    /// for nothing. Throws, with nothing changed, when no new client can be made.
    package func rebuild() throws(KafkaError) {
        let fresh = try ProducerClient(settings, wakeUpDescriptor: wakeUpDescriptor)
        for name in topicNames { try fresh.add(name) }
        client.purge()
        former.append(client)
        client = fresh
    }
}
