/// Additive increase and multiplicative decrease of an app's concurrency, to avoid overloading APNs.
///
/// The throttle evaluates rounds of about as many answers as there are requests in flight.
/// - A round with failures reduces the limit by half of the failed fraction: by half if all failed, by a twentieth if
///   one in ten failed. Less than one failure in 64 answers counts as none.
/// - A round without failures raises the limit by a sixty-fourth of the transport's capacity.
struct Throttle {
    /// The minimum number of answers per round, unless fewer requests may be in flight.
    private static let leastRound = 16
    /// A round with fewer than one failure per this number of answers counts as a round without failures.
    private static let tolerance = 64

    /// The limit of requests in flight, or `Int.max` for none.
    private(set) var limit = Int.max
    private var answers = 0
    private var failures = 0
    private var round = 0

    /// - Parameters:
    ///   - isFailure: Whether the connection was lost, or the answer is a 5xx or probably not from APNs.
    ///   - outstanding: The number of requests in flight, including the one that has ended.
    ///   - capacity: The capacity of the transport, or its last capacity above 0 while it is not connected.
    @inline(__always)
    mutating func answered(isFailure: Bool, outstanding: Int, capacity: Int) {
        if answers == 0 { round = max(outstanding, min(limit, Self.leastRound)) }
        answers &+= 1
        if isFailure { failures &+= 1 }
        if answers >= round { endRound(max(1, capacity)) }
    }

    private mutating func endRound(_ capacity: Int) {
        if failures > 0, failures * Self.tolerance >= answers {
            let base = min(limit, capacity)
            limit = max(1, base - (base * failures + 2 * answers - 1) / (2 * answers))
        } else if limit != .max {
            limit += max(1, capacity / 64)
            if limit >= capacity { limit = .max }
        }
        (answers, failures) = (0, 0)
    }
}

/// An app's `rate_limit`: a token bucket, stored as the time at which it will be full again.
struct RateLimit {
    /// The maximum burst: as many notifications as the rate allows in this duration.
    static let burstNs: Int64 = 50_000_000
    /// The minimum wait for the next allowance, so that a high rate does not cause a wake-up for each notification.
    static let pauseNs: Int64 = 5_000_000

    private(set) var perSecond: Int
    private var intervalNs: Int64
    /// When the next notification would be sent if the app sent at even intervals.
    private var nextNs: Int64 = 0

    /// - Parameter perSecond: The rate, or 0 for no limit.
    init(perSecond: Int) {
        self.perSecond = max(0, perSecond)
        intervalNs = perSecond > 0 ? (1_000_000_000 + Int64(perSecond) - 1) / Int64(perSecond) : 0
    }

    var isLimiting: Bool { intervalNs > 0 }

    /// Returns how many notifications may be sent now.
    func allowance(_ nowNs: Int64) -> Int {
        guard isLimiting else { return .max }
        let aheadNs = nowNs + Self.burstNs - max(nextNs, nowNs)
        return aheadNs < 0 ? 0 : Int(aheadNs / intervalNs) + 1
    }

    mutating func take(_ count: Int, _ nowNs: Int64) { nextNs = max(nextNs, nowNs) + Int64(count) * intervalNs }

    /// Returns when to check the allowance again after it was used up (monotonic).
    func dueNs(_ nowNs: Int64) -> Int64 { max(nextNs - Self.burstNs, nowNs + Self.pauseNs) }
}
