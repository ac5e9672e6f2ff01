import CRdkafka

/// A topic of a producer. The value stays valid after `Producer.rebuild`.
package struct ProducerTopic: Hashable, Sendable {
    package let index: Int
}

/// A record's header. Its bytes are borrowed. A `nil` base address of `value` means null.
@unsafe package struct MessageHeader {
    package var name: UnsafeRawBufferPointer
    package var value: UnsafeRawBufferPointer

    @inlinable package init(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        unsafe self.name = name
        unsafe self.value = value
    }
}

/// An idempotent producer.
///
/// Call `produce` and `serve` on one thread. A record counts as written only when its delivery report says so. When the
/// producer's queue is full, wait for delivery reports before producing more. After a fatal error event, call
/// `rebuild`.
@safe package final class Producer {
    private let properties: [KafkaProperty]
    private let wakeUpDescriptor: Int32
    private(set) var client: ProducerClient
    /// Clients that failed fatally. Each client stays here until `serve` has delivered its last report.
    private var former: [ProducerClient] = []
    /// The topics looked up so far, by `ProducerTopic.index`.
    package private(set) var topicNames: [String] = []

    /// - Parameter wakeUpDescriptor: a non-blocking eventfd(2) that signals delivery reports and events, or -1 for
    ///   none. Keep it open as long as the producer exists.
    package init(_ settings: ProducerSettings, wakeUpDescriptor: Int32 = -1) throws(KafkaError) {
        properties = settings.all
        self.wakeUpDescriptor = wakeUpDescriptor
        client = try ProducerClient(properties, wakeUpDescriptor: wakeUpDescriptor)
    }

    deinit { client.purge() }

    /// Returns the topic's handle. The topic should exist, because creating it with the first record can block an
    /// idempotent producer.
    package func topic(_ name: String) throws(KafkaError) -> ProducerTopic {
        if let index = topicNames.firstIndex(of: name) { return ProducerTopic(index: index) }
        try client.add(name)
        topicNames.append(name)
        return ProducerTopic(index: topicNames.count - 1)
    }

    /// Fetches the metadata of `topicNames` before the first record needs it. Throws if a topic cannot be used.
    package func warmUp(timeoutMs: Int32) throws(KafkaError) {
        let topics = try client.handle.describeTopics(onlyKnown: true, timeoutMs: timeoutMs)
        for topic in topics.values where topic.code != .none {
            throw KafkaError(topic.code, "topic \(topic.name): \(topic.code.text)")
        }
    }

    // MARK: Producing

    /// Queues a record and copies its bytes. A `nil` base address of key, value or a header's value means null.
    ///
    /// - Parameters:
    ///   - partition: the partition, or -1 to let librdkafka choose it by the key.
    ///   - timestampMs: the timestamp in milliseconds since the epoch, or 0 for the current time.
    ///   - tag: a number that the record's delivery report returns.
    /// - Returns: `.none` if the record was queued and `serve` will deliver its report. `.queueFull` if the queue is
    ///   full: call `serve`, then try again. `.fatal` if the caller must call `rebuild`. Any other code is the error.
    package func produce(
        to topic: ProducerTopic, partition: Int32 = -1, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer,
        headers: UnsafeBufferPointer<MessageHeader>, timestampMs: Int64 = 0, tag: UInt64
    ) -> KafkaCode {
        unsafe queue(
            topic, partition: partition, key: key, value: value,
            headers: headers.isEmpty ? nil : makeHeaders(headers), timestampMs: timestampMs, tag: tag)
    }

    /// Queues an undelivered record again with its old tag. If the record could not be queued, call this method again
    /// later.
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
        // librdkafka owns the headers only if it accepted the record (rdkafka.h, RD_KAFKA_V_HEADERS).
        if code != RD_KAFKA_RESP_ERR_NO_ERROR, let headers = unsafe headers { unsafe rd_kafka_headers_destroy(headers) }
        return KafkaCode(code)
    }

    // MARK: Reports

    /// The number of records whose delivery report `serve` has not delivered yet, including records of replaced
    /// clients.
    package var outstanding: Int { former.reduce(client.outstanding) { $0 + $1.outstanding } }

    /// Delivers reports and events, and waits up to `timeoutMs` for the first one. `report` may call `produce`.
    package func serve(
        timeoutMs: Int32 = 0, report: (borrowing DeliveryReport) -> Void, event: (ClientEvent) -> Void
    ) {
        client.serve(timeoutMs: timeoutMs, report: report, event: event)
        guard !former.isEmpty else { return }
        // Drop events of replaced clients: their fatal error has been handled already.
        for old in former { old.serve(timeoutMs: 0, report: report, event: { _ in }) }
        former.removeAll { $0.outstanding == 0 }
    }

    /// Replaces the client after a fatal error, without waiting. `serve` delivers a report for each record in the old
    /// client. The report may say that the record was purged although a broker has stored it. If no new client can be
    /// created, this method throws and changes nothing.
    package func rebuild() throws(KafkaError) {
        let fresh = try ProducerClient(properties, wakeUpDescriptor: wakeUpDescriptor)
        for name in topicNames { try fresh.add(name) }
        client.purge()
        former.append(client)
        client = fresh
    }
}

extension Producer {
    /// Returns the topics on which the user lacks WRITE. All topics must exist. Stores no record. Waits up to
    /// `timeoutMs`. A permission for which no answer arrives in time does not count as missing.
    ///
    /// The method produces an empty record with `acks=2` to each topic. Brokers always reject such a record, because
    /// only 0, 1 and -1 are valid (Kafka protocol, Produce), but first check WRITE on the topic.
    package static func topicsDenied(
        _ cluster: ClusterSettings, among topics: [String], timeoutMs: Int32
    ) throws(KafkaError) -> [String] {
        // These values replace those of the settings: librdkafka uses the last value of a property that is set twice.
        let trial = KafkaProperty.list(["acks": "2", "enable.idempotence": "false", "linger.ms": "0"])
        let client = try ProducerClient(ProducerSettings(cluster: cluster).all + trial)
        defer { client.purge() }
        // The result for each topic, or `nil` while there is none.
        var codes: [KafkaCode?] = []
        for (index, name) in topics.enumerated() {
            try client.add(name)
            let code = unsafe crdkafka_produce(
                client.handle.raw, client.topics[index], -1, nil, 0, nil, 0, nil, 0, UInt64(index))
            codes.append(code == RD_KAFKA_RESP_ERR_NO_ERROR ? nil : KafkaCode(code))
        }
        let deadlineMs = Stopwatch.nowMs + Int64(timeoutMs)
        while codes.contains(nil), Stopwatch.nowMs < deadlineMs {
            client.serve(timeoutMs: 50, report: { codes[Int($0.tag)] = $0.code }, event: { _ in })
        }
        return zip(topics, codes).filter { $1 == .topicAuthorizationFailed }.map { $0.0 }.sorted()
    }
}

/// Copies headers into a new librdkafka list, which the caller owns.
func makeHeaders(_ headers: UnsafeBufferPointer<MessageHeader>) -> OpaquePointer? {
    let list = unsafe rd_kafka_headers_new(headers.count)
    for index in 0..<headers.count {
        let header = unsafe headers[index]
        // librdkafka copies the name and the value (rdkafka.h).
        _ = unsafe rd_kafka_header_add(
            list, header.name.baseAddress, header.name.count, header.value.baseAddress, header.value.count)
    }
    return unsafe list
}
