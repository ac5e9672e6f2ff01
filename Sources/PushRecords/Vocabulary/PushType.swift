/// Apple's push types (`apns-push-type`). Source: "Sending notification requests to APNs".
public enum PushType: UInt8, CaseIterable, Sendable {
    /// Shows an alert, plays a sound or sets a badge.
    case alert
    /// Wakes the app without showing anything. The priority must be 5.
    case background
    /// Updates a complication of a watch face.
    case complication
    /// Reloads one of the app's controls.
    case controls
    /// Tells a File Provider extension about changes.
    case fileprovider
    /// Starts, updates or ends a Live Activity. A broadcast must have this push type.
    case liveactivity
    /// Requests the device's location from the app's extension.
    case location
    /// Tells a managed device to contact its MDM server.
    case mdm
    /// Notifies a Push to Talk app, for example of a new speaker.
    case pushtotalk
    /// Announces an incoming call. Its payload can have up to 5,120 bytes.
    case voip
    /// Reloads the app's widgets.
    case widgets

    /// The value of the `apns-push-type` header.
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

    /// The topic suffix of the push type, or `nil` if the push type has no suffix.
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
    /// Creates the push type that the topic's suffix belongs to: `voip` for a topic that ends with `.voip`. Returns
    /// `nil` if the topic does not end with the suffix of a push type.
    package init?(ofTopic topic: String) {
        var topic = topic
        guard let type = topic.withUTF8({ HeaderCheck.pushType(ofTopic: UnsafeRawBufferPointer($0)) }) else {
            return nil
        }
        self = type
    }
}
