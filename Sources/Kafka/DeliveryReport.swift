import CRdkafka

/// What became of one produced record; lent for the call it is handed to.
@safe package struct DeliveryReport: ~Copyable {
    private let raw: UnsafePointer<rd_kafka_message_t>

    /// The message belongs to the event it came with, and ends with it.
    init(of raw: UnsafePointer<rd_kafka_message_t>) { unsafe self.raw = raw }

    /// What was given to `Producer.produce`.
    package var tag: UInt64 { unsafe crdkafka_tag(raw) }

    /// `.none`: all replicas have it. Anything else: it never settles, and is produced again.
    ///
    /// `.inconsistent`: librdkafka concludes that it was written, since one behind it was, but no broker said where. A
    /// broker that knows nothing of a producer takes whichever sequence comes first, and so the second of two requests,
    /// the first of which it has just refused: the conclusion may be wrong.
    package var code: KafkaCode {
        let code = unsafe KafkaCode(raw.pointee.err)
        return code == .none && offset < 0 ? .inconsistent : code
    }

    /// Whether a broker may have the record all the same: it was sent, and no answer said that it was refused.
    package var mayBeWritten: Bool { unsafe rd_kafka_message_status(raw) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED }

    package var topic: ProducerTopic {
        ProducerTopic(index: Int(bitPattern: unsafe rd_kafka_topic_opaque(raw.pointee.rkt)) - 1)
    }

    /// -1: none was chosen.
    package var partition: Int32 { unsafe raw.pointee.partition }

    /// -1: not known.
    package var offset: Int64 { unsafe raw.pointee.offset }

    /// The record's value; a `nil` base address means null.
    package var value: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: raw.pointee.payload, count: raw.pointee.len)
    }

    package var key: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: raw.pointee.key, count: raw.pointee.key_len)
    }

    /// Copies what was to be written, so that it can be produced again later, and takes the headers out of the report.
    package func detach() -> UndeliveredRecord {
        var headers: OpaquePointer?
        // From here on the headers are ours (rdkafka.h); without any it stays nil.
        _ = unsafe rd_kafka_message_detach_headers(UnsafeMutablePointer(mutating: raw), &headers)
        return unsafe UndeliveredRecord(
            topic: topic, tag: tag, code: code, mayBeWritten: mayBeWritten, key: UndeliveredRecord.copy(key),
            value: UndeliveredRecord.copy(value), headers: headers)
    }
}

/// A record that could not be written, in memory of its own.
@safe package final class UndeliveredRecord {
    package let topic: ProducerTopic
    package let tag: UInt64
    /// Why it was not written.
    package let code: KafkaCode
    /// Whether a broker may have it all the same.
    package let mayBeWritten: Bool
    /// `nil`: null.
    package let key: [UInt8]?
    package let value: [UInt8]?
    /// Owned; `nil`: none.
    private(set) var headers: OpaquePointer?
    /// Of key, value and headers.
    package private(set) var byteCount: Int

    init(
        topic: ProducerTopic, tag: UInt64, code: KafkaCode, mayBeWritten: Bool, key: [UInt8]?, value: [UInt8]?,
        headers: OpaquePointer?
    ) {
        self.topic = topic
        self.tag = tag
        self.code = code
        self.mayBeWritten = mayBeWritten
        self.key = key
        self.value = value
        unsafe self.headers = headers
        byteCount = (key?.count ?? 0) + (value?.count ?? 0)
        unsafe forEach(in: headers) { name, value in byteCount += name.count + value.count }
    }

    /// Copies a record that a producer did not take, to be produced again later.
    package convenience init(
        copying key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        headers: UnsafeBufferPointer<MessageHeader>, to topic: ProducerTopic, tag: UInt64, code: KafkaCode
    ) {
        unsafe self.init(
            topic: topic, tag: tag, code: code, mayBeWritten: false, key: UndeliveredRecord.copy(key),
            value: UndeliveredRecord.copy(value), headers: makeHeaders(headers))
    }

    deinit { if let headers = unsafe headers { unsafe rd_kafka_headers_destroy(headers) } }

    /// Lends key, value and headers for the call of `body`; a `nil` base address means null.
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
        // An empty array may have no address, which would turn an empty value into null.
        if bytes.isEmpty {
            return unsafe Swift.withUnsafeBytes(of: 0 as UInt8) {
                unsafe body(UnsafeRawBufferPointer(rebasing: $0[..<0]))
            }
        }
        return unsafe bytes.withUnsafeBytes { unsafe body($0) }
    }

    /// Adds one to the number that a header says, up to `limit`; nothing happens where there is no such header, or it
    /// says no number.
    package func raiseHeader(_ name: String, limit: Int64) {
        var bytes: UnsafeRawPointer?
        var size = 0
        guard let headers = unsafe headers,
            unsafe rd_kafka_header_get_last(headers, name, &bytes, &size) == RD_KAFKA_RESP_ERR_NO_ERROR,
            // Valid as long as the header is (rdkafka.h): copied before it goes.
            let number = unsafe Int64(
                String(decoding: UnsafeRawBufferPointer(start: bytes, count: size), as: UTF8.self))
        else { return }
        let raised = number < limit ? number + 1 : limit
        _ = unsafe rd_kafka_header_remove(headers, name)
        // Name and value are copied; -1: as long as strlen says (rdkafka.h).
        _ = unsafe rd_kafka_header_add(headers, name, -1, "\(raised)", -1)
        byteCount += "\(raised)".utf8.count - size
    }

    static func copy(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        unsafe bytes.baseAddress == nil ? nil : Array(bytes)
    }
}
