import JSON

/// The content of a notification: its push type, and the JSON that APNs passes on to the app.
///
/// There is a payload type for each push type, with only the members that Apple allows: a background notification has
/// no sound, and a widget update has no alert. The payload type also determines the allowed headers of a
/// `PushNotification`. Your own payloads can conform to this protocol, too:
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
    /// The priorities that Apple accepts for this payload. Source: "Sending notification requests to APNs",
    /// apns-priority.
    associatedtype Priority: PriorityChoice = PushPriority

    /// The initial expiration of notifications with this payload. The default is `appleDefault`.
    static var defaultExpiration: PushExpiration { get }

    /// The push type (`apns-push-type`).
    var pushType: PushType { get }

    /// Returns the payload as a JSON object. Equal payloads have equal bytes.
    ///
    /// Throws `badRequestPayload` if a value is invalid. Does not check the size: see `size()`.
    func json() throws(RequestError) -> [UInt8]
}

/// A payload whose notification can replace an earlier notification with the same `PushNotification.collapseID`.
///
/// Only notifications that are shown can be replaced. Source: "Sending notification requests to APNs",
/// apns-collapse-id.
public protocol CollapsiblePayload: PushPayload {}

/// A payload that can be broadcast on a channel.
///
/// Source: "Sending broadcast push notification requests to APNs". "Starting and updating Live Activities with
/// ActivityKit push notifications" adds: "You can't use broadcast push notifications to start a Live Activity."
public protocol BroadcastPayload: PushPayload {}

extension PushPayload {
    /// The default expiration, which is `appleDefault`.
    public static var defaultExpiration: PushExpiration { .appleDefault }

    /// Returns the size of `json()` in bytes. Throws the errors of `json()`.
    public func size() throws(RequestError) -> Int { try json().count }

    /// The largest payload in bytes that Apple accepts for a notification to a device: 4,096, or 5,120 for `voip`.
    ///
    /// ```swift
    /// guard try payload.size() <= payload.sizeLimit else { … }
    /// ```
    ///
    /// Source: "Generating a remote notification".
    public var sizeLimit: Int { pushType.payloadLimit }
}

extension BroadcastPayload {
    /// The largest payload in bytes that Apple accepts for a broadcast on a channel: 5,120. Source: "Sending broadcast
    /// push notification requests to APNs".
    public var broadcastSizeLimit: Int { PushType.broadcastPayloadLimit }
}

extension PushType {
    /// The largest payload of a notification to a device in bytes: 4,096, or 5,120 for `voip`. Source: "Generating a
    /// remote notification".
    public var payloadLimit: Int {
        self == .voip ? RequestParser.largePayloadLimit : RequestParser.payloadLimit
    }

    /// The largest payload of a broadcast in bytes: 5,120. Source: "Sending broadcast push notification requests to
    /// APNs".
    public static var broadcastPayloadLimit: Int { RequestParser.largePayloadLimit }
}

extension JSONWriter {
    /// Returns the JSON of a payload: `aps` with the members that `write` adds, and the members of `custom` beside
    /// `aps`.
    static func payload(
        beside custom: [String: PayloadValue] = [:], aps write: (inout JSONWriter) throws(RequestError) -> Void
    ) throws(RequestError) -> [UInt8] {
        if custom["aps"] != nil {
            throw RequestError(.badRequestPayload, "custom must not contain aps; use the payload's own properties")
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

    /// Returns the JSON of an app's own members, or `{"aps":{}}` if there are none, because Apple rejects empty
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

// Values are encoded as a default `JSONEncoder` encodes them, because devices decode the state of a Live Activity with
// a default `JSONDecoder`. The library has its own encoder because it does not import Foundation.

extension PayloadValue {
    /// Creates a JSON value from a value of your own type.
    ///
    /// ```swift
    /// struct Score: Encodable { var home = 0, away = 0 }
    /// let update = LiveActivityUpdate(contentState: try PayloadValue(encoding: Score()), timestamp: now)
    /// ```
    ///
    /// The result matches the default strategies of Foundation's `JSONEncoder`: a `Date` is the number of seconds since
    /// 2001, `Data` is base64. Members are ordered by name. Throws an error with the path if JSON cannot represent a
    /// value, or if there are more than 64 levels of nesting. Errors of the type's `encode(to:)` become the detail of a
    /// `RequestError`.
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
    /// Creates custom members, which are written beside `aps`, from a value of your own type.
    ///
    /// ```swift
    /// payload.custom = try .init(encoding: order)
    /// ```
    ///
    /// Throws if the value is not encoded as an object. Also throws the errors of `PayloadValue(encoding:)`.
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

/// A payload of any push type that is encoded as JSON already. Other payload types enforce many of Apple's rules at
/// compile time. For this type, the library checks the rules when a record is created.
///
/// ```swift
/// let notification = PushNotification(json: bytes, pushType: .voip, topic: .bundleID("com.example.shop"))
/// ```
public struct RawPayload: CollapsiblePayload, BroadcastPayload {
    /// The JSON object. Source: "Generating a remote notification".
    public var bytes: [UInt8]
    /// The push type (`apns-push-type`).
    public var pushType: PushType

    /// Creates a payload from JSON. The JSON is validated when a record is created.
    public init(_ bytes: some Collection<UInt8>, pushType: PushType) {
        self.bytes = Array(bytes)
        self.pushType = pushType
    }

    /// Returns `bytes` without validating them.
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
    /// The key in the app's strings file.
    public var key: String
    /// The values for the `%@` placeholders in the app's string.
    public var arguments: [String]

    /// Creates a localized text from a key and arguments.
    public init(_ key: String, _ arguments: String...) { self.init(key, arguments: arguments) }

    /// Creates a localized text from a key and an array of arguments.
    public init(_ key: String, arguments: [String]) {
        self.key = key
        self.arguments = arguments
    }
}

/// A time in whole seconds since 1970 (UTC), as in Apple's payloads.
///
/// ```swift
/// let now = UnixTime(secondsSinceEpoch: Int64(Date().timeIntervalSince1970))
/// ```
public struct UnixTime: Hashable, Comparable, Sendable, ExpressibleByIntegerLiteral {
    /// The number of seconds, not milliseconds.
    public var secondsSinceEpoch: Int64

    /// Creates a time from seconds since 1970 (UTC).
    public init(secondsSinceEpoch: Int64) { self.secondsSinceEpoch = secondsSinceEpoch }

    /// Creates a time from seconds since 1970 (UTC).
    public init(integerLiteral secondsSinceEpoch: Int64) { self.init(secondsSinceEpoch: secondsSinceEpoch) }

    /// Returns whether one time is earlier than another.
    public static func < (one: Self, other: Self) -> Bool { one.secondsSinceEpoch < other.secondsSinceEpoch }

    /// Returns the seconds. Throws if the number is negative, or so large that it is probably in milliseconds.
    func checked(_ member: StaticString) throws(RequestError) -> Int64 {
        guard (0..<100_000_000_000).contains(secondsSinceEpoch) else {
            throw RequestError(
                .badRequestPayload,
                "\(member) must be a number of seconds since 1970 (not milliseconds): \(secondsSinceEpoch)")
        }
        return secondsSinceEpoch
    }
}

/// The delivery priority of a notification (`apns-priority`). Source: "Sending notification requests to APNs",
/// apns-priority.
public enum PushPriority: UInt8, CaseIterable, Sendable {
    /// 10: immediate delivery, Apple's default.
    case immediate = 10
    /// 5: delivery that considers the device's power. Apple may group, throttle or drop such notifications.
    case powerConsiderate = 5
    /// 1: saving the device's power has priority over delivery, and the notification does not wake the device.
    case withoutWaking = 1
}

/// The priorities that a payload type allows. Each set of priorities is a separate type, so that other priorities do
/// not compile.
public protocol PriorityChoice: Hashable, Sendable {
    var priority: PushPriority { get }
}

extension PushPriority: PriorityChoice {
    /// The value itself. `PushPriority` is a `PriorityChoice`, so that a payload type can allow every priority.
    public var priority: PushPriority { self }
}

/// The priority of a background notification: "Always use priority 5. Using priority 10 is an error."
///
/// Source: "Sending notification requests to APNs", `background`.
public enum BackgroundPriority: PriorityChoice {
    /// 5, the default.
    case powerConsiderate

    /// The case as a `PushPriority`.
    public var priority: PushPriority { .powerConsiderate }
}

/// The priorities of Live Activities and location queries: 10 or 5.
///
/// Source: "Starting and updating Live Activities with ActivityKit push notifications"; "Sending notification requests
/// to APNs", `location`.
public enum WakingPriority: PriorityChoice, CaseIterable {
    /// 10. Live Activity updates with this priority count towards Apple's budget, beyond which Apple throttles them.
    case immediate
    /// 5. Live Activity updates with this priority do not count towards Apple's budget.
    case powerConsiderate

    /// The case as a `PushPriority`.
    public var priority: PushPriority { self == .immediate ? .immediate : .powerConsiderate }
}

/// The priority of a Push to Talk notification, which is 10. Source: "Creating a Push to Talk app".
public enum ImmediatePriority: PriorityChoice {
    /// 10, Apple's default.
    case immediate

    /// The case as a `PushPriority`.
    public var priority: PushPriority { .immediate }
}
