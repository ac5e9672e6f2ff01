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
