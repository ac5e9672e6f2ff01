/// A text of the app: the key of a string in its Localizable.strings, and what to put into it.
///
/// ```swift
/// payload.localizedBody = LocalizedText("GAME_PLAY_REQUEST_FORMAT", "Shelly", "Rick")
/// ```
///
/// Source: "Generating a remote notification", "Localize your alert messages".
public struct LocalizedText: Hashable, Sendable {
    /// The name of a key in the app's strings.
    public var key: String
    /// What replaces `%@` in that string, one after the other.
    public var arguments: [String]

    /// The text of a key, with these arguments.
    public init(_ key: String, _ arguments: String...) { self.init(key, arguments: arguments) }

    /// The text of a key, with these arguments.
    public init(_ key: String, arguments: [String]) {
        self.key = key
        self.arguments = arguments
    }
}
