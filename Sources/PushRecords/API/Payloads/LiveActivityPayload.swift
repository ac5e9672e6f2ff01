import JSON

/// The payload that starts a Live Activity, on iOS 17.2 and newer (push type `liveactivity`, `event` `start`).
///
/// ```swift
/// let start = LiveActivityStart(
///     attributesType: "MatchAttributes", attributes: ["home": "Ajax", "away": "PSV"],
///     contentState: ["score": [0, 0]], alert: LiveActivityAlert(title: "Ajax – PSV", body: "Kick-off"),
///     updates: .newToken, timestamp: now)
/// ```
///
/// Send the payload to a token from `pushToStartTokenUpdates`. A broadcast cannot start an activity. Source: "Starting
/// and updating Live Activities with ActivityKit push notifications", "Construct the payload that starts a Live
/// Activity".
public struct LiveActivityStart: PushPayload {
    /// The allowed priorities: "Set the value for the apns-priority header field to 5 or 10."
    public typealias Priority = WakingPriority

    /// How the activity receives updates, on iOS 18 and newer.
    public enum Updates: Hashable, Sendable {
        /// Updates to a new push token, which the device creates and the app sends to you (`input-push-token`).
        case newToken
        /// Broadcasts on this channel, which must exist (`input-push-channel`).
        case channel(String)
    }

    /// The name of the app's structure that describes the activity (`attributes-type`).
    public var attributesType: String
    /// The members of the structure `attributesType`, as an object for Apple's default JSON decoder (`attributes`).
    public var attributes: PayloadValue
    /// The members of the activity's `ContentState`, as an object for Apple's default JSON decoder (`content-state`).
    public var contentState: PayloadValue
    /// The alert, which Apple requires (`alert`).
    public var alert: LiveActivityAlert
    /// The way in which the activity receives updates. If `nil`, send updates to a token from `pushTokenUpdates`, as on
    /// iOS 17.
    public var updates: Updates?
    /// The current time (`timestamp`). A device shows the payload with the newest timestamp, regardless of the order in
    /// which payloads arrive.
    public var timestamp: UnixTime
    /// The time at which the content becomes out of date (`stale-date`).
    public var staleDate: UnixTime?
    /// The relevance, which can be any finite number (`relevance-score`). The Dynamic Island shows the activity with
    /// the highest score.
    public var relevanceScore: Double?

    /// Creates a payload that starts an activity. Encode your own types with `try PayloadValue(encoding: state)`.
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

    /// The push type, always `liveactivity`.
    public var pushType: PushType { .liveactivity }

    /// Returns the payload as JSON. Throws if a time or number is invalid, or `attributes` or `contentState` is not an
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

extension JSONWriter {
    /// Writes an object as a member of `aps`. Throws if the value is not an object, or is invalid.
    mutating func object(_ name: String, _ value: PayloadValue) throws(RequestError) {
        guard value.isObject else { throw RequestError(.badRequestPayload, "\(name) must be an object") }
        self.name(name)
        try value.write(to: &self, name, depth: 3)
    }

    /// Writes the members `stale-date` and `relevance-score`.
    mutating func standing(_ staleDate: UnixTime?, _ relevanceScore: Double?) throws(RequestError) {
        if let staleDate { member("stale-date", try staleDate.checked("stale-date")) }
        guard let relevanceScore else { return }
        guard relevanceScore.isFinite else {
            throw RequestError(.badRequestPayload, "relevance-score: JSON cannot represent \(relevanceScore)")
        }
        member("relevance-score", relevanceScore)
    }
}

/// The payload that updates a Live Activity, on a device or a channel (push type `liveactivity`, `event` `update`).
///
/// ```swift
/// var goal = LiveActivityUpdate(contentState: try PayloadValue(encoding: state), timestamp: now)
/// goal.alert = LiveActivityAlert(title: "Goal!", body: "Ajax leads")
/// ```
///
/// Send the payload to a token from `pushTokenUpdates`, or to a channel. Source: "Starting and updating Live Activities
/// with ActivityKit push notifications".
public struct LiveActivityUpdate: BroadcastPayload {
    /// The allowed priorities: "Set the value for the apns-priority header field to 5 or 10."
    public typealias Priority = WakingPriority

    /// The members of the activity's `ContentState`, as an object for Apple's default JSON decoder (`content-state`).
    public var contentState: PayloadValue
    /// The current time (`timestamp`). A device shows the payload with the newest timestamp, regardless of the order in
    /// which payloads arrive.
    public var timestamp: UnixTime
    /// The time at which the content becomes out of date (`stale-date`).
    public var staleDate: UnixTime?
    /// The relevance, which can be any finite number (`relevance-score`). The Dynamic Island shows the activity with
    /// the highest score.
    public var relevanceScore: Double?
    /// The alert, or `nil` to update without lighting up the device (`alert`).
    public var alert: LiveActivityAlert?

    /// Creates a payload with the activity's new state. Encode your own type with `try PayloadValue(encoding: state)`.
    public init(contentState: PayloadValue, timestamp: UnixTime) {
        self.contentState = contentState
        self.timestamp = timestamp
    }

    /// The push type, always `liveactivity`.
    public var pushType: PushType { .liveactivity }

    /// Returns the payload as JSON. Throws if a time or number is invalid, or `contentState` is not an object.
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

/// The payload that ends a Live Activity, on one device or on a channel (push type `liveactivity`, `event` `end`).
///
/// ```swift
/// var end = LiveActivityEnd(contentState: ["score": [2, 1]], timestamp: now)
/// end.dismissal = .at(UnixTime(secondsSinceEpoch: now.secondsSinceEpoch + 600))
/// ```
///
/// Source: "Starting and updating Live Activities with ActivityKit push notifications", "End the Live Activity with a
/// custom dismissal date".
public struct LiveActivityEnd: BroadcastPayload {
    /// The allowed priorities: "Set the value for the apns-priority header field to 5 or 10."
    public typealias Priority = WakingPriority

    /// The time at which an ended activity leaves the Lock Screen (`dismissal-date`).
    public enum Dismissal: Hashable, Sendable {
        /// The device removes the activity at a time that Apple chooses, within four hours.
        case appleDefault
        /// The device removes the activity immediately.
        case immediately
        /// The device removes the activity at this time or after four hours, whichever is earlier.
        case at(UnixTime)
    }

    /// The final state, as an object with the members of the activity's `ContentState` (`content-state`). `nil` keeps
    /// the last state.
    public var contentState: PayloadValue?
    /// The current time (`timestamp`). A device shows the payload with the newest timestamp, regardless of the order in
    /// which payloads arrive.
    public var timestamp: UnixTime
    /// The time at which the activity leaves the Lock Screen (`dismissal-date`).
    public var dismissal: Dismissal
    /// The alert, or `nil` to end without lighting up the device (`alert`).
    public var alert: LiveActivityAlert?

    /// Creates a payload that ends an activity. Apple recommends that you "include the final content state".
    public init(contentState: PayloadValue?, timestamp: UnixTime, dismissal: Dismissal = .appleDefault) {
        self.contentState = contentState
        self.timestamp = timestamp
        self.dismissal = dismissal
    }

    /// The push type, always `liveactivity`.
    public var pushType: PushType { .liveactivity }

    /// Returns the payload as JSON. Throws if a time is invalid or `contentState` is not an object.
    public func json() throws(RequestError) -> [UInt8] {
        try JSONWriter.payload { json throws(RequestError) in
            json.member("timestamp", try timestamp.checked("timestamp"))
            json.member("event", "end")
            if let contentState { try json.object("content-state", contentState) }
            switch dismissal {
            case .appleDefault: break
            // Apple requires "a date that's in the past". The year 1970 is in the past on every device.
            case .immediately: json.member("dismissal-date", 1)
            case .at(let time): json.member("dismissal-date", try time.checked("dismissal-date"))
            }
            alert?.write(to: &json)
        }
    }
}

/// The alert that lights up the device when a Live Activity starts, changes or ends.
///
/// ```swift
/// var alert = LiveActivityAlert(title: "Goal!", body: "Home leads 2:1")
/// alert.sound = .named("goal.caf")
/// ```
///
/// Title and body are each either plain or localized, and both kinds use the same JSON member. An `AlertPayload` has
/// separate members for plain and localized texts. Source: "Starting and updating Live Activities with ActivityKit push
/// notifications".
public struct LiveActivityAlert: Hashable, Sendable {
    /// A plain or a localized text.
    public enum Text: Hashable, Sendable {
        /// Text that is shown as it is.
        case plain(String)
        /// A string from the app's strings file (`loc-key`, `loc-args`).
        case localized(LocalizedText)
    }

    /// The sound to play.
    public enum Sound: Hashable, Sendable {
        /// The system's default sound.
        case standard
        /// A sound file of the app.
        case named(String)
    }

    /// The title, shown on Apple Watch and in banners.
    public var title: Text
    /// The text below the title.
    public var body: Text
    /// The sound, or `nil` for none.
    public var sound: Sound?

    /// Creates an alert with plain texts.
    public init(title: String, body: String, sound: Sound? = nil) {
        self.init(title: .plain(title), body: .plain(body), sound: sound)
    }

    /// Creates an alert with localized texts.
    public init(title: LocalizedText, body: LocalizedText, sound: Sound? = nil) {
        self.init(title: .localized(title), body: .localized(body), sound: sound)
    }

    /// Creates an alert.
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
