/// One notification, to be asked for by a record on a request topic: for one device, for many, or for a channel.
///
/// ```swift
/// var news = PushNotification(AlertPayload(title: "News", body: "It rains"), topic: .bundleID("com.example.shop"))
/// news.collapseID = "weather"
/// news.expiration = .at(secondsSinceEpoch: 1_790_000_000)
/// let record = try news.payloadRecord(to: DeviceToken(hex: token))
/// try producer.produce("apns.requests", key: record.key, value: record.value, headers: record.headers)
/// ```
///
/// Its push type is its payload's, and what Apple refuses for a push type does not compile: a background notification
/// with priority 10, a collapse id where nothing is shown, a broadcast that starts a Live Activity. A payload in JSON
/// may be anything (`init(json:pushType:topic:)`).
///
/// Nothing else is checked before a record is made of it; then everything is that can be without the worker's
/// configuration, by the rules of the worker. (Whether the topic belongs to an app, whether the expiration has passed,
/// and how far ahead it may be sent, only the worker can tell; it says so in the result.)
public struct PushNotification<Payload: PushPayload>: Hashable, Sendable {
    /// What it says. Source: "Generating a remote notification".
    public var payload: Payload
    /// Which app it is for; `nil`: made by the worker of its app's bundle id and the push type's suffix, when it has
    /// one only (`apns-topic`).
    public var topic: PushTopic?
    /// `nil`: Apple's default, `immediate` (the worker's for `background`: `powerConsiderate`) (`apns-priority`).
    public var priority: Payload.Priority?
    /// Until when APNs keeps it (`apns-expiration`); at first what its payload's type says.
    public var expiration: PushExpiration
    /// The worker sends it then, and not before; `nil`, or in the past: at once. At most 4294967295 seconds since 1970,
    /// no further ahead than the worker's `delivery.max_ahead` (a week), and before `expiration`, where that is a time
    /// (`push-not-before`).
    public var notBefore: UnixTime?
    /// Sent as it is, also with every repetition; `nil`: the worker derives one from the record's place. Not for
    /// several devices (`apns-id`).
    public var apnsID: NotificationUUID?
    /// Name of an app of the worker's configuration; needed only where the topic does not tell.
    public var app: String?
    /// Needed only where an app is configured for both.
    public var environment: PushEnvironment?

    /// The property of payloads that may have one.
    private var collapse: String?

    /// A notification with a payload.
    public init(_ payload: Payload, topic: PushTopic? = nil) {
        self.payload = payload
        self.topic = topic
        expiration = Payload.defaultExpiration
    }

    /// What kind of notification it is (`apns-push-type`): its payload says it.
    public var pushType: PushType { payload.pushType }
}

extension PushNotification where Payload: CollapsiblePayload {
    /// Notifications with the same one (1 to 64 bytes of printable ASCII) are shown as one, the newest
    /// (`apns-collapse-id`).
    public var collapseID: String? {
        get { collapse }
        set { collapse = newValue }
    }
}

extension PushNotification where Payload == RawPayload {
    /// A notification with a payload in JSON.
    public init(json payload: some Collection<UInt8>, pushType: PushType = .alert, topic: PushTopic? = nil) {
        self.init(RawPayload(payload, pushType: pushType), topic: topic)
    }

    /// A notification with a payload in JSON.
    public init(json payload: String, pushType: PushType = .alert, topic: PushTopic? = nil) {
        self.init(json: payload.utf8, pushType: pushType, topic: topic)
    }
}

extension PushNotification {
    /// The same with its payload as JSON, made once: where many records have one payload, or one list many kinds of
    /// notifications. Throws what is wrong with the payload.
    public func encoded() throws(RequestError) -> PushNotification<RawPayload> {
        var notification = PushNotification<RawPayload>(
            RawPayload(try payload.json(), pushType: pushType), topic: topic)
        notification.priority = priority?.priority
        notification.expiration = expiration
        notification.notBefore = notBefore
        notification.apnsID = apnsID
        notification.app = app
        notification.environment = environment
        for header in TextHeader.allCases { notification[header] = self[header] }
        return notification
    }

    /// The value of one of Apple's text headers; the compiler asks for the property of each.
    package subscript(header: TextHeader) -> String? {
        get {
            switch header {
            case .collapseID: collapse
            }
        }
        set {
            switch header {
            case .collapseID: collapse = newValue
            }
        }
    }
}

extension PushType {
    /// What the topic has behind the bundle id; `nil`: nothing. (`mdm` has a topic of its own kind; a broadcast's topic
    /// never has a suffix.)
    ///
    /// Source: "Sending notification requests to APNs", apns-push-type.
    public var topicSuffix: String? { suffix?.description }
}

extension NotificationUUID {
    /// A random one (version 4).
    public static func random() -> NotificationUUID {
        var generator = SystemRandomNumberGenerator()
        return random(using: &generator)
    }

    /// A random one (version 4).
    public static func random(using generator: inout some RandomNumberGenerator) -> NotificationUUID {
        NotificationUUID(
            high: generator.next() & ~0xF000 | 0x4000,
            low: generator.next() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000)
    }
}

/// Which app a notification is for (`apns-topic`).
///
/// Source: "Sending notification requests to APNs", apns-topic and "Know when to use push types".
public enum PushTopic: Hashable, Sendable {
    /// The app's bundle id. What the push type wants behind it (`PushType.topicSuffix`) is added unless it is there
    /// already; of a broadcast nothing is.
    case bundleID(String)
    /// As it is: of `mdm` the UID in the subject of the MDM push certificate.
    case exactly(String)

    /// What goes to Apple.
    func text(_ pushType: PushType, isBroadcast: Bool) -> String {
        switch self {
        case .exactly(let topic): return topic
        case .bundleID(let id):
            guard !isBroadcast, let suffix = pushType.topicSuffix, !id.hasSuffix(suffix) else { return id }
            return id + suffix
        }
    }
}

/// Until when APNs keeps a notification for a device that cannot be reached (`apns-expiration`).
///
/// Source: "Sending notification requests to APNs", apns-expiration.
public enum PushExpiration: Hashable, Sendable {
    /// No `apns-expiration` is sent: APNs keeps it by its own policy, for 30 days at most. (It may be gone at any
    /// time.)
    case appleDefault
    /// Tried once, not kept. The worker tries at most 30 seconds.
    case nowOrNever
    /// Kept until then; 1 to 4294967295 seconds since 1970 (UTC).
    case at(secondsSinceEpoch: Int64)
}
