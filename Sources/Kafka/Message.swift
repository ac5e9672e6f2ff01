import CRdkafka
import Glibc

/// A header of a record as lent bytes; a `nil` base address of `value` means null.
@unsafe package struct MessageHeader {
    package var name: UnsafeRawBufferPointer
    package var value: UnsafeRawBufferPointer

    @inlinable package init(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        unsafe self.name = name
        unsafe self.value = value
    }
}

/// A consumed record; its bytes are lent for as long as it lives, and it pins the whole fetch buffer they came in.
@safe package struct Message: ~Copyable {
    private let raw: UnsafeMutablePointer<rd_kafka_message_t>
    /// The event that owns the message; `nil`: we own it.
    private let event: OpaquePointer?

    /// Takes over a message that rd_kafka_consume_batch_queue returned.
    init(adopting raw: UnsafeMutablePointer<rd_kafka_message_t>) {
        unsafe self.raw = raw
        unsafe event = nil
    }

    /// Takes over an event of type FETCH, which holds one message (rdkafka.h, rd_kafka_event_message_next).
    init?(adoptingEvent event: OpaquePointer) {
        guard let raw = unsafe rd_kafka_event_message_next(event) else {
            unsafe rd_kafka_event_destroy(event)
            return nil
        }
        unsafe self.raw = UnsafeMutablePointer(mutating: raw)
        unsafe self.event = event
    }

    deinit { unsafe Self.destroy(raw, event) }

    fileprivate static func destroy(_ raw: UnsafeMutablePointer<rd_kafka_message_t>, _ event: OpaquePointer?) {
        if let event = unsafe event {
            unsafe rd_kafka_event_destroy(event)
        } else {
            unsafe rd_kafka_message_destroy(raw)
        }
    }

    fileprivate init(_ raw: UnsafeMutablePointer<rd_kafka_message_t>, _ event: OpaquePointer?) {
        unsafe self.raw = raw
        unsafe self.event = event
    }

    /// Puts the message where it can wait for another reader.
    consuming func keep() -> KeptRecord {
        let kept = unsafe KeptRecord(raw, event)
        discard self
        return kept
    }

    /// `nil` for a record; else what librdkafka says in the place of one.
    var problem: KafkaError? {
        guard unsafe raw.pointee.err != RD_KAFKA_RESP_ERR_NO_ERROR else { return nil }
        return unsafe KafkaError(KafkaCode(raw.pointee.err), String(cString: rd_kafka_message_errstr(raw)))
    }

    /// Whether it stands for a record (and not for a `problem`).
    var isRecord: Bool { unsafe raw.pointee.err == RD_KAFKA_RESP_ERR_NO_ERROR }

    package var offset: Int64 { unsafe raw.pointee.offset }

    package var partition: Int32 { unsafe raw.pointee.partition }

    /// The topic's handle, which stays its owner's.
    var topic: OpaquePointer { unsafe raw.pointee.rkt }

    /// The record's timestamp, in milliseconds since the epoch; -1: it has none.
    package var timestampMs: Int64 { unsafe rd_kafka_message_timestamp(raw, nil) }

    /// A `nil` base address means null.
    package var key: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: raw.pointee.key, count: raw.pointee.key_len)
    }

    /// A `nil` base address means null (a tombstone).
    package var value: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: raw.pointee.payload, count: raw.pointee.len)
    }

    /// Whether librdkafka cannot read the record's headers (more than 100,000 of them, or damaged): then
    /// `forEachHeader` finds none.
    package var hasUnreadableHeaders: Bool {
        var headers: OpaquePointer?
        let code = unsafe rd_kafka_message_headers(raw, &headers)
        return code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR__NOENT
    }

    /// Calls `body` with name and value of each header, in the record's order; the bytes are lent like the message's.
    package func forEachHeader(_ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Void) {
        var headers: OpaquePointer?
        // Parsed and copied by librdkafka on first access; owned by the message (rdkafka.h).
        guard unsafe rd_kafka_message_headers(raw, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR else { return }
        unsafe forEach(in: headers, body)
    }
}

/// A message that waits outside librdkafka's queues; a box, as arrays hold no non-copyable values yet.
@safe final class KeptRecord {
    private var raw: UnsafeMutablePointer<rd_kafka_message_t>?
    private let event: OpaquePointer?

    fileprivate init(_ raw: UnsafeMutablePointer<rd_kafka_message_t>, _ event: OpaquePointer?) {
        unsafe self.raw = raw
        unsafe self.event = event
    }

    deinit { if let raw = unsafe raw { unsafe Message.destroy(raw, event) } }

    /// The message; once.
    func take() -> Message {
        guard let raw = unsafe raw else { preconditionFailure("a kept record is taken once") }
        unsafe self.raw = nil
        return unsafe Message(raw, event)
    }
}

/// Calls `body` with each header of a list that stays its owner's; `nil`: there is none.
func forEach(
    in headers: OpaquePointer?, _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Void
) {
    // librdkafka looks into what it is given.
    guard unsafe headers != nil else { return }
    var index = 0
    var name: UnsafePointer<CChar>?
    var value: UnsafeRawPointer?
    var size = 0
    while unsafe rd_kafka_header_get_all(headers, index, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR {
        // The name ends with a NUL, the value is as long as it says.
        unsafe body(
            UnsafeRawBufferPointer(start: name, count: name.map { unsafe strlen($0) } ?? 0),
            UnsafeRawBufferPointer(start: value, count: value == nil ? 0 : size))
        index += 1
    }
}
