/// A notification to request with a record on a request topic: for one device, for many, or for a channel.
///
/// ```swift
/// var news = PushNotification(AlertPayload(title: "News", body: "It rains"), topic: .bundleID("com.example.shop"))
/// news.collapseID = "weather"
/// news.expiration = .at(secondsSinceEpoch: 1_790_000_000)
/// let record = try news.payloadRecord(to: DeviceToken(hex: token))
/// try producer.produce("apns.requests", key: record.key, value: record.value, headers: record.headers)
/// ```
///
/// Its push type is its payload's, and a mistake that Apple refuses for a push type does not compile: a background
/// notification with priority 10, a collapse id where nothing is shown, a broadcast that starts a Live Activity. A
/// payload in JSON may be anything (`init(json:pushType:topic:)`).
///
/// Making a record checks everything else, by the rules of the worker. Exceptions need the worker's configuration or
/// clock, and are reported in the result: whether the topic belongs to an app, whether the expiration has passed, and
/// how far ahead it may be sent.
public struct PushNotification<Payload: PushPayload>: Hashable, Sendable {
    /// The content. Source: "Generating a remote notification".
    public var payload: Payload
    /// The app it is for (`apns-topic`). If `nil`, the worker derives it from its app's bundle id and the push type's
    /// suffix, provided that it has only one.
    public var topic: PushTopic?
    /// When APNs delivers it (`apns-priority`). If `nil`, `immediate`; for `background` `powerConsiderate`.
    public var priority: Payload.Priority?
    /// Until when APNs keeps it (`apns-expiration`). The payload's type sets the default.
    public var expiration: PushExpiration
    /// The worker sends it then, and not before (`push-not-before`). If `nil` or in the past, at once.
    ///
    /// At most 4294967295 seconds since 1970, no further ahead than the worker's `delivery.max_ahead` (a week), and
    /// before an `expiration` that is a time.
    public var notBefore: UnixTime?
    /// The notification's id, the same for every resend (`apns-id`). If `nil`, the worker derives one from the record's
    /// place. Not for several devices.
    public var apnsID: NotificationUUID?
    /// Name of an app of the worker's configuration. Needed only if the topic does not identify it.
    public var app: String?
    /// Needed only if an app is configured for both.
    public var environment: PushEnvironment?

    /// `collapseID`, which only collapsible payloads show.
    var collapse: String?

    /// A notification with a payload.
    public init(_ payload: Payload, topic: PushTopic? = nil) {
        self.payload = payload
        self.topic = topic
        expiration = Payload.defaultExpiration
    }

    /// The payload's push type (`apns-push-type`).
    public var pushType: PushType { payload.pushType }
}

extension PushNotification where Payload: CollapsiblePayload {
    /// An id of 1 to 64 bytes of printable ASCII (`apns-collapse-id`). Of notifications with the same id only the
    /// newest is shown.
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
    /// Returns the same notification with its payload encoded as JSON.
    ///
    /// For many records with one payload, or a list of several kinds of notifications. Throws if the payload is wrong.
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
    /// The suffix of the topic after the bundle id, if there is one. `mdm` has a topic of another kind, and a
    /// broadcast's topic never has a suffix.
    ///
    /// Source: "Sending notification requests to APNs", apns-push-type.
    public var topicSuffix: String? { suffix?.description }
}

extension NotificationUUID {
    /// Returns a random id (version 4).
    public static func random() -> NotificationUUID {
        var generator = SystemRandomNumberGenerator()
        return random(using: &generator)
    }

    /// Returns a random id (version 4).
    public static func random(using generator: inout some RandomNumberGenerator) -> NotificationUUID {
        NotificationUUID(
            high: generator.next() & ~0xF000 | 0x4000,
            low: generator.next() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000)
    }
}

/// The app that a notification is for (`apns-topic`).
///
/// Source: "Sending notification requests to APNs", apns-topic and "Know when to use push types".
public enum PushTopic: Hashable, Sendable {
    /// The app's bundle id. The push type's suffix (`PushType.topicSuffix`) is added unless it is there already, or the
    /// notification is a broadcast.
    case bundleID(String)
    /// The topic as it is. For `mdm` the UID in the subject of the MDM push certificate.
    case exactly(String)

    /// The header's value.
    func text(_ pushType: PushType, isBroadcast: Bool) -> String {
        switch self {
        case .exactly(let topic): return topic
        case .bundleID(let id):
            guard !isBroadcast, let suffix = pushType.topicSuffix, !id.hasSuffix(suffix) else { return id }
            return id + suffix
        }
    }
}

/// How long APNs keeps a notification for a device that cannot be reached (`apns-expiration`).
///
/// Source: "Sending notification requests to APNs", apns-expiration.
public enum PushExpiration: Hashable, Sendable {
    /// No `apns-expiration` is sent: APNs keeps it by its own policy, for at most 30 days.
    case appleDefault
    /// APNs tries once and does not keep it. The worker tries for at most 30 seconds.
    case nowOrNever
    /// APNs keeps it until then; 1 to 4294967295 seconds since 1970 (UTC).
    case at(secondsSinceEpoch: Int64)
}
