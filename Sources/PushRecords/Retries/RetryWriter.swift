import JSON

/// The data that a retry record contains in addition to the notification, such as the attempt and the due time.
package struct RetryOrder {
    /// The number of stays in a retry topic, including the stay that this record begins. Deferrals are not counted.
    package var attempt: Int32
    package var dueMs: Int64
    /// The earliest time to send the notification, in seconds since the epoch, or 0 if it is not scheduled.
    package var notBefore: UInt32
    /// The reason for the retry: Apple's reason in the last answer, `held`, `scheduled`, or empty if there is none.
    /// Borrowed.
    package var reason: UnsafeRawBufferPointer
    package var sends: Int32
    package var inDoubt: Int32
    /// The name of the app in whose environment APNs already rejected the token, or empty. Borrowed.
    package var triedApp: UnsafeRawBufferPointer

    /// The value of `reason` for a deferred notification, unless it is deferred until its scheduled time.
    package static let held: StaticString = "held"
    /// The value of `reason` for a notification that is deferred until its scheduled time.
    package static let scheduled: StaticString = "scheduled"

    package init(
        attempt: Int32, dueMs: Int64, notBefore: UInt32 = 0, reason: UnsafeRawBufferPointer, sends: Int32,
        inDoubt: Int32, triedApp: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) {
        self.attempt = attempt
        self.dueMs = dueMs
        self.notBefore = notBefore
        self.reason = reason
        self.sends = sends
        self.inDoubt = inDoubt
        self.triedApp = triedApp
    }
}

/// A writer of retry records (`apns.retry.<delay>`) in payload form, with all headers of the notification and
/// `push-retry-*`. A retry record is at most `RecordLimits.retryGrowth` bytes larger than the request record. The
/// writer reuses its buffers and is not thread-safe.
package struct RetryWriter: ~Copyable {
    private let apps: AppParts
    /// The id of the consumer group whose workers send the notifications again.
    private var group = ByteWriter(capacity: RecordLimits.kafkaTopic)
    private var text = HeaderText()
    private var headers = RecordHeaderList()

    private static let groupHeader: StaticString = "push-retry-group"

    /// Returns the value of `push-retry-group`, the consumer group whose workers retry the record. Workers of other
    /// groups skip the record. Returns `nil` if the header is missing, as in records of older workers.
    package static func group(in headers: [RecordHeader]) -> UnsafeRawBufferPointer? {
        headers.first { groupHeader.spells($0.name) }?.value
    }

    package init(apps: [RecordApp], group id: String = "") {
        self.apps = AppParts(apps)
        var id = id
        id.withUTF8 { group.append(bytes: UnsafeRawBufferPointer($0).cut(RecordLimits.kafkaTopic)) }
    }

    /// Writes the retry record of a notification. The record is valid until the next `write`, and its value is the
    /// payload.
    package mutating func write(_ content: borrowing NotificationContent, _ order: borrowing RetryOrder)
        -> EncodedRecord
    {
        headers.removeAll()
        text.removeAll()
        headers.append(content.headers, &text)
        if content.isBroadcast {
            headers.append("apns-channel-id", content.token)
        } else if !RequestParser.isTokenKey(content.token) {
            headers.append("push-device-token", content.token)
        }
        if content.app >= 0 {
            headers.append("push-app", apps.name(content.app))
            headers.append("push-environment", apps.environment(content.app).text.lentBytes)
        }
        if order.notBefore > 0 { headers.append("push-not-before", text.add(Int64(order.notBefore))) }
        headers.append("push-retry-request", text.add(content.request))
        headers.append("push-retry-attempt", text.add(Int64(min(order.attempt, RecordLimits.count))))
        headers.append("push-retry-due-ms", text.add(RecordTime.checked(order.dueMs)))
        headers.append("push-retry-first-ms", text.add(RecordTime.checked(content.requestedAtMs)))
        let keyIsToken = content.requestKey.isSameToken(content.token)
        if !keyIsToken, content.requestKey.baseAddress != nil {
            headers.append("push-retry-key", content.requestKey.cutText(RecordLimits.key))
        }
        if order.reason.count > 0 {
            headers.append("push-retry-reason", order.reason.cutText(RecordLimits.reason))
        }
        headers.append("push-retry-sends", text.add(Int64(min(order.sends, RecordLimits.count))))
        headers.append("push-retry-in-doubt", text.add(Int64(min(order.inDoubt, RecordLimits.count))))
        if order.triedApp.count > 0 { headers.append("push-retry-tried", order.triedApp.cut(RecordLimits.app)) }
        if group.count > 0 { headers.append(Self.groupHeader, group.bytes(from: 0, to: group.count)) }
        headers.append(contentsOf: content.copiedHeaders)
        let recordKey = content.isBroadcast ? content.token.cut(RecordLimits.broadcastKey) : content.token
        return EncodedRecord(key: recordKey, value: content.payload, headers: headers.list)
    }
}

/// The validated `push-retry-*` headers of a retry record. Counts are at most `RecordLimits.count`, times are in the
/// range of `RecordTime.checked`, and the index is below `RequestParser.tokenLimit`. The texts are borrowed.
package struct RetryFields {
    package var request: RequestPlace
    /// The number of stays in a retry topic, including the stay of this record. Deferrals are not counted.
    package var attempt: Int32
    /// The time at which the retry is due. `RecordTime.unknown` means now.
    package var dueMs: Int64
    /// The original record's timestamp, which may be `RecordTime.unknown`.
    package var firstMs: Int64
    /// The reason for the retry, or empty if the header is missing. Borrowed.
    package var reason: UnsafeRawBufferPointer
    /// The number of sends by all workers so far, of which `inDoubt` are in doubt.
    package var sends: Int32
    package var inDoubt: Int32
    /// The name of the app in whose environment APNs already rejected the token, or empty. Borrowed.
    package var triedApp: UnsafeRawBufferPointer
}

extension RetryFields {
    /// Returns `nil` if `push-retry-request`, `push-retry-attempt`, `push-retry-due-ms` or `push-retry-first-ms` is
    /// missing, a value is invalid, or the index is not below `RequestParser.tokenLimit`.
    init?(_ fields: borrowing RequestParser.ValueTable<HeaderName>) {
        func count(_ name: HeaderName, or absent: Int32? = nil) -> Int32? {
            guard let value = fields[name] else { return absent }
            guard let number = HeaderCheck.unsigned(value) else { return nil }
            return Int32(min(number, Int64(RecordLimits.count)))
        }
        func time(_ name: HeaderName) -> Int64? {
            guard let value = fields[name] else { return nil }
            // A request without a timestamp has -1 as its timestamp, so allow a sign.
            let isNegative = value.first == UInt8(ascii: "-")
            let digits = isNegative ? value.part(1, value.count) : value
            guard let number = HeaderCheck.unsigned(digits) else { return nil }
            return isNegative ? RecordTime.unknown : RecordTime.checked(number)
        }
        guard let place = fields[.retryRequest], let request = RequestPlace(text: place),
            request.index < Int32(RequestParser.tokenLimit),
            let attempt = count(.retryAttempt), let dueMs = time(.retryDue), let firstMs = time(.retryFirst),
            let sends = count(.retrySends, or: 0), let inDoubt = count(.retryInDoubt, or: 0)
        else { return nil }
        self.init(
            request: request, attempt: attempt, dueMs: dueMs, firstMs: firstMs,
            reason: (fields[.retryReason] ?? .nothing).cutText(RecordLimits.reason), sends: sends, inDoubt: inDoubt,
            triedApp: (fields[.retryTried] ?? .nothing).cut(RecordLimits.app + 1))
    }
}
