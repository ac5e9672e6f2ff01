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
/// The device token is the one that `pushToStartTokenUpdates` gave. It goes to devices only: a broadcast starts
/// nothing. Source: "Starting and updating Live Activities with ActivityKit push notifications", "Construct the payload
/// that starts a Live Activity".
public struct LiveActivityStart: PushPayload {
    /// "Set the value for the apns-priority header field to 5 or 10."
    public typealias Priority = WakingPriority

    /// How the activity will be updated, iOS 18 and newer.
    public enum Updates: Hashable, Sendable {
        /// By a push token that the device makes for it and the app sends to you (`input-push-token`).
        case newToken
        /// By broadcasts to this channel; it must exist, or nothing starts (`input-push-channel`).
        case channel(String)
    }

    /// Name of the structure in the app that describes the activity (`attributes-type`).
    public var attributesType: String
    /// An object with that structure's members, as Apple's default JSON decoder reads them (`attributes`).
    public var attributes: PayloadValue
    /// An object with the members of its `ContentState`, likewise (`content-state`).
    public var contentState: PayloadValue
    /// "Include an alert in the JSON payload": nobody is to be surprised by what starts (`alert`).
    public var alert: LiveActivityAlert
    /// `nil`: as on iOS 17, by the push token that the app gets (`input-push-token`, `input-push-channel`).
    public var updates: Updates?
    /// Now, so that the newest is shown whatever comes last (`timestamp`).
    public var timestamp: UnixTime
    /// From when on it is shown as out of date (`stale-date`).
    public var staleDate: UnixTime?
    /// Any number; of several activities the one with the highest is in the Dynamic Island (`relevance-score`).
    public var relevanceScore: Double?

    /// A payload that starts an activity. A state from a type of your own: `try PayloadValue(encoding: state)`.
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

    /// The payload as it goes to Apple. Throws where a time or a number can be none, and where attributes or state are
    /// no object.
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

// What the three events write alike.
extension JSONWriter {
    /// A member of `aps` that must be an object.
    mutating func object(_ name: String, _ value: PayloadValue) throws(RequestError) {
        guard value.isObject else { throw RequestError(.badRequestPayload, "\(name) must be an object") }
        self.name(name)
        try value.write(to: &self, name, depth: 3)
    }

    /// When an activity is out of date, and its place among others.
    mutating func standing(_ staleDate: UnixTime?, _ relevanceScore: Double?) throws(RequestError) {
        if let staleDate { member("stale-date", try staleDate.checked("stale-date")) }
        guard let relevanceScore else { return }
        guard relevanceScore.isFinite else {
            throw RequestError(.badRequestPayload, "relevance-score: JSON has no word for \(relevanceScore)")
        }
        member("relevance-score", relevanceScore)
    }
}
