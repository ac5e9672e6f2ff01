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

/// How long an app's notifications have been held for one cause.
struct Holding {
    /// When the first was held, without a pause since; `nil`: none is.
    private(set) var firstNs: Int64?
    private(set) var lastNs: Int64 = 0
    private var nextEventNs: Int64 = 0
    private var roundEndNs: Int64 = 0
    private var heldInRound = 0

    /// One is held now.
    ///
    /// - Parameters:
    ///   - pauseNs: when nothing was held for so long, it begins anew; `nil`: it ends by `end` only.
    ///   - roundNs: what is held comes back after so long.
    /// - Returns: how long that has been so, whether to tell, and how many were held before in this round.
    mutating func note(_ nowNs: Int64, pauseNs: Int64?, eventPauseNs: Int64, roundNs: Int64) -> (
        forNs: Int64, isNews: Bool, before: Int
    ) {
        if nowNs >= roundEndNs {
            roundEndNs = nowNs + roundNs
            heldInRound = 0
        }
        defer { heldInRound += 1 }
        if let pauseNs, firstNs != nil, nowNs - lastNs > pauseNs { firstNs = nil }
        let first = firstNs ?? nowNs
        firstNs = first
        lastNs = nowNs
        let isNews = nowNs >= nextEventNs
        if isNews { nextEventNs = nowNs + eventPauseNs }
        return (nowNs - first, isNews, heldInRound)
    }

    mutating func end() { firstNs = nil }
}
