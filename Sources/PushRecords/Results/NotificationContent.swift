/// The name and environment of an app, as the writers put them into records. `NotificationContent.app` is the app's
/// index in the list that the writers were created with.
package struct RecordApp: Sendable {
    package var name: String
    package var environment: PushEnvironment

    package init(name: String, environment: PushEnvironment) {
        self.name = name
        self.environment = environment
    }
}

/// One notification: the input of the writers that create results, unregistered tokens and retry records. Its byte
/// ranges are borrowed.
package struct NotificationContent {
    /// The key of the written records: the token in lower-case hex, or the channel id of a broadcast. An invalid token
    /// is as the producer wrote it, truncated at `DeviceToken.textLimit` bytes.
    package var token: UnsafeRawBufferPointer
    package var isBroadcast: Bool
    /// The APNs headers of the notification. `headers.topic` is empty if the topic is unknown.
    package var headers: ParsedRequest.Headers
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
        token: UnsafeRawBufferPointer, isBroadcast: Bool, headers: ParsedRequest.Headers, app: Int,
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

/// The outcome of a notification, and the members of its result that depend on the outcome.
package struct Ending {
    package var outcome: Outcome
    /// The HTTP status of the last answer, or 0 if APNs did not respond.
    package var status: UInt16
    /// The reason for the outcome. For `.other`, `reasonText` contains the text.
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
