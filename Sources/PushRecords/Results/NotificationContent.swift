/// An app as records name it. Writers hold a list of apps, and contents refer to one by index.
package struct RecordApp: Sendable {
    package var name: String
    package var environment: PushEnvironment

    package init(name: String, environment: PushEnvironment) {
        self.name = name
        self.environment = environment
    }
}

/// A notification as the writers of results, dead tokens and retry records need it. Owns nothing.
package struct NotificationContent {
    /// Key of its records: the token in lower-case hex, or the channel id when `isBroadcast`. A token that is not hex
    /// is as written, cut at `DeviceToken.textLimit` bytes.
    package var token: UnsafeRawBufferPointer
    package var isBroadcast: Bool
    /// The topic is empty if it is unknown.
    package var headers: NotificationHeaders
    /// Index in the writers' list of apps; -1: unknown.
    package var app: Int
    /// Needed for retry records only.
    package var payload: UnsafeRawBufferPointer
    /// The original request, also of a notification read from a retry topic.
    package var request: RequestPlace
    /// As in `ParsedRequest.key`. Results leave it out when it is the token (in either case), and cut its escaped form
    /// at `RecordLimits.key` bytes.
    package var requestKey: UnsafeRawBufferPointer
    /// Timestamp of the original request record; `RecordTime.unknown` where it has none.
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

/// The outcome of a notification: the rest of its result.
package struct Ending {
    package var outcome: Outcome
    /// The HTTP status; 0: Apple did not answer.
    package var status: UInt16
    /// `.other` has its text in `reasonText`.
    package var reason: ReasonCode
    /// An unknown reason as Apple wrote it; lent.
    package var reasonText: UnsafeRawBufferPointer
    package var detail: Detail
    /// `apns-unique-id` of the answer; empty: none.
    package var uniqueID: UnsafeRawBufferPointer
    /// 0: none.
    package var unregisteredAtMs: Int64
    package var attempts: Int32
    package var inDoubt: Int32
    /// When it was last handed to a connection; 0: never.
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

/// The headers of a notification to Apple: one value from the parser to the connection, and to the retry record.
///
/// Plain data that owns nothing. Its texts are lent from the request's record and, until the notification is settled,
/// from the record's block (`copied`).
package struct NotificationHeaders {
    /// `apns-topic`. Empty: the app's default. For a broadcast the bundle id of the path.
    package var topic: UnsafeRawBufferPointer
    /// `apns-collapse-id`. Empty: not sent.
    package var collapseID: UnsafeRawBufferPointer
    /// `apns-expiration` in seconds since the epoch; `nil`: not sent. The parser accepts past times.
    package var expiration: UInt32?
    /// The default where none was given.
    package var pushType: PushType
    /// `apns-priority`; 0: not sent. Background notifications without one have 5 here.
    package var priority: UInt8
    /// `apns-id`. `.none` in a request: Apple makes one. `.none` in a record: it was refused before it had one, or
    /// Apple did not answer.
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

    /// The same headers with their texts copied to `next`, which has room for `byteCount` bytes and is advanced.
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
