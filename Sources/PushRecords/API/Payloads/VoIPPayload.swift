import JSON

/// An incoming call (push type `voip`): wakes the app, which must show it with CallKit.
///
/// ```swift
/// let call = VoIPPayload(["callUUID": "3A5B5C2E-1F0B-4C8E-9E61-0B7A2E7E8F11", "handle": "+15550100"])
/// ```
///
/// What is in it is between your server and your app. Unless told otherwise the notification is now or never: "0, or
/// only a few seconds". Up to 5,120 bytes. Source: "Responding to VoIP Notifications from PushKit".
public struct VoIPPayload: PushPayload {
    /// All members of the payload.
    public var members: [String: PayloadValue]

    /// A payload with these members.
    public init(_ members: [String: PayloadValue]) { self.members = members }

    /// A call that comes minutes later is none.
    public static var defaultExpiration: PushExpiration { .nowOrNever }

    /// Always `voip`.
    public var pushType: PushType { .voip }

    /// The members; without any `{"aps":{}}`.
    public func json() throws(RequestError) -> [UInt8] { try JSONWriter.payload(of: members) }
}
