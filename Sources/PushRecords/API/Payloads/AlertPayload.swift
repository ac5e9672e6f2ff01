/// The payload of a notification that shows, plays or badges something (push type `alert`): the members of `aps`, and
/// your own beside it.
///
/// ```swift
/// var payload = AlertPayload(title: "Order 4711", body: "is on its way")
/// payload.sound = .standard
/// payload.interruptionLevel = .timeSensitive
/// payload.custom["order"] = 4711
/// ```
///
/// Source: "Generating a remote notification". What is not here goes into `more`.
public struct AlertPayload: CollapsiblePayload {
    /// What is played.
    public enum Sound: Hashable, Sendable {
        /// The system's.
        case standard
        /// A file of the app, in its bundle or its folder for sounds.
        case named(String)
        /// Also when the device is muted; `volume` from 0 to 1. The app needs an entitlement for it.
        case critical(String = "default", volume: Double = 1)
    }

    /// How much a notification may disturb; Apple's default is `active`.
    public enum InterruptionLevel: String, CaseIterable, Sendable {
        /// Goes to the list, without lighting up the screen.
        case passive
        /// Lights up the screen, and may play a sound.
        case active
        /// Breaks through a Focus and the scheduled summary.
        case timeSensitive = "time-sensitive"
        /// Also where the device is muted. The app needs an entitlement for it.
        case critical
    }

    // MARK: Text; source: "Generating a remote notification", Table 2

    /// The first line (`title`).
    public var title: String?
    /// The same as a text of the app, which goes before `title` (`title-loc-key`, `title-loc-args`).
    public var localizedTitle: LocalizedText?
    /// The line below it (`subtitle`).
    public var subtitle: String?
    /// The same as a text of the app, which goes before `subtitle` (`subtitle-loc-key`, `subtitle-loc-args`).
    public var localizedSubtitle: LocalizedText?
    /// The text (`body`). Where it is all that the alert has, `alert` is a string.
    public var body: String?
    /// The same as a text of the app, which goes before `body` (`loc-key`, `loc-args`).
    public var localizedBody: LocalizedText?
    /// The image or storyboard that is shown while the app starts (`launch-image`).
    public var launchImage: String?
    /// The label of the alert's button, of websites in Safari (`action`). Source: "Configuring Safari Push
    /// Notifications".
    public var action: String?
    /// The same as a key in the app's strings, of iOS before 10 (`action-loc-key`). Source: "Payload Key Reference", in
    /// the archived "Local and Remote Notification Programming Guide".
    public var actionLocKey: String?

    // MARK: The rest of aps; source: "Generating a remote notification", Tables 1 and 3

    /// The number on the app's icon; 0 takes it away (`badge`).
    public var badge: Int?
    /// `nil`: silent (`sound`).
    public var sound: Sound?
    /// Name of a category of actions that the app has registered (`category`).
    public var category: String?
    /// Groups notifications (`thread-id`).
    public var threadID: String?
    /// Which window of the app comes forward (`target-content-id`).
    public var targetContentID: String?
    /// A service extension of the app may change it before it is shown (`mutable-content`). Source: "Modifying content
    /// in newly delivered notifications".
    public var isMutable = false
    /// The app is woken, too, to fetch something (`content-available`). Where nothing is shown: `BackgroundPayload`.
    public var isContentAvailable = false
    /// `nil`: Apple's default (`interruption-level`).
    public var interruptionLevel: InterruptionLevel?
    /// From 0 to 1; the notification with the highest is shown first in a summary (`relevance-score`).
    public var relevanceScore: Double?
    /// What a Focus filter of the app looks at (`filter-criteria`).
    public var filterCriteria: String?
    /// What goes into the URL of a website's notification in Safari (`url-args`). Source: "Configuring Safari Push
    /// Notifications".
    public var urlArguments: [String]?
    /// Further members of `aps`, should Apple have more by now.
    public var more: [String: PayloadValue] = [:]

    /// Your own members beside `aps`. From a type of your own: `try .init(encoding: order)`.
    public var custom: [String: PayloadValue] = [:]

    /// A payload with these texts; without any it shows nothing.
    public init(title: String? = nil, subtitle: String? = nil, body: String? = nil) {
        self.title = title
        self.subtitle = subtitle
        self.body = body
    }

    /// Always `alert`.
    public var pushType: PushType { .alert }
}
