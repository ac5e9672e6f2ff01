/// The left tiers (`LeftTiers`) that are read: from when one is found until it is gone, or has been empty for a while.
/// Decides only; no clock, no I/O.
struct LeftTierList {
    /// Those that are read, in the order in which they were found.
    private(set) var topics: [String] = []
    /// Those that held records of the group at the last look.
    private(set) var waiting: [LeftTiers.Tier] = []
    /// Since when the looks have found nothing in one (monotonic).
    private var emptySinceNs: [String: Int64] = [:]

    /// How long one that is empty is read on: a worker that still names it may write to it, and each change has the
    /// group give out all its partitions anew.
    static let keptNs: Int64 = 900_000_000_000

    /// Takes what a look found.
    ///
    /// - Parameters:
    ///   - found: the left tiers that hold records of the group.
    ///   - existing: all topics of the cluster that are not configured.
    /// - Returns: what is read from now on, and what is no more.
    mutating func take(
        found: [LeftTiers.Tier], existing: Set<String>, nowNs: Int64
    ) -> (begun: [LeftTiers.Tier], ended: [String]) {
        waiting = found
        let begun = found.filter { !topics.contains($0.topic) }
        let full = Set(found.map(\.topic))
        emptySinceNs = emptySinceNs.filter { !full.contains($0.key) }
        var ended: [String] = []
        for topic in topics where !full.contains(topic) {
            let sinceNs = emptySinceNs[topic] ?? nowNs
            emptySinceNs[topic] = sinceNs
            if !existing.contains(topic) || nowNs - sinceNs >= Self.keptNs { ended.append(topic) }
        }
        for topic in ended { emptySinceNs[topic] = nil }
        topics.removeAll { ended.contains($0) }
        topics += begun.map(\.topic)
        return (begun, ended)
    }
}
