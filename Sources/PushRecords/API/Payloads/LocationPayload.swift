import JSON

/// Asks for the device's location: wakes the app's Location Push Service Extension (push type `location`).
///
/// What is in it is between your server and your extension. The device token is the one of
/// `startMonitoringLocationPushes(completion:)`; an app needs a signing key for it, a certificate does not do.
/// Source: "Creating a location push service extension".
public struct LocationPayload: PushPayload {
    /// 10 where the answer is needed at once, else 5. Source: "Sending notification requests to APNs", `location`.
    public typealias Priority = WakingPriority

    /// All members of the payload.
    public var members: [String: PayloadValue]

    /// A payload with these members; a query needs none.
    public init(_ members: [String: PayloadValue] = [:]) { self.members = members }

    /// Always `location`.
    public var pushType: PushType { .location }

    /// The members; without any `{"aps":{}}`.
    public func json() throws(RequestError) -> [UInt8] { try JSONWriter.payload(of: members) }
}
