import JSON

/// What a retry record says beside its notification.
package struct RetryOrder {
    /// How many attempts were used up, this retry's cause included.
    package var attempt: Int32
    package var dueMs: Int64
    /// A reason's text, or ours (`held`); lent, may be empty.
    package var reason: UnsafeRawBufferPointer
    package var sends: Int32
    package var inDoubt: Int32

    package init(attempt: Int32, dueMs: Int64, reason: UnsafeRawBufferPointer, sends: Int32, inDoubt: Int32) {
        self.attempt = attempt
        self.dueMs = dueMs
        self.reason = reason
        self.sends = sends
        self.inDoubt = inDoubt
    }
}

/// Writes retry records (`apns.retry.<delay>`): payload form, the notification's headers spelled out with the defaults
/// they got, and `push-retry-*`. Reuses its buffers; not thread-safe.
package struct RetryWriter: ~Copyable {
    private let apps: AppParts
    private var text = ByteWriter(capacity: 1_024)
    private var headers = HeaderList()

    package init(apps: [RecordApp]) {
        self.apps = AppParts(apps)
    }

    /// The retry record of a notification; its value is the content's own payload. Lent until the next `write`.
    package mutating func write(_ content: borrowing NotificationContent, _ order: borrowing RetryOrder)
        -> EncodedRecord
    {
        headers.removeAll()
        text.removeAll()
        // Nothing moves below: one topic's name, one id, and at most nine numbers.
        text.reserve(content.request.topic.count + 512)
        if content.topic.count > 0 { headers.append("apns-topic", content.topic) }
        headers.append("apns-push-type", content.pushType.text.lentBytes)
        if content.priority > 0 { headers.append("apns-priority", text.appendLent(Int64(content.priority))) }
        if let expiration = content.expiration {
            headers.append("apns-expiration", text.appendLent(Int64(expiration)))
        }
        if content.collapseID.count > 0 { headers.append("apns-collapse-id", content.collapseID) }
        if content.apnsID != .none { headers.append("apns-id", text.appendLent(content.apnsID)) }
        headers.append(content.isBroadcast ? "apns-channel-id" : "push-device-token", content.token)
        if content.app >= 0 {
            headers.append("push-app", apps.name(content.app))
            headers.append("push-environment", apps.environment(content.app).text.lentBytes)
        }
        let start = text.count
        text.append(content.request)
        headers.append("push-retry-request", text.bytes(from: start, to: text.count))
        headers.append("push-retry-attempt", text.appendLent(Int64(order.attempt)))
        headers.append("push-retry-due-ms", text.appendLent(order.dueMs))
        headers.append("push-retry-first-ms", text.appendLent(content.requestedAtMs))
        let keyIsToken = content.requestKey.isSameToken(content.token)
        if !keyIsToken, content.requestKey.baseAddress != nil { headers.append("push-retry-key", content.requestKey) }
        if order.reason.count > 0 { headers.append("push-retry-reason", order.reason) }
        headers.append("push-retry-sends", text.appendLent(Int64(order.sends)))
        headers.append("push-retry-in-doubt", text.appendLent(Int64(order.inDoubt)))
        headers.append(contentsOf: content.copiedHeaders)
        return EncodedRecord(key: content.token, value: content.payload, headers: headers.list)
    }
}
