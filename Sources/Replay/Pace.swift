/// How fast a replay may go: so many requests a second. What becomes visible at once is a quarter of a second's, and
/// what was not used in time is lost, but for a quarter of a second's again.
struct Pace {
    /// Most requests that one transaction may have, at any rate.
    static let batch = 10_000

    private let perSecond: Int?
    /// From when on the next ones may be visible.
    private var nextNs: Int64 = .min

    init(perSecond: Int?) { self.perSecond = perSecond }

    /// Most requests of one transaction.
    var batchLimit: Int { perSecond.map { min(Self.batch, max(1, $0 / 4)) } ?? Self.batch }

    /// How long to wait before the next ones.
    func waitNs(_ nowNs: Int64) -> Int64 { max(0, nextNs == .min ? 0 : nextNs - nowNs) }

    /// So many are visible now.
    mutating func spent(_ count: Int, _ nowNs: Int64) {
        guard let perSecond, count > 0 else { return }
        let start = nextNs == .min ? nowNs : max(nextNs, nowNs - 250_000_000)
        nextNs = start + Int64(count) * 1_000_000_000 / Int64(perSecond)
    }
}
