import JSON

/// Updates a Live Activity (push type `liveactivity`, `event` `update`), on one device or for all who listen to a
/// channel.
///
/// ```swift
/// var goal = LiveActivityUpdate(contentState: try PayloadValue(encoding: state), timestamp: now)
/// goal.alert = LiveActivityAlert(title: "Goal!", body: "Ajax leads")
/// ```
///
/// The device token is the one that `pushTokenUpdates` gave. Source: "Starting and updating Live Activities with
/// ActivityKit push notifications".
public struct LiveActivityUpdate: BroadcastPayload {
    /// "Set the value for the apns-priority header field to 5 or 10."
    public typealias Priority = WakingPriority

    /// An object with the members of the activity's `ContentState`, as Apple's default JSON decoder reads them
    /// (`content-state`).
    public var contentState: PayloadValue
    /// Now, so that the newest is shown whatever comes last (`timestamp`).
    public var timestamp: UnixTime
    /// From when on it is shown as out of date (`stale-date`).
    public var staleDate: UnixTime?
    /// Any number; of several activities the one with the highest is in the Dynamic Island (`relevance-score`).
    public var relevanceScore: Double?
    /// `nil`: it changes without lighting up the device (`alert`).
    public var alert: LiveActivityAlert?

    /// A payload with the activity's new state. From a type of your own: `try PayloadValue(encoding: state)`.
    public init(contentState: PayloadValue, timestamp: UnixTime) {
        self.contentState = contentState
        self.timestamp = timestamp
    }

    /// Always `liveactivity`.
    public var pushType: PushType { .liveactivity }

    /// The payload as it goes to Apple. Throws where a time or a number can be none, and where the state is no object.
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
