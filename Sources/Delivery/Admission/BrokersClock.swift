/// The difference between this machine's clock and the brokers' clocks, from the times at which brokers stored this
/// worker's retry records (`message.timestamp.type=LogAppendTime`).
///
/// The worker defers the first notification that has expired by this machine's clock, which leads to a comparison.
/// After that, a notification expires only if it has expired by both clocks.
struct BrokersClock {
    /// The difference up to which a clock is not reported as wrong.
    static let toleranceMs: Int64 = 600_000

    /// The change of the difference between the wall clock and the monotonic clock from which the clock was set.
    static let stepMs: Int64 = 5_000

    private var differenceMs: Int64?
    /// The wall clock minus the monotonic clock at the last comparison.
    private var baseMs: Int64 = 0

    /// Compares this machine's clock with the time at which a broker has stored a record. Keeps the known difference if
    /// it fits.
    ///
    /// - Parameters:
    ///   - storedMs: The time by the broker's clock, or `nil` if the topic's timestamps are not set by brokers. In this
    ///     case, nothing shows that this machine's clock is wrong.
    ///   - latencyMs: The time since the record was passed to the producer. The broker stored the record during this
    ///     time.
    mutating func compare(storedMs: Int64?, latencyMs: Int64, now: DeliveryTime) {
        let known = aheadMs(now)
        // Another topic may have shown the difference.
        if storedMs == nil, known != nil { return }
        let storedMs = storedMs ?? now.wallMs
        let (leastMs, mostMs) = (now.wallMs - latencyMs - storedMs, now.wallMs - storedMs)
        if let known, leastMs <= known, known <= mostMs { return }
        baseMs = Self.base(now)
        differenceMs = leastMs > 0 ? leastMs : min(0, mostMs)
    }

    /// Returns the time of this machine's clock minus the time of the brokers' clocks in milliseconds, as far as the
    /// comparison shows it: the true difference may be larger. Returns `nil` if they were not compared since the start,
    /// or since this machine's clock was set.
    func aheadMs(_ now: DeliveryTime) -> Int64? {
        abs(Self.base(now) - baseMs) > Self.stepMs ? nil : differenceMs
    }

    private static func base(_ now: DeliveryTime) -> Int64 { now.wallMs - now.ns / 1_000_000 }
}
