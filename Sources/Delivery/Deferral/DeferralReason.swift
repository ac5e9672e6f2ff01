/// Why a notification moves to a retry tier without using up an attempt: <doc:Held>.
package enum DeferralReason: Int8, CaseIterable, Sendable {
    /// The queue of the notification's device is full.
    case device
    /// The app's share of the budget stays full for 5 s, or is full when a notification is forwarded to the app.
    case share
    /// The app is paused, or was removed from the configuration.
    case paused
    /// Apple refuses the app's credential, for all topics or for the notification's topic.
    case credential
    /// The app's host cannot be reached or does not answer, or the app's credential cannot be loaded.
    case unreachable
    /// APNs repeatedly refuses to process the notification.
    case unprocessed
    /// The device token is dead, and the worker cannot write to the topic of dead tokens now.
    case unwritable
    /// The commit map is nearly full, because many records above the notification's record are settled.
    case span
    /// The notification's `push-not-before` is in the future. This is normal and is not logged.
    case scheduled
    /// The notification has expired by this machine's clock, which has not been compared with the brokers' clocks since
    /// the start or since it was last set (`BrokersClock`).
    case clock

    /// The value of the metrics' label `cause`.
    package var word: String { "\(self)" }

    /// Whether a series of deferrals for this reason ends after a time without a deferral. For other reasons, an event
    /// ends it.
    var isSporadic: Bool {
        switch self {
        case .device, .share, .unprocessed, .span, .scheduled, .clock: true
        case .paused, .credential, .unreachable, .unwritable: false
        }
    }
}

/// How long an app's notifications have been deferred for one reason, and how many.
struct DeferredCounts {
    /// When the current series of deferrals began, or `nil` if there is none.
    var firstNs: Int64?
    private(set) var lastNs: Int64 = 0
    private var nextEventNs: Int64 = 0
    private var roundEndNs: Int64 = 0
    private var countInRound = 0

    /// Counts a notification that is deferred now.
    ///
    /// - Parameters:
    ///   - pauseNs: The time without a deferral after which a series ends, or `nil` if only an event ends a series.
    ///   - roundNs: The duration of a round: how long a deferred notification takes to return.
    /// - Returns: How long the reason has lasted, whether to log it, and how many notifications were deferred earlier
    ///   in this round.
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
        if isNews { nextEventNs = nowNs + CommitBackoff.eventPauseNs }
        return (nowNs - first, isNews, countInRound)
    }
}
