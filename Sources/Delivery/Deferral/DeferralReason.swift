/// Why a notification moves to a retry tier without using up an attempt, whether it was tried or not: <doc:Held>.
package enum DeferralReason: Int8, CaseIterable, Sendable {
    /// Its device queue is full.
    case device
    /// Its app has more than its share of the budget, and does not get it sent.
    case share
    /// Its app is paused, or was removed from the configuration.
    case paused
    /// Apple refuses the app's credential, for all topics or for this one.
    case credential
    /// No connection can be made for the app, or none is of use.
    case unreachable
    /// APNs refuses to process it, again and again.
    case unprocessed
    /// Its dead token cannot be written now.
    case unwritable
    /// So much is settled above it that a commit can hardly name it all.
    case span
    /// Its time (`push-not-before`) has not come. This is no problem, so no event is logged.
    case scheduled

    /// The value of the metrics' label `cause`.
    package var word: String { "\(self)" }

    /// Whether the reason is noticed one notification at a time; the others have a beginning and an end.
    var isSporadic: Bool {
        switch self {
        case .device, .share, .unprocessed, .span, .scheduled: true
        case .paused, .credential, .unreachable, .unwritable: false
        }
    }
}

/// How long an app's notifications have been deferred for one reason, and how many.
struct DeferredCounts {
    /// When the first was deferred, without a pause since; `nil` if none is.
    private(set) var firstNs: Int64?
    private(set) var lastNs: Int64 = 0
    private var nextEventNs: Int64 = 0
    private var roundEndNs: Int64 = 0
    private var countInRound = 0

    /// Counts one that is deferred now.
    ///
    /// - Parameters:
    ///   - pauseNs: after so long without another one the count starts anew; `nil` if only `end` ends it.
    ///   - roundNs: how long a deferred notification takes to come back.
    /// - Returns: how long the reason has lasted, whether to log it, and how many were deferred before in this round.
    mutating func note(_ nowNs: Int64, pauseNs: Int64?, roundNs: Int64) -> (forNs: Int64, isNews: Bool, before: Int) {
        if nowNs >= roundEndNs {
            roundEndNs = nowNs + roundNs
            countInRound = 0
        }
        defer { countInRound += 1 }
        if let pauseNs, firstNs != nil, nowNs - lastNs > pauseNs { firstNs = nil }
        let first = firstNs ?? nowNs
        firstNs = first
        lastNs = nowNs
        let isNews = nowNs >= nextEventNs
        if isNews { nextEventNs = nowNs + CircuitBreakers.eventPauseNs }
        return (nowNs - first, isNews, countInRound)
    }

    mutating func end() { firstNs = nil }
}
