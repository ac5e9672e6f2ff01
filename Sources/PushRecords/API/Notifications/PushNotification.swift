/// One notification, to be asked for by a record on a request topic: for one device, for many, or for a channel.
///
/// ```swift
/// var news = try PushNotification(AlertPayload(title: "News", body: "It rains"), topic: "com.example.shop")
/// news.collapseID = "weather"
/// news.expiration = .at(secondsSinceEpoch: 1_790_000_000)
/// let record = try news.payloadRecord(to: DeviceToken(hex: token))
/// try producer.produce("apns.requests", key: record.key, value: record.value, headers: record.headers)
/// ```
///
/// Nothing is checked before a record is made of it; then everything is that can be without the worker's configuration,
/// by the rules of the worker. (Whether the topic belongs to an app, and whether the expiration has passed, only the
/// worker can tell; it says so in the result.)
public struct PushNotification: Hashable, Sendable {
    /// When APNs delivers (`apns-priority`).
    public enum Priority: UInt8, CaseIterable, Sendable {
        /// At once.
        case immediate = 10
        /// When the device's power allows; the only one for background notifications.
        case powerConsiderate = 5
        /// When it costs the device nothing: it is not woken.
        case lowest = 1
    }

    /// Until when APNs keeps the notification for a device that cannot be reached (`apns-expiration`).
    public enum Expiration: Hashable, Sendable {
        /// No `apns-expiration` is sent: Apple keeps it for as long as it likes. (Not: it never expires.)
        case never
        /// Tried once, not kept. The worker tries at most 30 seconds.
        case nowOrNever
        /// Until then; 1 to 4294967295 seconds since 1970 (UTC).
        case at(secondsSinceEpoch: Int64)
    }

    /// What goes to Apple, byte for byte: a JSON object of at most 4,096 bytes (5,120 for `voip` and broadcasts).
    public var payload: [UInt8]
    /// What kind of notification the payload is (`apns-push-type`).
    public var pushType: PushType
    /// The app's bundle id, with the suffix that some push types ask for (`PushType.topicSuffix`), but for a broadcast, whose
    /// topic is the bundle id alone; `nil`: made by the worker of its app's bundle id and that suffix, when it has one only.
    public var topic: String?
    /// `nil`: Apple's default, `immediate` (the worker's for `background`: `powerConsiderate`).
    public var priority: Priority?
    /// Until when APNs tries (`apns-expiration`).
    public var expiration: Expiration
    /// Notifications with the same one (1 to 64 bytes) are shown as one.
    public var collapseID: String?
    /// Sent as it is, also with every repetition; `nil`: the worker derives one from the record's place. Not for several
    /// devices.
    public var apnsID: NotificationUUID?
    /// Name of an app of the worker's configuration; needed only where the topic does not tell.
    public var app: String?
    /// Needed only where an app is configured for both.
    public var environment: PushEnvironment?

    /// A notification with a payload in JSON.
    public init(json payload: some Collection<UInt8>, pushType: PushType = .alert, topic: String? = nil) {
        self.payload = Array(payload)
        self.pushType = pushType
        self.topic = topic
        expiration = .never
    }

    /// A notification with a payload in JSON.
    public init(json payload: String, pushType: PushType = .alert, topic: String? = nil) {
        self.init(json: payload.utf8, pushType: pushType, topic: topic)
    }

    /// A notification with a typed payload. Throws what is wrong with the payload.
    public init(
        _ payload: AlertPayload, pushType: PushType = .alert, topic: String? = nil
    ) throws(RequestError) {
        self.init(json: try payload.json(), pushType: pushType, topic: topic)
    }
}

extension TextHeader {
    /// Where a notification has it.
    package var property: any WritableKeyPath<PushNotification, String?> & Sendable {
        switch self {
        case .collapseID: \.collapseID
        }
    }
}

extension PushType {
    /// What the topic has behind the bundle id; `nil`: nothing. (`mdm` has a topic of its own kind; a broadcast's topic never
    /// has a suffix.)
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
