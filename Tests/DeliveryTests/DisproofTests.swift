import PushRecords
import Testing

@testable import Delivery

/// A credential that Apple takes for others is good, whatever one answer said.
struct DisproofTests {
    private func rig(_ devices: [String]) -> (Rig, PartitionID) {
        let rig = Rig()
        let partition = rig.assignReady()
        for (offset, device) in devices.enumerated() { rig.receive(partition, Int64(offset), device) }
        #expect(rig.send() == devices)
        rig.wait(ms: 50)
        return (rig, partition)
    }

    @Test func `One that is refused among many that are taken holds nothing up`() {
        let (rig, partition) = rig(["a", "b", "c"])
        rig.answer("b", 403, .invalidProviderToken)
        rig.receive(partition, 3, "d")
        #expect(rig.send() == [], "the circuit is open")
        // It was handed out with the one that was refused, and answered later.
        rig.answer("c")
        rig.receive(partition, 4, "e")
        #expect(rig.send() == ["e"])
        rig.answer("a")
        rig.answer("e")
        let retried = rig.settle().filter { $0.outcome == nil }
        #expect(retried.map(\.token) == ["b", "d"])
        #expect(retried.map(\.attempt) == [1, 0], "who was held did not use up an attempt")
    }

    @Test func `What was handed out before the fault says nothing`() {
        let (rig, partition) = rig(["a"])
        rig.receive(partition, 1, "b")
        #expect(rig.send() == ["b"])
        rig.wait(ms: 50)
        rig.answer("b", 403, .invalidProviderToken)
        rig.answer("a")
        rig.receive(partition, 2, "c")
        #expect(rig.send() == [])
    }

    @Test func `Another refusal and the fault itself say nothing`() {
        let (rig, partition) = rig(["a", "b", "c"])
        rig.answer("a", 403, .invalidProviderToken)
        rig.answer("b", 403, .invalidProviderToken)
        rig.answer("c", 403, .forbidden)
        rig.receive(partition, 3, "d")
        #expect(rig.send() == [])
    }
}
