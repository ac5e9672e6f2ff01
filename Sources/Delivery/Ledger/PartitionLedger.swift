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

    /// How an offset stands when it comes.
    package enum Arrival {
        /// Received before: nothing to do.
        case known
        /// The commit map that was read back names it settled; it is counted so.
        case settledBefore
        /// Open from now on: settle it by `settle(position)`.
        case open(settledIndexes: [Range<Int64>])
        /// Received before the partition was lost, under this name, and open since.
        case again(record: RecordSlot)
    }

    /// As read at assignment; `nil`: there was none.
    package private(set) var committedAtAssignment: Int64?
    /// -1: nothing was received yet.
    package private(set) var highestReceived: Int64 = -1
    /// The highest that came in this assignment: less than `highestReceived` while a partition that came back is read
    /// again.
    package private(set) var highestArrived: Int64 = -1
    package private(set) var openCount = 0
    private var entries = RingBuffer<Entry>()
    private var inherited: InheritedMap

    package init(committed: Int64?, map: CommitMap) {
        committedAtAssignment = committed
        inherited = InheritedMap(map)
    }

    /// Offsets from the first that is not settled to the highest received.
    package var span: Int64 { committable.map { max(0, highestReceived + 1 - $0) } ?? 0 }

    /// Entries held in memory.
    var entryCount: Int { entries.count }

    /// The offset to commit: the first that is not settled, else one past the highest received, else what was committed
    /// before; `nil`: nothing was ever committed or received.
    package var committable: Int64? {
        if !entries.isEmpty { return entries[entries.head].offset }
        return highestReceived >= 0 ? highestReceived + 1 : committedAtAssignment
    }

    /// Whether `offset` lies below what was committed although nothing was received yet: the offset was reset.
    package func isReset(_ offset: Int64) -> Bool {
        guard highestReceived < 0, let committed = committedAtAssignment else { return false }
        return offset < committed
    }

    /// Begins anew after an offset reset: no record is known to be settled, but those below the offset that was
    /// committed for, or its reach, may have been sent.
    package mutating func reset() {
        let end = max(inherited.reach, ReachEnd(committedAtAssignment ?? 0))
        inherited = InheritedMap(CommitMap(reach: end.offset, reachIndexes: end.indexes))
        committedAtAssignment = nil
    }

    /// Whether `offset` came before, or was passed.
    package func isBelow(_ offset: Int64) -> Bool { offset <= highestArrived }

    /// The partition was lost, came back, and is read from its committed offset again.
    ///
    /// - Parameters:
    ///   - offset: the committed one. What comes from below is of a log that changed.
    ///   - reach: what lies below it and is not known to be settled may have been sent meanwhile.
    package mutating func resume(from offset: Int64, doubtBelow reach: ReachEnd) {
        highestArrived = min(offset - 1, highestReceived)
        inherited.reach = max(inherited.reach, reach)
    }

    /// Whether what was received before the partition was lost is read again.
    package var isRereading: Bool { highestArrived < highestReceived }

    /// Open records from what arrived last to `offset`, which arrives now: they were passed over.
    package func passedOver(below offset: Int64) -> [RecordSlot] {
        var passed: [RecordSlot] = []
        var position = entries.head
        while position != entries.tail, entries[position].offset < offset {
            let entry = entries[position]
            if entry.record != Self.settledMark, entry.offset > highestArrived { passed.append(entry.record) }
            position += 1
        }
        return passed
    }

    /// The first entry that begins at `offset` or above.
    private func position(of offset: Int64) -> UInt64 {
        var low = entries.head
        var high = entries.tail
        while low != high {
            let middle = low &+ (high &- low) / 2
            if entries[middle].offset < offset { low = middle &+ 1 } else { high = middle }
        }
        return low
    }

    private func openRecord(at offset: Int64) -> RecordSlot? {
        let low = position(of: offset)
        guard low != entries.tail, entries[low].offset == offset, entries[low].record != Self.settledMark else {
            return nil
        }
        return entries[low].record
    }

    /// Enters `offset` under the name `record` (not `.none`) where it is open.
    package mutating func receive(_ offset: Int64, record: @autoclosure () -> RecordSlot) -> Arrival {
        if offset <= highestArrived { return .known }
        highestArrived = offset
        if offset <= highestReceived { return openRecord(at: offset).map { .again(record: $0) } ?? .known }
        highestReceived = offset
        switch inherited.take(offset) {
        case .settled:
            // Below the first open record everything received is settled anyway.
            if !entries.isEmpty { appendSettled(offset) }
            return .settledBefore
        case .partly(let indexes):
            append(offset, record())
            return .open(settledIndexes: indexes)
        case .open:
            append(offset, record())
            return .open(settledIndexes: [])
        }
    }

    @inline(__always)
    private mutating func append(_ offset: Int64, _ record: RecordSlot) {
        entries.append(Entry(offset: offset, record: record))
        openCount += 1
    }

    private mutating func appendSettled(_ offset: Int64) {
        let entry = Entry(offset: offset, record: Self.settledMark)
        let last = entries.tail &- 1
        if let merged = Self.merge(entries[last], entry) { entries[last] = merged } else { entries.append(entry) }
    }

    /// Both as one entry; `nil`: they are not both settled, or too far apart.
    private static func merge(_ lower: Entry, _ upper: Entry) -> Entry? {
        guard lower.record == settledMark, upper.record == settledMark,
            let length = UInt32(exactly: upper.end - lower.offset)
        else { return nil }
        return Entry(offset: lower.offset, record: settledMark, length: length)
    }

    /// The position of the record received last, to settle it by, and its name.
    package var lastPosition: UInt64 { entries.tail - 1 }
    package var lastRecord: RecordSlot { entries[entries.tail - 1].record }

    /// What lies below it may have been sent by the owner before.
    package var inheritedReach: ReachEnd { inherited.reach }

    /// One past the highest offset that the map read back names; 0: none.
    package var inheritedEnd: Int64 { inherited.end }

    /// Of the record at this offset, indexes below this may have been sent by the owner before; 0: none.
    package func inheritedDoubtEnd(at offset: Int64) -> Int32 { inherited.reach.indexes(at: offset) }

    /// So many notifications further than `start`: of records received, each as `count` says, then of as many offsets
    /// as have the rest when they are like these, `CommitMap.highestReach` at most.
    package func end(ahead amount: Int64, of start: ReachEnd, count: (_ record: RecordSlot) -> Int32) -> ReachEnd {
        var left = amount
        var seen: Int64 = 0
        let first = start.offset - (start.indexes == .max ? 0 : 1)
        var position = position(of: first)
        while position != entries.tail {
            let entry = entries[position]
            position += 1
            guard entry.record != Self.settledMark else { continue }
            let all = count(entry.record)
            let begun = min(start.indexes(at: entry.offset), all)
            seen += Int64(all)
            if Int64(all - begun) >= left {
                let indexes = begun + Int32(left)
                return ReachEnd(entry.offset + 1, indexes: indexes == all ? .max : indexes)
            }
            left -= Int64(all - begun)
        }
        let next = max(highestReceived + 1, start.offset)
        // Between offsets may be any gap.
        let likely = Double(left) * Double(next - first) / Double(seen)
        let further = seen == 0 ? left : Int64(min(likely, Double(CommitMap.highestReach)))
        return further > 0 ? ReachEnd(next + further) : ReachEnd(next + 1, indexes: Int32(clamping: left))
    }

    /// One past the highest offset that a commit's map can name.
    package var mapEnd: Int64 { max(highestReceived + 1, inherited.end) }

    /// - Parameter moved: told of each open record that has another position from now on.
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

    /// The caller's name of the record at the watermark; `nil`: nothing is open.
    package var firstOpenRecord: RecordSlot? { entries.isEmpty ? nil : entries[entries.head].record }

    /// Every open record, in offset order.
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
    /// - Parameter indexes: a record's settled indexes as bits; `nil` when none is, or it has one notification only.
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

    /// Where an upper part begins that a map can name, whichever of its open records settle and whichever do not;
    /// `nil`: that is so of the whole. What is open below has to settle first.
    ///
    /// - Parameters:
    ///   - budget: bytes of the map.
    ///   - partialBytes: what naming the settled indexes of an open record takes at most.
    package func firstNameable(budget: Int, partialBytes: (_ record: RecordSlot) -> Int) -> Int64? {
        let end = mapEnd
        let rest = inherited.namingBytes
        var runs = rest.runs
        var partials = rest.partials
        var next = end
        var position = entries.tail
        while position != entries.head {
            position &-= 1
            let entry = entries[position]
            guard entry.record != Self.settledMark else { continue }
            // Between two records that stay open is a run and a gap, each no longer than this.
            let distance = next - entry.offset
            runs += distance <= 1 ? 1 : 2 * CommitMapWriter.size(distance)
            let partial = partialBytes(entry.record)
            if partial > 0 { partials += partial + CommitMapWriter.size(end - entry.offset) }
            if partials + min(runs, Int(clamping: (end - entry.offset + 7) / 8)) > budget
                || end - entry.offset >= CommitMap.spanLimit
            {
                return next
            }
            next = entry.offset
        }
        return nil
    }

    /// One past the highest record that has, or may have, a send in doubt; `nil`: none has.
    ///
    /// - Parameter isInDoubt: of a record received in this assignment that is not settled.
    package func leavingReach(isInDoubt: (_ record: RecordSlot) -> Bool) -> Int64? {
        let next = max(highestReceived + 1, committable ?? 0)
        if let end = inherited.doubtEnd(from: next) { return end }
        var reach: Int64?
        forEachOpen { offset, record in
            if inheritedDoubtEnd(at: offset) > 0 || isInDoubt(record) { reach = offset + 1 }
        }
        return reach
    }
}
