/// One partition in one assignment: what was received, what of it is settled, what may be committed.
///
/// Offsets come in ascending order and settle in any. Offsets that never come (compaction, transaction markers) count
/// as settled, because only what was received is tracked. O(1) amortized per record; memory and cost of a commit grow
/// with the open records only, however far apart they are: settled neighbours become one entry.
package struct PartitionLedger: ~Copyable {
    // Not private: Swift 6.3.1 crashes ("Global is external") on a private type inside a ~Copyable one.
    struct Entry {
        var offset: Int64
        /// The caller's name for the record; `settledMark` once it is settled.
        var record: RecordSlot
        /// Of settled neighbours: from the first to one past the last. Of an open record: 1.
        var length: UInt32 = 1

        var end: Int64 { offset + Int64(length) }
    }
    private static var settledMark: RecordSlot { .none }
    /// Entries are merged when there are so many beside this multiple of the open ones.
    private static let slack = 64
    private static let entriesPerOpen = 4

    /// The offset that the group had committed when the partition was assigned, if any.
    package let committedAtAssignment: Int64?
    /// -1 until something was received.
    package private(set) var highestReceived: Int64 = -1
    package private(set) var openCount = 0
    private(set) var entries = RingBuffer<Entry>()
    /// What the commit map that was read back says of offsets not received yet.
    private var inherited: CommitMap

    package init(committed: Int64?, map: CommitMap) {
        committedAtAssignment = committed
        inherited = map
    }

    /// Offsets from the first that is not settled to the highest received.
    package var span: Int64 { committable.map { max(0, highestReceived + 1 - $0) } ?? 0 }

    /// The offset to commit: the first that is not settled, else one past the highest received, else what was committed
    /// before; `nil` if nothing was ever committed or received.
    package var committable: Int64? {
        if !entries.isEmpty { return entries[entries.head].offset }
        return highestReceived >= 0 ? highestReceived + 1 : committedAtAssignment
    }

    /// The highest offset that was received, or one below the committed one if that is higher: the same log has no new
    /// record there.
    package var highestKnown: Int64 { max(highestReceived, (committedAtAssignment ?? 0) - 1) }

    /// Enters `offset` under the name `record` (not `.none`) where it is open: settle it by `settle(position)`.
    ///
    /// - Returns: which of its indexes are settled; `nil` if it is not open, since the commit map that was read back
    ///   names it settled, or it was received before.
    package mutating func receive(_ offset: Int64, record: @autoclosure () -> RecordSlot) -> [Range<Int64>]? {
        if offset <= highestReceived { return nil }
        highestReceived = offset
        guard let settledIndexes = inherited.take(offset) else {
            // Below the first open record everything received is settled anyway.
            if !entries.isEmpty { appendSettled(offset) }
            return nil
        }
        entries.append(Entry(offset: offset, record: record()))
        openCount += 1
        return settledIndexes
    }

    /// Counts everything below `offset` as received. Returns whether that is news.
    mutating func reachedEnd(_ offset: Int64) -> Bool {
        guard offset - 1 > highestKnown else { return false }
        highestReceived = offset - 1
        return true
    }

    private mutating func appendSettled(_ offset: Int64) {
        let entry = Entry(offset: offset, record: Self.settledMark)
        let last = entries.tail &- 1
        if let merged = Self.merge(entries[last], entry) { entries[last] = merged } else { entries.append(entry) }
    }

    /// Both as one entry; `nil` if one is open, or they are too far apart.
    private static func merge(_ lower: Entry, _ upper: Entry) -> Entry? {
        guard lower.record == settledMark, upper.record == settledMark,
            let length = UInt32(exactly: upper.end - lower.offset)
        else { return nil }
        return Entry(offset: lower.offset, record: settledMark, length: length)
    }

    /// The position of the record received last, to settle it by, and its name.
    package var lastPosition: UInt64 { entries.tail - 1 }
    package var lastRecord: RecordSlot { entries[entries.tail - 1].record }

    /// Records below it may have been sent by a previous owner.
    package var inheritedHorizon: Int64 { inherited.horizon }

    /// One past the highest offset that a commit's map can say to be settled.
    package var mapEnd: Int64 { max(highestReceived + 1, inherited.end) }

    /// - Parameter moved: called for each open record whose position changes.
    @inline(__always)
    package mutating func settle(
        _ position: UInt64, moved: (_ record: RecordSlot, _ position: UInt64) -> Void = { _, _ in }
    ) {
        precondition(entries[position].record != Self.settledMark, "a record settles once")
        entries[position].record = Self.settledMark
        openCount -= 1
        while !entries.isEmpty, entries[entries.head].record == Self.settledMark { entries.removeFirst() }
        if entries.count > Self.entriesPerOpen * openCount + Self.slack { compact(moved) }
    }

    /// Settled neighbours become one entry, from the end backwards. At most two entries for each open record are left,
    /// so this happens again only after a number of settlements, or receipts, in proportion to what it costs.
    private mutating func compact(_ moved: (_ record: RecordSlot, _ position: UInt64) -> Void) {
        var kept = entries.tail
        var position = entries.tail
        while position != entries.head {
            position &-= 1
            let entry = entries[position]
            if kept != entries.tail, let merged = Self.merge(entry, entries[kept]) {
                entries[kept] = merged
                continue
            }
            kept &-= 1
            guard kept != position else { continue }
            entries[kept] = entry
            if entry.record != Self.settledMark { moved(entry.record, kept) }
        }
        while entries.head != kept { entries.removeFirst() }
    }

    /// The caller's name of the record at the watermark; `nil` if nothing is open.
    package var firstOpenRecord: RecordSlot? { entries.isEmpty ? nil : entries[entries.head].record }

    /// Calls `body` with each open record, in offset order.
    package func forEachOpen(_ body: (_ offset: Int64, _ record: RecordSlot) -> Void) {
        var position = entries.head
        while position != entries.tail {
            let entry = entries[position]
            if entry.record != Self.settledMark { body(entry.offset, entry.record) }
            position += 1
        }
    }

    /// Gives `writer`, started at `committable`, what is settled above it.
    ///
    /// - Parameter indexes: a record's settled indexes as bits; `nil` if none is, or it has one notification only.
    package func write(
        to writer: inout CommitMapWriter, indexes: (_ record: RecordSlot) -> UnsafeBufferPointer<UInt64>?
    ) {
        var runStart: Int64 = -1
        var runEnd: Int64 = -1
        var position = entries.head
        while position != entries.tail, !writer.isFull {
            let entry = entries[position]
            position += 1
            if entry.record == Self.settledMark {
                if runStart < 0 { runStart = entry.offset }
                runEnd = entry.end
                continue
            }
            if runStart >= 0 {
                writer.settled(runStart..<runEnd)
                runStart = -1
            }
            if let words = indexes(entry.record) { writer.partial(offset: entry.offset, words: words) }
        }
        if runStart >= 0 { writer.settled(runStart..<runEnd) }
        if !writer.isFull, let base = committable {
            inherited.write(from: max(base, highestReceived + 1), to: &writer)
        }
    }

    /// One past the last offset of the older half of the open records, which has at least one; `nil` if nothing is
    /// open.
    var olderHalfEnd: Int64? {
        var left = max(1, openCount / 2)
        var end: Int64?
        forEachOpen { offset, _ in
            left -= 1
            if left == 0 { end = offset + 1 }
        }
        return end
    }

    /// The horizon of the last commit: one past the highest record that has, or may have, a send in doubt.
    ///
    /// - Parameter isInDoubt: for a record received in this assignment that is not settled.
    package func leavingHorizon(isInDoubt: (_ record: RecordSlot) -> Bool) -> Int64 {
        let next = max(highestReceived + 1, committable ?? 0)
        if let end = inherited.doubtEnd(from: next) { return end }
        var horizon: Int64 = 0
        forEachOpen { offset, record in
            if offset < inherited.horizon || isInDoubt(record) { horizon = offset + 1 }
        }
        return horizon
    }
}
