import JSON

/// Wakes the app to fetch something; nothing is shown, played or set (push type `background`).
///
/// ```swift
/// let wake = BackgroundPayload(custom: ["mailbox": 7])      // {"aps":{"content-available":1},"mailbox":7}
/// ```
///
/// Apple delivers two or three an hour, keeps only the newest for an unreachable device, and guarantees none.
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

/// New data for the ClockKit complications of a watchOS app (push type `complication`). WidgetKit complications take
/// `WidgetsPayload`.
///
/// Your app defines the content. A device accepts 50 a day. Source: "Keeping your complications up
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

/// Reloads one control (push type `controls`): the one whose push token is the device token.
/// `{"aps":{"content-changed":true}}`.
///
/// It does not say what changed. Source: "Updating controls locally and remotely".
public struct ControlsPayload: PushPayload {
    /// A payload, which has no content.
    public init() {}

    /// Always `controls`.
    public var pushType: PushType { .controls }

    /// `{"aps":{"content-changed":true}}`.
    public func json() throws(RequestError) -> [UInt8] { Array(#"{"aps":{"content-changed":true}}"#.utf8) }
}

/// Tells a File Provider extension that something changed (push type `fileprovider`).
///
/// ```swift
/// let changed = FileProviderPayload(.workingSet, domain: "documents")
/// ```
///
/// Source: "Using push notifications to signal changes".
public struct FileProviderPayload: PushPayload {
    /// What changed (`container-identifier`).
    public enum Container: Hashable, Sendable {
        /// The working set, the only one for a replicated extension.
        case workingSet
        /// The root of the domain.
        case root
        /// A container by its `itemIdentifier`.
        case item(String)

        /// Apple's identifier.
        var identifier: String {
            switch self {
            case .workingSet: "NSFileProviderWorkingSetContainerItemIdentifier"
            case .root: "NSFileProviderRootContainerItemIdentifier"
            case .item(let identifier): identifier
            }
        }
    }

    /// What changed (`container-identifier`).
    public var container: Container
    /// The `identifier` of the domain (`domain`).
    public var domain: String

    /// A payload for a container of a domain.
    public init(_ container: Container, domain: String) {
        self.container = container
        self.domain = domain
    }

    /// Always `fileprovider`.
    public var pushType: PushType { .fileprovider }

    /// `{"container-identifier":"…","domain":"…"}`; there is no `aps`.
    public func json() throws(RequestError) -> [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.member("container-identifier", container.identifier)
        json.member("domain", domain)
        json.endObject()
        return Array(json.bytes)
    }
}

/// Asks for the device's location: wakes the app's Location Push Service Extension (push type `location`).
///
/// Your extension defines the content. The device token is the one of `startMonitoringLocationPushes(completion:)`. The
/// app needs a signing key, not a certificate.
/// Source: "Creating a location push service extension".
public struct LocationPayload: PushPayload {
    /// 10 if the answer is needed at once, else 5. Source: "Sending notification requests to APNs", `location`.
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

/// Tells a managed device to contact its MDM server (push type `mdm`): `{"mdm":"…"}`, and nothing else.
///
/// Its topic is the UID in the subject of the MDM push certificate: `topic: .exactly("com.apple.mgmt.External.…")`.
/// Source: "Sending MDM commands to a device".
public struct MDMPayload: PushPayload {
    /// The `PushMagic` that the device sent in its TokenUpdate message.
    public var pushMagic: String

    /// A payload with a device's `PushMagic`.
    public init(pushMagic: String) { self.pushMagic = pushMagic }

    /// Always `mdm`.
    public var pushType: PushType { .mdm }

    /// `{"mdm":"…"}`. Throws when `pushMagic` is empty.
    public func json() throws(RequestError) -> [UInt8] {
        if pushMagic.isEmpty { throw RequestError(.badRequestPayload, "mdm: the PushMagic is empty") }
        var json = JSONWriter()
        json.beginObject()
        json.member("mdm", pushMagic)
        json.endObject()
        return Array(json.bytes)
    }
}

/// Tells a Push to Talk app the active speaker, if there is one (push type `pushtotalk`).
///
/// ```swift
/// let speaks = PushToTalkPayload(["activeSpeaker": "Ada"])
/// ```
///
/// Your app defines the content, and answers with a PTPushResult. The device token lives as long as the channel. The
/// default expiration is `nowOrNever`. Source: "Creating a Push to Talk app".
public struct PushToTalkPayload: PushPayload {
    /// "Set the APNs priority to 10 to request immediate delivery."
    public typealias Priority = ImmediatePriority

    /// All members of the payload.
    public var members: [String: PayloadValue]

    /// A payload with these members.
    public init(_ members: [String: PayloadValue]) { self.members = members }

    /// "Set an expiration of 0 to prevent the system from delivering older pushes."
    public static var defaultExpiration: PushExpiration { .nowOrNever }

    /// Always `pushtotalk`.
    public var pushType: PushType { .pushtotalk }

    /// The members; without any `{"aps":{}}`.
    public func json() throws(RequestError) -> [UInt8] { try JSONWriter.payload(of: members) }
}

/// An incoming call (push type `voip`): wakes the app, which must show it with CallKit.
///
/// ```swift
/// let call = VoIPPayload(["callUUID": "3A5B5C2E-1F0B-4C8E-9E61-0B7A2E7E8F11", "handle": "+15550100"])
/// ```
///
/// Your app defines the content, of up to 5,120 bytes. The default expiration is `nowOrNever`: "0, or only a few
/// seconds". Source: "Responding to VoIP Notifications from PushKit".
public struct VoIPPayload: PushPayload {
    /// All members of the payload.
    public var members: [String: PayloadValue]

    /// A payload with these members.
    public init(_ members: [String: PayloadValue]) { self.members = members }

    /// A call that arrives minutes later is useless.
    public static var defaultExpiration: PushExpiration { .nowOrNever }

    /// Always `voip`.
    public var pushType: PushType { .voip }

    /// The members; without any `{"aps":{}}`.
    public func json() throws(RequestError) -> [UInt8] { try JSONWriter.payload(of: members) }
}

/// Reloads the app's widgets (push type `widgets`), as `reloadAllTimelines()` does: `{"aps":{"content-changed":true}}`.
///
/// It does not say what changed: the widget fetches that itself. The device token is the one that the app's
/// WidgetPushHandler got. Source: "Updating widgets with WidgetKit push notifications".
public struct WidgetsPayload: PushPayload {
    /// A payload, which has no content.
    public init() {}

    /// Always `widgets`.
    public var pushType: PushType { .widgets }

    /// `{"aps":{"content-changed":true}}`.
    public func json() throws(RequestError) -> [UInt8] { Array(#"{"aps":{"content-changed":true}}"#.utf8) }
}
