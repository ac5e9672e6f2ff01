import JSON

/// What a notification says: the JSON that goes to Apple, and which of Apple's push types it is.
///
/// There is one for each push type, with nothing in it that the push type does not have: a background notification has
/// no sound, a widget's no alert. What a `PushNotification` has beside its payload follows from the payload's type,
/// too. Payloads of your own are of this protocol as well:
///
/// ```swift
/// struct Shipped: CollapsiblePayload {
///     var order: Int64
///     var pushType: PushType { .alert }
///     func json() throws(RequestError) -> [UInt8] {
///         var payload = AlertPayload(title: "Order \(order)", body: "is on its way")
///         payload.custom["order"] = .integer(order)
///         return try payload.json()
///     }
/// }
/// ```
///
/// Source: "Sending notification requests to APNs", "Know when to use push types".
public protocol PushPayload: Hashable, Sendable {
    /// The priorities that Apple takes for it. Source: "Sending notification requests to APNs", apns-priority.
    associatedtype Priority: PriorityChoice = PushPriority

    /// What its notifications have unless told otherwise; `appleDefault` where a type does not say.
    static var defaultExpiration: PushExpiration { get }

    /// The push type whose rules it keeps (`apns-push-type`).
    var pushType: PushType { get }

    /// A JSON object as it goes to Apple, byte for byte; equal payloads are equal bytes.
    ///
    /// Throws what is wrong with a value (`badRequestPayload`). How large it is, is checked with the record: ask
    /// `size()`.
    func json() throws(RequestError) -> [UInt8]
}

/// A payload whose notifications may take the place of an earlier one (`PushNotification.collapseID`).
///
/// Apple's `apns-collapse-id` merges what would be shown as several notifications; what shows none has nothing to
/// merge. Source: "Sending notification requests to APNs", apns-collapse-id.
public protocol CollapsiblePayload: PushPayload {}

/// A payload that may go to all who listen to a channel.
///
/// Source: "Sending broadcast push notification requests to APNs"; and "You can't use broadcast push notifications to
/// start a Live Activity" ("Starting and updating Live Activities with ActivityKit push notifications").
public protocol BroadcastPayload: PushPayload {}

extension PushPayload {
    /// What Apple does when it is told nothing.
    public static var defaultExpiration: PushExpiration { .appleDefault }

    /// How many bytes `json()` has: exactly what is held against Apple's limit. Throws what `json()` throws.
    public func size() throws(RequestError) -> Int { try json().count }

    /// Most bytes that Apple takes of it for a device: 4,096, or 5,120 of `voip`.
    ///
    /// ```swift
    /// guard try payload.size() <= payload.sizeLimit else { … }
    /// ```
    ///
    /// Source: "Generating a remote notification".
    public var sizeLimit: Int { pushType.payloadLimit }
}

extension BroadcastPayload {
    /// Most bytes that Apple takes of it for a channel: 5,120. Source: "Sending broadcast push notification requests to
    /// APNs".
    public var broadcastSizeLimit: Int { PushType.broadcastPayloadLimit }
}

extension PushType {
    /// Most bytes of a payload for a device: 4,096, or 5,120 of `voip`. Source: "Generating a remote notification".
    public var payloadLimit: Int {
        self == .voip ? RequestParser.largePayloadLimit : RequestParser.payloadLimit
    }

    /// Most bytes of a payload for a channel: 5,120. Source: "Sending broadcast push notification requests to APNs".
    public static var broadcastPayloadLimit: Int { RequestParser.largePayloadLimit }
}

extension JSONWriter {
    /// A whole payload: `aps` with what `write` puts into it, and `custom` beside it.
    static func payload(
        beside custom: [String: PayloadValue] = [:], aps write: (inout JSONWriter) throws(RequestError) -> Void
    ) throws(RequestError) -> [UInt8] {
        if custom["aps"] != nil {
            throw RequestError(.badRequestPayload, "custom: what aps has is said by properties, or stands in more")
        }
        var json = JSONWriter(capacity: 512)
        json.beginObject()
        json.name("aps")
        json.beginObject()
        try write(&json)
        json.endObject()
        try custom.write(to: &json)
        json.endObject()
        return Array(json.bytes)
    }

    /// A whole payload of an app's own members. Without any it has an empty `aps`, so that it is not empty itself:
    /// Apple's PayloadEmpty does not say where empty ends.
    static func payload(of members: [String: PayloadValue]) throws(RequestError) -> [UInt8] {
        if members.isEmpty { return Array(#"{"aps":{}}"#.utf8) }
        var json = JSONWriter(capacity: 512)
        json.beginObject()
        try members.write(to: &json)
        json.endObject()
        return Array(json.bytes)
    }
}

// Values of a program's own types. There is no JSONEncoder without Foundation; what this makes means what JSONEncoder's
// would, as it is unless told otherwise, since Apple decodes the state of a Live Activity with JSONDecoder as that is.

extension PayloadValue {
    /// A value of a type of your own, as JSON.
    ///
    /// ```swift
    /// struct Score: Encodable { var home = 0, away = 0 }
    /// let update = LiveActivityUpdate(contentState: try PayloadValue(encoding: Score()), timestamp: now)
    /// ```
    ///
    /// It means what Foundation's `JSONEncoder` makes with its default strategies: a `Date` is a number of seconds
    /// since 2001, `Data` is base64. Equal values are equal bytes, since members are in the order of their names.
    /// Throws what cannot be JSON, with the path to it: a number that is not finite, more than 64 levels, or what the
    /// type itself throws.
    public init(encoding value: some Encodable) throws(RequestError) {
        let node = EncodedNode()
        do {
            try node.encode(value, [])
            self = try node.value([])
        } catch {
            throw RequestError(encoding: error, of: type(of: value))
        }
    }
}

extension [String: PayloadValue] {
    /// The members of a value of a type of your own, to stand beside `aps`.
    ///
    /// ```swift
    /// payload.custom = try .init(encoding: order)
    /// ```
    ///
    /// Throws where the value is no object, and what `PayloadValue(encoding:)` throws.
    public init(encoding value: some Encodable) throws(RequestError) {
        guard case .object(let members) = try PayloadValue(encoding: value) else {
            throw RequestError(.badRequestPayload, "\(type(of: value)) is not encoded as an object")
        }
        self = members
    }
}

extension RequestError {
    fileprivate init(encoding error: any Error, of type: Any.Type) {
        switch error {
        case let error as RequestError: self = error
        case EncodingError.invalidValue(_, let context):
            self.init(.badRequestPayload, "\(EncodingPath.text(context.codingPath)): \(context.debugDescription)")
        default: self.init(.badRequestPayload, "\(type): \(error)")
        }
    }
}

/// JSON made elsewhere, of any push type: it goes to Apple byte for byte. Everything that the types of the other
/// payloads forbid is left to the worker's checks when a record is made.
///
/// ```swift
/// let notification = PushNotification(json: bytes, pushType: .voip, topic: .bundleID("com.example.shop"))
/// ```
public struct RawPayload: CollapsiblePayload, BroadcastPayload {
    /// A JSON object. Source of what is in it: "Generating a remote notification".
    public var bytes: [UInt8]
    /// What kind of notification it is (`apns-push-type`). Source: "Sending notification requests to APNs".
    public var pushType: PushType

    /// A payload as it is; it is checked with the record.
    public init(_ bytes: some Collection<UInt8>, pushType: PushType) {
        self.bytes = Array(bytes)
        self.pushType = pushType
    }

    /// The bytes, as they are.
    public func json() throws(RequestError) -> [UInt8] { bytes }
}

/// A text of the app: the key of a string in its Localizable.strings, and what to put into it.
///
/// ```swift
/// payload.localizedBody = LocalizedText("GAME_PLAY_REQUEST_FORMAT", "Shelly", "Rick")
/// ```
///
/// Source: "Generating a remote notification", "Localize your alert messages".
public struct LocalizedText: Hashable, Sendable {
    /// The name of a key in the app's strings.
    public var key: String
    /// What replaces `%@` in that string, one after the other.
    public var arguments: [String]

    /// The text of a key, with these arguments.
    public init(_ key: String, _ arguments: String...) { self.init(key, arguments: arguments) }

    /// The text of a key, with these arguments.
    public init(_ key: String, arguments: [String]) {
        self.key = key
        self.arguments = arguments
    }
}

/// A time in whole seconds since 1970 (UTC), as Apple's payloads have it.
///
/// ```swift
/// let now = UnixTime(secondsSinceEpoch: Int64(Date().timeIntervalSince1970))
/// ```
public struct UnixTime: Hashable, Comparable, Sendable, ExpressibleByIntegerLiteral {
    /// Seconds, not milliseconds.
    public var secondsSinceEpoch: Int64

    /// The time that many seconds after 1970 began.
    public init(secondsSinceEpoch: Int64) { self.secondsSinceEpoch = secondsSinceEpoch }

    /// A literal is seconds since 1970.
    public init(integerLiteral secondsSinceEpoch: Int64) { self.init(secondsSinceEpoch: secondsSinceEpoch) }

    /// Whether one is earlier.
    public static func < (one: Self, other: Self) -> Bool { one.secondsSinceEpoch < other.secondsSinceEpoch }

    /// The seconds. Throws when they can be none: negative, or with so many digits as milliseconds have.
    func checked(_ member: StaticString) throws(RequestError) -> Int64 {
        guard (0..<100_000_000_000).contains(secondsSinceEpoch) else {
            throw RequestError(
                .badRequestPayload,
                "\(member) is \(secondsSinceEpoch): seconds since 1970 are expected, and not milliseconds")
        }
        return secondsSinceEpoch
    }
}

/// When APNs delivers (`apns-priority`). Source: "Sending notification requests to APNs", apns-priority.
public enum PushPriority: UInt8, CaseIterable, Sendable {
    /// At once: 10, and what Apple does when it is told nothing.
    case immediate = 10
    /// When the device's power allows it: 5. Such notifications may come in groups, be throttled or not be delivered.
    case powerConsiderate = 5
    /// 1: the device's power goes before everything else, and the device is not woken.
    case withoutWaking = 1
}

/// The priorities of one kind of payload, as a type: what Apple calls an error does not compile.
public protocol PriorityChoice: Hashable, Sendable {
    /// The one among all.
    var priority: PushPriority { get }
}

extension PushPriority: PriorityChoice {
    /// Itself.
    public var priority: PushPriority { self }
}

/// The priority of a background notification: "Always use priority 5. Using priority 10 is an error."
///
/// Source: "Sending notification requests to APNs", `background`.
public enum BackgroundPriority: PriorityChoice {
    /// 5. It is what a background notification has anyway.
    case powerConsiderate

    /// The one among all.
    public var priority: PushPriority { .powerConsiderate }
}

/// The priorities of Live Activities and location queries: 10 or 5.
///
/// Source: "Starting and updating Live Activities with ActivityKit push notifications"; "Sending notification requests
/// to APNs", `location`.
public enum WakingPriority: PriorityChoice, CaseIterable {
    /// 10. Updates of Live Activities with it count towards a budget, and are throttled beyond it.
    case immediate
    /// 5. Such updates are not counted.
    case powerConsiderate

    /// The one among all.
    public var priority: PushPriority { self == .immediate ? .immediate : .powerConsiderate }
}

/// The priority of a Push to Talk notification: 10. Source: "Creating a Push to Talk app".
public enum ImmediatePriority: PriorityChoice {
    /// 10. It is what Apple takes when it is told nothing, too.
    case immediate

    /// The one among all.
    public var priority: PushPriority { .immediate }
}
