extension Partition {
    /// The received and settled records of one partition in one assignment, which determine the offset to commit.
    ///
    /// Offsets are received in ascending order and settle in any order. Offsets that are never received (compaction,
    /// transaction markers) count as settled, because only received records are tracked. Each record costs amortized
    /// O(1) time. Memory and the cost of a commit grow with the number of open records only, because adjacent settled
    /// records share an entry.
    package struct Offsets: ~Copyable {
        // This type is not private: the Swift 6.3.1 compiler crashes ("Global is external") on a private type inside a
        // `~Copyable` one.
        struct Entry {
            var offset: Int64
            /// The caller's slot of the record, or `settledMark` once it is settled.
            var record: RecordSlot
            /// The number of offsets that the entry covers, which is 1 for an open record.
            var length: UInt32 = 1

            var end: Int64 { offset + Int64(length) }
        }
        private static var settledMark: RecordSlot { .none }
        /// Entries are merged when their number exceeds `slack` plus `entriesPerOpen` for each open record.
        private static let slack = 64
        private static let entriesPerOpen = 4

        /// The group's committed offset at the assignment, if any.
        package let committedAtAssignment: Int64?
        /// The highest offset that was received or that `reachedEnd` skipped, or -1 if there is none.
        package private(set) var highestReceived: Int64 = -1
        package private(set) var openCount = 0
        private(set) var entries = RingBuffer<Entry>()
        /// The entries of the previous owner's commit map for offsets that were not received yet.
        private var inherited: CommitMap

        package init(committed: Int64?, map: CommitMap) {
            committedAtAssignment = committed
            inherited = map
        }

        /// The number of offsets from `committable` to the highest received offset.
        package var span: Int64 { committable.map { max(0, highestReceived + 1 - $0) } ?? 0 }

        /// The offset to commit: the first offset that is not settled, else one past the highest received offset, else
        /// the offset committed at the assignment. `nil` if nothing was committed or received.
        package var committable: Int64? {
            if !entries.isEmpty { return entries[entries.head].offset }
            return highestReceived >= 0 ? highestReceived + 1 : committedAtAssignment
        }

        /// The highest received offset, or one below the committed offset if that is higher. Records at or below it are
        /// not new, unless the topic was recreated.
        package var highestKnown: Int64 { max(highestReceived, (committedAtAssignment ?? 0) - 1) }

        /// Receives the record at `offset`. If the record is not settled, stores its slot `record` (not `.none`) until
        /// `settle` is called with the record's position.
        ///
        /// - Returns: The settled indexes of the record, or `nil` if the commit map lists the record as settled, or if
        ///   it was received before.
        package mutating func receive(_ offset: Int64, record: @autoclosure () -> RecordSlot) -> [Range<Int64>]? {
            if offset <= highestReceived { return nil }
            highestReceived = offset
            guard let settledIndexes = inherited.isEmpty ? [] : inherited.take(offset) else {
                // Offsets below the first open record count as settled without an entry.
                if !entries.isEmpty { appendSettled(offset) }
                return nil
            }
            entries.append(Entry(offset: offset, record: record()))
            openCount += 1
            return settledIndexes
        }

        /// Marks all offsets below `offset` as received. Returns whether this changes anything.
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

        /// Returns both entries merged, or `nil` if one of the entries is open or the entries are too far apart.
        private static func merge(_ lower: Entry, _ upper: Entry) -> Entry? {
            guard lower.record == settledMark, upper.record == settledMark,
                let length = UInt32(exactly: upper.end - lower.offset)
            else { return nil }
            return Entry(offset: lower.offset, record: settledMark, length: length)
        }

        /// The position of the last received record, to pass to `settle`.
        package var lastPosition: UInt64 { entries.tail - 1 }
        package var lastRecord: RecordSlot { entries[entries.tail - 1].record }

        /// The send horizon of the previous owner. Records below it may have been sent.
        package var inheritedHorizon: Int64 { inherited.horizon }

        /// One past the highest offset that a commit's map can list as settled.
        package var mapEnd: Int64 { max(highestReceived + 1, inherited.end) }

        /// Settles the open record at this position.
        ///
        /// - Parameter moved: Called for each open record that gets a new position.
        @inline(__always)
        package mutating func settle(
            _ position: UInt64, moved: (_ record: RecordSlot, _ position: UInt64) -> Void = { _, _ in }
        ) {
            precondition(entries[position].record != Self.settledMark, "A record must settle only once")
            entries[position].record = Self.settledMark
            openCount -= 1
            while !entries.isEmpty, entries[entries.head].record == Self.settledMark { entries.removeFirst() }
            if entries.count > Self.entriesPerOpen * openCount + Self.slack { compact(moved) }
        }

        /// Merges adjacent settled entries, from the last to the first. About two entries per open record remain, so
        /// the amortized cost per record is constant.
        private mutating func compact(_ moved: (_ record: RecordSlot, _ position: UInt64) -> Void) {
            var kept = entries.tail
            for position in (entries.head..<entries.tail).reversed() {
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

        /// The slot of the record at the watermark, or `nil` if no record is open.
        package var firstOpenRecord: RecordSlot? { entries.isEmpty ? nil : entries[entries.head].record }

        /// Calls `body` with each open record, in offset order.
        package func forEachOpen(_ body: (_ offset: Int64, _ record: RecordSlot) -> Void) {
            for position in entries.head..<entries.tail where entries[position].record != Self.settledMark {
                body(entries[position].offset, entries[position].record)
            }
        }

        /// Writes the settled offsets above `committable` to `writer`. The caller must have started the writer with
        /// `committable` as its base.
        ///
        /// - Parameter indexes: Returns a record's settled indexes as bits, or `nil` if none is settled.
        package func write(
            to writer: inout CommitMapWriter, indexes: (_ record: RecordSlot) -> UnsafeBufferPointer<UInt64>?
        ) {
            var run: Range<Int64>?
            for position in entries.head..<entries.tail {
                if writer.isFull { break }
                let entry = entries[position]
                if entry.record == Self.settledMark {
                    run = (run?.lowerBound ?? entry.offset)..<entry.end
                    continue
                }
                if let settled = run.take() { writer.settled(settled) }
                if let words = indexes(entry.record) { writer.partial(offset: entry.offset, words: words) }
            }
            if let run { writer.settled(run) }
            if !writer.isFull, let base = committable {
                inherited.write(from: max(base, highestReceived + 1), to: &writer)
            }
        }

        /// One past the last offset of the older half of the partition's open records (at least one record), or `nil`
        /// if no record is open.
        var olderHalfEnd: Int64? {
            var left = max(1, openCount / 2)
            var end: Int64?
            forEachOpen { offset, _ in
                left -= 1
                if left == 0 { end = offset + 1 }
            }
            return end
        }

        /// Returns the send horizon of the partition's last commit: one past the highest record that may have a send
        /// in doubt, or 0 if there is none.
        ///
        /// - Parameter isInDoubt: Whether a received record that is not settled may have a send in doubt.
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
}
