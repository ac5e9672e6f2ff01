import PushRecords
import Testing

@testable import Delivery

/// Held notifications return from their tier. Those that cannot be accepted then are written to a tier again.
struct FloodTests {
    @Test(
        arguments: [
            ([30_000, 900_000, 7_200_000], 10_000), ([1_000, 10_000, 60_000], 10_000), ([30_000], 2_000),
        ] as [([Int64], Int)])
    func `Thousands of notifications for one device pass at most ten tiers each`(tiersMs: [Int64], count: Int) {
        let world = TieredWorld(tiersMs) { $0.maxAgeMs = 0 }
        world.answerMs = 20
        world.request(Array(repeating: "a", count: count))
        world.run()
        expect(world.rig.machine.counters.apps[0].outcomes[Outcome.accepted.index], is: count)
        let written = world.written["a"] ?? 0
        #expect(written <= 10 * count, "\(Double(written) / Double(count)) for each")
    }

    @Test func `Deferrals of a device queue go to longer tiers, and start with the shortest after it was empty`() {
        let (rig, partition) = Rig.ready {
            $0.deviceQueueLimit = 2
            $0.tierDelaysMs = [1_000, 6_000, 9_000]
        }
        var offset: Int64 = 0
        func tiers(_ count: Int) -> [Int] {
            for _ in 0..<count {
                rig.receive(partition, offset, "a")
                offset += 1
            }
            return rig.settle().compactMap(\.tier)
        }
        #expect(tiers(2 + 3) == [0, 0, 1])
        rig.send()
        rig.finish("a")
        rig.send()
        #expect(tiers(1 + 3) == [1, 2, 2])
        for _ in 0..<2 {
            rig.finish("a")
            rig.send()
        }
        #expect(tiers(2 + 2) == [0, 0])
    }

    @Test func `Notifications far beyond an app's share go to longer tiers, and to the shortest after a round`() {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Rig.news], capacity: 0) {
            $0.maxOpen = 8
            $0.tierDelaysMs = [1_000, 6_000, 9_000]
        }
        let shop = #", "headers": {"apns-topic": "com.example.shop"}"#
        func tiers(_ count: Int, afterMs: Int64) -> [Int: Int] {
            rig.receive(partition, offset, envelope: (0..<count).map { "a\($0)" }, more: shop)
            offset += 1
            rig.wait(ms: afterMs)
            var counts: [Int: Int] = [:]
            for _ in 0..<count {
                rig.send()
                for tier in rig.settle().compactMap(\.tier) { counts[tier, default: 0] += 1 }
            }
            return counts
        }
        var offset: Int64 = 0
        #expect(tiers(4 + 20, afterMs: 5_000) == [0: 4, 1: 4, 2: 12])
        rig.wait(ms: 1_000)
        #expect(tiers(6, afterMs: 0) == [0: 4, 1: 2])
    }
}
