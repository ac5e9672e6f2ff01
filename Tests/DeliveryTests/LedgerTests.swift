@testable import Delivery
import Testing

/// Compares a value that was read before. `#expect` copies its operands, which ledgers and machines do not allow.
func expect<Value: Equatable>(
    _ value: Value, is expected: Value, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation
) {
    #expect(value == expected, comment, sourceLocation: sourceLocation)
}

struct LedgerTests {
    /// Returns a ledger that has received `offsets`, each with its offset as its name.
    static func ledger(
        _ offsets: some Sequence<Int64>, committed: Int64? = 0, map: CommitMap = CommitMap()
    ) -> Partition.Offsets {
        var ledger = Partition.Offsets(committed: committed, map: map)
        for offset in offsets { _ = ledger.receive(offset, record: RecordSlot(UInt32(offset))) }
        return ledger
    }

    struct Case: CustomTestStringConvertible {
        var name: String
        var received: [Int64]
        /// Indexes into `received`.
        var settled: [UInt64]
        var committable: Int64
        var testDescription: String { name }
    }

    @Test(
        arguments: [
            Case(name: "nothing received", received: [], settled: [], committable: 7),
            Case(name: "one open", received: [7], settled: [], committable: 7),
            Case(name: "one settled", received: [7], settled: [0], committable: 8),
            Case(name: "the second settled first", received: [7, 8], settled: [1], committable: 7),
            Case(name: "both, backwards", received: [7, 8], settled: [1, 0], committable: 9),
            Case(name: "a gap settles by itself", received: [7, 100], settled: [0], committable: 100),
            Case(name: "a gap at the start", received: [50, 60], settled: [], committable: 50),
            Case(name: "gap at the end is not passed", received: [7, 60], settled: [0, 1], committable: 61),
            Case(name: "the middle stays", received: [7, 8, 9], settled: [0, 2], committable: 8),
        ])
    func `The watermark is the first unsettled offset, whatever the order`(_ test: Case) {
        var ledger = Self.ledger(test.received, committed: 7)
        for place in test.settled { ledger.settle(place) }
        expect(ledger.committable, is: test.committable)
    }

    @Test func `A record that the map names is settled on arrival, and the watermark passes it`() {
        let map = CommitMap(settled: [8..<10, 12..<13], partials: [.init(offset: 11, indexes: [0..<3])])
        var ledger = Partition.Offsets(committed: 7, map: map)
        var standings: [String] = []
        for offset in Int64(7)...13 {
            let indexes = ledger.receive(offset, record: RecordSlot(UInt32(offset)))
            standings.append(indexes.map { $0.isEmpty ? "open" : "open but \($0)" } ?? "settled")
        }
        #expect(standings == ["open", "settled", "settled", "open", "open but [Range(0..<3)]", "settled", "open"])
        expect(ledger.committable, is: 7)
        ledger.settle(0)
        expect(ledger.committable, is: 10)
    }

    /// Returns what a commit of this ledger contains after encoding and decoding.
    static func committed(_ ledger: borrowing Partition.Offsets, limit: Int = 4_000, horizon: Int64 = 0) throws
        -> CommitMap
    {
        let committable = ledger.committable
        let base = try #require(committable)
        var writer = CommitMapWriter()
        writer.start(base: base, limit: limit)
        ledger.write(to: &writer) { _ in nil }
        writer.finish(horizon: horizon)
        #expect(writer.text.count <= limit)
        return try #require(writer.text.withUnsafeBytes { CommitMap(metadata: $0, base: base) })
    }

    @Test func `The map names the records settled above the watermark, received here or read back`() throws {
        var ledger = Self.ledger(
            7...12, committed: 7,
            map: CommitMap(
                horizon: 40, settled: [13..<20, 30..<33], partials: [.init(offset: 25, indexes: [1..<2, 5..<9])]))
        ledger.settle(2)
        ledger.settle(3)
        ledger.settle(5)
        let map = try Self.committed(ledger, horizon: 50)
        #expect(map.settled == [9..<11, 12..<20, 30..<33])
        #expect(map.partials == [.init(offset: 25, indexes: [1..<2, 5..<9])])
        #expect(map.horizon == 50)
    }

    @Test func `A gap between two settled records joins them in one run, and a gap before an open record is ignored`()
        throws
    {
        var ledger = Self.ledger([7, 10, 20, 30, 40], committed: 7)
        ledger.settle(1)
        ledger.settle(2)
        ledger.settle(4)
        let map = try Self.committed(ledger)
        #expect(map.settled == [10..<21, 40..<41])
    }

    @Test func `The map names the settled indexes of partly settled fan-outs`() throws {
        let ledger = Self.ledger([7, 8], committed: 7)
        let words: [UInt64] = [0b1011, 1 << 63, 1]
        let text = words.withUnsafeBufferPointer { words in
            var writer = CommitMapWriter()
            writer.start(base: 7, limit: 4_000)
            ledger.write(to: &writer) { record in record.number == 8 ? words : nil }
            writer.finish(horizon: 0)
            return writer.text
        }
        let map = try #require(text.withUnsafeBytes { CommitMap(metadata: $0, base: 7) })
        #expect(map.partials == [.init(offset: 8, indexes: [0..<2, 3..<4, 127..<129])])
        #expect(map.settled.isEmpty)
    }

    struct Leaving: CustomTestStringConvertible {
        var name: String
        var map = CommitMap()
        var received: [Int64] = []
        var settled: [UInt64] = []
        var doubted: Set<UInt32> = []
        var horizon: Int64
        var testDescription: String { name }
    }

    @Test(
        arguments: [
            Leaving(name: "nothing", horizon: 0),
            Leaving(name: "open, not in doubt", received: [0, 1], horizon: 0),
            Leaving(name: "ours", received: [0, 1, 2], doubted: [1], horizon: 2),
            Leaving(name: "inherited, not received yet", map: CommitMap(horizon: 9), horizon: 9),
            Leaving(name: "inherited, the last ones named", map: CommitMap(horizon: 9, settled: [6..<9]), horizon: 6),
            Leaving(name: "inherited, all the rest named", map: CommitMap(horizon: 9, settled: [1..<9]), horizon: 1),
            Leaving(
                name: "inherited, all the rest named, the first received and open",
                map: CommitMap(horizon: 9, settled: [1..<9]), received: [0], horizon: 1),
            Leaving(
                name: "inherited, received and settled", map: CommitMap(horizon: 3), received: [0, 1, 2],
                settled: [0, 1, 2], horizon: 0),
            Leaving(
                name: "inherited, received and open below, ours above", map: CommitMap(horizon: 2),
                received: [0, 1, 2, 3], settled: [0], doubted: [3], horizon: 4),
            Leaving(
                name: "inherited, received and open", map: CommitMap(horizon: 2), received: [0, 1, 2, 3], settled: [0],
                horizon: 2),
            Leaving(
                name: "several runs at the end", map: CommitMap(horizon: 20, settled: [5..<7, 10..<20]), received: [0],
                horizon: 10),
            Leaving(
                name: "a run beyond the horizon", map: CommitMap(horizon: 12, settled: [5..<7, 10..<20]), received: [0],
                horizon: 10),
        ])
    func `The horizon of the last commit is one above the highest record that may have a send in doubt`(
        _ test: Leaving
    ) {
        var ledger = Self.ledger(test.received, map: test.map)
        for place in test.settled { ledger.settle(place) }
        expect(ledger.leavingHorizon { test.doubted.contains($0.number) }, is: test.horizon)
    }
}
