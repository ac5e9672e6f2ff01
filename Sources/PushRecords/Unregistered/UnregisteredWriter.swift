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
    /// `settledAtMs` as the time it was observed. No headers. Lent until the next `write`.
    package mutating func write(_ content: borrowing NotificationContent, _ ending: borrowing Ending) -> EncodedRecord {
        json.removeAll()
        json.out.append("{\"device_token\":")
        json.stringOrNull(content.token, limit: RecordLimits.deviceToken)
        json.out.append(",\"apns_topic\":")
        json.stringOrNull(content.headers.topic, limit: RecordLimits.topicText)
        json.out.append(",")
        json.out.append(bytes: apps.members(content.app))
        json.out.append(",\"reason\":")
        json.stringOrNull(ending.reasonBytes, limit: RecordLimits.reason)
        json.out.append(",\"unregistered_at_ms\":")
        json.numberOrNull(ending.unregisteredAtMs)
        json.out.append(",\"observed_at_ms\":")
        json.out.append(integer: ending.settledAtMs)
        json.out.append("}")
        return EncodedRecord(
            key: content.token.cut(RecordLimits.deviceToken), value: json.bytes,
            headers: UnsafeBufferPointer(start: nil, count: 0))
    }
}
