/// How long an app's notifications have been held, for each cause.
struct Holdings {
    /// By `HeldCause`'s raw value.
    private var causes = [Holding](repeating: Holding(), count: HeldCause.allCases.count)

    /// One is held now.
    ///
    /// - Parameters:
    ///   - pauseNs: when nothing was held for so long, a sporadic cause begins anew.
    ///   - eventPauseNs: it is told no more often.
    ///   - roundNs: what is held comes back after so long.
    /// - Returns: how long that has been so, whether to tell, and how many were held before in this round.
    mutating func note(
        _ cause: HeldCause, _ nowNs: Int64, pauseNs: Int64, eventPauseNs: Int64, roundNs: Int64
    ) -> (forNs: Int64, isNews: Bool, before: Int) {
        causes[Int(cause.rawValue)].note(
            nowNs, pauseNs: cause.isSporadic ? pauseNs : nil, eventPauseNs: eventPauseNs, roundNs: roundNs)
    }

    /// A cause that began has ended.
    mutating func end(_ cause: HeldCause) { causes[Int(cause.rawValue)].end() }

    /// Since when notifications are held, for whatever cause; `nil`: none are.
    func sinceNs(pauseNs: Int64, nowNs: Int64) -> Int64? {
        var sinceNs: Int64?
        for cause in HeldCause.allCases {
            let holding = causes[Int(cause.rawValue)]
            guard let firstNs = holding.firstNs else { continue }
            if cause.isSporadic, nowNs - holding.lastNs > pauseNs { continue }
            sinceNs = min(sinceNs ?? .max, firstNs)
        }
        return sinceNs
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

    /// - Parameter pauseNs: when nothing was held for so long, it begins anew; `nil`: it ends by `end` only.
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
