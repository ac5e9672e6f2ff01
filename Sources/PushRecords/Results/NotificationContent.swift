/// An app's name and environment in records. `NotificationContent.app` is the app's index in the writers' list.
package struct RecordApp: Sendable {
    package var name: String
    package var environment: PushEnvironment

    package init(name: String, environment: PushEnvironment) {
        self.name = name
        self.environment = environment
    }
}

/// One notification, as the input of the writers of results, unregistered tokens and retry records. Its byte ranges are
/// borrowed.
package struct NotificationContent {
    /// The key of the written records: the token in lower-case hex, or the channel id of a broadcast. An invalid token
    /// is as the producer wrote it, truncated at `DeviceToken.textLimit` bytes.
    package var token: UnsafeRawBufferPointer
    package var isBroadcast: Bool
    /// The APNs headers of the notification. `headers.topic` is empty if the topic is unknown.
    package var headers: NotificationHeaders
    /// The index in the writers' list of apps, or -1 if the app is unknown.
    package var app: Int
    /// The payload, which only retry records contain.
    package var payload: UnsafeRawBufferPointer
    /// The position of the original request, even if the notification was read from a retry topic.
    package var request: RequestPlace
    /// The request's key (`ParsedRequest.key`). Results omit the key if it equals the token, ignoring case.
    package var requestKey: UnsafeRawBufferPointer
    /// The original request record's timestamp, or `RecordTime.unknown`.
    package var requestedAtMs: Int64
    package var copiedHeaders: UnsafeBufferPointer<RecordHeader>

    package init(
        token: UnsafeRawBufferPointer, isBroadcast: Bool, headers: NotificationHeaders, app: Int,
        payload: UnsafeRawBufferPointer, request: RequestPlace, requestKey: UnsafeRawBufferPointer,
        requestedAtMs: Int64, copiedHeaders: UnsafeBufferPointer<RecordHeader>
    ) {
        self.token = token
        self.isBroadcast = isBroadcast
        self.headers = headers
        self.app = app
        self.payload = payload
        self.request = request
        self.requestKey = requestKey
        self.requestedAtMs = requestedAtMs
        self.copiedHeaders = copiedHeaders
    }
}

/// The outcome of a notification, with the related members of its result.
package struct Ending {
    package var outcome: Outcome
    /// The HTTP status of the last answer, or 0 if APNs did not respond.
    package var status: UInt16
    /// The reason of the outcome. For `.other`, the text is in `reasonText`.
    package var reason: ReasonCode
    /// The text of an unknown reason, as APNs wrote it. Borrowed.
    package var reasonText: UnsafeRawBufferPointer
    package var detail: Detail
    /// The response's `apns-unique-id`, or empty if the response has none.
    package var uniqueID: UnsafeRawBufferPointer
    /// The time at which the token became invalid, in milliseconds since the epoch, or 0 if unknown.
    package var unregisteredAtMs: Int64
    package var attempts: Int32
    package var inDoubt: Int32
    /// The time at which the notification was last passed to a connection, in milliseconds since the epoch, or 0 if it
    /// was not passed to any.
    package var sentAtMs: Int64
    package var settledAtMs: Int64

    package init(
        outcome: Outcome, status: UInt16 = 0, reason: ReasonCode = .none,
        reasonText: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0), detail: Detail = .none,
        uniqueID: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0), unregisteredAtMs: Int64 = 0,
        attempts: Int32, inDoubt: Int32, sentAtMs: Int64, settledAtMs: Int64
    ) {
        self.outcome = outcome
        self.status = status
        self.reason = reason
        self.reasonText = reasonText
        self.detail = detail
        self.uniqueID = uniqueID
        self.unregisteredAtMs = unregisteredAtMs
        self.attempts = attempts
        self.inDoubt = inDoubt
        self.sentAtMs = sentAtMs
        self.settledAtMs = settledAtMs
    }
}

/// The APNs headers of a notification. The parser creates them, and connections and retry records contain them.
///
/// The texts are borrowed from the request record. In the value that `copied` returns, they are borrowed from the
/// memory block of the stored record.
package struct NotificationHeaders {
    /// The `apns-topic`, or empty for the app's default. For a broadcast, it is the bundle id in the path of the
    /// request to APNs.
    package var topic: UnsafeRawBufferPointer
    /// The `apns-collapse-id`, or empty for none.
    package var collapseID: UnsafeRawBufferPointer
    /// The `apns-expiration` in seconds since the epoch, or `nil` for none. The parser accepts past times.
    package var expiration: UInt32?
    /// The `apns-push-type`, which the parser sets if the request does not.
    package var pushType: PushType
    /// The `apns-priority`, or 0 for none. The parser sets 5 for background notifications.
    package var priority: UInt8
    /// The `apns-id`. In a request, `.none` means that APNs creates one. In a result, `.none` means that the
    /// notification was rejected before it had an id, or that APNs did not respond.
    package var apnsID: NotificationUUID

    @inlinable package init(
        topic: UnsafeRawBufferPointer = .nothing, pushType: PushType = .alert, priority: UInt8 = 0,
        expiration: UInt32? = nil, apnsID: NotificationUUID = .none, collapseID: UnsafeRawBufferPointer = .nothing
    ) {
        self.topic = topic
        self.collapseID = collapseID
        self.expiration = expiration
        self.pushType = pushType
        self.priority = priority
        self.apnsID = apnsID
    }

    /// The number of bytes that `copied` writes.
    @inlinable package var byteCount: Int { topic.count &+ collapseID.count }

    /// Returns a copy whose texts are stored at `next`, and advances `next` past them. `next` must have space for
    /// `byteCount` bytes.
    @inlinable package func copied(to next: inout UnsafeMutableRawPointer) -> NotificationHeaders {
        var headers = self
        headers.topic = Self.copy(topic, &next)
        headers.collapseID = Self.copy(collapseID, &next)
        return headers
    }

    @inlinable static func copy(
        _ bytes: UnsafeRawBufferPointer, _ next: inout UnsafeMutableRawPointer
    ) -> UnsafeRawBufferPointer {
        guard let source = bytes.baseAddress else { return .nothing }
        next.copyMemory(from: source, byteCount: bytes.count)
        defer { next += bytes.count }
        return UnsafeRawBufferPointer(start: next, count: bytes.count)
    }
}
