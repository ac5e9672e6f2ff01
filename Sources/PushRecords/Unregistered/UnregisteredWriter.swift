import JSON

/// Writes dead tokens (`apns.unregistered`), each of at most `RecordLimits.unregistered` bytes, into buffers it reuses.
/// Not thread-safe.
package struct UnregisteredWriter: ~Copyable {
    private let apps: AppParts
    private var json = JSONWriter(capacity: 1_024)

    package init(apps: [RecordApp]) {
        self.apps = AppParts(apps)
    }

    /// The dead-token record of a notification that ended so; uses the ending's reason and `unregisteredAtMs`, and its
    /// `settledAtMs` as the time it was observed. What there is nothing to say of is left out. No headers. Lent until
    /// the next `write`.
    package mutating func write(_ content: borrowing NotificationContent, _ ending: borrowing Ending) -> EncodedRecord {
        json.removeAll()
        json.out.append("{\"device_token\":\"")
        json.text(content.token, limit: RecordLimits.deviceToken)
        json.out.append("\"")
        json.string(",\"apns_topic\":\"", content.headers.topic, limit: RecordLimits.topicText)
        json.out.append(bytes: apps.members(content.app))
        json.string(",\"reason\":\"", ending.reasonBytes, limit: RecordLimits.reason)
        json.number(",\"unregistered_at_ms\":", ending.unregisteredAtMs)
        json.out.append(",\"observed_at_ms\":")
        json.out.append(integer: ending.settledAtMs)
        json.out.append("}")
        return EncodedRecord(
            key: content.token.cut(RecordLimits.deviceToken), value: json.bytes,
            headers: UnsafeBufferPointer(start: nil, count: 0))
    }

    /// The dead-token record of a token that no notification told of: the feedback service did. No headers. Lent until
    /// the next `write`.
    ///
    /// - Parameters:
    ///   - token: its bytes; at most 100 of them are written.
    ///   - app: its place among the apps.
    package mutating func write(
        feedback token: UnsafeRawBufferPointer, topic: UnsafeRawBufferPointer, app: Int, unregisteredAtMs: Int64,
        observedAtMs: Int64
    ) -> EncodedRecord {
        json.removeAll()
        json.out.append("{\"device_token\":\"")
        let start = json.out.count
        for byte in token.prefix(RecordLimits.deviceToken / 2) { json.out.append(hex: byte) }
        let end = json.out.count
        json.out.append("\"")
        json.string(",\"apns_topic\":\"", topic, limit: RecordLimits.topicText)
        json.out.append(bytes: apps.members(app))
        json.out.append(",\"reason\":\"Feedback\",\"unregistered_at_ms\":")
        json.out.append(integer: unregisteredAtMs)
        json.out.append(",\"observed_at_ms\":")
        json.out.append(integer: observedAtMs)
        json.out.append("}")
        return EncodedRecord(
            key: json.out.bytes(from: start, to: end), value: json.bytes,
            headers: UnsafeBufferPointer(start: nil, count: 0))
    }
}

extension ByteWriter {
    /// Two digits in lower case.
    fileprivate mutating func append(hex byte: UInt8) {
        append(byte: Self.digit(byte >> 4))
        append(byte: Self.digit(byte & 0xF))
    }
    private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }
}
