import JSON

/// The payload of a notification that shows an alert, plays a sound or sets a badge (push type `alert`).
///
/// ```swift
/// var payload = AlertPayload(title: "Order 4711", body: "is on its way")
/// payload.sound = .standard
/// payload.interruptionLevel = .timeSensitive
/// payload.custom["order"] = 4711
/// ```
///
/// Source: "Generating a remote notification". Put newer members of `aps` into `more`.
public struct AlertPayload: CollapsiblePayload {
    /// The sound to play.
    public enum Sound: Hashable, Sendable {
        /// The system's default sound.
        case standard
        /// A sound file in the app's bundle or its sounds folder.
        case named(String)
        /// A critical alert, which plays even if the device is muted. The app needs an entitlement. `volume` is 0 to 1.
        case critical(String = "default", volume: Double = 1)
    }

    /// The importance of a notification. Apple's default is `active`.
    public enum InterruptionLevel: String, CaseIterable, Sendable {
        /// Adds the notification to the list without lighting up the screen.
        case passive
        /// Lights up the screen and may play a sound.
        case active
        /// Breaks through a Focus and the scheduled summary.
        case timeSensitive = "time-sensitive"
        /// Breaks through a Focus and plays a sound even if the device is muted. The app needs an entitlement.
        case critical
    }

    // MARK: Text; source: "Generating a remote notification", Table 2

    /// The title, which is the first line (`title`).
    public var title: String?
    /// The localized title, which takes precedence over `title` (`title-loc-key`, `title-loc-args`).
    public var localizedTitle: LocalizedText?
    /// The subtitle, below the title (`subtitle`).
    public var subtitle: String?
    /// The localized subtitle, which takes precedence over `subtitle` (`subtitle-loc-key`, `subtitle-loc-args`).
    public var localizedSubtitle: LocalizedText?
    /// The text of the alert (`body`). If only the body is set, `alert` is a string in the JSON, not an object.
    public var body: String?
    /// The localized body, which takes precedence over `body` (`loc-key`, `loc-args`).
    public var localizedBody: LocalizedText?
    /// The image or storyboard that is shown while the app launches (`launch-image`).
    public var launchImage: String?
    /// The label of the button in a website's alert in Safari (`action`). Source: "Configuring Safari Push
    /// Notifications".
    public var action: String?
    /// The key of the localized label of the alert's button, used before iOS 10 (`action-loc-key`). Source: "Payload
    /// Key Reference", in the archived "Local and Remote Notification Programming Guide".
    public var actionLocKey: String?

    // MARK: Other members of aps; source: "Generating a remote notification", Tables 1 and 3

    /// The number on the app's icon (`badge`). 0 removes the badge.
    public var badge: Int?
    /// The sound, or `nil` for none (`sound`).
    public var sound: Sound?
    /// The name of a notification category that the app registered (`category`).
    public var category: String?
    /// The id by which the system groups notifications (`thread-id`).
    public var threadID: String?
    /// The id of the app's window to bring forward (`target-content-id`).
    public var targetContentID: String?
    /// Whether a notification service extension can change the notification before it is shown (`mutable-content`).
    /// Source: "Modifying content in newly delivered notifications".
    public var isMutable = false
    /// Whether the notification also wakes the app in the background (`content-available`). To wake the app without an
    /// alert, use `BackgroundPayload`.
    public var isContentAvailable = false
    /// The interruption level, or `nil` for Apple's default (`interruption-level`).
    public var interruptionLevel: InterruptionLevel?
    /// The relevance from 0 to 1 (`relevance-score`). The notification summary features the notification with the
    /// highest score.
    public var relevanceScore: Double?
    /// The criteria by which the system decides whether to show the notification in the current Focus
    /// (`filter-criteria`).
    public var filterCriteria: String?
    /// The values for the placeholders in the URL of a website's notification in Safari (`url-args`). Source:
    /// "Configuring Safari Push Notifications".
    public var urlArguments: [String]?
    /// Additional members of `aps`.
    public var more: [String: PayloadValue] = [:]

    /// Your own members, beside `aps`. Create them from your own type with `try .init(encoding: order)`.
    public var custom: [String: PayloadValue] = [:]

    /// Creates a payload with these texts. A notification without any text shows no alert.
    public init(title: String? = nil, subtitle: String? = nil, body: String? = nil) {
        self.title = title
        self.subtitle = subtitle
        self.body = body
    }

    /// The push type, always `alert`.
    public var pushType: PushType { .alert }
}

extension AlertPayload {
    /// Returns the payload as JSON. Equal payloads have equal bytes.
    ///
    /// Throws if a value, or a name in `more` or `custom`, is invalid. Does not check the size.
    public func json() throws(RequestError) -> [UInt8] {
        try check()
        return try JSONWriter.payload(beside: custom) { json throws(RequestError) in
            writeAlert(&json)
            if let badge { json.member("badge", badge) }
            sound?.write(to: &json)
            if let category { json.member("category", category) }
            if let threadID { json.member("thread-id", threadID) }
            if let targetContentID { json.member("target-content-id", targetContentID) }
            if isMutable { json.member("mutable-content", 1) }
            if isContentAvailable { json.member("content-available", 1) }
            if let interruptionLevel { json.member("interruption-level", interruptionLevel.rawValue) }
            if let relevanceScore { json.member("relevance-score", relevanceScore) }
            if let filterCriteria { json.member("filter-criteria", filterCriteria) }
            if let urlArguments { json.member("url-args", urlArguments) }
            try more.write(to: &json, "aps", depth: 3)
        }
    }

    /// The members of `aps` that have their own properties and are therefore not allowed in `more`.
    private static let names: Set<String> = [
        "alert", "badge", "sound", "category", "thread-id", "target-content-id", "mutable-content", "content-available",
        "interruption-level", "relevance-score", "filter-criteria", "url-args",
    ]

    private func check() throws(RequestError) {
        if let badge, badge < 0 { throw RequestError(.badRequestPayload, "badge must not be negative") }
        if let relevanceScore, !(0...1).contains(relevanceScore) {
            throw RequestError(.badRequestPayload, "relevance-score must be between 0 and 1")
        }
        if case .critical(_, let volume)? = sound, !(0...1).contains(volume) {
            throw RequestError(.badRequestPayload, "the volume of sound must be between 0 and 1")
        }
        if let name = Self.names.sorted().first(where: { more[$0] != nil }) {
            throw RequestError(.badRequestPayload, "more must not contain \(name); set the payload's property instead")
        }
    }

    private func writeAlert(_ json: inout JSONWriter) {
        let isMoreThanABody =
            title != nil || localizedTitle != nil || subtitle != nil || localizedSubtitle != nil
            || localizedBody != nil || launchImage != nil || action != nil || actionLocKey != nil
        guard isMoreThanABody else {
            if let body { json.member("alert", body) }
            return
        }
        json.name("alert")
        json.beginObject()
        json.member(ifAny: "title", title)
        json.localized("title-loc-key", "title-loc-args", localizedTitle)
        json.member(ifAny: "subtitle", subtitle)
        json.localized("subtitle-loc-key", "subtitle-loc-args", localizedSubtitle)
        json.member(ifAny: "body", body)
        json.localized("loc-key", "loc-args", localizedBody)
        json.member(ifAny: "launch-image", launchImage)
        json.member(ifAny: "action", action)
        json.member(ifAny: "action-loc-key", actionLocKey)
        json.endObject()
    }
}

extension AlertPayload.Sound {
    fileprivate func write(to json: inout JSONWriter) {
        switch self {
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

extension JSONWriter {
    mutating func member(_ name: String, _ texts: [String]) {
        self.name(name)
        beginArray()
        for text in texts { value(text) }
        endArray()
    }

    /// Writes a member unless the text is `nil`.
    mutating func member(ifAny name: String, _ text: String?) {
        if let text { member(name, text) }
    }

    /// Writes the key and any arguments of a localized text as members, or nothing if the text is `nil`.
    mutating func localized(_ key: String, _ arguments: String, _ text: LocalizedText?) {
        guard let text else { return }
        member(key, text.key)
        if !text.arguments.isEmpty { member(arguments, text.arguments) }
    }
}

extension AlertPayload {
    /// Shortens `body` until the payload has at most `limit` bytes. Returns the number of bytes removed.
    ///
    /// Removes whole characters. With `atWordEnd`, removes whole words, unless even the first word does not fit. Throws
    /// `PayloadTooLarge` and changes nothing if the payload is too large even with an empty body. Also throws the
    /// errors of `json()`.
    @discardableResult
    public mutating func trimBody(
        toFit limit: Int = PushType.alert.payloadLimit, atWordEnd: Bool = false
    ) throws(RequestError) -> Int {
        let size = try size()
        guard size > limit else { return 0 }
        var rest = Substring(body ?? "")
        var excess = size - limit
        var json = JSONWriter(capacity: 64)
        while excess > 0 {
            guard let last = rest.popLast() else {
                throw RequestError(
                    .payloadTooLarge,
                    "the payload is \(size - limit) bytes too large, which is more than removing its body would save")
            }
            excess -= json.escapedSize(of: last)
        }
        if atWordEnd, let text = body, rest.endIndex < text.endIndex, !text[rest.endIndex].isWhitespace,
            let space = rest.lastIndex(where: \.isWhitespace)
        {
            rest = rest[..<space]
        }
        body = String(rest)
        return size - (try self.size())
    }
}

extension JSONWriter {
    /// Returns the number of bytes that a character takes in a JSON string. Discards the writer's previous output.
    fileprivate mutating func escapedSize(of character: Character) -> Int {
        removeAll()
        var text = String(character)
        text.withUTF8 { escaped(UnsafeRawBufferPointer($0)) }
        return out.count
    }
}
