/// Reloads one control (push type `controls`): the one whose push token is the device token.
/// `{"aps":{"content-changed":true}}`.
///
/// It says that something changed and not what. Source: "Updating controls locally and remotely".
public struct ControlsPayload: PushPayload {
    /// There is nothing to be said in it.
    public init() {}

    /// Always `controls`.
    public var pushType: PushType { .controls }

    /// `{"aps":{"content-changed":true}}`.
    public func json() throws(RequestError) -> [UInt8] { Array(#"{"aps":{"content-changed":true}}"#.utf8) }
}
