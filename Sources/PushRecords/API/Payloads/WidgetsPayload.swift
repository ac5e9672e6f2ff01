/// Reloads the app's widgets (push type `widgets`), as `reloadAllTimelines()` does: `{"aps":{"content-changed":true}}`.
///
/// It says that something changed and not what: the widget asks for that itself. The device token is the one that
/// the app's WidgetPushHandler got. Source: "Updating widgets with WidgetKit push notifications".
public struct WidgetsPayload: PushPayload {
    /// There is nothing to be said in it.
    public init() {}

    /// Always `widgets`.
    public var pushType: PushType { .widgets }

    /// `{"aps":{"content-changed":true}}`.
    public func json() throws(RequestError) -> [UInt8] { Array(#"{"aps":{"content-changed":true}}"#.utf8) }
}
