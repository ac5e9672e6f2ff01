/// A notification for one device, for several devices, or for a broadcast channel.
///
/// ```swift
/// var news = PushNotification(AlertPayload(title: "News", body: "It rains"), topic: .bundleID("com.example.shop"))
/// news.collapseID = "weather"
/// news.expiration = .at(secondsSinceEpoch: 1_790_000_000)
/// let record = try news.payloadRecord(to: DeviceToken(hex: token))
/// try producer.produce("apns.requests", key: record.key, value: record.value, headers: record.headers)
/// ```
///
/// The payload determines the push type. Many mistakes that Apple rejects do not compile, such as a background
/// notification with priority 10, a collapse id for a notification that is not shown, or a broadcast that starts a Live
/// Activity. `init(json:pushType:topic:)` accepts any JSON.
///
/// Creating a record validates everything else by the worker's rules, except what depends on the worker's configuration
/// or clock. The worker reports the remaining errors in the result: a topic that belongs to no app, an expiration that
/// has passed, a `notBefore` that is too far ahead.
public struct PushNotification<Payload: PushPayload>: Hashable, Sendable {
    /// The payload, whose type determines the push type and the allowed headers.
    public var payload: Payload
    /// The topic (`apns-topic`). If `nil`, the worker derives it from the app's bundle id and the push type, provided
    /// that the app has only one bundle id.
    public var topic: PushTopic?
    /// The delivery priority (`apns-priority`). `nil` means `powerConsiderate` for `background`, else `immediate`.
    public var priority: Payload.Priority?
    /// The time until which APNs stores the notification (`apns-expiration`). The payload type sets the default.
    public var expiration: PushExpiration
    /// The earliest time to send the notification (`push-not-before`). `nil` or a past time means now.
    ///
    /// The limit is 4294967295 seconds since 1970. The time must also be within the worker's `delivery.max_ahead` (a
    /// week by default), and before the `expiration` if that is a time.
    public var notBefore: UnixTime?
    /// The notification's id (`apns-id`), which stays the same when the worker resends the notification. If `nil`, the
    /// worker derives an id from the topic, partition, offset and index of the request. The id must be `nil` if the
    /// notification is sent to several devices.
    public var apnsID: NotificationUUID?
    /// The name of an app in the worker's configuration. The worker needs the name only if the topic does not identify
    /// the app.
    public var app: String?
    /// The environment of the app. The worker needs it only if the app is configured for both production and
    /// development.
    public var environment: PushEnvironment?

    /// The storage of `collapseID`, which only collapsible payloads expose.
    var collapse: String?

    /// Creates a notification with a payload, and with defaults for all other properties.
    public init(_ payload: Payload, topic: PushTopic? = nil) {
        self.payload = payload
        self.topic = topic
        expiration = Payload.defaultExpiration
    }

    /// The payload's push type (`apns-push-type`).
    public var pushType: PushType { payload.pushType }
}

extension PushNotification where Payload: CollapsiblePayload {
    /// The id that groups notifications (`apns-collapse-id`): 1 to 64 bytes of printable ASCII. The device shows only
    /// the newest notification with the same id.
    public var collapseID: String? {
        get { collapse }
        set { collapse = newValue }
    }
}

extension PushNotification where Payload == RawPayload {
    /// Creates a notification whose payload is JSON.
    public init(json payload: some Collection<UInt8>, pushType: PushType = .alert, topic: PushTopic? = nil) {
        self.init(RawPayload(payload, pushType: pushType), topic: topic)
    }

    /// Creates a notification whose payload is JSON.
    public init(json payload: String, pushType: PushType = .alert, topic: PushTopic? = nil) {
        self.init(json: payload.utf8, pushType: pushType, topic: topic)
    }
}

extension PushNotification {
    /// Returns this notification with its payload encoded as JSON.
    ///
    /// Use this method to encode a payload once for many records, or to mix payload types in one list. Throws the
    /// errors of the payload's `json()`.
    public func encoded() throws(RequestError) -> PushNotification<RawPayload> {
        var notification = PushNotification<RawPayload>(
            RawPayload(try payload.json(), pushType: pushType), topic: topic)
        notification.priority = priority?.priority
        notification.expiration = expiration
        notification.notBefore = notBefore
        notification.apnsID = apnsID
        notification.app = app
        notification.environment = environment
        notification.collapse = collapse
        return notification
    }
}

extension PushType {
    /// The suffix of the topic after the bundle id, or `nil` if the push type has no suffix. The topic of `mdm` is not
    /// a bundle id. The topic of a broadcast never has a suffix.
    ///
    /// Source: "Sending notification requests to APNs", apns-push-type.
    public var topicSuffix: String? { suffix?.description }
}

extension NotificationUUID {
    /// Returns a random id (UUID version 4).
    public static func random() -> NotificationUUID {
        var generator = SystemRandomNumberGenerator()
        return random(using: &generator)
    }

    /// Returns a random id (UUID version 4).
    public static func random(using generator: inout some RandomNumberGenerator) -> NotificationUUID {
        NotificationUUID(
            high: generator.next() & ~0xF000 | 0x4000,
            low: generator.next() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000)
    }
}

/// The topic of a notification (`apns-topic`), which identifies the app.
///
/// Source: "Sending notification requests to APNs", apns-topic and "Know when to use push types".
public enum PushTopic: Hashable, Sendable {
    /// The app's bundle id. The library appends `PushType.topicSuffix`, unless the id already ends with it or the
    /// notification is a broadcast.
    case bundleID(String)
    /// The complete topic, to which nothing is appended. For `mdm` it is the UID in the subject of the MDM certificate.
    case exactly(String)

    /// Returns the value of the `apns-topic` header.
    func text(_ pushType: PushType, isBroadcast: Bool) -> String {
        switch self {
        case .exactly(let topic): return topic
        case .bundleID(let id):
            guard !isBroadcast, let suffix = pushType.topicSuffix, !id.hasSuffix(suffix) else { return id }
            return id + suffix
        }
    }
}

/// The time for which APNs stores a notification for a device that is offline (`apns-expiration`).
///
/// Source: "Sending notification requests to APNs", apns-expiration.
public enum PushExpiration: Hashable, Sendable {
    /// Storage for as long as Apple chooses, at most 30 days. No `apns-expiration` is sent.
    case appleDefault
    /// One delivery attempt by APNs, without storing the notification. If APNs did not process a send, the worker
    /// resends the notification until 30 seconds after the later of the record's timestamp and `notBefore`.
    case nowOrNever
    /// Storage until this time, 1 to 4294967295 seconds since 1970 (UTC).
    case at(secondsSinceEpoch: Int64)
}
