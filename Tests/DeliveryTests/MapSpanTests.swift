import Bytes
@testable import Delivery
import PushRecords
import Testing

struct MapSpanTests {
    static let slow = AppRoute(
        name: "slow", environment: .production, bundleIDs: ["com.example.slow"], rateLimit: 1, guardPolicy: .off)

    @Test func `A truncated map raises the horizon, and the records it omits are marked when sent again`() {
        let (rig, partition) = Rig.ready(capacity: 10_000) {
            $0.metadataLimit = 64
            $0.horizonMargin = 1
        }
        var random = SplitMix64(seed: 7)
        for offset in Int64(0)..<600 {
            rig.offer(partition, offset, "d\(offset)")
            rig.commit()
            if offset > 0, random.chance(50), rig.sent.last.map(Rig.device) == "d\(offset)" {
                rig.answer("d\(offset)")
            }
        }
        rig.settle()
        rig.machine.revoke([partition])
        rig.machine.stopWaiting([partition])
        let last = rig.commit(afterMs: 1_000)
        #expect(last.count == 1)
        let named = last[0].map.settled.last?.upperBound ?? 0
        let horizon = last[0].map.horizon
        expect(rig.machine.counters.mapsCut > 0, is: true)
        #expect(horizon >= named && horizon >= 500)
    }

    @Test func `An old notification that waits while the map fills is deferred, and the map shrinks`() {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Self.slow], capacity: 10_000) {
            $0.ordering = .none
            $0.metadataLimit = 1_000
        }
        var offset: Int64 = 0
        for _ in 0..<100 {
            for _ in 0..<200 where rig.machine.room(for: partition) > 0 {
                offset += 1
                rig.receive(
                    partition, offset, "d\(offset)",
                    headers: ["apns-topic": offset % 40 == 0 ? "com.example.slow" : "com.example.shop"])
            }
            for _ in 0..<4 {
                rig.answerAll()
                rig.commit(afterMs: 20)
            }
        }
        #expect(offset > 15_000)
        expect(rig.machine.counters.mapsCut, is: 0)
        let held = rig.machine.counters.apps[1].heldByCause[Int(DeferralReason.span.rawValue)]
        #expect(held > 0)
    }

    @Test func `Waiting notifications of the only open record are deferred while its settled indexes fill the map`() {
        let (rig, partition) = Rig.ready(capacity: 100) { $0.metadataLimit = 56 }
        rig.receive(partition, 0, envelope: (0..<200).map { "t\($0)" })
        rig.send()
        for index in stride(from: 1, to: 100, by: 2) { rig.answer("t\(index)") }
        rig.settle()
        rig.commit(afterMs: 1_000)
        let deferred = rig.settle()
        #expect(deferred.map(\.reason) == Array(repeating: "held", count: 100))
        expect(rig.machine.counters.apps[0].heldByCause[Int(DeferralReason.span.rawValue)], is: 100)
    }

    @Test func `A partition with a full inherited map is read to its end, although nothing is open`() {
        // Only a few records, far apart, are open.
        let settled = (0..<18).map { (number: Int64) -> Range<Int64> in
            let open = number * 200
            return open + 1..<open + 200
        }
        let (rig, partition) = Rig.inheriting(CommitMap(horizon: 3_600, settled: settled)) { $0.metadataLimit = 64 }
        var offset: Int64 = 0
        for _ in 0..<70 {
            offset = rig.fill(partition, from: offset, upTo: 4_000)
            rig.answerAll()
            rig.commit(afterMs: 1_000)
        }
        #expect(offset == 4_000)
        expect(rig.machine.status(of: partition)?.committed, is: 4_000)
    }
}
