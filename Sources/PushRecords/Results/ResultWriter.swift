import JSON

/// A writer of results (`apns.results`) of at most `RecordLimits.result` bytes, including key and headers. It reuses
/// its buffers, so that a result needs no allocation.
///
/// Not thread-safe.
package struct ResultWriter: ~Copyable {
    private let apps: AppParts
    private var json = JSONWriter(capacity: RecordLimits.result)
    private var headers = RecordHeaderList()

    package init(apps: [RecordApp]) {
        self.apps = AppParts(apps)
    }

    /// Writes the result of one notification. The result is valid until the next `write`. Absent values are omitted.
    ///
    /// The record's headers are `outcome`, `reason` if there is one, then the headers copied from the request.
    package mutating func write(_ content: borrowing NotificationContent, _ ending: borrowing Ending) -> EncodedRecord {
        let key: UnsafeRawBufferPointer =
            content.requestKey.isSameToken(content.token) ? .nothing : content.requestKey
        let reason = ending.reasonBytes
        json.removeAll()
        headers.removeAll()

        // Write `outcome` first: every result has it, so each other member can begin with a comma.
        json.out.append("{\"outcome\":\"")
        json.out.append(ending.outcome.text)
        json.out.append("\"")
        json.number(",\"status\":", Int64(ending.status))
        json.string(",\"reason\":\"", reason, limit: RecordLimits.reason)
        if !ending.detail.isEmpty {
            json.out.append(",\"detail\":\"")
            json.detail(ending.detail)
            json.out.append("\"")
        }
        json.number(",\"unregistered_at_ms\":", ending.unregisteredAtMs)
        if content.headers.apnsID != .none {
            json.out.append(",\"apns_id\":\"")
            json.out.append(content.headers.apnsID)
            json.out.append("\"")
        }
        json.string(",\"apns_unique_id\":\"", ending.uniqueID, limit: RecordLimits.uniqueID)
        if content.isBroadcast {
            json.string(",\"channel_id\":\"", content.token, limit: RecordLimits.channelID)
        } else {
            json.string(",\"device_token\":\"", content.token, limit: RecordLimits.deviceToken)
        }
        json.string(",\"apns_topic\":\"", content.headers.topic, limit: RecordLimits.topicText)
        json.out.append(bytes: apps.members(content.app))
        json.out.append(",\"attempts\":")
        json.out.append(integer: Int64(ending.attempts))
        json.out.append(",\"in_doubt\":")
        json.out.append(integer: Int64(ending.inDoubt))
        json.out.append(",\"requested_at_ms\":")
        json.out.append(integer: RecordTime.checked(content.requestedAtMs))
        json.number(",\"sent_at_ms\":", ending.sentAtMs)
        json.out.append(",\"settled_at_ms\":")
        json.out.append(integer: ending.settledAtMs)
        writeRequest(content.request, key)

        headers.append("outcome", ending.outcome.text.lentBytes)
        if reason.count > 0 { headers.append("reason", reason) }
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
        json.string(",\"key\":\"", key, limit: RecordLimits.key)
        json.out.append("}}")
    }
}
