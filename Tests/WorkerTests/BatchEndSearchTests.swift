import Kafka
import Testing

@testable import Worker

/// Where a batch ends, found by looking at logs that are made up.
struct BatchEndSearchTests {
    private typealias Batch = BatchFailure.Batch

    /// A batch of a log; records of one that can be unpacked may be gone.
    private struct Entry {
        var offsets: ClosedRange<Int64>
        var isUnreadable = false
        var records: [Int64]?

        var batch: Batch { Batch(baseOffset: offsets.lowerBound, size: 100) }
    }

    /// What a reader gets first that begins at `offset`.
    private static func look(at offset: Int64, in log: [Entry], end: Int64) -> BatchProbe.Finding {
        for entry in log where entry.offsets.upperBound >= offset {
            if entry.isUnreadable { return .batch(entry.batch) }
            guard let records = entry.records else { return .record(offset: max(offset, entry.offsets.lowerBound)) }
            if let record = records.first(where: { $0 >= offset }) { return .record(offset: record) }
        }
        return .end(offset: end)
    }

    /// The last offset that was found, and after how many looks.
    private static func search(
        _ batch: Batch, in log: [Entry], end: Int64
    ) -> (last: Int64?, looks: Int) {
        var search = BatchEndSearch(batch, logEnd: end)
        for looks in 0..<100 {
            switch search.next {
            case .look(let offset):
                #expect(offset >= batch.baseOffset && offset < end)
                search.found(look(at: offset, in: log, end: end))
            case .ended(let last): return (last, looks)
            case .failed: return (nil, looks)
            }
        }
        Issue.record("no end after 100 looks")
        return (nil, 100)
    }

    @Test func theEndIsFoundWhateverStandsBehind() {
        for count in Int64(1)...70 {
            let batch = Entry(offsets: 10...(9 + count), isUnreadable: true)
            let next = 10 + count
            let behind: [[Entry]] = [
                [],
                [Entry(offsets: next...next)],
                [Entry(offsets: next...(next + 5_000))],
                // Another one that cannot be unpacked, and two.
                [Entry(offsets: next...(next + 2), isUnreadable: true)],
                [
                    Entry(offsets: next...next, isUnreadable: true),
                    Entry(offsets: (next + 1)...(next + 90), isUnreadable: true),
                    Entry(offsets: (next + 91)...(next + 99)),
                ],
                // What compaction left: a gap, a batch whose first records are gone, an empty one.
                [Entry(offsets: (next + 30)...(next + 30), isUnreadable: true)],
                [Entry(offsets: next...(next + 20), records: [next + 19])],
                [Entry(offsets: next...(next + 20), records: []), Entry(offsets: (next + 21)...(next + 22))],
                // The mark of a transaction, and nothing else.
                [Entry(offsets: next...next, records: [])],
            ]
            for entries in behind {
                let log = [Entry(offsets: 0...9), batch] + entries
                let end = (log.last?.offsets.upperBound ?? 0) + 1
                let found = Self.search(batch.batch, in: log, end: end)
                #expect(found.last == 9 + count)
                #expect(found.looks < 30)
            }
        }
    }

    @Test func theLargestBatchTakesSomeSixtyLooks() {
        let base = Int64.max - (1 << 40)
        let last = base + Int64(Int32.max)
        for end in [last + 1, last + 2, last + 1 << 33] {
            let log = [Entry(offsets: base...last, isUnreadable: true), Entry(offsets: (last + 1)...(.max - 1))]
            let found = Self.search(log[0].batch, in: log, end: end)
            #expect(found.last == last)
            #expect(found.looks < 70)
        }
    }

    @Test func whereTheBatchIsNotNothingIsFound() {
        let batch = Batch(baseOffset: 10, size: 100)
        #expect(Self.search(batch, in: [Entry(offsets: 0...99)], end: 100).last == nil)
        #expect(Self.search(batch, in: [], end: 100).last == nil)
        #expect(Self.search(batch, in: [Entry(offsets: 11...20, isUnreadable: true)], end: 21).last == nil)
        #expect(Self.search(batch, in: [Entry(offsets: 5...20, isUnreadable: true)], end: 21).last == nil)
        let larger = Batch(baseOffset: 10, size: 101)
        #expect(Self.search(larger, in: [Entry(offsets: 10...20, isUnreadable: true)], end: 21).last == nil)
        for end in [Int64(-1), 0, 10] { #expect(BatchEndSearch(batch, logEnd: end).next == .failed) }
        #expect(BatchEndSearch(Batch(baseOffset: -1, size: 100), logEnd: 5).next == .failed)
    }

    /// The log is made anew, or cut, while it is searched.
    @Test func whatDoesNotFitTogetherIsNoEnd() {
        let batch = Batch(baseOffset: 10, size: 100)
        let others: [BatchProbe.Finding] = [
            .record(offset: 11), .end(offset: 11), .batch(Batch(baseOffset: 10, size: 99)),
            .batch(Batch(baseOffset: 3, size: 100)), .batch(Batch(baseOffset: 11, size: 100)),
        ]
        for other in others {
            var search = BatchEndSearch(batch, logEnd: 1_000)
            for offset in [Int64(10), 11, 13] {
                #expect(search.next == .look(at: offset))
                search.found(.batch(batch))
            }
            #expect(search.next == .look(at: 17))
            search.found(other)
            #expect(search.next == .failed)
        }
    }
}
