import JSON

/// New data for the complications of a watchOS app that ClockKit makes (push type `complication`); those made with
/// WidgetKit take `WidgetsPayload`.
///
/// What is in it is between your server and your app. A device takes 50 a day. Source: "Keeping your complications up
/// to date".
public struct ComplicationPayload: PushPayload {
    /// All members of the payload.
    public var members: [String: PayloadValue]

    /// A payload with these members.
    public init(_ members: [String: PayloadValue] = [:]) { self.members = members }

    /// Always `complication`.
    public var pushType: PushType { .complication }

    /// The members; without any `{"aps":{}}`.
    public func json() throws(RequestError) -> [UInt8] { try JSONWriter.payload(of: members) }
}
