import JSON

/// What lights up the device, and is read out, when a Live Activity starts or changes.
///
/// ```swift
/// var alert = LiveActivityAlert(title: "Goal!", body: "Home leads 2:1")
/// alert.sound = .named("goal.caf")
/// ```
///
/// It is another object than the alert of a notification: a text and its localization are one member. Source: "Starting
/// and updating Live Activities with ActivityKit push notifications".
public struct LiveActivityAlert: Hashable, Sendable {
    /// A text, or a key of the app's strings.
    public enum Text: Hashable, Sendable {
        /// As it is.
        case plain(String)
        /// Looked up by the app (`loc-key`, `loc-args`).
        case localized(LocalizedText)
    }

    /// What is played.
    public enum Sound: Hashable, Sendable {
        /// The system's.
        case standard
        /// A file of the app.
        case named(String)
    }

    /// Apple Watch shows it, and where there is a banner, the banner does.
    public var title: Text
    /// The text below it.
    public var body: Text
    /// `nil`: none is said.
    public var sound: Sound?

    /// An alert with these texts.
    public init(title: String, body: String, sound: Sound? = nil) {
        self.init(title: .plain(title), body: .plain(body), sound: sound)
    }

    /// An alert with texts of the app.
    public init(title: LocalizedText, body: LocalizedText, sound: Sound? = nil) {
        self.init(title: .localized(title), body: .localized(body), sound: sound)
    }

    /// An alert with these texts.
    public init(title: Text, body: Text, sound: Sound? = nil) {
        self.title = title
        self.body = body
        self.sound = sound
    }

    func write(to json: inout JSONWriter) {
        json.name("alert")
        json.beginObject()
        title.write(to: &json, "title")
        body.write(to: &json, "body")
        switch sound {
        case nil: break
        case .standard: json.member("sound", "default")
        case .named(let name): json.member("sound", name)
        }
        json.endObject()
    }
}

extension LiveActivityAlert.Text {
    fileprivate func write(to json: inout JSONWriter, _ member: String) {
        switch self {
        case .plain(let text): json.member(member, text)
        case .localized(let text):
            json.name(member)
            json.beginObject()
            json.localized("loc-key", "loc-args", text)
            json.endObject()
        }
    }
}
