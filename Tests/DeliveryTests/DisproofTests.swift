import PushRecords
import Testing

@testable import Delivery

/// A credential that APNs accepts for other notifications is valid, despite a single refusal.
struct DisproofTests {
    private func rig(_ devices: [String]) -> (Rig, PartitionID) {
        let (rig, partition) = Rig.ready()
        rig.receive(partition, devices)
        #expect(rig.send() == devices)
        rig.wait(ms: 50)
        return (rig, partition)
    }

    @Test func `One refusal among many accepted notifications opens the circuit only until the next accepted one`() {
        let (rig, partition) = rig(["a", "b", "c"])
        #expect(rig.answer("b", 403, .invalidProviderToken).offer(partition, 3, "d") == [], "the circuit is open")
        // `c` was handed out together with the refused notification, and answered later.
        #expect(rig.answer("c").offer(partition, 4, "e") == ["e"])
        let retried = rig.finish("a", "e").filter { $0.outcome == nil }
        #expect(retried.map(\.token) == ["b", "d"])
        #expect(retried.map(\.attempt) == [1, 0], "the deferred notification must not use up an attempt")
    }

    @Test func `A refusal of a notification that was handed out before the circuit closed does not reopen it`() {
        let (rig, _) = rig(["a", "b", "c"])
        rig.answer("a", 403, .invalidProviderToken).answer("b")
        rig.settle()
        _ = rig.machine.takeEvents()
        #expect(rig.answer("c", 403, .invalidProviderToken).send() == ["c"])
        #expect(rig.machine.takeEvents() == [])
    }

    @Test func `Answers to notifications handed out before the fault do not close the circuit`() {
        let (rig, partition) = rig(["a"])
        #expect(rig.offer(partition, 1, "b") == ["b"])
        rig.wait(ms: 50)
        rig.answer("b", 403, .invalidProviderToken)
        #expect(rig.answer("a").offer(partition, 2, "c") == [])
    }

    @Test(
        arguments: [
            (503, .none), (503, .shutdown), (404, .none), (429, .tooManyProviderTokenUpdates),
            (403, .invalidProviderToken), (403, .forbidden),
        ] as [(UInt16, ReasonCode)])
    func `The fault itself, another refusal, and an answer without a credential check do not close the circuit`(
        _ status: UInt16, _ reason: ReasonCode
    ) {
        let (rig, partition) = rig(["a", "b"])
        rig.answer("a", 403, .invalidProviderToken)
        #expect(rig.answer("b", status, reason).offer(partition, 2, "c") == [])
        expect(rig.machine.appStatuses[0].isCredentialRefused, is: true)
    }

    @Test
    func `One refusal of a topic among many accepted notifications opens its circuit only until the next accepted one`()
    {
        let (rig, partition) = rig(["a", "b", "c"])
        #expect(rig.answer("b", 403, .topicMismatch).offer(partition, 3, "d") == [], "the circuit is open")
        // This answer does not show whether its topic was checked.
        #expect(rig.answer("a", 400, .badDeviceToken).offer(partition, 4, "e") == [])
        #expect(rig.answer("c").offer(partition, 5, "f") == ["f"])
        expect(rig.machine.appStatuses[0].isCredentialRefused, is: false)
    }

    @Test
    func `Answers to notifications handed out before a topic's fault, or with another topic, do not close its circuit`()
    {
        let (rig, partition) = rig(["a", "b"])
        rig.receive(partition, 2, "c")
        rig.receive(partition, 3, "v", headers: ["apns-topic": "com.example.shop.voip", "apns-push-type": "voip"])
        #expect(rig.send() == ["c", "v"])
        rig.wait(ms: 50)
        rig.answer("a", 403, .topicMismatch)
        rig.answer("c", 403, .topicMismatch)
        rig.answer("b")
        #expect(rig.answer("v").offer(partition, 4, "d") == [])
        expect(rig.machine.appStatuses[0].isCredentialRefused, is: true)
    }
}
