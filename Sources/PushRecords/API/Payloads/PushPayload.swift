import JSON

/// The content of a notification: the JSON that goes to Apple, and its push type.
///
/// There is one type for each push type, with only the members that the push type has: a background notification has
/// no sound, a widget's no alert. The payload's type also decides on the headers of a `PushNotification`. Conform your
/// own payloads to this protocol, too:
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

    /// The initial expiration of its notifications; `appleDefault` unless a type overrides it.
    static var defaultExpiration: PushExpiration { get }

    /// The push type (`apns-push-type`).
    var pushType: PushType { get }

    /// Returns the JSON object that goes to Apple; equal payloads are equal bytes.
    ///
    /// Throws `badRequestPayload` if a value is wrong. The size is checked with the record, and returned by `size()`.
    func json() throws(RequestError) -> [UInt8]
}

/// A payload whose notification may replace an earlier one (`PushNotification.collapseID`).
///
/// Only notifications that are shown can be replaced. Source: "Sending notification requests to APNs",
/// apns-collapse-id.
public protocol CollapsiblePayload: PushPayload {}

/// A payload that may be broadcast on a channel.
///
/// Source: "Sending broadcast push notification requests to APNs"; and "You can't use broadcast push notifications to
/// start a Live Activity" ("Starting and updating Live Activities with ActivityKit push notifications").
public protocol BroadcastPayload: PushPayload {}

extension PushPayload {
    /// Apple's default.
    public static var defaultExpiration: PushExpiration { .appleDefault }

    /// Returns the size of `json()` in bytes, which Apple limits. Throws what `json()` throws.
    public func size() throws(RequestError) -> Int { try json().count }

    /// The most bytes that Apple accepts for a device: 4,096, or 5,120 for `voip`.
    ///
    /// ```swift
    /// guard try payload.size() <= payload.sizeLimit else { … }
    /// ```
    ///
    /// Source: "Generating a remote notification".
    public var sizeLimit: Int { pushType.payloadLimit }
}

extension BroadcastPayload {
    /// The most bytes that Apple accepts for a channel: 5,120. Source: "Sending broadcast push notification requests to
    /// APNs".
    public var broadcastSizeLimit: Int { PushType.broadcastPayloadLimit }
}

extension PushType {
    /// The most bytes of a payload for a device: 4,096, or 5,120 for `voip`. Source: "Generating a remote
    /// notification".
    public var payloadLimit: Int {
        self == .voip ? RequestParser.largePayloadLimit : RequestParser.payloadLimit
    }

    /// The most bytes of a payload for a channel: 5,120. Source: "Sending broadcast push notification requests to
    /// APNs".
    public static var broadcastPayloadLimit: Int { RequestParser.largePayloadLimit }
}

extension JSONWriter {
    /// Returns a payload with the members of `aps` that `write` adds, and `custom` beside it.
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

    /// Returns a payload of an app's own members. Without any it has an empty `aps`, since Apple refuses empty
    /// payloads.
    static func payload(of members: [String: PayloadValue]) throws(RequestError) -> [UInt8] {
        if members.isEmpty { return Array(#"{"aps":{}}"#.utf8) }
        var json = JSONWriter(capacity: 512)
        json.beginObject()
        try members.write(to: &json)
        json.endObject()
        return Array(json.bytes)
    }
}

// Values of a program's own types, encoded as `JSONEncoder` does by default, without Foundation: devices decode the
// state of a Live Activity with a default `JSONDecoder`.

extension PayloadValue {
    /// A value of your own type, as JSON.
    ///
    /// ```swift
    /// struct Score: Encodable { var home = 0, away = 0 }
    /// let update = LiveActivityUpdate(contentState: try PayloadValue(encoding: Score()), timestamp: now)
    /// ```
    ///
    /// It means the same as with the default strategies of Foundation's `JSONEncoder`: a `Date` is a number of seconds
    /// since 2001, `Data` is base64. Equal values are equal bytes, since members are ordered by name. Throws the path
    /// to a number that is not finite or to more than 64 levels, and what the type itself throws.
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
    /// The members of a value of your own type, to put beside `aps`.
    ///
    /// ```swift
    /// payload.custom = try .init(encoding: order)
    /// ```
    ///
    /// Throws if the value is no object, and what `PayloadValue(encoding:)` throws.
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

/// A payload that is JSON already, of any push type. The rules that other payloads' types enforce are checked when a
/// record is made.
///
/// ```swift
/// let notification = PushNotification(json: bytes, pushType: .voip, topic: .bundleID("com.example.shop"))
/// ```
public struct RawPayload: CollapsiblePayload, BroadcastPayload {
    /// A JSON object. Source: "Generating a remote notification".
    public var bytes: [UInt8]
    /// The push type (`apns-push-type`). Source: "Sending notification requests to APNs".
    public var pushType: PushType

    /// A payload as it is. It is checked with the record.
    public init(_ bytes: some Collection<UInt8>, pushType: PushType) {
        self.bytes = Array(bytes)
        self.pushType = pushType
    }

    /// The bytes, as they are.
    public func json() throws(RequestError) -> [UInt8] { bytes }
}

/// A localized text: the key of a string in the app's Localizable.strings, and its arguments.
///
/// ```swift
/// payload.localizedBody = LocalizedText("GAME_PLAY_REQUEST_FORMAT", "Shelly", "Rick")
/// ```
///
/// Source: "Generating a remote notification", "Localize your alert messages".
public struct LocalizedText: Hashable, Sendable {
    /// The name of a key in the app's strings.
    public var key: String
    /// The values for each `%@` in that string.
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

    /// A time in seconds since 1970.
    public init(secondsSinceEpoch: Int64) { self.secondsSinceEpoch = secondsSinceEpoch }

    /// A literal is seconds since 1970.
    public init(integerLiteral secondsSinceEpoch: Int64) { self.init(secondsSinceEpoch: secondsSinceEpoch) }

    /// Whether one is earlier.
    public static func < (one: Self, other: Self) -> Bool { one.secondsSinceEpoch < other.secondsSinceEpoch }

    /// Returns the seconds. Throws if they are negative, or so many that they must be milliseconds.
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
    /// At once: 10, Apple's default.
    case immediate = 10
    /// When the device's power allows it: 5. Such notifications may be grouped, throttled or not delivered.
    case powerConsiderate = 5
    /// 1: the device's power comes first, and the device is not woken.
    case withoutWaking = 1
}

/// The priorities of one kind of payload, as a type, so that a wrong one does not compile.
public protocol PriorityChoice: Hashable, Sendable {
    /// The priority.
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
    /// 5, which is the default.
    case powerConsiderate

    /// The priority.
    public var priority: PushPriority { .powerConsiderate }
}

/// The priorities of Live Activities and location queries: 10 or 5.
///
/// Source: "Starting and updating Live Activities with ActivityKit push notifications"; "Sending notification requests
/// to APNs", `location`.
public enum WakingPriority: PriorityChoice, CaseIterable {
    /// 10. Updates of Live Activities with it count towards a budget and are throttled beyond it.
    case immediate
    /// 5. Such updates are not counted.
    case powerConsiderate

    /// The priority.
    public var priority: PushPriority { self == .immediate ? .immediate : .powerConsiderate }
}

/// The priority of a Push to Talk notification: 10. Source: "Creating a Push to Talk app".
public enum ImmediatePriority: PriorityChoice {
    /// 10, which is Apple's default.
    case immediate

    /// The priority.
    public var priority: PushPriority { .immediate }
}
