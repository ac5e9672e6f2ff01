import JSON

/// Writes results (`apns.results`), each of at most `RecordLimits.result` bytes with key and headers, into buffers it
/// reuses: no allocation per result.
///
/// Not thread-safe: one writer belongs to one thread.
package struct ResultWriter: ~Copyable {
    private let apps: AppParts
    private var json = JSONWriter(capacity: RecordLimits.result)
    private var text = HeaderText()
    private var headers = HeaderList()

    package init(apps: [RecordApp]) {
        self.apps = AppParts(apps)
    }

    /// The result of one notification; lent until the next `write`.
    ///
    /// Headers: `outcome`, `reason` and `apns-id` where there are any, `request`, then the copied ones.
    package mutating func write(_ content: borrowing NotificationContent, _ ending: borrowing Ending) -> EncodedRecord {
        let key: UnsafeRawBufferPointer =
            content.requestKey.isSameToken(content.token) ? .nothing : content.requestKey
        let reason = ending.reasonBytes
        json.removeAll()
        text.removeAll()
        headers.removeAll()

        json.out.append("{\"apns_id\":")
        let idStart = json.out.count + 1
        if content.headers.apnsID == .none {
            json.out.append("null")
        } else {
            json.out.append("\"")
            json.out.append(content.headers.apnsID)
            json.out.append("\"")
        }
        json.out.append(",\"apns_unique_id\":")
        json.stringOrNull(ending.uniqueID, limit: RecordLimits.uniqueID)
        if content.isBroadcast {
            json.out.append(",\"device_token\":null,\"channel_id\":")
        } else {
            json.out.append(",\"device_token\":")
        }
        json.stringOrNull(content.token, limit: RecordLimits.deviceToken)
        json.out.append(",\"apns_topic\":")
        json.stringOrNull(content.headers.topic, limit: RecordLimits.topicText)
        json.out.append(",")
        json.out.append(bytes: apps.members(content.app))
        json.out.append(",\"outcome\":\"")
        json.out.append(ending.outcome.text)
        json.out.append("\",\"status\":")
        json.numberOrNull(Int64(ending.status))
        json.out.append(",\"reason\":")
        json.stringOrNull(reason, limit: RecordLimits.reason)
        json.out.append(",\"detail\":")
        json.detail(ending.detail)
        json.out.append(",\"unregistered_at_ms\":")
        json.numberOrNull(ending.unregisteredAtMs)
        json.out.append(",\"attempts\":")
        json.out.append(integer: Int64(ending.attempts))
        json.out.append(",\"in_doubt\":")
        json.out.append(integer: Int64(ending.inDoubt))
        json.out.append(",\"requested_at_ms\":")
        json.out.append(integer: RecordTime.checked(content.requestedAtMs))
        json.out.append(",\"sent_at_ms\":")
        json.numberOrNull(ending.sentAtMs)
        json.out.append(",\"settled_at_ms\":")
        json.out.append(integer: ending.settledAtMs)
        writeRequest(content.request, key)

        headers.append("outcome", ending.outcome.text.lentBytes)
        if reason.count > 0 { headers.append("reason", reason) }
        if content.headers.apnsID != .none {
            // The value is complete: its buffer moves no more.
            headers.append("apns-id", json.out.bytes(from: idStart, to: idStart + NotificationUUID.textCount))
        }
        headers.append("request", text.add(content.request))
        headers.append(contentsOf: content.copiedHeaders)
        return EncodedRecord(
            key: content.token.cut(RecordLimits.deviceToken), value: json.bytes, headers: headers.list)
    }

    private mutating func writeRequest(_ request: borrowing RequestPlace, _ key: UnsafeRawBufferPointer) {
        json.out.append(",\"request\":{\"topic\":\"")
        json.out.append(bytes: request.topic.cut(RecordLimits.kafkaTopic))
        json.out.append("\",\"partition\":")
        json.out.append(integer: Int64(request.partition))
        json.out.append(",\"offset\":")
        json.out.append(integer: request.offset)
        json.out.append(",\"index\":")
        json.out.append(integer: Int64(request.index))
        if key.count > 0 {
            json.out.append(",\"key\":\"")
            json.text(key, limit: RecordLimits.key)
            json.out.append("\"}}")
        } else {
            json.out.append("}}")
        }
    }
}
