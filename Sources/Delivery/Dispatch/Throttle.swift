/// Additive increase, multiplicative decrease of an app's concurrency: what APNs cannot take is not pressed upon it. A
/// value machine.
///
/// It looks at rounds, each about as many answers as there are requests in flight. A round with failures takes off half
/// of their share (all failed: half; one in ten: a twentieth), a round without gives back a sixty-fourth of what the
/// transport takes. A few failures in a hundred answers are no reason.
struct Throttle {
    /// A round has at least so many answers, unless fewer may be in flight.
    private static let leastRound = 16
    /// Failures below one in so many do not count.
    private static let tolerance = 64

    /// The limit of requests in flight, or `Int.max` for none.
    private(set) var limit = Int.max
    private var answers = 0
    private var failures = 0
    private var round = 0

    /// - Parameters:
    ///   - isFailure: a 5xx, an answer that is hardly APNs' own, or its connection was lost.
    ///   - outstanding: requests in flight now.
    ///   - capacity: what the transport takes, or took last when it is not connected.
    /// - Returns: whether `limit` changed.
    @inline(__always)
    mutating func answered(isFailure: Bool, outstanding: Int, capacity: Int) -> Bool {
        if answers == 0 { round = max(outstanding, min(limit, Self.leastRound)) }
        answers &+= 1
        if isFailure { failures &+= 1 }
        guard answers >= round else { return false }
        return endRound(max(1, capacity))
    }

    private mutating func endRound(_ capacity: Int) -> Bool {
        defer { (answers, failures) = (0, 0) }
        let before = limit
        if failures > 0, failures * Self.tolerance >= answers {
            let base = min(limit, capacity)
            limit = max(1, base - (base * failures + 2 * answers - 1) / (2 * answers))
        } else if limit != .max {
            limit += max(1, capacity / 64)
            if limit >= capacity { limit = .max }
        }
        return limit != before
    }
}

/// An app's `rate_limit`: a token bucket that is kept as the time at which it will be full again. A value machine.
struct RateLimit {
    /// What may be made up for at once.
    static let burstNs: Int64 = 50_000_000
    /// The shortest time between two wake-ups for a high rate.
    static let pauseNs: Int64 = 5_000_000

    private(set) var perSecond: Int
    private var intervalNs: Int64
    /// When the next one would come, if all came evenly.
    private var nextNs: Int64 = 0

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
