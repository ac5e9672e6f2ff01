import PushRecords
import Testing

@testable import Delivery

struct ReloadTests {
    static func changed(_ route: AppRoute, _ change: (inout AppRoute) -> Void) -> AppRoute {
        var changed = route
        change(&changed)
        return changed
    }

    @Test func `Apps keep their index, new ones are appended, and the index of a removed one is never reused`() {
        let rig = Rig(apps: [Rig.app, Rig.news])
        let paper = Self.changed(Rig.app) { $0.name = "paper" }
        let first = rig.machine.replaceApps([paper, Rig.news], now: rig.now)
        #expect(first == AppMapping(indexes: [AppIndex(2), AppIndex(1)], added: [AppIndex(2)], removed: [AppIndex(0)]))
        let second = rig.machine.replaceApps([Rig.app, paper], now: rig.now)
        #expect(
            second == AppMapping(indexes: [AppIndex(3), AppIndex(2)], added: [AppIndex(3)], removed: [AppIndex(1)]))
        let third = rig.machine.replaceApps([Rig.app, paper], now: rig.now)
        #expect(third == AppMapping(indexes: [AppIndex(3), AppIndex(2)], added: [], removed: []))
        // An app whose environment changes counts as another app.
        let moved = Self.changed(paper) { $0.environment = .development }
        let fourth = rig.machine.replaceApps([Rig.app, moved], now: rig.now)
        #expect(
            fourth == AppMapping(indexes: [AppIndex(3), AppIndex(4)], added: [AppIndex(4)], removed: [AppIndex(2)]))
    }

    @Test
    func `Requests at a removed app's transport end normally, the rest is deferred, and new records are invalid`() {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Rig.news], capacity: 1)
        rig.receive(partition, ["a", "b", "a", "c"], headers: Rig.toShop)
        #expect(rig.offer(partition, 4, "n", headers: Rig.toNews) == ["a", "n"])
        _ = rig.machine.replaceApps([Rig.news], now: rig.now)
        rig.machine.setCapacity(AppIndex(0), requests: 10, now: rig.now)  // This report comes too late.
        #expect(rig.machine.takeEvents() == [.held(app: AppIndex(0), .paused)])
        #expect(
            rig.settled() == [
                "b tier 0 attempt 0 held sends 0 doubt 0", "a tier 0 attempt 0 held sends 0 doubt 0",
                "c tier 0 attempt 0 held sends 0 doubt 0",
            ])
        #expect(rig.offer(partition, 5, "d", headers: Rig.toShop) == [])
        #expect(rig.settled() == ["d invalid BadTopic sends 0 doubt 0"])
        rig.answer("n")
        rig.giveBack("a")
        #expect(rig.settled() == ["n accepted  sends 1 doubt 0", "a tier 0 attempt 0 held sends 0 doubt 0"])
        #expect(rig.isDone(at: 6))
    }

    @Test func `The rest of a fan-out of a removed app is deferred as it is admitted`() {
        let (rig, partition) = Rig.ready(apps: [Rig.app]) { $0.maxOpen = 4 }
        rig.receive(partition, 0, envelope: (0..<10).map { "t\($0)" })
        #expect(rig.send().count == 4)
        _ = rig.machine.replaceApps([Rig.news], now: rig.now)
        for device in ["t0", "t1", "t2", "t3"] { rig.answer(device) }
        var kinds: [ProductionTarget] = []
        for _ in 0..<5 {
            kinds += rig.settle().map(\.target)
            #expect(rig.send() == [])
        }
        #expect(kinds.filter { $0 == .results }.count == 4)
        #expect(kinds.filter { $0 == .retry(tier: 0) }.count == 6)
        #expect(rig.isDone(at: 1))
    }

    @Test func `A notification that a dead owner may have sent and whose app was removed is invalid and in doubt`() {
        let (rig, partition) = Rig.inheriting(CommitMap(horizon: 9))
        rig.receive(partition, 0, "a", headers: Rig.toNews)
        rig.receive(partition, 1, "b", headers: ["apns-priority": "3"])
        #expect(rig.settled() == ["a invalid BadTopic sends 1 doubt 1", "b invalid BadPriority sends 0 doubt 0"])
    }

    @Test func `A request without a topic gets the one of its push type, even after its app was removed`() {
        let (rig, partition) = Rig.ready(capacity: 0)
        rig.receive(partition, 0, "a")
        rig.receive(partition, 1, "b", headers: ["apns-push-type": "voip"])
        rig.machine.setCapacity(AppIndex(0), requests: 2, now: rig.now)
        #expect(rig.send() == ["a", "b"])
        _ = rig.machine.replaceApps([Rig.news], now: rig.now)
        #expect(rig.sent.map { Rig.text($0.headers.topic) } == ["com.example.shop", "com.example.shop.voip"])
    }

    @Test func `A paused app's notifications are deferred, and a resumed app sends again`() {
        let (rig, partition) = Rig.ready(capacity: 1)
        rig.receive(partition, ["a", "b"])
        #expect(rig.offer(partition, 2, "never", headers: ["apns-expiration": "0"]) == ["a"])
        _ = rig.machine.replaceApps([Self.changed(Rig.app) { $0.isPaused = true }], now: rig.now)
        rig.receive(partition, 3, "c")
        #expect(rig.answer("a").send() == [])
        #expect(
            Set(rig.settled()) == [
                "b tier 0 attempt 0 held sends 0 doubt 0", "never expired  sends 0 doubt 0",
                "c tier 0 attempt 0 held sends 0 doubt 0", "a accepted  sends 1 doubt 0",
            ])
        expect(rig.machine.counters.apps[0].heldByCause[Int(DeferralReason.paused.rawValue)], is: 2)
        _ = rig.machine.replaceApps([Rig.app], now: rig.now)
        #expect(rig.offer(partition, 4, "d") == ["d"])
        rig.finish("d")
        #expect(rig.isEmpty)
    }

    @Test
    func `After five minutes of deferral the 15-minute tier is used, and a new deferral starts with the shortest`() {
        let paused = Self.changed(Rig.app) { $0.isPaused = true }
        let (rig, partition) = Rig.ready(apps: [paused])
        var offset: Int64 = 0
        func tier(afterMs: Int64) -> [ProductionTarget] {
            rig.wait(ms: afterMs)
            rig.receive(partition, offset, "a")
            offset += 1
            return rig.settle().map(\.target)
        }
        #expect(tier(afterMs: 0) == [.retry(tier: 0)])
        #expect(tier(afterMs: 299_999) == [.retry(tier: 0)])
        #expect(tier(afterMs: 1) == [.retry(tier: 1)])
        _ = rig.machine.replaceApps([Rig.app], now: rig.now)
        _ = rig.machine.replaceApps([paused], now: rig.now)
        #expect(tier(afterMs: 1) == [.retry(tier: 0)])
    }

    @Test func `After an app was removed and added again, its devices wait for requests sent before the removal`() {
        let (rig, partition) = Rig.ready(apps: [Rig.app])
        #expect(rig.offer(partition, 0, "a") == ["a"])
        _ = rig.machine.replaceApps([Rig.news], now: rig.now)
        let back = rig.machine.replaceApps([Rig.news, Rig.app], now: rig.now)
        for app in back.indexes { rig.machine.setCapacity(app, requests: 10, now: rig.now) }
        #expect(rig.offer(partition, 1, "a", "b", headers: Rig.toShop) == ["b"])
        #expect(rig.answer("a").send() == ["a"])
        rig.finish("a", "b")
        #expect(rig.isEmpty)
    }
}
