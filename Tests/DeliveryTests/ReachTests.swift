import Testing

@testable import Delivery

struct ReachTests {
    @Test func `Nothing is allowed before a commit is acknowledged; then what it named`() {
        var reach = SendHorizon(minimum: 500)
        #expect(!reach.allows(0))
        #expect(reach.isShort(from: 0))
        #expect(reach.next(from: 100) == HorizonEnd(600))
        reach.sent(naming: HorizonEnd(600))
        #expect(!reach.allows(100))
        reach.acknowledge(HorizonEnd(600))
        #expect(reach.allows(599))
        #expect(!reach.allows(600))
        #expect(!reach.isShort(from: 100))
    }

    @Test func `It is short when less than half of the margin is left`() {
        var reach = SendHorizon(minimum: 500)
        reach.acknowledge(reach.next(from: 0))
        reach.advance(to: 249)
        #expect(!reach.isShort(from: 0))
        reach.advance(to: 250)
        #expect(reach.isShort(from: 0))
    }

    @Test func `It keeps ahead by four commits' worth, and falls back slowly`() {
        var reach = SendHorizon(minimum: 500)
        reach.acknowledge(reach.next(from: 0))
        reach.advance(to: 299)
        #expect(reach.next(from: 0) == HorizonEnd(300 + 1_200))
        reach.acknowledge(HorizonEnd(1_500))
        reach.advance(to: 1_299)
        #expect(reach.next(from: 0) == HorizonEnd(1_300 + 4_000))
        reach.acknowledge(HorizonEnd(5_300))
        // Nothing is handed out any more: the margin shrinks, and what is not named any more is not allowed from then
        // on.
        for _ in 0..<100 { reach.sent(naming: reach.next(from: 1_300)) }
        #expect(reach.margin == 500)
        #expect(reach.next(from: 1_300) == HorizonEnd(1_800))
        expect(reach.allows(1_799), is: true)
        expect(reach.allows(1_800), is: false)
    }

    @Test func `A gap in the offsets does not stretch it without limit`() {
        var reach = SendHorizon(minimum: 500)
        reach.acknowledge(reach.next(from: 0))
        reach.advance(to: 50_000_000)
        #expect(!reach.allows(50_000_000))
        #expect(reach.isShort(from: 0))
        #expect(reach.next(from: 0) == HorizonEnd(50_000_001 + SendHorizon.maximum))
    }

    @Test func `Of its last record it allows some indexes, and is short when half of what was counted is handed out`() {
        var reach = SendHorizon(minimum: 100)
        _ = reach.next(from: 7, counted: HorizonEnd(8, indexes: 100))
        reach.acknowledge(HorizonEnd(8, indexes: 100))
        expect(reach.allows(6, 9_999), is: true)
        expect(reach.allows(7, 99), is: true)
        expect(reach.allows(7, 100), is: false)
        for index in 0..<49 as Range<Int32> { reach.advance(to: 7, index) }
        expect(reach.isShort(from: 7), is: false)
        // Once is enough.
        reach.advance(to: 7, 3)
        expect(reach.isShort(from: 7), is: false)
        reach.advance(to: 7, 49)
        expect(reach.isShort(from: 7), is: true)
        #expect(reach.countedMargin == 200)
        #expect(reach.start(from: 7) == HorizonEnd(8, indexes: 50))
        // Named by nobody yet, and no more than that from now on.
        reach.sent(naming: reach.next(from: 7, counted: HorizonEnd(8, indexes: 90)))
        expect(reach.allows(7, 90), is: false)
        reach.acknowledge(HorizonEnd(8, indexes: 90))
        // What waits beyond it cannot wait.
        reach.advance(to: 7, 90)
        expect(reach.isShort(from: 7), is: true)
    }

    @Test(
        arguments: [
            (10, HorizonEnd(1), HorizonEnd(3, indexes: 10)), (4, HorizonEnd(3, indexes: 96), HorizonEnd(3)),
            (5, HorizonEnd(3, indexes: 96), HorizonEnd(4)), (1, HorizonEnd(3, indexes: 100), HorizonEnd(4)),
            (6, HorizonEnd(3, indexes: 100), HorizonEnd(5, indexes: 5)),
            (101, HorizonEnd(3, indexes: 100), HorizonEnd(5)),
        ])
    func `So many notifications ahead: of what is there, then of what is likely to come`(
        _ amount: Int, of start: HorizonEnd, _ end: HorizonEnd
    ) {
        var ledger = PartitionLedger(committed: 0, map: CommitMap())
        // A fan-out between single ones; offset 1 settled.
        for offset in 0..<4 as Range<Int64> { _ = ledger.receive(offset, record: RecordSlot(UInt32(offset))) }
        ledger.settle(1)
        #expect(ledger.end(ahead: Int64(amount), of: start) { $0.number == 2 ? 100 : 1 } == end)
    }

    @Test
    func `However far apart the offsets are, what is likely to come is a number, and no further than a map can name`() {
        var ledger = PartitionLedger(committed: 0, map: CommitMap())
        _ = ledger.receive(0, record: RecordSlot(0))
        _ = ledger.receive(OffsetLimit.highest - 1, record: RecordSlot(1))
        let end = ledger.end(ahead: SendHorizon.maximum, of: HorizonEnd(0)) { _ in 1 }
        #expect(end == HorizonEnd(OffsetLimit.highest + CommitMap.longestHorizon))
    }
}
