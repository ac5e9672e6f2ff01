import CRdkafka
import Glibc

/// A header of a record with borrowed bytes. A `nil` base address of `value` means null.
@unsafe package struct MessageHeader {
    package var name: UnsafeRawBufferPointer
    package var value: UnsafeRawBufferPointer

    @inlinable package init(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        unsafe self.name = name
        unsafe self.value = value
    }
}

/// A consumed record. The key, value and headers are valid as long as the message exists. The message keeps
/// librdkafka's whole fetch buffer in memory.
@safe package struct Message: ~Copyable {
    private let raw: UnsafeMutablePointer<rd_kafka_message_t>

    init(adopting raw: UnsafeMutablePointer<rd_kafka_message_t>) { unsafe self.raw = raw }

    deinit { unsafe rd_kafka_message_destroy(raw) }

    consuming func release() { discard self }

    /// librdkafka's error if this message is not a record.
    var problem: KafkaError? {
        guard unsafe raw.pointee.err != RD_KAFKA_RESP_ERR_NO_ERROR else { return nil }
        return unsafe KafkaError(KafkaCode(raw.pointee.err), String(cString: rd_kafka_message_errstr(raw)))
    }

    /// Whether this message reports the end of the partition. `offset` is then the next offset to read, above any
    /// transaction markers.
    var isEnd: Bool { unsafe raw.pointee.err == RD_KAFKA_RESP_ERR__PARTITION_EOF }

    package var offset: Int64 { unsafe raw.pointee.offset }

    package var partition: Int32 { unsafe raw.pointee.partition }

    /// The topic's handle, which the message does not own.
    var topic: OpaquePointer { unsafe raw.pointee.rkt }

    /// The record's timestamp in milliseconds since the epoch, or -1 if it has none.
    package var timestampMs: Int64 { unsafe rd_kafka_message_timestamp(raw, nil) }

    /// The key. A `nil` base address means null.
    package var key: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: raw.pointee.key, count: raw.pointee.key_len)
    }

    /// The value. A `nil` base address means null (a tombstone).
    package var value: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: raw.pointee.payload, count: raw.pointee.len)
    }

    /// Whether librdkafka cannot parse the record's headers, because the headers are corrupt or number more than
    /// 100,000. `forEachHeader` then passes no headers.
    package var hasUnreadableHeaders: Bool {
        var headers: OpaquePointer?
        let code = unsafe rd_kafka_message_headers(raw, &headers)
        return code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR__NOENT
    }

    /// Calls `body` with the name and value of each header in the record's order. The bytes are valid as long as the
    /// message exists.
    package func forEachHeader(_ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Void) {
        var headers: OpaquePointer?
        // librdkafka parses and copies the headers on first access. The message owns them (rdkafka.h).
        guard unsafe rd_kafka_message_headers(raw, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR else { return }
        unsafe forEach(in: headers, body)
    }
}

func forEach(
    in headers: OpaquePointer?, _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Void
) {
    guard unsafe headers != nil else { return }
    var index = 0
    var name: UnsafePointer<CChar>?
    var value: UnsafeRawPointer?
    var size = 0
    while unsafe rd_kafka_header_get_all(headers, index, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR {
        unsafe body(
            UnsafeRawBufferPointer(start: name, count: name.map { unsafe strlen($0) } ?? 0),
            UnsafeRawBufferPointer(start: value, count: value == nil ? 0 : size))
        index += 1
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
