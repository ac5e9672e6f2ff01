import Testing

@testable import Delivery

struct ShareTests {
    /// Records of one size that are read before there is no room for their bytes.
    private static func taken(_ rig: Rig, _ partition: PartitionID) -> Int {
        let payload = #"{"aps":{"alert":"\#(String(repeating: "x", count: 2_000))"}}"#
        var count = 0
        while rig.machine.room(for: partition) > 0, count < 1_000 {
            rig.receive(partition, Int64(count), "d\(count)", payload: payload)
            count += 1
        }
        return count
    }

    @Test func `A topic that is read no longer leaves its share of the bytes to the others`() {
        let alone = Rig { $0.maxOpenBytes = 256 * 1_024 }
        let whole = Self.taken(alone, alone.assignReady())

        let rig = Rig { $0.maxOpenBytes = 256 * 1_024 }
        let other = rig.assignReady(0, topic: "other")
        let partition = rig.assignReady()
        rig.machine.revoke([other])
        rig.machine.stopWaiting([other])
        rig.commit(afterMs: 1_000)
        rig.machine.release([other])
        #expect(whole > 50)
        #expect(Self.taken(rig, partition) == whole)
    }
}
