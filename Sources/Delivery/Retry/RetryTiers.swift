/// Which tier a notification to be tried again goes to.
package struct RetryTiers: Sendable {
    private let tiers: [DeliverySettings.Tier]

    /// - Parameter tiers: ascending by delay, at least one.
    package init(_ tiers: [DeliverySettings.Tier]) {
        precondition(!tiers.isEmpty, "there is at least one retry tier")
        precondition(
            zip(tiers, tiers.dropFirst()).allSatisfy { $0.delayMs < $1.delayMs }, "retry tiers ascend by their delays")
        self.tiers = tiers
    }

    /// Where held notifications go.
    package var shortest: Int { 0 }

    /// Where they go once that has lasted.
    package var long: Int { tier(delayMs: VerdictTable.longDelayMs, previousMs: 0) }

    package func delayMs(of tier: Int) -> Int64 { tiers[tier].delayMs }

    /// The first tier of at least the delay asked for, and longer than the tier it came from; else the longest.
    ///
    /// - Parameter previousMs: delay of the tier it was read from; 0: it comes from a request topic.
    package func tier(delayMs: Int64, previousMs: Int64) -> Int {
        tiers.firstIndex { $0.delayMs >= delayMs && $0.delayMs > previousMs } ?? tiers.count - 1
    }
}
