import JSON

/// The payload of a background notification, which wakes the app and shows nothing (push type `background`).
///
/// ```swift
/// let wake = BackgroundPayload(custom: ["mailbox": 7])      // {"aps":{"content-available":1},"mailbox":7}
/// ```
///
/// Apple advises against more than two or three background notifications an hour. APNs stores only the newest one for
/// an unreachable device, and does not guarantee delivery. Source: "Pushing background updates to your App".
public struct BackgroundPayload: PushPayload {
    /// The only allowed priority, 5. Source: "Sending notification requests to APNs", `background`.
    public typealias Priority = BackgroundPriority

    /// Your own members, beside `aps`.
    public var custom: [String: PayloadValue]

    /// Creates a payload with your own members.
    public init(custom: [String: PayloadValue] = [:]) { self.custom = custom }

    /// The push type, always `background`.
    public var pushType: PushType { .background }

    /// Returns `{"aps":{"content-available":1}}` with your own members.
    public func json() throws(RequestError) -> [UInt8] {
        try JSONWriter.payload(beside: custom) { json throws(RequestError) in json.member("content-available", 1) }
    }
}

/// The payload that updates ClockKit complications of a watchOS app (push type `complication`). WidgetKit complications
/// use `WidgetsPayload`.
///
/// Your app defines the content. A device accepts 50 notifications of this push type a day. Source: "Keeping your
/// complications up to date".
public struct ComplicationPayload: PushPayload {
    /// All members of the payload.
    public var members: [String: PayloadValue]

    /// Creates a payload with these members.
    public init(_ members: [String: PayloadValue] = [:]) { self.members = members }

    /// The push type, always `complication`.
    public var pushType: PushType { .complication }

    /// Returns the members as JSON, or `{"aps":{}}` if there are none.
    public func json() throws(RequestError) -> [UInt8] { try JSONWriter.payload(of: members) }
}

/// The payload that reloads one control (push type `controls`). The device token is the control's push token.
///
/// The payload cannot contain the control's new state. Source: "Updating controls locally and remotely".
public struct ControlsPayload: PushPayload {
    /// Creates the payload, which has no content.
    public init() {}

    /// The push type, always `controls`.
    public var pushType: PushType { .controls }

    /// Returns `{"aps":{"content-changed":true}}`.
    public func json() throws(RequestError) -> [UInt8] { Array(#"{"aps":{"content-changed":true}}"#.utf8) }
}

/// The payload that tells a File Provider extension about changes (push type `fileprovider`).
///
/// ```swift
/// let changed = FileProviderPayload(.workingSet, domain: "documents")
/// ```
///
/// Source: "Using push notifications to signal changes".
public struct FileProviderPayload: PushPayload {
    /// The container that has changed (`container-identifier`).
    public enum Container: Hashable, Sendable {
        /// The working set, the only container allowed for a replicated extension.
        case workingSet
        /// The root container of the domain.
        case root
        /// The container with this `itemIdentifier`.
        case item(String)

        var identifier: String {
            switch self {
            case .workingSet: "NSFileProviderWorkingSetContainerItemIdentifier"
            case .root: "NSFileProviderRootContainerItemIdentifier"
            case .item(let identifier): identifier
            }
        }
    }

    /// The container that has changed (`container-identifier`).
    public var container: Container
    /// The `identifier` of the domain (`domain`).
    public var domain: String

    /// Creates a payload for a container that has changed in a domain.
    public init(_ container: Container, domain: String) {
        self.container = container
        self.domain = domain
    }

    /// The push type, always `fileprovider`.
    public var pushType: PushType { .fileprovider }

    /// Returns `{"container-identifier":"…","domain":"…"}`, without `aps`.
    public func json() throws(RequestError) -> [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.member("container-identifier", container.identifier)
        json.member("domain", domain)
        json.endObject()
        return Array(json.bytes)
    }
}

/// The payload that requests the location from the app's Location Push Service Extension (push type `location`).
///
/// Your extension defines the content. Use the token from `startMonitoringLocationPushes(completion:)`. The app
/// needs a signing key, not a certificate. Source: "Creating a location push service extension".
public struct LocationPayload: PushPayload {
    /// The allowed priorities: 10 if you need the location immediately, else 5. Source: "Sending notification requests
    /// to APNs", `location`.
    public typealias Priority = WakingPriority

    /// All members of the payload.
    public var members: [String: PayloadValue]

    /// Creates a payload with these members. A location query needs no members.
    public init(_ members: [String: PayloadValue] = [:]) { self.members = members }

    /// The push type, always `location`.
    public var pushType: PushType { .location }

    /// Returns the members as JSON, or `{"aps":{}}` if there are none.
    public func json() throws(RequestError) -> [UInt8] { try JSONWriter.payload(of: members) }
}

/// The payload that tells a managed device to contact its MDM server (push type `mdm`).
///
/// The topic is the UID in the subject of the MDM push certificate: `topic: .exactly("com.apple.mgmt.External.…")`.
/// Source: "Sending MDM commands to a device".
public struct MDMPayload: PushPayload {
    /// The `PushMagic` from the device's TokenUpdate message.
    public var pushMagic: String

    /// Creates a payload with a device's `PushMagic`.
    public init(pushMagic: String) { self.pushMagic = pushMagic }

    /// The push type, always `mdm`.
    public var pushType: PushType { .mdm }

    /// Returns `{"mdm":"…"}`. Throws if `pushMagic` is empty.
    public func json() throws(RequestError) -> [UInt8] {
        if pushMagic.isEmpty { throw RequestError(.badRequestPayload, "mdm: PushMagic must not be empty") }
        var json = JSONWriter()
        json.beginObject()
        json.member("mdm", pushMagic)
        json.endObject()
        return Array(json.bytes)
    }
}

/// The payload that tells a Push to Talk app who is speaking (push type `pushtotalk`).
///
/// ```swift
/// let speaks = PushToTalkPayload(["activeSpeaker": "Ada"])
/// ```
///
/// Your app defines the content and returns a PTPushResult. A device token is valid for as long as its Push to Talk
/// channel. The default expiration is `nowOrNever`. Source: "Creating a Push to Talk app".
public struct PushToTalkPayload: PushPayload {
    /// The only allowed priority: "Set the APNs priority to 10 to request immediate delivery."
    public typealias Priority = ImmediatePriority

    /// All members of the payload.
    public var members: [String: PayloadValue]

    /// Creates a payload with these members.
    public init(_ members: [String: PayloadValue]) { self.members = members }

    /// The default expiration: "Set an expiration of 0 to prevent the system from delivering older pushes."
    public static var defaultExpiration: PushExpiration { .nowOrNever }

    /// The push type, always `pushtotalk`.
    public var pushType: PushType { .pushtotalk }

    /// Returns the members as JSON, or `{"aps":{}}` if there are none.
    public func json() throws(RequestError) -> [UInt8] { try JSONWriter.payload(of: members) }
}

/// The payload of an incoming call, which the app must report to CallKit (push type `voip`).
///
/// ```swift
/// let call = VoIPPayload(["callUUID": "3A5B5C2E-1F0B-4C8E-9E61-0B7A2E7E8F11", "handle": "+15550100"])
/// ```
///
/// Your app defines the content, of up to 5,120 bytes. Apple advises an expiration of "0, or only a few seconds", so
/// the default is `nowOrNever`. Source: "Responding to VoIP Notifications from PushKit".
public struct VoIPPayload: PushPayload {
    /// All members of the payload.
    public var members: [String: PayloadValue]

    /// Creates a payload with these members.
    public init(_ members: [String: PayloadValue]) { self.members = members }

    /// The default expiration, because a call that arrives minutes later is useless.
    public static var defaultExpiration: PushExpiration { .nowOrNever }

    /// The push type, always `voip`.
    public var pushType: PushType { .voip }

    /// Returns the members as JSON, or `{"aps":{}}` if there are none.
    public func json() throws(RequestError) -> [UInt8] { try JSONWriter.payload(of: members) }
}

/// The payload that reloads the app's widgets, as `reloadAllTimelines()` does (push type `widgets`).
///
/// The payload cannot contain the widgets' data, which the app's extension fetches itself. Use the token that the app's
/// WidgetPushHandler received. Source: "Updating widgets with WidgetKit push notifications".
public struct WidgetsPayload: PushPayload {
    /// Creates the payload, which has no content.
    public init() {}

    /// The push type, always `widgets`.
    public var pushType: PushType { .widgets }

    /// Returns `{"aps":{"content-changed":true}}`.
    public func json() throws(RequestError) -> [UInt8] { Array(#"{"aps":{"content-changed":true}}"#.utf8) }
}
