import CRdkafka

/// What became of one produced record; lent for the call it is handed to.
@safe package struct DeliveryReport: ~Copyable {
    private let raw: UnsafePointer<rd_kafka_message_t>

    /// The message belongs to the event it came with, and ends with it.
    init(of raw: UnsafePointer<rd_kafka_message_t>) { unsafe self.raw = raw }

    /// What was given to `Producer.produce`.
    package var tag: UInt64 { unsafe crdkafka_tag(raw) }

    /// `.none`: all replicas have it. Anything else: it never settles, and is produced again.
    package var code: KafkaCode { unsafe KafkaCode(raw.pointee.err) }

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
            topic: topic, tag: tag, code: code, key: UndeliveredRecord.copy(key), value: UndeliveredRecord.copy(value),
            headers: headers)
    }
}

/// A record that could not be written, in memory of its own.
@safe package final class UndeliveredRecord {
    package let topic: ProducerTopic
    package let tag: UInt64
    /// Why it was not written.
    package let code: KafkaCode
    /// `nil`: null.
    package let key: [UInt8]?
    package private(set) var value: [UInt8]?
    /// Owned; `nil`: none.
    private(set) var headers: OpaquePointer?

    init(
        topic: ProducerTopic, tag: UInt64, code: KafkaCode, key: [UInt8]?, value: [UInt8]?, headers: OpaquePointer?
    ) {
        self.topic = topic
        self.tag = tag
        self.code = code
        self.key = key
        self.value = value
        unsafe self.headers = headers
    }

    /// Copies a record that a producer did not take, to be produced again later.
    package convenience init(
        copying key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        headers: UnsafeBufferPointer<MessageHeader>, to topic: ProducerTopic, tag: UInt64, code: KafkaCode
    ) {
        let list = unsafe rd_kafka_headers_new(headers.count)
        for index in 0..<headers.count {
            let header = unsafe headers[index]
            // Both are copied (rdkafka.h).
            _ = unsafe rd_kafka_header_add(
                list, header.name.baseAddress, header.name.count, header.value.baseAddress, header.value.count)
        }
        unsafe self.init(
            topic: topic, tag: tag, code: code, key: UndeliveredRecord.copy(key), value: UndeliveredRecord.copy(value),
            headers: list)
    }

    deinit { if let headers = unsafe headers { unsafe rd_kafka_headers_destroy(headers) } }

    /// Leaves the value out, for a record that is too large with it; returns how many bytes it had.
    package func dropValue() -> Int {
        let size = value?.count ?? 0
        value = nil
        return size
    }

    package func addHeader(_ name: String, _ value: String) {
        let headers = unsafe self.headers ?? rd_kafka_headers_new(1)
        unsafe self.headers = headers
        // Name and value are copied; -1: as long as strlen says (rdkafka.h).
        _ = unsafe rd_kafka_header_add(headers, name, -1, value, -1)
    }

    /// Adds one to the number that a header says; nothing happens where there is no such header, or it says no number.
    package func raiseHeader(_ name: String) {
        var value: UnsafeRawPointer?
        var size = 0
        guard let headers = unsafe headers,
            unsafe rd_kafka_header_get_last(headers, name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR,
            // Valid as long as the header is (rdkafka.h): copied before it goes.
            let number = unsafe Int64(
                String(decoding: UnsafeRawBufferPointer(start: value, count: size), as: UTF8.self))
        else { return }
        _ = unsafe rd_kafka_header_remove(headers, name)
        addHeader(name, "\(number + 1)")
    }

    static func copy(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        unsafe bytes.baseAddress == nil ? nil : Array(bytes)
    }
}
