/// Apple's eleven push types (`apns-push-type`). Source: "Sending notification requests to APNs".
public enum PushType: UInt8, CaseIterable, Sendable {
    /// Shows something, plays a sound or sets a badge.
    case alert
    /// Wakes the app and shows nothing; its priority is 5.
    case background
    /// Updates a watch face's complication.
    case complication
    /// Reloads the app's controls.
    case controls
    /// Tells a File Provider extension of changes.
    case fileprovider
    /// Starts, updates or ends a Live Activity; the only one for broadcasts.
    case liveactivity
    /// Asks for the device's location.
    case location
    /// Tells a managed device to contact its MDM server.
    case mdm
    /// Updates the Push to Talk service.
    case pushtotalk
    /// An incoming call; payloads up to 5,120 bytes.
    case voip
    /// Reloads the app's widgets.
    case widgets

    /// The header's value.
    public var text: StaticString {
        switch self {
        case .alert: "alert"
        case .background: "background"
        case .complication: "complication"
        case .controls: "controls"
        case .fileprovider: "fileprovider"
        case .liveactivity: "liveactivity"
        case .location: "location"
        case .mdm: "mdm"
        case .pushtotalk: "pushtotalk"
        case .voip: "voip"
        case .widgets: "widgets"
        }
    }

    /// `topicSuffix`, as lent bytes.
    package var suffix: StaticString? {
        switch self {
        case .alert, .background, .mdm: nil
        case .complication: ".complication"
        case .controls: ".push-type.controls"
        case .fileprovider: ".pushkit.fileprovider"
        case .liveactivity: ".push-type.liveactivity"
        case .location: ".location-query"
        case .pushtotalk: ".voip-ptt"
        case .voip: ".voip"
        case .widgets: ".push-type.widgets"
        }
    }
}

extension PushType {
    /// The push type of topics that end like this one. Fails if it has no suffix of Apple's.
    package init?(ofTopic topic: String) {
        var topic = topic
        guard let type = topic.withUTF8({ HeaderCheck.pushType(ofTopic: UnsafeRawBufferPointer($0)) }) else {
            return nil
        }
        self = type
    }
}
