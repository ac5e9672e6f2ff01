import PushRecords

/// Compares this machine's clock with the timestamps of requests that were just written.
///
/// A request was just written if its partition had been read to the end shortly before. If the timestamps of all such
/// requests differ by more than `toleranceMs`, a clock is wrong, of this machine or of the producers. The worker cannot
/// know which one, so it does not let requests expire that only its own clock would expire (`DeferralReason.clock`).
struct ProducersClock {
    /// The difference up to which two clocks agree. It also covers producers that retry for some minutes.
    static let toleranceMs: Int64 = 600_000
    /// The age from which on a timestamp is a mistake, such as a time in seconds, and not the time of a clock.
    private static let mistakeMs: Int64 = 30 * 86_400_000
    private static let most = 15

    /// For each of the last compared requests: the time of this machine's clock minus the request's timestamp, in
    /// milliseconds. 0 if the difference was at most `toleranceMs`.
    private var differencesMs: [Int64] = []
    private var oldest = 0
    /// The smallest of `differencesMs`. A wrong clock of this machine differs from all producers, so one timestamp that
    /// agrees is enough.
    private var smallestMs: Int64 = 0
    /// The wall clock minus the monotonic clock at the first comparison.
    private var baseMs: Int64 = 0

    /// The number of compared requests, up to 15.
    var count: Int { differencesMs.count }

    /// Compares a request's timestamp with this machine's clock.
    ///
    /// - Parameter caughtUpNs: When the request's partition had been read to the end (monotonic). The request cannot
    ///   have been in the log for longer.
    mutating func compare(_ timestampMs: Int64, caughtUpNs: Int64, now: DeliveryTime) {
        let aheadMs = now.wallMs - timestampMs
        guard timestampMs != RecordTime.unknown, aheadMs < Self.mistakeMs else { return }
        let agrees = abs(aheadMs) <= Self.toleranceMs
        let waitedMs = (now.ns - caughtUpNs) / 1_000_000
        guard agrees || aheadMs < 0 || aheadMs - waitedMs > Self.toleranceMs else { return }
        if wasSet(now) { (differencesMs, baseMs) = ([], Self.base(now)) }
        if differencesMs.count < Self.most {
            differencesMs.append(agrees ? 0 : aheadMs)
        } else {
            differencesMs[oldest] = agrees ? 0 : aheadMs
            oldest = (oldest + 1) % Self.most
        }
        smallestMs = differencesMs.min { abs($0) < abs($1) } ?? 0
    }

    /// Returns the smallest difference between this machine's clock and the compared timestamps, in milliseconds:
    /// positive if the clock is ahead, and negative if it is behind. 0 if a timestamp agreed, or if nothing was
    /// compared since the clock was set.
    func aheadMs(_ now: DeliveryTime) -> Int64 { smallestMs == 0 || wasSet(now) ? 0 : smallestMs }

    /// Whether this machine's clock was set since the first comparison, or the machine was suspended.
    private func wasSet(_ now: DeliveryTime) -> Bool {
        differencesMs.isEmpty || abs(Self.base(now) - baseMs) > Self.toleranceMs
    }

    private static func base(_ now: DeliveryTime) -> Int64 { now.wallMs - now.ns / 1_000_000 }
}
