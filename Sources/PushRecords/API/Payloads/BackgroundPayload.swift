import JSON

/// Wakes the app to fetch something; nothing is shown, played or set (push type `background`).
///
/// ```swift
/// let wake = BackgroundPayload(custom: ["mailbox": 7])      // {"aps":{"content-available":1},"mailbox":7}
/// ```
///
/// Apple delivers two or three an hour, keeps only the newest for a device that cannot take it now, and promises none.
/// Source: "Pushing background updates to your App".
public struct BackgroundPayload: PushPayload {
    /// 5 is the only one. Source: "Sending notification requests to APNs", `background`.
    public typealias Priority = BackgroundPriority

    /// Your own members, beside `aps`, which has `content-available` and nothing else.
    public var custom: [String: PayloadValue]

    /// A payload with these members of your own.
    public init(custom: [String: PayloadValue] = [:]) { self.custom = custom }

    /// Always `background`.
    public var pushType: PushType { .background }

    /// `{"aps":{"content-available":1}}`, and your own members.
    public func json() throws(RequestError) -> [UInt8] {
        try JSONWriter.payload(beside: custom) { json throws(RequestError) in json.member("content-available", 1) }
    }
}
