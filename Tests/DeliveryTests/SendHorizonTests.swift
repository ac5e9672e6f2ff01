import Testing

@testable import Delivery

struct SendHorizonTests {
    @Test func `Nothing is allowed before a commit is acknowledged; then what it named`() {
        var horizon = SendHorizon(minimum: 500)
        #expect(!horizon.allows(0))
        #expect(horizon.isShort(from: 0))
        #expect(horizon.next(from: 100) == HorizonEnd(600))
        horizon.sent(naming: HorizonEnd(600))
        #expect(!horizon.allows(100))
        horizon.acknowledge(HorizonEnd(600))
        #expect(horizon.allows(599))
        #expect(!horizon.allows(600))
        #expect(!horizon.isShort(from: 100))
    }

    @Test func `It is short when less than half of the margin is left`() {
        var horizon = SendHorizon(minimum: 500)
        horizon.acknowledge(horizon.next(from: 0))
        horizon.advance(to: 249)
        #expect(!horizon.isShort(from: 0))
        horizon.advance(to: 250)
        #expect(horizon.isShort(from: 0))
    }

    @Test func `It keeps ahead by four commits' worth, and falls back slowly`() {
        var horizon = SendHorizon(minimum: 500)
        horizon.acknowledge(horizon.next(from: 0))
        horizon.advance(to: 299)
        #expect(horizon.next(from: 0) == HorizonEnd(300 + 1_200))
        horizon.acknowledge(HorizonEnd(1_500))
        horizon.advance(to: 1_299)
        #expect(horizon.next(from: 0) == HorizonEnd(1_300 + 4_000))
        horizon.acknowledge(HorizonEnd(5_300))
        // Nothing is handed out any more: the margin shrinks, and what is not named any more is not allowed from then
        // on.
        for _ in 0..<100 { horizon.sent(naming: horizon.next(from: 1_300)) }
        #expect(horizon.margin == 500)
        #expect(horizon.next(from: 1_300) == HorizonEnd(1_800))
        expect(horizon.allows(1_799), is: true)
        expect(horizon.allows(1_800), is: false)
    }

    @Test func `A gap in the offsets does not stretch it without limit`() {
        var horizon = SendHorizon(minimum: 500)
        horizon.acknowledge(horizon.next(from: 0))
        horizon.advance(to: 50_000_000)
        #expect(!horizon.allows(50_000_000))
        #expect(horizon.isShort(from: 0))
        #expect(horizon.next(from: 0) == HorizonEnd(50_000_001 + SendHorizon.maximum))
    }

    @Test func `Of its last record it allows some indexes, and is short when half of what was counted is handed out`() {
        var horizon = SendHorizon(minimum: 100)
        _ = horizon.next(from: 7, counted: HorizonEnd(8, indexes: 100))
        horizon.acknowledge(HorizonEnd(8, indexes: 100))
        expect(horizon.allows(6, 9_999), is: true)
        expect(horizon.allows(7, 99), is: true)
        expect(horizon.allows(7, 100), is: false)
        for index in 0..<49 as Range<Int32> { horizon.advance(to: 7, index) }
        expect(horizon.isShort(from: 7), is: false)
        // Once is enough.
        horizon.advance(to: 7, 3)
        expect(horizon.isShort(from: 7), is: false)
        horizon.advance(to: 7, 49)
        expect(horizon.isShort(from: 7), is: true)
        #expect(horizon.countedMargin == 200)
        #expect(horizon.start(from: 7) == HorizonEnd(8, indexes: 50))
        // Named by nobody yet, and no more than that from now on.
        horizon.sent(naming: horizon.next(from: 7, counted: HorizonEnd(8, indexes: 90)))
        expect(horizon.allows(7, 90), is: false)
        horizon.acknowledge(HorizonEnd(8, indexes: 90))
        // What waits beyond it cannot wait.
        horizon.advance(to: 7, 90)
        expect(horizon.isShort(from: 7), is: true)
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
