/// An app as records name it: writers hold a list of them, and contents refer to it by place.
package struct RecordApp: Sendable {
    package var name: String
    package var environment: PushEnvironment

    package init(name: String, environment: PushEnvironment) {
        self.name = name
        self.environment = environment
    }
}

/// One notification as the machine lends it to the writers of results, dead tokens and retry records. Owns nothing.
package struct NotificationContent {
    /// Key of its records. Lower-case hex; the channel id when `isBroadcast`; a token that is not hex as written, cut
    /// at `DeviceToken.textLimit` bytes.
    package var token: UnsafeRawBufferPointer
    package var isBroadcast: Bool
    /// A topic that is empty: none could be told.
    package var headers: NotificationHeaders
    /// Place in the writers' list of apps; -1: no app could be told.
    package var app: Int
    /// What goes to Apple; needed for retry records only.
    package var payload: UnsafeRawBufferPointer
    /// The original request, also of a notification read from a retry topic.
    package var request: RequestPlace
    /// As in `ParsedRequest.key`. Results leave it out when it is the token (in either case), and cut it at
    /// `RecordLimits.key` bytes when it is escaped.
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

/// How a notification ended: the rest of its result.
package struct Ending {
    package var outcome: Outcome
    /// The HTTP status; 0: Apple did not answer, and the result has none.
    package var status: UInt16
    /// `.other`: see `reasonText`.
    package var reason: ReasonCode
    /// A reason not known by name, as Apple wrote it; lent.
    package var reasonText: UnsafeRawBufferPointer
    package var detail: Detail
    /// `apns-unique-id` of the answer; empty: none.
    package var uniqueID: UnsafeRawBufferPointer
    /// 0: none.
    package var unregisteredAtMs: Int64
    package var attempts: Int32
    package var inDoubt: Int32
    /// When it was last handed to a connection; 0: never, and the result has none.
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

/// What a notification says to Apple beside its payload and its target: one value from the parser to the connection,
/// and to the retry record.
///
/// Plain data that owns nothing. Its texts are lent: they are where the request's record is, and from then on, until
/// the notification is settled, in the record's block (`copied`).
package struct NotificationHeaders {
    /// `apns-topic`. Empty: none was given, and the app's is meant; for a broadcast the bundle id of the path.
    package var topic: UnsafeRawBufferPointer
    package var texts: HeaderTexts
    /// `apns-expiration` in seconds since the epoch; `nil`: not sent. A past one is not looked at by the parser.
    package var expiration: UInt32?
    /// With its default when none was given.
    package var pushType: PushType
    /// `apns-priority`; 0: not sent. Background notifications without one have 5 here.
    package var priority: UInt8
    /// `apns-id`. `.none`: the producer gave none; of a request: Apple makes one; of a record: there is none (refused
    /// before it had one, or left to Apple and not answered).
    package var apnsID: NotificationUUID

    @inlinable package init(
        topic: UnsafeRawBufferPointer = .nothing, pushType: PushType = .alert, priority: UInt8 = 0,
        expiration: UInt32? = nil, apnsID: NotificationUUID = .none, texts: HeaderTexts = HeaderTexts()
    ) {
        self.topic = topic
        self.texts = texts
        self.expiration = expiration
        self.pushType = pushType
        self.priority = priority
        self.apnsID = apnsID
    }

    /// Bytes that `copied` writes.
    @inlinable package var byteCount: Int {
        var count = topic.count
        for header in texts.present { count &+= texts[header].count }
        return count
    }

    /// The same with its texts at `next`, one after the other, where there is room for `byteCount` bytes; `next` is
    /// moved behind them.
    @inlinable package func copied(to next: inout UnsafeMutableRawPointer) -> NotificationHeaders {
        var headers = self
        headers.topic = Self.copy(topic, &next)
        headers.texts = HeaderTexts()
        for header in texts.present { headers.texts[header] = Self.copy(texts[header], &next) }
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
