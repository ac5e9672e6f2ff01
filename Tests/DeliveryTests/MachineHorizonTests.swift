import Testing

@testable import Delivery

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
