import CRdkafka

/// The delivery report of one produced record, valid only while `Producer.serve` passes it to `report`.
@safe package struct DeliveryReport: ~Copyable {
    private let raw: UnsafePointer<rd_kafka_message_t>

    /// - Parameter raw: the message, which the event owns.
    init(of raw: UnsafePointer<rd_kafka_message_t>) { unsafe self.raw = raw }

    package var tag: UInt64 { unsafe crdkafka_tag(raw) }

    /// The result: `.none` if all in-sync replicas have the record. After any other code, the record may be missing.
    ///
    /// `.inconsistent` means that librdkafka only infers that the record was written, because a later record was. The
    /// inference may be wrong: a broker that does not know a producer accepts any first sequence number, so it can
    /// accept the second of two requests after rejecting the first one.
    package var code: KafkaCode {
        let code = unsafe KafkaCode(raw.pointee.err)
        return code == .none && offset < 0 ? .inconsistent : code
    }

    /// Whether a broker may have the record although the report is an error: the record was sent, and no broker
    /// rejected it.
    package var mayBeWritten: Bool { unsafe rd_kafka_message_status(raw) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED }

    package var topic: ProducerTopic {
        ProducerTopic(index: Int(bitPattern: unsafe rd_kafka_topic_opaque(raw.pointee.rkt)) - 1)
    }

    package var partition: Int32 { unsafe raw.pointee.partition }

    package var offset: Int64 { unsafe raw.pointee.offset }

    /// The time at which the broker stored the record, in milliseconds by its clock, or `nil` if producers set the
    /// topic's timestamps (`message.timestamp.type=CreateTime`).
    package var storedMs: Int64? {
        var type = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE
        let timestampMs = unsafe rd_kafka_message_timestamp(raw, &type)
        // librdkafka's in-process brokers report the time 1234, so a time before 2001 is not the time of a clock.
        let isOfClock = type == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME && timestampMs > 1_000_000_000_000
        return isOfClock ? timestampMs : nil
    }

    /// The time since the record was passed to the producer, in milliseconds.
    package var latencyMs: Int64 { unsafe rd_kafka_message_latency(raw) / 1_000 }

    /// Copies the record so that it can be produced again, and takes the headers from the report.
    package func detach() -> UndeliveredRecord {
        var headers: OpaquePointer?
        // The caller now owns the headers (rdkafka.h).
        _ = unsafe rd_kafka_message_detach_headers(UnsafeMutablePointer(mutating: raw), &headers)
        return unsafe UndeliveredRecord(
            copying: UnsafeRawBufferPointer(start: raw.pointee.key, count: raw.pointee.key_len),
            UnsafeRawBufferPointer(start: raw.pointee.payload, count: raw.pointee.len), adopting: headers, to: topic,
            tag: tag, mayBeWritten: mayBeWritten)
    }
}

/// A copy of a record that still has to be produced, for example after its delivery failed.
@safe package final class UndeliveredRecord {
    package let topic: ProducerTopic
    package let tag: UInt64
    /// Whether a broker may have stored the record although its delivery failed.
    package let mayBeWritten: Bool
    /// The key, or `nil` if it is null.
    package let key: [UInt8]?
    package let value: [UInt8]?
    private(set) var headers: OpaquePointer?

    init(
        copying key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, adopting headers: OpaquePointer?,
        to topic: ProducerTopic, tag: UInt64, mayBeWritten: Bool = false
    ) {
        self.topic = topic
        self.tag = tag
        self.mayBeWritten = mayBeWritten
        self.key = unsafe key.baseAddress == nil ? nil : Array(key)
        self.value = unsafe value.baseAddress == nil ? nil : Array(value)
        unsafe self.headers = headers
    }

    package convenience init(
        copying key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        headers: UnsafeBufferPointer<MessageHeader>, to topic: ProducerTopic, tag: UInt64
    ) {
        unsafe self.init(copying: key, value, adopting: makeHeaders(headers), to: topic, tag: tag)
    }

    deinit { if let headers = unsafe headers { unsafe rd_kafka_headers_destroy(headers) } }

    /// Calls `body` with the key, value and headers, which are valid during the call. A `nil` base address means null.
    package func withParts<Result>(
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer, UnsafeBufferPointer<MessageHeader>) -> Result
    ) -> Result {
        var list: [MessageHeader] = unsafe []
        unsafe forEach(in: headers) { unsafe list.append(MessageHeader(name: $0, value: $1)) }
        return unsafe Self.withBytes(of: key) { key in
            unsafe Self.withBytes(of: value) { value in
                unsafe list.withUnsafeBufferPointer { unsafe body(key, value, $0) }
            }
        }
    }

    static func withBytes<Result>(of bytes: [UInt8]?, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        guard let bytes else { return unsafe body(UnsafeRawBufferPointer(start: nil, count: 0)) }
        // An empty array may have a null base address, which would turn an empty value into null.
        if bytes.isEmpty {
            return unsafe Swift.withUnsafeBytes(of: 0 as UInt8) {
                unsafe body(UnsafeRawBufferPointer(rebasing: $0[..<0]))
            }
        }
        return unsafe bytes.withUnsafeBytes { unsafe body($0) }
    }

    /// Adds 1 to the number in a header, up to `limit`. Does nothing if the record lacks the header or the header's
    /// value is not a number.
    package func raiseHeader(_ name: String, limit: Int64) {
        var bytes: UnsafeRawPointer?
        var size = 0
        guard let headers = unsafe headers,
            unsafe rd_kafka_header_get_last(headers, name, &bytes, &size) == RD_KAFKA_RESP_ERR_NO_ERROR,
            // The pointer is valid as long as the header (rdkafka.h).
            let number = unsafe Int64(
                String(decoding: UnsafeRawBufferPointer(start: bytes, count: size), as: UTF8.self))
        else { return }
        let raised = number < limit ? number + 1 : limit
        _ = unsafe rd_kafka_header_remove(headers, name)
        // librdkafka copies the name and the value. With a size of -1 it calls strlen (rdkafka.h).
        _ = unsafe rd_kafka_header_add(headers, name, -1, "\(raised)", -1)
    }
}
