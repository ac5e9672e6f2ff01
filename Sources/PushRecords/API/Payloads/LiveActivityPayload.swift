import JSON

/// Starts a Live Activity on a device, iOS 17.2 and newer (push type `liveactivity`, `event` `start`).
///
/// ```swift
/// let start = LiveActivityStart(
///     attributesType: "MatchAttributes", attributes: ["home": "Ajax", "away": "PSV"],
///     contentState: ["score": [0, 0]], alert: LiveActivityAlert(title: "Ajax – PSV", body: "Kick-off"),
///     updates: .newToken, timestamp: now)
/// ```
///
/// The device token is the one of `pushToStartTokenUpdates`. A broadcast cannot start an activity. Source: "Starting
/// and updating Live Activities with ActivityKit push notifications", "Construct the payload that starts a Live
/// Activity".
public struct LiveActivityStart: PushPayload {
    /// "Set the value for the apns-priority header field to 5 or 10."
    public typealias Priority = WakingPriority

    /// How the activity will be updated, on iOS 18 and newer.
    public enum Updates: Hashable, Sendable {
        /// With a push token that the device creates and the app sends to you (`input-push-token`).
        case newToken
        /// With broadcasts on this channel, which must exist (`input-push-channel`).
        case channel(String)
    }

    /// The name of the app's structure that describes the activity (`attributes-type`).
    public var attributesType: String
    /// An object with that structure's members, as Apple's default JSON decoder reads them (`attributes`).
    public var attributes: PayloadValue
    /// An object with the members of its `ContentState`, read in the same way (`content-state`).
    public var contentState: PayloadValue
    /// "Include an alert in the JSON payload" (`alert`).
    public var alert: LiveActivityAlert
    /// If `nil`, updates use the push token that the app gets, as on iOS 17 (`input-push-token`, `input-push-channel`).
    public var updates: Updates?
    /// The present time: devices show the newest payload, whichever arrives last (`timestamp`).
    public var timestamp: UnixTime
    /// When it becomes out of date (`stale-date`).
    public var staleDate: UnixTime?
    /// Any number. The Dynamic Island shows the activity with the highest score (`relevance-score`).
    public var relevanceScore: Double?

    /// A payload that starts an activity. For a state of your own type use `try PayloadValue(encoding: state)`.
    public init(
        attributesType: String, attributes: PayloadValue, contentState: PayloadValue, alert: LiveActivityAlert,
        updates: Updates? = nil, timestamp: UnixTime
    ) {
        self.attributesType = attributesType
        self.attributes = attributes
        self.contentState = contentState
        self.alert = alert
        self.updates = updates
        self.timestamp = timestamp
    }

    /// Always `liveactivity`.
    public var pushType: PushType { .liveactivity }

    /// Returns the payload as it goes to Apple. Throws if a time or a number is wrong, or attributes or state are no
    /// object.
    public func json() throws(RequestError) -> [UInt8] {
        try JSONWriter.payload { json throws(RequestError) in
            json.member("timestamp", try timestamp.checked("timestamp"))
            json.member("event", "start")
            try json.object("content-state", contentState)
            json.member("attributes-type", attributesType)
            try json.object("attributes", attributes)
            switch updates {
            case nil: break
            case .newToken: json.member("input-push-token", 1)
            case .channel(let id): json.member("input-push-channel", id)
            }
            try json.standing(staleDate, relevanceScore)
            alert.write(to: &json)
        }
    }
}

// Members of several events.
extension JSONWriter {
    /// A member of `aps` that must be an object.
    mutating func object(_ name: String, _ value: PayloadValue) throws(RequestError) {
        guard value.isObject else { throw RequestError(.badRequestPayload, "\(name) must be an object") }
        self.name(name)
        try value.write(to: &self, name, depth: 3)
    }

    /// Writes when an activity becomes out of date, and its relevance.
    mutating func standing(_ staleDate: UnixTime?, _ relevanceScore: Double?) throws(RequestError) {
        if let staleDate { member("stale-date", try staleDate.checked("stale-date")) }
        guard let relevanceScore else { return }
        guard relevanceScore.isFinite else {
            throw RequestError(.badRequestPayload, "relevance-score: JSON has no word for \(relevanceScore)")
        }
        member("relevance-score", relevanceScore)
    }
}

/// Updates a Live Activity (push type `liveactivity`, `event` `update`), on one device or on a channel.
///
/// ```swift
/// var goal = LiveActivityUpdate(contentState: try PayloadValue(encoding: state), timestamp: now)
/// goal.alert = LiveActivityAlert(title: "Goal!", body: "Ajax leads")
/// ```
///
/// The device token is the one of `pushTokenUpdates`. Source: "Starting and updating Live Activities with
/// ActivityKit push notifications".
public struct LiveActivityUpdate: BroadcastPayload {
    /// "Set the value for the apns-priority header field to 5 or 10."
    public typealias Priority = WakingPriority

    /// An object with the members of the activity's `ContentState`, as Apple's default JSON decoder reads them
    /// (`content-state`).
    public var contentState: PayloadValue
    /// The present time: devices show the newest payload, whichever arrives last (`timestamp`).
    public var timestamp: UnixTime
    /// When it becomes out of date (`stale-date`).
    public var staleDate: UnixTime?
    /// Any number. The Dynamic Island shows the activity with the highest score (`relevance-score`).
    public var relevanceScore: Double?
    /// If `nil`, it changes without lighting up the device (`alert`).
    public var alert: LiveActivityAlert?

    /// A payload with the activity's new state. For your own type use `try PayloadValue(encoding: state)`.
    public init(contentState: PayloadValue, timestamp: UnixTime) {
        self.contentState = contentState
        self.timestamp = timestamp
    }

    /// Always `liveactivity`.
    public var pushType: PushType { .liveactivity }

    /// Returns the payload as it goes to Apple. Throws if a time or a number is wrong, or the state is no object.
    public func json() throws(RequestError) -> [UInt8] {
        try JSONWriter.payload { json throws(RequestError) in
            json.member("timestamp", try timestamp.checked("timestamp"))
            json.member("event", "update")
            try json.object("content-state", contentState)
            try json.standing(staleDate, relevanceScore)
            alert?.write(to: &json)
        }
    }
}

/// Ends a Live Activity (push type `liveactivity`, `event` `end`), on one device or on a channel.
///
/// ```swift
/// var end = LiveActivityEnd(contentState: ["score": [2, 1]], timestamp: now)
/// end.dismissal = .at(UnixTime(secondsSinceEpoch: now.secondsSinceEpoch + 600))
/// ```
///
/// Source: "Starting and updating Live Activities with ActivityKit push notifications", "End the Live Activity with a
/// custom dismissal date".
public struct LiveActivityEnd: BroadcastPayload {
    /// "Set the value for the apns-priority header field to 5 or 10."
    public typealias Priority = WakingPriority

    /// When an activity that has ended leaves the Lock Screen (`dismissal-date`).
    public enum Dismissal: Hashable, Sendable {
        /// Apple's choice, within four hours.
        case appleDefault
        /// At once.
        case immediately
        /// At that time, but within four hours.
        case at(UnixTime)
    }

    /// The final state, an object with the members of the activity's `ContentState`, or `nil` to keep the last one
    /// (`content-state`).
    public var contentState: PayloadValue?
    /// The present time: devices show the newest payload, whichever arrives last (`timestamp`).
    public var timestamp: UnixTime
    /// When it leaves the Lock Screen (`dismissal-date`).
    public var dismissal: Dismissal
    /// If `nil`, it ends without lighting up the device (`alert`).
    public var alert: LiveActivityAlert?

    /// A payload that ends an activity. "Include the final content state."
    public init(contentState: PayloadValue?, timestamp: UnixTime, dismissal: Dismissal = .appleDefault) {
        self.contentState = contentState
        self.timestamp = timestamp
        self.dismissal = dismissal
    }

    /// Always `liveactivity`.
    public var pushType: PushType { .liveactivity }

    /// Returns the payload as it goes to Apple. Throws if a time is wrong or the state is no object.
    public func json() throws(RequestError) -> [UInt8] {
        try JSONWriter.payload { json throws(RequestError) in
            json.member("timestamp", try timestamp.checked("timestamp"))
            json.member("event", "end")
            if let contentState { try json.object("content-state", contentState) }
            switch dismissal {
            case .appleDefault: break
            // "A date that's in the past", whatever the device's clock says.
            case .immediately: json.member("dismissal-date", 1)
            case .at(let time): json.member("dismissal-date", try time.checked("dismissal-date"))
            }
            alert?.write(to: &json)
        }
    }
}

/// The alert that lights up the device, and is read out, when a Live Activity starts or changes.
///
/// ```swift
/// var alert = LiveActivityAlert(title: "Goal!", body: "Home leads 2:1")
/// alert.sound = .named("goal.caf")
/// ```
///
/// It differs from the alert of a notification: a text and its localization are one member. Source: "Starting
/// and updating Live Activities with ActivityKit push notifications".
public struct LiveActivityAlert: Hashable, Sendable {
    /// A text, or a key of the app's strings.
    public enum Text: Hashable, Sendable {
        /// As it is.
        case plain(String)
        /// A localized text of the app (`loc-key`, `loc-args`).
        case localized(LocalizedText)
    }

    /// The sound to play.
    public enum Sound: Hashable, Sendable {
        /// The system's default.
        case standard
        /// A file of the app.
        case named(String)
    }

    /// The title, shown on Apple Watch and in banners.
    public var title: Text
    /// The text below it.
    public var body: Text
    /// The sound, or `nil` to send none.
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
