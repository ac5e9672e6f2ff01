import PushRecords

/// Compares this machine's clock with the timestamps of requests that were just produced.
///
/// A request was just produced if its partition had been read to the end shortly before. A difference of more than
/// `toleranceMs` then comes from a wrong clock, of this machine or of the producers. The worker cannot know which one
/// is wrong, so it does not let requests expire that only its own clock would expire (`DeferralReason.clock`).
struct ProducersClock {
    /// The difference up to which two clocks agree. It also covers producers that retry for some minutes.
    static let toleranceMs: Int64 = 600_000
    /// The difference from which on a timestamp is a mistake, such as a time in seconds, and not the time of a clock.
    private static let mistakeMs: Int64 = 10 * 365 * 86_400_000
    private static let most = 15

    /// By how much this machine's clock was ahead of the last timestamps, or 0 if both agreed.
    private var differencesMs: [Int64] = []
    private var oldest = 0
    /// The median of `differencesMs`, so that a few producers with wrong clocks do not count.
    private var medianMs: Int64 = 0
    /// The wall clock minus the monotonic clock at the first comparison.
    private var baseMs: Int64 = 0

    /// The number of compared requests, up to 15.
    var count: Int { differencesMs.count }

    /// Compares a request's timestamp with this machine's clock.
    ///
    /// - Parameter caughtUpNs: When the request's partition had been read to the end (monotonic). The request cannot be
    ///   older than the time since then.
    mutating func compare(_ timestampMs: Int64, caughtUpNs: Int64, now: DeliveryTime) {
        let aheadMs = now.wallMs - timestampMs
        guard timestampMs != RecordTime.unknown, abs(aheadMs) < Self.mistakeMs else { return }
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
        medianMs = differencesMs.sorted()[differencesMs.count / 2]
    }

    /// By how much this machine's clock is ahead of the producers' clocks. Negative if it is behind, and 0 if the
    /// clocks agree or nothing was compared since this machine's clock was set.
    func aheadMs(_ now: DeliveryTime) -> Int64 { medianMs == 0 || wasSet(now) ? 0 : medianMs }

    /// Whether this machine's clock was set since the first comparison, or the machine was suspended.
    private func wasSet(_ now: DeliveryTime) -> Bool {
        differencesMs.isEmpty || abs(Self.base(now) - baseMs) > Self.toleranceMs
    }

    private static func base(_ now: DeliveryTime) -> Int64 { now.wallMs - now.ns / 1_000_000 }
}
