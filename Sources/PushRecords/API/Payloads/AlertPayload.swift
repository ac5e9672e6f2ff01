import JSON

/// The payload of a notification that shows, plays or badges something (push type `alert`): the members of `aps`, and
/// your own beside it.
///
/// ```swift
/// var payload = AlertPayload(title: "Order 4711", body: "is on its way")
/// payload.sound = .standard
/// payload.interruptionLevel = .timeSensitive
/// payload.custom["order"] = 4711
/// ```
///
/// Source: "Generating a remote notification". What is not here goes into `more`.
public struct AlertPayload: CollapsiblePayload {
    /// What is played.
    public enum Sound: Hashable, Sendable {
        /// The system's.
        case standard
        /// A file of the app, in its bundle or its folder for sounds.
        case named(String)
        /// Also when the device is muted; `volume` from 0 to 1. The app needs an entitlement for it.
        case critical(String = "default", volume: Double = 1)
    }

    /// How much a notification may disturb; Apple's default is `active`.
    public enum InterruptionLevel: String, CaseIterable, Sendable {
        /// Goes to the list, without lighting up the screen.
        case passive
        /// Lights up the screen, and may play a sound.
        case active
        /// Breaks through a Focus and the scheduled summary.
        case timeSensitive = "time-sensitive"
        /// Also where the device is muted. The app needs an entitlement for it.
        case critical
    }

    // MARK: Text; source: "Generating a remote notification", Table 2

    /// The first line (`title`).
    public var title: String?
    /// The same as a text of the app, which goes before `title` (`title-loc-key`, `title-loc-args`).
    public var localizedTitle: LocalizedText?
    /// The line below it (`subtitle`).
    public var subtitle: String?
    /// The same as a text of the app, which goes before `subtitle` (`subtitle-loc-key`, `subtitle-loc-args`).
    public var localizedSubtitle: LocalizedText?
    /// The text (`body`). Where it is all that the alert has, `alert` is a string.
    public var body: String?
    /// The same as a text of the app, which goes before `body` (`loc-key`, `loc-args`).
    public var localizedBody: LocalizedText?
    /// The image or storyboard that is shown while the app starts (`launch-image`).
    public var launchImage: String?
    /// The label of the alert's button, of websites in Safari (`action`). Source: "Configuring Safari Push
    /// Notifications".
    public var action: String?
    /// The same as a key in the app's strings, of iOS before 10 (`action-loc-key`). Source: "Payload Key Reference", in
    /// the archived "Local and Remote Notification Programming Guide".
    public var actionLocKey: String?

    // MARK: The rest of aps; source: "Generating a remote notification", Tables 1 and 3

    /// The number on the app's icon; 0 takes it away (`badge`).
    public var badge: Int?
    /// `nil`: silent (`sound`).
    public var sound: Sound?
    /// Name of a category of actions that the app has registered (`category`).
    public var category: String?
    /// Groups notifications (`thread-id`).
    public var threadID: String?
    /// Which window of the app comes forward (`target-content-id`).
    public var targetContentID: String?
    /// A service extension of the app may change it before it is shown (`mutable-content`). Source: "Modifying content
    /// in newly delivered notifications".
    public var isMutable = false
    /// The app is woken, too, to fetch something (`content-available`). Where nothing is shown: `BackgroundPayload`.
    public var isContentAvailable = false
    /// `nil`: Apple's default (`interruption-level`).
    public var interruptionLevel: InterruptionLevel?
    /// From 0 to 1; the notification with the highest is shown first in a summary (`relevance-score`).
    public var relevanceScore: Double?
    /// What a Focus filter of the app looks at (`filter-criteria`).
    public var filterCriteria: String?
    /// What goes into the URL of a website's notification in Safari (`url-args`). Source: "Configuring Safari Push
    /// Notifications".
    public var urlArguments: [String]?
    /// Further members of `aps`, should Apple have more by now.
    public var more: [String: PayloadValue] = [:]

    /// Your own members beside `aps`. From a type of your own: `try .init(encoding: order)`.
    public var custom: [String: PayloadValue] = [:]

    /// A payload with these texts; without any it shows nothing.
    public init(title: String? = nil, subtitle: String? = nil, body: String? = nil) {
        self.title = title
        self.subtitle = subtitle
        self.body = body
    }

    /// Always `alert`.
    public var pushType: PushType { .alert }
}

extension AlertPayload {
    /// The payload as it goes to Apple; equal payloads are equal bytes.
    ///
    /// Throws what is wrong with a number, a name or JSON made elsewhere. Its size is checked with the record.
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

    /// What `json` writes by itself.
    private static let names: Set<String> = [
        "alert", "badge", "sound", "category", "thread-id", "target-content-id", "mutable-content", "content-available",
        "interruption-level", "relevance-score", "filter-criteria", "url-args",
    ]

    private func check() throws(RequestError) {
        if let badge, badge < 0 { throw RequestError(.badRequestPayload, "badge must be 0 or more") }
        if let relevanceScore, !(0...1).contains(relevanceScore) {
            throw RequestError(.badRequestPayload, "relevance-score must be 0 to 1")
        }
        if case .critical(_, let volume)? = sound, !(0...1).contains(volume) {
            throw RequestError(.badRequestPayload, "sound: volume must be 0 to 1")
        }
        if let name = Self.names.sorted().first(where: { more[$0] != nil }) {
            throw RequestError(.badRequestPayload, "more: \(name) has a property of its own")
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

    /// Nothing, where there is none.
    mutating func member(ifAny name: String, _ text: String?) {
        if let text { member(name, text) }
    }

    /// A key of the app's strings and what is put into it, as two members; nothing, where there is none.
    mutating func localized(_ key: String, _ arguments: String, _ text: LocalizedText?) {
        guard let text else { return }
        member(key, text.key)
        if !text.arguments.isEmpty { member(arguments, text.arguments) }
    }
}

extension AlertPayload {
    /// Shortens `body` until the payload has at most `limit` bytes; returns by how many bytes it is shorter than
    /// before, 0 where it fits as it is.
    ///
    /// Whole characters are cut, so that no emoji is left in half; with `atWordEnd` whole words, as long as a space is
    /// left. Throws `PayloadTooLarge`, and changes nothing, where even without a text it would be larger; and what
    /// `json()` throws.
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
                    .payloadTooLarge, "the payload has \(size - limit) bytes too many, and its body is not that long")
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
    /// How many bytes a character takes in a string of JSON. What was written before is gone.
    fileprivate mutating func escapedSize(of character: Character) -> Int {
        removeAll()
        var text = String(character)
        text.withUTF8 { escaped(UnsafeRawBufferPointer($0)) }
        return out.count
    }
}
