/// The offset in a partition below which records may be handed to a connection. A commit names it before it is used, so
/// that the next owner knows after a crash which records may have been sent.
///
/// It is kept ahead of the highest record handed out by four commits' worth: at least by as many records as hold
/// `minimum` notifications, at most by `maximum` offsets (a gap in the offsets is no pace). A commit may name less than
/// the one before did; from then on no more is allowed.
package struct SendHorizon: Equatable {
    package static let maximum: Int64 = 100_000

    /// Named by the last acknowledged commit, or a lower one by a commit sent since; `nil` if none was acknowledged.
    package private(set) var acknowledged: Int64?
    /// The records at or above it wait for a commit: `acknowledged`, or 0 while that is stale.
    package private(set) var allowed: Int64 = 0
    /// The last acknowledged commit of the group is so old that another worker may own the partition by now.
    package var isStale = false { didSet { refresh() } }
    private let minimum: Int64
    /// The highest record handed to a connection, or the first of those that wait for the horizon.
    private var front: Int64 = -1
    private var startAtCommit: Int64?
    /// Offsets handed out from one commit to the next, falling slowly.
    private var pace: Int64 = 0
    /// Sixteen times the mean number of notifications of the latest records.
    private var countTimes16: Int64 = 16

    package init(minimum: Int64) { self.minimum = minimum }

    package var margin: Int64 {
        let least = max(1, minimum * 16 / countTimes16)
        return min(max(least, 4 * pace), max(least, Self.maximum))
    }

    @inline(__always)
    package func allows(_ offset: Int64) -> Bool { offset < allowed }

    /// Counts the notifications of a record that was received.
    @inline(__always)
    package mutating func received(count: Int32) { countTimes16 += Int64(count) - (countTimes16 + 15) / 16 }

    /// The record at `offset` (at most `OffsetLimit.highest`) is handed out, or is the first that wants to be.
    @inline(__always)
    package mutating func advance(to offset: Int64) { if offset > front { front = offset } }

    /// Whether a commit should go out at once to raise it: less than half of the margin is left.
    package func isShort(from base: Int64) -> Bool {
        guard let acknowledged else { return true }
        return acknowledged < min(max(front + 1, base) + (margin + 1) / 2, base + CommitMap.longestHorizon)
    }

    /// What the commit that is made now is to name at least.
    package mutating func next(from base: Int64) -> Int64 {
        let start = max(front + 1, base)
        if let startAtCommit { pace = max(min(start - startAtCommit, Self.maximum), pace - max(1, pace / 8)) }
        startAtCommit = start
        return min(start + margin, base + CommitMap.longestHorizon)
    }

    /// A commit is sent that names `named`; no more than that is allowed from now on. It may be more than `next` said,
    /// for the sake of what was sent or settled before: all of that may be sent meanwhile.
    package mutating func sent(naming named: Int64) {
        guard let acknowledged, named < acknowledged else { return }
        acknowledge(named)
    }

    package mutating func acknowledge(_ named: Int64) {
        acknowledged = named
        refresh()
    }

    /// Allows nothing until the next acknowledgement.
    package mutating func withdraw() {
        acknowledged = nil
        refresh()
    }

    private mutating func refresh() { allowed = isStale ? 0 : acknowledged ?? 0 }
}
