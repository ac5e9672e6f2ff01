import JSON

/// Tells a Push to Talk app who speaks now, or that nobody does (push type `pushtotalk`).
///
/// ```swift
/// let speaks = PushToTalkPayload(["activeSpeaker": "Ada"])
/// ```
///
/// What is in it is between your server and your app, which answers with a PTPushResult. The device token lives as long
/// as the channel. Unless told otherwise the notification is now or never. Source: "Creating a Push to Talk app".
public struct PushToTalkPayload: PushPayload {
    /// "Set the APNs priority to 10 to request immediate delivery."
    public typealias Priority = ImmediatePriority

    /// All members of the payload.
    public var members: [String: PayloadValue]

    /// A payload with these members.
    public init(_ members: [String: PayloadValue]) { self.members = members }

    /// "Set an expiration of 0 to prevent the system from delivering older pushes."
    public static var defaultExpiration: PushExpiration { .nowOrNever }

    /// Always `pushtotalk`.
    public var pushType: PushType { .pushtotalk }

    /// The members; without any `{"aps":{}}`.
    public func json() throws(RequestError) -> [UInt8] { try JSONWriter.payload(of: members) }
}
