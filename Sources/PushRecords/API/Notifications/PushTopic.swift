/// Which app a notification is for (`apns-topic`).
///
/// Source: "Sending notification requests to APNs", apns-topic and "Know when to use push types".
public enum PushTopic: Hashable, Sendable {
    /// The app's bundle id. What the push type wants behind it (`PushType.topicSuffix`) is added unless it is there
    /// already; of a broadcast nothing is.
    case bundleID(String)
    /// As it is: of `mdm` the UID in the subject of the MDM push certificate.
    case exactly(String)

    /// What goes to Apple.
    func text(_ pushType: PushType, isBroadcast: Bool) -> String {
        switch self {
        case .exactly(let topic): return topic
        case .bundleID(let id):
            guard !isBroadcast, let suffix = pushType.topicSuffix, !id.hasSuffix(suffix) else { return id }
            return id + suffix
        }
    }
}
