import JSON

/// The payload of a notification that shows, plays or wakes something: the members of `aps`, and your own beside it.
///
/// ```swift
/// var payload = AlertPayload(title: "Order 4711", body: "is on its way")
/// payload.sound = .standard
/// payload.interruptionLevel = .timeSensitive
/// payload.custom["order"] = 4711
/// ```
///
/// Source: "Generating a remote notification". What is not here goes into `more`.
public struct AlertPayload: Hashable, Sendable {
    /// What is played.
    public enum Sound: Hashable, Sendable {
        /// The system's.
        case standard
        /// A file of the app.
        case named(String)
        /// Also when the device is muted; `volume` from 0 to 1. The app needs an entitlement for it.
        case critical(String = "default", volume: Double = 1)
    }

    /// How much a notification may disturb; Apple's default is `active`.
    public enum InterruptionLevel: String, CaseIterable, Sendable {
        case passive, active, critical
        case timeSensitive = "time-sensitive"
    }

    /// The first line.
    public var title: String?
    /// The line below it.
    public var subtitle: String?
    /// The text.
    public var body: String?
    /// The number on the app's icon; 0 takes it away.
    public var badge: Int?
    /// `nil`: silent.
    public var sound: Sound?
    /// Name of a category of actions.
    public var category: String?
    /// Groups notifications.
    public var threadID: String?
    /// A service extension of the app may change it before it is shown.
    public var isMutable = false
    /// The app is woken to fetch something; alone, with push type `background`, nothing is shown.
    public var isContentAvailable = false
    /// `nil`: Apple's default.
    public var interruptionLevel: InterruptionLevel?
    /// From 0 to 1; the notification with the highest is shown first in a summary.
    public var relevanceScore: Double?
    /// Further members of `aps`, for example `filter-criteria`.
    public var more: [String: PayloadValue] = [:]
    /// Your own members beside `aps`.
    public var custom: [String: PayloadValue] = [:]

    /// A payload with these texts; without any it shows nothing.
    public init(title: String? = nil, subtitle: String? = nil, body: String? = nil) {
        self.title = title
        self.subtitle = subtitle
        self.body = body
    }
}

extension AlertPayload {
    /// The payload as it goes to Apple; equal payloads are equal bytes.
    ///
    /// Throws what is wrong with a number, a name or JSON made elsewhere. Its size is checked with the record.
    public func json() throws(RequestError) -> [UInt8] {
        try check()
        var json = JSONWriter(capacity: 512)
        json.beginObject()
        json.name("aps")
        json.beginObject()
        writeAlert(&json)
        if let badge { json.member("badge", badge) }
        writeSound(&json)
        if let category { json.member("category", category) }
        if let threadID { json.member("thread-id", threadID) }
        if isMutable { json.member("mutable-content", 1) }
        if isContentAvailable { json.member("content-available", 1) }
        if let interruptionLevel { json.member("interruption-level", interruptionLevel.rawValue) }
        if let relevanceScore { json.member("relevance-score", relevanceScore) }
        try more.write(to: &json, "aps")
        json.endObject()
        try custom.write(to: &json)
        json.endObject()
        return Array(json.bytes)
    }

    /// What `json` writes by itself.
    private static let names: Set<String> = [
        "alert", "badge", "sound", "category", "thread-id", "mutable-content", "content-available",
        "interruption-level", "relevance-score",
    ]

    private func check() throws(RequestError) {
        if let badge, badge < 0 { throw RequestError(.badRequestPayload, "badge must be 0 or more") }
        if let relevanceScore, !(0...1).contains(relevanceScore) {
            throw RequestError(.badRequestPayload, "relevance-score must be 0 to 1")
        }
        if case .critical(_, let volume)? = sound, !(0...1).contains(volume) {
            throw RequestError(.badRequestPayload, "sound: volume must be 0 to 1")
        }
        if custom["aps"] != nil {
            throw RequestError(.badRequestPayload, "custom: further members of aps go into more")
        }
        if let name = Self.names.sorted().first(where: { more[$0] != nil }) {
            throw RequestError(.badRequestPayload, "more: \(name) has a property of its own")
        }
    }

    private func writeAlert(_ json: inout JSONWriter) {
        switch (title, subtitle, body) {
        case (nil, nil, nil): break
        case (nil, nil, let body?): json.member("alert", body)
        case (_?, _, _), (_, _?, _):
            json.name("alert")
            json.beginObject()
            if let title { json.member("title", title) }
            if let subtitle { json.member("subtitle", subtitle) }
            if let body { json.member("body", body) }
            json.endObject()
        }
    }

    private func writeSound(_ json: inout JSONWriter) {
        switch sound {
        case nil: break
        case .standard: json.member("sound", "default")
        case .named(let name): json.member("sound", name)
        case .critical(let name, let volume):
            json.name("sound")
            json.beginObject()
            json.member("critical", 1)
            json.member("name", name)
            json.member("volume", volume)
            json.endObject()
        }
    }
}
