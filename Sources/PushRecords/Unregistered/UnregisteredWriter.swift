import JSON

/// A writer of records of unregistered tokens (`apns.unregistered`) of at most `RecordLimits.unregistered` bytes. It
/// reuses its buffers and is not thread-safe.
package struct UnregisteredWriter: ~Copyable {
    private let apps: AppParts
    private var json = JSONWriter(capacity: 1_024)

    package init(apps: [RecordApp]) {
        self.apps = AppParts(apps)
    }

    /// Writes the record for the dead token of a notification, without headers. The record is valid until the next
    /// `write`. The record's `observed_at_ms` is the ending's `settledAtMs`.
    package mutating func write(_ content: borrowing NotificationContent, _ ending: borrowing Ending) -> EncodedRecord {
        json.removeAll()
        json.out.append("{\"device_token\":\"")
        json.text(content.token, limit: RecordLimits.deviceToken)
        json.out.append("\"")
        finish(
            topic: content.headers.topic, app: content.app, reason: ending.reasonBytes,
            unregisteredAtMs: ending.unregisteredAtMs, observedAtMs: ending.settledAtMs)
        return EncodedRecord(
            key: content.token.cut(RecordLimits.deviceToken), value: json.bytes,
            headers: UnsafeBufferPointer(start: nil, count: 0))
    }

    /// Writes the record for a token that the feedback service returned, without headers. The record is valid until the
    /// next `write`.
    ///
    /// - Parameters:
    ///   - token: The token's bytes. Bytes after the first 100 are omitted.
    ///   - app: The app's index in the writer's list of apps.
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
        finish(
            topic: topic, app: app, reason: ("Feedback" as StaticString).lentBytes, unregisteredAtMs: unregisteredAtMs,
            observedAtMs: observedAtMs)
        return EncodedRecord(
            key: json.out.bytes(from: start, to: end), value: json.bytes,
            headers: UnsafeBufferPointer(start: nil, count: 0))
    }

    private mutating func finish(
        topic: UnsafeRawBufferPointer, app: Int, reason: UnsafeRawBufferPointer, unregisteredAtMs: Int64,
        observedAtMs: Int64
    ) {
        json.string(",\"apns_topic\":\"", topic, limit: RecordLimits.topicText)
        json.out.append(bytes: apps.members(app))
        json.string(",\"reason\":\"", reason, limit: RecordLimits.reason)
        json.number(",\"unregistered_at_ms\":", unregisteredAtMs)
        json.out.append(",\"observed_at_ms\":")
        json.out.append(integer: observedAtMs)
        json.out.append("}")
    }
}

extension ByteWriter {
    /// Appends a byte as two lower-case hex digits.
    fileprivate mutating func append(hex byte: UInt8) {
        append(byte: Self.digit(byte >> 4))
        append(byte: Self.digit(byte & 0xF))
    }

    private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }
}
