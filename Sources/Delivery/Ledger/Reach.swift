/// The offset below which records may be handed to a connection: named by a commit before it is used, so that whoever
/// takes over after a crash knows which records may have been sent.
///
/// It is kept ahead of the highest offset handed out by four commits' worth of offsets, at least `minimum`,
/// at most `maximum` (a gap in the offsets is no pace).
package struct Reach: Equatable {
    /// Named by the last acknowledged commit; `nil`: none was acknowledged.
    package private(set) var acknowledged: Int64?
    /// Records below it may be handed out: `acknowledged`, or nothing while that is stale.
    private var limit = Int64.min
    /// The last acknowledged commit of the group is so old that another may own the partition by now.
    package var isStale = false { didSet { refresh() } }
    private let minimum: Int64
    /// One past the highest offset handed to a connection, or the first of those that wait for the reach.
    private var front: Int64 = 0
    private var frontAtCommit: Int64 = 0
    private var hasCommitted = false
    /// Offsets handed out from one commit to the next, falling slowly.
    private var pace: Int64 = 0

    package init(minimum: Int64) { self.minimum = minimum }

    package static let maximum: Int64 = 100_000

    package var margin: Int64 { min(max(minimum, 4 * pace), max(minimum, Self.maximum)) }

    @inline(__always)
    package func allows(_ offset: Int64) -> Bool { offset < limit }

    /// `offset` (at most `OffsetLimit.highest`) is handed out, or is the first that wants to be.
    package mutating func advance(to offset: Int64) { front = max(front, offset + 1) }

    /// Whether a commit should go out at once to raise it: less than half of the margin is left.
    package func isShort(from base: Int64) -> Bool {
        guard let acknowledged else { return true }
        return acknowledged < Self.nameable(max(front, base) + margin / 2, from: base)
    }

    /// What the commit that is sent now names; never less than what an acknowledged one allows.
    package mutating func next(from base: Int64) -> Int64 {
        let start = max(front, base)
        if hasCommitted { pace = max(min(start - frontAtCommit, Self.maximum), pace - pace / 8) }
        hasCommitted = true
        frontAtCommit = start
        return Self.nameable(max(start + margin, acknowledged ?? 0), from: base)
    }

    package mutating func acknowledge(_ reach: Int64) {
        acknowledged = reach
        refresh()
    }

    /// Everything may be handed out: whoever comes after us and could read it was told.
    package mutating func allowAll() {
        acknowledged = .max
        isStale = false
    }

    private mutating func refresh() { limit = isStale ? .min : acknowledged ?? .min }

    /// A map names no offset further above the one committed with it.
    private static func nameable(_ reach: Int64, from base: Int64) -> Int64 {
        min(reach, base + CommitMap.highestReach)
    }
}
