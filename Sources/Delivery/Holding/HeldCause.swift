/// Why a notification moves to a retry tier without using up an attempt, whether it was tried or not: <doc:Held>.
package enum HeldCause: Int8, CaseIterable, Sendable {
    /// Its device has as many open as a device queue takes.
    case device
    /// Its app has more than its share of the room, and does not get it sent.
    case share
    /// `paused: true`.
    case paused
    /// Its app was taken out of the configuration.
    case removed
    /// Apple refuses the app's credential.
    case credential
    /// Apple refuses the app's credential for this topic.
    case topic
    /// No connection can be made for the app, or none is of use.
    case unreachable
    /// APNs refuses to process it, again and again.
    case unprocessed
    /// Its dead token cannot be written down now.
    case unwritable
    /// So much is settled above it that a commit can hardly name it all.
    case span
    /// Its time (`push-not-before`) has not come. Nothing is wrong with it: nobody is told.
    case scheduled

    /// As metrics say it.
    package var word: String {
        switch self {
        case .device: "device"
        case .share: "share"
        case .paused: "paused"
        case .removed: "removed"
        case .credential: "credential"
        case .topic: "topic"
        case .unreachable: "unreachable"
        case .unprocessed: "unprocessed"
        case .unwritable: "unwritable"
        case .span: "span"
        case .scheduled: "scheduled"
        }
    }

    /// Whether the cause is noticed one notification at a time; the others have a beginning and an end that is told.
    var isSporadic: Bool {
        switch self {
        case .device, .share, .unprocessed, .span, .scheduled: true
        case .paused, .removed, .credential, .topic, .unreachable, .unwritable: false
        }
    }
}
