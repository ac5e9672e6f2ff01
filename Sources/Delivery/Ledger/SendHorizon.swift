/// The offset in a partition below which records may be handed to a transport. A commit contains the horizon before the
/// worker uses it, so that the next owner knows after a crash which records may have been sent.
///
/// The horizon stays ahead of the highest record handed out by the offsets of about four commit intervals: at least as
/// many records as contain `minimum` notifications on average, and at most `maximum` offsets. The maximum is needed
/// because `pace` counts offsets, so a large gap between two records would look like a high rate. If a commit contains
/// a lower horizon than the commit before, the lower horizon applies immediately.
package struct SendHorizon: Equatable {
    package static let maximum: Int64 = 100_000

    /// The horizon of the last acknowledged commit, or the lower horizon of a commit in flight. `nil` if no commit was
    /// acknowledged.
    package private(set) var acknowledged: Int64?
    /// The limit in use: records at or above it wait for a commit. Equals `acknowledged`, or 0 while `isStale` is set.
    package private(set) var allowed: Int64 = 0
    /// Whether the group's last acknowledged commit is so old that another worker may own the partition now.
    package var isStale = false { didSet { refresh() } }
    private let minimum: Int64
    /// The highest record handed to a transport, or the first record that waits for the horizon.
    private var front: Int64 = -1
    private var startAtCommit: Int64?
    /// The number of offsets handed out per commit. It decreases slowly.
    private var pace: Int64 = 0
    /// Sixteen times the mean number of notifications in recent records.
    private var countTimes16: Int64 = 16

    package init(minimum: Int64) { self.minimum = minimum }

    package var margin: Int64 {
        let least = max(1, minimum * 16 / countTimes16)
        return min(max(least, 4 * pace), max(least, Self.maximum))
    }

    @inline(__always)
    package func allows(_ offset: Int64) -> Bool { offset < allowed }

    /// Counts the notifications of a received record.
    @inline(__always)
    package mutating func received(count: Int32) { countTimes16 += Int64(count) - (countTimes16 + 15) / 16 }

    /// Notes that the record at `offset` (up to `OffsetLimit.highest`) is handed out, or waits for the horizon.
    @inline(__always)
    package mutating func advance(to offset: Int64) { if offset > front { front = offset } }

    /// Returns whether less than half of the margin is left, so that a commit should be sent immediately.
    package func isShort(from base: Int64) -> Bool {
        guard let acknowledged else { return true }
        return acknowledged < min(max(front + 1, base) + (margin + 1) / 2, base + CommitMap.longestHorizon)
    }

    /// Returns the minimum horizon of the commit that is created now.
    package mutating func next(from base: Int64) -> Int64 {
        let start = max(front + 1, base)
        if let startAtCommit { pace = max(min(start - startAtCommit, Self.maximum), pace - max(1, pace / 8)) }
        startAtCommit = start
        return min(start + margin, base + CommitMap.longestHorizon)
    }

    /// Notes that a commit with the horizon `named` is sent. If `named` is below the acknowledged horizon, it limits
    /// sending from now on. `named` may be above the result of `next`, to cover records that were sent or settled.
    package mutating func sent(naming named: Int64) {
        guard let acknowledged, named < acknowledged else { return }
        acknowledge(named)
    }

    package mutating func acknowledge(_ named: Int64) {
        acknowledged = named
        refresh()
    }

    /// Stops sending until the next acknowledgement.
    package mutating func withdraw() {
        acknowledged = nil
        refresh()
    }

    private mutating func refresh() { allowed = isStale ? 0 : acknowledged ?? 0 }
}
