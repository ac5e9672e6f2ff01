import JSON

/// Writes results (`apns.results`) into buffers it reuses: no allocation per result once they have grown.
///
/// Not thread-safe: one writer belongs to one thread.
package struct ResultWriter: ~Copyable {
    /// Most bytes of `request.key`.
    package static let keyLimit = 1_024

    private let apps: AppParts
    private var json = JSONWriter(capacity: 2_048)
    private var text = ByteWriter(capacity: 512)
    private var headers = HeaderList()

    package init(apps: [RecordApp]) {
        self.apps = AppParts(apps)
    }

    /// The result of one notification; lent until the next `write`.
    ///
    /// Headers: `outcome`, `reason` and `apns-id` where there are any, `request`, then the copied ones.
    package mutating func write(_ content: borrowing NotificationContent, _ ending: borrowing Ending) -> EncodedRecord {
        let key =
            content.requestKey.isSameToken(content.token) ? .nothing : content.requestKey.cut(Self.keyLimit)
        let reason = ending.reasonBytes
        // Nothing moves below: 6 bytes for each that may be escaped, and what is fixed.
        json.removeAll()
        json.out.reserve(
            1_024 + content.request.topic.count
                + 6 * (content.token.count + content.topic.count + ending.uniqueID.count + reason.count + key.count))
        text.removeAll()
        text.reserve(content.request.topic.count + 64)
        headers.removeAll()

        json.out.append("{\"apns_id\":")
        var id = UnsafeRawBufferPointer.nothing
        if content.apnsID == .none {
            json.out.append("null")
        } else {
            json.out.append("\"")
            id = json.out.appendLent(content.apnsID)
            json.out.append("\"")
        }
        json.out.append(",\"apns_unique_id\":")
        json.stringOrNull(ending.uniqueID)
        if content.isBroadcast {
            json.out.append(",\"device_token\":null,\"channel_id\":")
        } else {
            json.out.append(",\"device_token\":")
        }
        json.stringOrNull(content.token)
        json.out.append(",\"apns_topic\":")
        json.stringOrNull(content.topic)
        json.out.append(",")
        json.out.append(bytes: apps.members(content.app))
        json.out.append(",\"outcome\":\"")
        json.out.append(ending.outcome.text)
        json.out.append("\",\"status\":")
        json.numberOrNull(Int64(ending.status))
        json.out.append(",\"reason\":")
        json.stringOrNull(reason)
        json.out.append(",\"detail\":")
        json.detail(ending.detail)
        json.out.append(",\"unregistered_at_ms\":")
        json.numberOrNull(ending.unregisteredAtMs)
        json.out.append(",\"attempts\":")
        json.out.append(integer: Int64(ending.attempts))
        json.out.append(",\"in_doubt\":")
        json.out.append(integer: Int64(ending.inDoubt))
        json.out.append(",\"requested_at_ms\":")
        json.out.append(integer: content.requestedAtMs)
        json.out.append(",\"sent_at_ms\":")
        json.numberOrNull(ending.sentAtMs)
        json.out.append(",\"settled_at_ms\":")
        json.out.append(integer: ending.settledAtMs)
        writeRequest(content.request, key)

        headers.append("outcome", ending.outcome.text.lentBytes)
        if reason.count > 0 { headers.append("reason", reason) }
        if id.count > 0 { headers.append("apns-id", id) }
        text.append(content.request)
        headers.append("request", text.bytes)
        headers.append(contentsOf: content.copiedHeaders)
        return EncodedRecord(key: content.token, value: json.bytes, headers: headers.list)
    }

    private mutating func writeRequest(_ request: borrowing RequestPlace, _ key: UnsafeRawBufferPointer) {
        json.out.append(",\"request\":{\"topic\":\"")
        json.out.append(bytes: request.topic)
        json.out.append("\",\"partition\":")
        json.out.append(integer: Int64(request.partition))
        json.out.append(",\"offset\":")
        json.out.append(integer: request.offset)
        json.out.append(",\"index\":")
        json.out.append(integer: Int64(request.index))
        if key.count > 0 {
            json.out.append(",\"key\":\"")
            json.escaped(key)
            json.out.append("\"}}")
        } else {
            json.out.append("}}")
        }
    }
}
