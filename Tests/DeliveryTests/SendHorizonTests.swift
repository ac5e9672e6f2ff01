import Testing

@testable import Delivery

struct SendHorizonTests {
    @Test func `Nothing may be sent before a commit is acknowledged, and then only records below its horizon`() {
        var horizon = Partition.SendHorizon(minimum: 500)
        #expect(!horizon.allows(0))
        #expect(horizon.isShort(from: 0))
        #expect(horizon.next(from: 100) == 600)
        horizon.sent(naming: 600)
        #expect(!horizon.allows(100))
        horizon.acknowledge(600)
        #expect(horizon.allows(599))
        #expect(!horizon.allows(600))
        #expect(!horizon.isShort(from: 100))
    }

    @Test func `The horizon is too low when less than half of the margin is left`() {
        var horizon = Partition.SendHorizon(minimum: 500)
        horizon.acknowledge(horizon.next(from: 0))
        horizon.advance(to: 249)
        #expect(!horizon.isShort(from: 0))
        horizon.advance(to: 250)
        #expect(horizon.isShort(from: 0))
    }

    @Test func `The horizon stays ahead by the sends of three commits, and decreases slowly`() {
        var horizon = Partition.SendHorizon(minimum: 500)
        horizon.acknowledge(horizon.next(from: 0))
        horizon.advance(to: 299)
        #expect(horizon.next(from: 0) == 300 + 900)
        horizon.acknowledge(1_200)
        horizon.advance(to: 1_299)
        #expect(horizon.next(from: 0) == 1_300 + 3_000)
        horizon.acknowledge(4_300)
        // Nothing more is handed out, so the margin shrinks. Offsets above a smaller horizon are no longer allowed once
        // it is sent.
        for _ in 0..<100 { horizon.sent(naming: horizon.next(from: 1_300)) }
        #expect(horizon.margin == 500)
        #expect(horizon.next(from: 1_300) == 1_800)
        expect(horizon.allows(1_799), is: true)
        expect(horizon.allows(1_800), is: false)
    }

    @Test func `A gap in the offsets raises the horizon only up to a limit`() {
        var horizon = Partition.SendHorizon(minimum: 500)
        horizon.acknowledge(horizon.next(from: 0))
        horizon.advance(to: 50_000_000)
        #expect(!horizon.allows(50_000_000))
        #expect(horizon.isShort(from: 0))
        #expect(horizon.next(from: 0) == 50_000_001 + Partition.SendHorizon.maximum)
    }

    @Test func `With many notifications per record the horizon is fewer records ahead`() {
        var horizon = Partition.SendHorizon(minimum: 500)
        for _ in 0..<100 { horizon.received(count: 100) }
        #expect(horizon.next(from: 0) == 5)
        for _ in 0..<100 { horizon.received(count: 10_000) }
        #expect(horizon.next(from: 0) == 1)
        for _ in 0..<1_000 { horizon.received(count: 1) }
        #expect(horizon.next(from: 0) == 500)
    }
}

struct MachineHorizonTests {
    @Test func `The horizon reaches each waiting record in its turn, however far apart they are`() {
        let (rig, partition) = Rig.ready()
        // The oldest record stays open, so no commit can start at a higher offset.
        #expect(rig.offer(partition, 0, "oldest") == ["oldest"])
        rig.receive(partition, 1_000_000, "far")
        #expect(rig.offer(partition, 2_000_000, "farther") == [])
        for device in ["far", "farther"] {
            rig.commit(afterMs: 1_000)
            #expect(rig.send() == [device])
        }
    }

    @Test func `An inherited horizon may be used while the commit that repeats it is pending or refused`() {
        let rig = Rig()
        // The previous owner left its oldest record open and had settled more than a margin of records above it.
        let partition = rig.assign(committed: 0, map: CommitMap(horizon: 5_000, settled: [1..<4_000]))
        #expect(rig.commit().map(\.map.horizon) == [5_000])
        #expect(rig.offer(partition, 0, "oldest") == ["oldest"])
        rig.receive(partition, 1, "settled before")
        #expect(rig.wait(ms: 1_000).takeCommit().map(\.map.horizon) == [5_000])
        #expect(rig.offer(partition, 4_000, "a") == ["a"])
        // The broker may have accepted the commit nevertheless. A successor then reads that horizon.
        rig.finishCommit([.refused])
        #expect(rig.offer(partition, 4_999, "b", "beyond") == ["b"])
    }

    @Test func `A commit with a lower horizon limits sends as soon as it is sent, even if it is refused`() {
        let (rig, partition) = Rig.ready()
        rig.receive(partition, (0..<300).map { "d\($0)" })
        #expect(rig.send().count == 300)
        rig.finish("d1")
        #expect(
            rig.commit(afterMs: 1_000).map(\.map.horizon) == [1_200], "the offset 300 plus three times the pace of 300")
        // Nothing more was handed out, so the pace decreases.
        rig.finish("d2")
        #expect(
            rig.wait(ms: 1_000).takeCommit().map(\.map.horizon) == [1_089],
            "the offset 300 plus three times the pace of 263")
        #expect(rig.offer(partition, 1_088, "below", "above") == ["below"])
        // The broker may have accepted the commit nevertheless.
        rig.finishCommit([.refused])
        #expect(rig.send() == [])
    }

    @Test func `If an inherited map no longer fits, the next commit raises the horizon above all settled records`() {
        // The settled records form more short runs than a map can hold. They end far above the horizon that is read
        // back.
        let settled = (1...400).map { (number: Int64) in number * 5..<number * 5 + number % 3 + 1 }
        let end = settled[399].upperBound
        let (rig, partition) = Rig.inheriting(CommitMap(horizon: 3, settled: settled)) {
            $0.metadataLimit = 64
            $0.horizonMargin = 1
        }
        #expect(rig.offer(partition, 0, "oldest") == ["oldest"])
        rig.receive(partition, 5, "settled before")
        let said = rig.wait(ms: 1_000).takeCommit()
        #expect(said.allSatisfy { $0.map.horizon >= end } && said.count == 1)
        expect(rig.machine.counters.mapsCut, is: 2)
        #expect(rig.offer(partition, 999, "a") == ["a"])
    }
}
