/// The place in a partition below which notifications may be handed to a connection: named by a commit before it is
/// used, so that the next owner knows after a crash which may have been sent.
///
/// It is kept ahead of the highest one handed out by four commits' worth, at least `minimum`, at most `maximum` (a gap
/// in the offsets is no pace): in offsets, or, while fan-outs are open, in notifications, which the owner counts. What
/// a commit names may be less than the one before did: from then on no more is allowed.
package struct SendHorizon: Equatable {
    /// Named by the last acknowledged commit, or a lower one by a commit sent since; `nil` if none was acknowledged.
    private(set) var end: HorizonEnd?
    /// Offsets below it may be handed out, and of the one at it the indexes below `limitIndexes`: as `end`, or nothing
    /// while that is stale.
    private var limit = Int64.min
    private var limitIndexes: Int32 = 0
    /// The last acknowledged commit of the group is so old that another may own the partition by now.
    package var isStale = false { didSet { refresh() } }
    private let minimum: Int64
    /// The highest one handed to a connection, or the first of those that wait for the horizon.
    private var front: Int64 = -1
    private var frontIndex: Int32 = -1
    /// How often the front moved on.
    private var advances: Int64 = 0
    private var startAtCommit: Int64 = 0
    private var advancesAtCommit: Int64 = 0
    private var hasCommitted = false
    /// Offsets, and notifications, handed out from one commit to the next, falling slowly.
    private var pace: Int64 = 0
    private var countedPace: Int64 = 0
    /// For a counted horizon: the number of `advances` at which it is short; `nil` if it was set in offsets.
    private var shortAt: Int64?
    private var nextShortAt: Int64?

    package init(minimum: Int64) { self.minimum = minimum }

    package static let maximum: Int64 = 100_000

    package var acknowledged: Int64? { end?.offset }

    /// What lies above it waits for a commit.
    package var allowed: HorizonEnd { isStale ? .none : end ?? .none }

    package var margin: Int64 { margin(pace) }

    /// How many notifications it is to be kept ahead.
    package var countedMargin: Int64 { margin(max(countedPace, advances - advancesAtCommit)) }

    private func margin(_ pace: Int64) -> Int64 { min(max(minimum, 4 * pace), max(minimum, Self.maximum)) }

    @inline(__always)
    package func allows(_ offset: Int64, _ index: Int32 = 0) -> Bool {
        offset < limit || offset == limit && index < limitIndexes
    }

    /// The one at `offset` (at most `OffsetLimit.highest`) is handed out, or is the first that wants to be.
    @inline(__always)
    package mutating func advance(to offset: Int64, _ index: Int32 = 0) {
        guard offset > front || offset == front && index > frontIndex else { return }
        front = offset
        frontIndex = index
        advances += 1
    }

    /// Whether a commit should go out at once to raise it: less than half of the margin is left.
    package func isShort(from base: Int64) -> Bool {
        guard let end else { return true }
        if let shortAt { return advances >= shortAt || end < Self.nameable(start(from: base), from: base) }
        return end.offset < Self.nameable(HorizonEnd(max(front + 1, base) + margin / 2), from: base).offset
    }

    /// Where what was not handed out begins.
    package func start(from base: Int64) -> HorizonEnd {
        max(HorizonEnd(front + 1, indexes: frontIndex + 1), HorizonEnd(base))
    }

    /// What the commit that is made now is to name at least.
    ///
    /// - Parameter counted: `countedMargin` notifications from `start`; `nil` without fan-outs, where each offset is
    ///   one.
    package mutating func next(from base: Int64, counted: HorizonEnd? = nil) -> HorizonEnd {
        let start = max(front + 1, base)
        let ahead = countedMargin
        if hasCommitted {
            pace = max(min(start - startAtCommit, Self.maximum), pace - pace / 8)
            countedPace = max(min(advances - advancesAtCommit, Self.maximum), countedPace - countedPace / 8)
        }
        hasCommitted = true
        startAtCommit = start
        advancesAtCommit = advances
        nextShortAt = counted == nil ? nil : advances + ahead - ahead / 2
        return Self.nameable(counted ?? HorizonEnd(start + margin), from: base)
    }

    /// A commit is sent that names `named`; no more than that is allowed from now on. It may be more than `next` said,
    /// for the sake of what was sent or settled before: all of that may be sent meanwhile.
    package mutating func sent(naming named: HorizonEnd) {
        guard let end, named < end else { return }
        self.end = named
        refresh()
    }

    package mutating func acknowledge(_ end: HorizonEnd) {
        self.end = end
        shortAt = nextShortAt
        refresh()
    }

    /// Allows nothing until the next acknowledgement.
    package mutating func withdraw() {
        end = nil
        refresh()
    }

    private mutating func refresh() {
        limit = .min
        limitIndexes = 0
        guard !isStale, let end else { return }
        let isWhole = end.indexes == .max
        limit = isWhole ? end.offset : end.offset - 1
        limitIndexes = isWhole ? 0 : end.indexes
    }

    /// A map names no offset further above the one committed with it.
    private static func nameable(_ end: HorizonEnd, from base: Int64) -> HorizonEnd {
        end.cut(at: base + CommitMap.longestHorizon)
    }
}

/// Where a send horizon ends: all of the offsets below the last one of it, and of that one some indexes, or all.
package struct HorizonEnd: Equatable, Comparable, Sendable {
    /// One past the last offset.
    package var offset: Int64
    /// Of the last offset, only indexes below it, or all if it is `.max`.
    package var indexes: Int32

    package init(_ offset: Int64, indexes: Int32 = .max) {
        self.offset = offset
        self.indexes = indexes
    }

    /// Nothing.
    package static let none = HorizonEnd(0)

    @inline(__always)
    package static func < (left: HorizonEnd, right: HorizonEnd) -> Bool {
        left.offset < right.offset || left.offset == right.offset && left.indexes < right.indexes
    }

    /// Of the record at `offset`, indexes below it.
    package func indexes(at offset: Int64) -> Int32 {
        if offset >= self.offset { return 0 }
        return offset == self.offset - 1 ? indexes : .max
    }

    /// No further than `offset`, which is one past the last.
    package func cut(at offset: Int64) -> HorizonEnd { min(self, HorizonEnd(offset)) }
}
