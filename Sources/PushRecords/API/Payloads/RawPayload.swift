/// JSON made elsewhere, of any push type: it goes to Apple byte for byte. Everything that the types of the other
/// payloads forbid is left to the worker's checks when a record is made.
///
/// ```swift
/// let notification = PushNotification(json: bytes, pushType: .voip, topic: .bundleID("com.example.shop"))
/// ```
public struct RawPayload: CollapsiblePayload, BroadcastPayload {
    /// A JSON object. Source of what is in it: "Generating a remote notification".
    public var bytes: [UInt8]
    /// What kind of notification it is (`apns-push-type`). Source: "Sending notification requests to APNs".
    public var pushType: PushType

    /// A payload as it is; it is checked with the record.
    public init(_ bytes: some Collection<UInt8>, pushType: PushType) {
        self.bytes = Array(bytes)
        self.pushType = pushType
    }

    /// The bytes, as they are.
    public func json() throws(RequestError) -> [UInt8] { bytes }
}
