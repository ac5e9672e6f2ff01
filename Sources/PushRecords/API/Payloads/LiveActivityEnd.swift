import JSON

/// Ends a Live Activity (push type `liveactivity`, `event` `end`), on one device or for all who listen to a channel.
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
        /// As Apple likes: after four hours at most.
        case appleDefault
        /// At once.
        case immediately
        /// Then, but after four hours at most.
        case at(UnixTime)
    }

    /// What is shown from now on: an object with the members of the activity's `ContentState`. `nil`: what is shown
    /// last (`content-state`).
    public var contentState: PayloadValue?
    /// Now, so that the newest is shown whatever comes last (`timestamp`).
    public var timestamp: UnixTime
    /// When it leaves the Lock Screen (`dismissal-date`).
    public var dismissal: Dismissal
    /// `nil`: it ends without lighting up the device (`alert`).
    public var alert: LiveActivityAlert?

    /// A payload that ends an activity. "Include the final content state."
    public init(contentState: PayloadValue?, timestamp: UnixTime, dismissal: Dismissal = .appleDefault) {
        self.contentState = contentState
        self.timestamp = timestamp
        self.dismissal = dismissal
    }

    /// Always `liveactivity`.
    public var pushType: PushType { .liveactivity }

    /// The payload as it goes to Apple. Throws where a time can be none, and where the state is no object.
    public func json() throws(RequestError) -> [UInt8] {
        try JSONWriter.payload { json throws(RequestError) in
            json.member("timestamp", try timestamp.checked("timestamp"))
            json.member("event", "end")
            if let contentState { try json.object("content-state", contentState) }
            switch dismissal {
            case .appleDefault: break
            // "A date that's in the past": in the past of every device, whatever its clock says.
            case .immediately: json.member("dismissal-date", 1)
            case .at(let time): json.member("dismissal-date", try time.checked("dismissal-date"))
            }
            alert?.write(to: &json)
        }
    }
}
