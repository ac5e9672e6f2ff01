@testable import Delivery
import PushRecords
import Testing

struct LedgerSpanTests {
    @Test func `The ledger's entries do not grow with the records settled above an open one, and stay correct`() {
        var ledger = Partition.Offsets(committed: 0, map: CommitMap())
        var positions: [RecordSlot: UInt64] = [:]
        var most = 0
        for offset in Int64(0)..<100_000 {
            let record = RecordSlot(UInt32(offset))
            _ = ledger.receive(offset, record: record)
            positions[record] = ledger.lastPosition
            // One record in 5,000 stays open.
            if offset % 5_000 != 0 { ledger.settle(positions[record] ?? 0) { positions[$0] = $1 } }
            most = max(most, ledger.entries.count)
        }
        expect(ledger.openCount, is: 20)
        expect(ledger.span, is: 100_000)
        #expect(most <= 4 * 20 + 65)
        for offset in stride(from: Int64(0), to: 100_000, by: 5_000) {
            expect(ledger.committable, is: offset)
            ledger.settle(positions[RecordSlot(UInt32(offset))] ?? 0) { positions[$0] = $1 }
        }
        expect(ledger.committable, is: 100_000)
        expect(ledger.entries.count, is: 0)
    }

    // MARK: Numbers

    static let boundaries: [Int64] = [
        0, 1, 127, 128, 16_383, 1 << 21, 1 << 31, 1 << 32, 1 << 40, 1 << 48, OffsetLimit.highest - 1,
        OffsetLimit.highest,
    ]

    @Test(arguments: boundaries)
    func `No accepted offset causes an overflow`(_ base: Int64) throws {
        for horizon in [base, base + 1, base + CommitMap.longestHorizon, base + CommitMap.spanLimit, .max] {
            var writer = CommitMapWriter()
            writer.start(base: base, limit: 4_000)
            writer.settled(base + 1..<base + 2)
            writer.settled(base + CommitMap.spanLimit - 2..<base + CommitMap.spanLimit - 1)
            writer.partial(offset: base + CommitMap.spanLimit, indexes: [0..<1])
            writer.finish(horizon: min(horizon, base + CommitMap.longestHorizon))
            #expect(writer.isFull, "the writer must omit offsets that a reader would reject")
            let map = try #require(writer.text.withUnsafeBytes { CommitMap(metadata: $0, base: base) })
            #expect(map.settled.count == 2 && map.partials.isEmpty)
        }
        var horizon = Partition.SendHorizon(minimum: 500)
        horizon.advance(to: base)
        let next = horizon.next(from: 0)
        #expect(next <= CommitMap.longestHorizon && next > 0)
        horizon.acknowledge(next)
        horizon.sent(naming: horizon.next(from: base))
        #expect(!horizon.isShort(from: 0) || next < base + 250)
    }

    @Test(arguments: [OffsetLimit.highest + 1, .max - 1, .max, -1, -1_001, .min])
    func `Offsets and metadata near 2^63 restart the log, without a trap`(_ committed: Int64) {
        for text in [CommitMapTests.text(base: 5, CommitMap(horizon: 500)), [], Array("foreign".utf8)] {
            let rig = Rig()
            let partition = rig.assign(committed: committed, text: text, logStart: 3, logEnd: 5)
            #expect(rig.machine.takeEvents() == [.logChanged(partition, committed: committed, start: 3, end: 5)])
            #expect(rig.commit().map(\.offset) == [3])
            for offset in Int64(3)...5 { rig.receive(partition, offset, "d\(offset)") }
            #expect(rig.answerAll().map(\.inDoubt) == [1, 1, 0])
            rig.machine.revoke([partition])
            #expect(rig.commit() == [.init(partition: partition, offset: 6, map: CommitMap())])
        }
    }

    @Test(arguments: [-1, .min, OffsetLimit.highest, OffsetLimit.highest + 1, .max])
    func `An impossible offset is not received`(_ offset: Int64) {
        let (rig, partition) = Rig.ready()
        #expect("\(rig.receive(partition, offset, "a"))" == "ignored")
    }

    @Test func `The next owner accepts an offset that was committed above the highest record`() {
        let rig = Rig()
        let partition = rig.assign(committed: OffsetLimit.highest - 1)
        rig.commit()
        rig.receive(partition, OffsetLimit.highest - 1, "a")
        rig.offer(partition, OffsetLimit.highest, "b")
        rig.finish("a")
        #expect(rig.commit().allSatisfy { $0.offset <= OffsetLimit.highest && $0.map.horizon != -1 })
    }

    @Test(
        arguments: [
            .min, .min + 400, -1, 0, 1, 1_800_000_000_000, RecordTime.latestMs, RecordTime.latestMs + 1, .max - 1, .max,
        ])
    func `An unknown timestamp never expires, and no timestamp traps`(_ timestampMs: Int64) {
        let rig = Rig()
        let requests = rig.assignReady(0)
        let retries = rig.assignReady(1, topic: "retries", role: .retry(delayMs: 30_000))
        rig.receive(requests, 0, "a", timestampMs: timestampMs)
        rig.receive(
            retries, 0, "b", headers: rig.retryHeaders(dueMs: .max, firstMs: timestampMs), timestampMs: timestampMs)
        for written in rig.answerAll() where timestampMs <= 0 || timestampMs > RecordTime.latestMs {
            #expect(written.outcome != .expired)
        }
        rig.machine.revoke([requests, retries])
        rig.commit()
    }
}
