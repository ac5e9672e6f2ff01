/// The books of one partition in one assignment: what was received, what of it is settled, what may be committed.
///
/// Offsets come in ascending order and settle in any. Offsets that never come (compaction, transaction markers) count
/// as settled, because only what was received is tracked. O(1) amortized per record.
package struct PartitionLedger: ~Copyable {
    // Not private: Swift 6.3.1 crashes ("Global is external") on a private type inside a ~Copyable one.
    struct Entry {
        var offset: Int64
        /// The caller's name for the record; `settledMark` once it is settled.
        var record: UInt32
    }
    private static let settledMark = UInt32.max

    /// How an offset stands when it comes.
    package enum Arrival {
        /// Received before: nothing to do.
        case known
        /// The commit map that was read back names it settled; it is counted so.
        case settledBefore
        /// Open from now on: settle it by `settle(position)`.
        case open(settledIndexes: [Range<Int64>])
    }

    /// As read at assignment; `nil`: there was none.
    package private(set) var committedAtAssignment: Int64?
    /// -1: nothing was received yet.
    package private(set) var highestReceived: Int64 = -1
    /// Entries above the watermark that are settled.
    package private(set) var settledAbove = 0
    private var entries = RingBuffer<Entry>()
    private var inherited: InheritedMap

    package init(committed: Int64?, map: CommitMap) {
        committedAtAssignment = committed
        inherited = InheritedMap(map)
    }

    /// Records that are received, from the first that is not settled.
    package var span: Int { entries.count }

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

    /// Begins anew after an offset reset: no record is known to be settled, but those below the offset that was committed
    /// for, or its reach, may have been sent.
    package mutating func reset() {
        inherited = InheritedMap(CommitMap(reach: max(inherited.reach, committedAtAssignment ?? 0)))
        committedAtAssignment = nil
    }

    /// Whether `offset` came before, or was passed.
    package func isBelow(_ offset: Int64) -> Bool { offset <= highestReceived }

    /// Enters `offset` under the name `record` (below `UInt32.max`) where it is open.
    package mutating func receive(_ offset: Int64, record: @autoclosure () -> UInt32) -> Arrival {
        if offset <= highestReceived { return .known }
        highestReceived = offset
        switch inherited.take(offset) {
        case .settled:
            // Below the first open record everything received is settled anyway.
            if !entries.isEmpty {
                entries.append(Entry(offset: offset, record: Self.settledMark))
                settledAbove += 1
            }
            return .settledBefore
        case .partly(let indexes):
            entries.append(Entry(offset: offset, record: record()))
            return .open(settledIndexes: indexes)
        case .open:
            entries.append(Entry(offset: offset, record: record()))
            return .open(settledIndexes: [])
        }
    }

    /// The position of the record received last, to settle it by, and its name.
    package var lastPosition: UInt64 { entries.tail - 1 }
    package var lastRecord: UInt32 { entries[entries.tail - 1].record }

    /// Records below it may have been sent by the owner before; 0: none.
    package var inheritedReach: Int64 { inherited.reach }

    /// Whether records at this offset may have been sent by the owner before.
    package func isInheritedDoubt(_ offset: Int64) -> Bool { offset < inheritedReach }

    /// One past the highest offset that a commit's map can name.
    package var mapEnd: Int64 { max(highestReceived + 1, inherited.end) }

    package mutating func settle(_ position: UInt64) {
        precondition(entries[position].record != Self.settledMark, "a record settles once")
        entries[position].record = Self.settledMark
        settledAbove += 1
        while !entries.isEmpty, entries[entries.head].record == Self.settledMark {
            entries.removeFirst()
            settledAbove -= 1
        }
    }

    /// The caller's name of the record at the watermark; `nil`: nothing is open.
    package var firstOpenRecord: UInt32? { entries.isEmpty ? nil : entries[entries.head].record }

    /// Every open record, in offset order.
    package func forEachOpen(_ body: (_ offset: Int64, _ record: UInt32) -> Void) {
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
        to writer: inout CommitMapWriter, indexes: (_ record: UInt32) -> UnsafeBufferPointer<UInt64>?
    ) {
        var runStart: Int64 = -1
        var runEnd: Int64 = -1
        var position = entries.head
        while position != entries.tail, !writer.isFull {
            let entry = entries[position]
            position += 1
            if entry.record == Self.settledMark {
                if runStart < 0 { runStart = entry.offset }
                runEnd = entry.offset + 1
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

    /// One past the highest record that has, or may have, a send in doubt; `nil`: none has.
    ///
    /// - Parameter isInDoubt: of a record received in this assignment that is not settled.
    package func leavingReach(isInDoubt: (_ record: UInt32) -> Bool) -> Int64? {
        let next = max(highestReceived + 1, committable ?? 0)
        if let end = inherited.doubtEnd(from: next) { return end }
        var reach: Int64?
        forEachOpen { offset, record in
            if isInheritedDoubt(offset) || isInDoubt(record) { reach = offset + 1 }
        }
        return reach
    }
}
