/// An app's `rate_limit`: a token bucket that is kept as the time at which it will be full again. A value machine.
struct RateLimit {
    /// What may be made up for at once.
    static let burstNs: Int64 = 50_000_000
    /// Nobody is woken more often than this for the sake of a high rate.
    static let pauseNs: Int64 = 5_000_000

    private(set) var perSecond: Int
    private var intervalNs: Int64
    /// When the next one would come, if all came evenly.
    private var nextNs = Int64.min

    /// - Parameter perSecond: 0: no limit.
    init(perSecond: Int) {
        self.perSecond = max(0, perSecond)
        intervalNs = perSecond > 0 ? (1_000_000_000 + Int64(perSecond) - 1) / Int64(perSecond) : 0
    }

    var isLimiting: Bool { intervalNs > 0 }

    /// How many may go now.
    func allowance(_ nowNs: Int64) -> Int {
        guard isLimiting else { return .max }
        let aheadNs = nowNs + Self.burstNs - max(nextNs, nowNs)
        return aheadNs < 0 ? 0 : Int(aheadNs / intervalNs) + 1
    }

    mutating func take(_ count: Int, _ nowNs: Int64) { nextNs = max(nextNs, nowNs) + Int64(count) * intervalNs }

    /// When to look again, after nothing more was allowed.
    func dueNs(_ nowNs: Int64) -> Int64 { max(nextNs - Self.burstNs, nowNs + Self.pauseNs) }
}
