import PushRecords
import Testing

@testable import Delivery

struct EnvironmentsTests {
    static let first = ReloadTests.changed(Rig.app) { $0.otherEnvironment = "shop-dev" }
    static let other = AppRoute(
        name: "shop-dev", environment: .development, bundleIDs: ["com.example.shop"], guardPolicy: .off)

    static func rig(
        guardPolicy: AppRoute.GuardPolicy = .off, returns: Bool = false, capacity: Int = 1_000,
        _ change: (inout MachineSettings) -> Void = { _ in }
    ) -> Rig {
        var apps = [first, other]
        for app in apps.indices { apps[app].guardPolicy = guardPolicy }
        // A notification forwarded by one app must not return to it.
        if returns { apps[1].otherEnvironment = "shop" }
        return Rig(apps: apps, capacity: capacity, change)
    }

    /// Returns a rig and its only partition, whose first commit is acknowledged.
    static func ready(
        guardPolicy: AppRoute.GuardPolicy = .off, capacity: Int = 1_000,
        _ change: (inout MachineSettings) -> Void = { _ in }
    ) -> (Rig, PartitionID) {
        let rig = rig(guardPolicy: guardPolicy, capacity: capacity, change)
        return (rig, rig.assignReady())
    }

    /// Returns the requests handed out now, with their apps.
    static func send(_ rig: Rig) -> [String] {
        var all: [String] = []
        rig.machine.sends(now: rig.now) { app, batch in
            rig.sent += batch
            all += batch.map { "\(Rig.device($0)) to \(app.value)" }
        }
        return all
    }

    /// Receives a record and hands out requests.
    @discardableResult
    static func offer(
        _ rig: Rig, _ partition: PartitionID, _ offset: Int64, _ device: String, headers: [String: String] = [:]
    ) -> [String] {
        rig.receive(partition, offset, device, headers: headers)
        return send(rig)
    }

    static func bad(_ rig: Rig, _ device: String) { rig.answer(device, 400, .badDeviceToken) }

    static func retryHeaders(_ rig: Rig, tried: String) -> [String: String] {
        var headers = rig.retryHeaders()
        headers["push-app"] = "shop-dev"
        headers["push-environment"] = "development"
        headers["push-retry-tried"] = tried
        return headers
    }

    /// Returns a rig with a notification whose token was bad at the first app's host, in flight at the other app's
    /// host.
    static func forwarded(returns: Bool = false, _ change: (inout MachineSettings) -> Void = { _ in }) -> Rig {
        let rig = rig(returns: returns) {
            $0.includesBadTokens = true
            change(&$0)
        }
        #expect(offer(rig, rig.assignReady(), 0, "a") == ["a to 0"])
        bad(rig, "a")
        #expect(rig.settle() == [])
        #expect(send(rig) == ["a to 1"])
        return rig
    }

    static let badInBoth = "app 0, the device token is bad in both environments"
    static let badInFirst = "the token was bad in production"

    /// The last list has the number of notifications that ended in each app's counters. A bad or dead token is written
    /// to two topics.
    @Test(
        arguments: [
            (200, .none, "accepted  sends 2 doubt 0, app 1, \(badInFirst)", [0, 1]),
            (400, .badDeviceToken, "rejected BadDeviceToken sends 2 doubt 0, \(badInBoth)", [1, 0]),
            (410, .unregistered, "unregistered Unregistered sends 2 doubt 0, app 1, \(badInFirst)", [0, 1]),
            (413, .payloadTooLarge, "rejected PayloadTooLarge sends 2 doubt 0, app 1, \(badInFirst)", [0, 1]),
            // The retry record is for the other app. One bad answer alone does not make a token dead.
            (503, .serviceUnavailable, "tier 1 attempt 1 ServiceUnavailable sends 2 doubt 0, app 1, shop", [0, 0]),
        ] as [(UInt16, ReasonCode, String, [Int])], [false, true])
    func `The other environment's answer is final, and the detail has the first environment's answer`(
        _ answer: (status: UInt16, reason: ReasonCode, written: String, ended: [Int]), returns: Bool
    ) {
        let rig = Self.forwarded(returns: returns)
        rig.answer("a", answer.status, answer.reason, atMs: answer.status == 410 ? 7 : 0)
        #expect(Self.send(rig) == [])
        let count = [.badDeviceToken, .unregistered].contains(answer.reason) ? 2 : 1
        #expect(rig.settledWhole() == Array(repeating: "a \(answer.written)", count: count))
        expect(rig.machine.counters.apps.prefix(2).map { $0.outcomes.reduce(0, +) }, is: answer.ended)
        expect(rig.machine.counters.apps[0].sentToOtherEnvironment, is: 1)
        #expect(rig.isDone(at: 1))
    }

    @Test
    func `With BadDeviceToken: unregister in verdicts, a token is unregistered only after both environments reject it`()
    {
        let rig = Self.forwarded { $0.verdicts = ["BadDeviceToken": .unregister] }
        Self.bad(rig, "a")
        #expect(rig.settle().map(\.outcome) == [.unregistered, .unregistered])
    }

    @Test func `Only BadDeviceToken forwards a notification to the other environment`() {
        let (rig, partition) = Self.ready()
        Self.offer(rig, partition, 0, "a")
        rig.answer("a", 400, .deviceTokenNotForTopic)
        #expect(rig.settle().map(\.app) == [0])
        #expect(Self.send(rig) == [])
    }

    @Test(
        arguments: [
            (200, .none, "accepted  sends 3 doubt 1, app 1, \(badInFirst)"),
            (400, .badDeviceToken, "rejected BadDeviceToken sends 3 doubt 1, \(badInBoth)"),
            (503, .shutdown, "tier 1 attempt 2 Shutdown sends 3 doubt 1, app 1, shop"),
        ] as [(UInt16, ReasonCode, String)])
    func `A retry record that was already forwarded goes to its own app only`(
        status: UInt16, reason: ReasonCode, written: String
    ) {
        let rig = Self.rig(returns: true) { $0.includesBadTokens = true }
        let headers = Self.retryHeaders(rig, tried: "shop")
        #expect(Self.offer(rig, rig.assignTier(), 0, "a", headers: headers) == ["a to 1"])
        rig.answer("a", status, reason)
        #expect(Self.send(rig) == [])
        #expect(rig.settledWhole() == Array(repeating: "a \(written)", count: reason == .badDeviceToken ? 2 : 1))
        #expect(rig.isEmpty)
    }

    @Test func `A retry record whose earlier app is unknown here is not forwarded again`() {
        let rig = Self.rig(returns: true)
        let tier = rig.assignTier()
        rig.receive(tier, 0, "a", headers: Self.retryHeaders(rig, tried: "gone"))
        #expect(Self.offer(rig, tier, 1, "b", headers: Self.retryHeaders(rig, tried: "?")) == ["a to 1"])
        Self.bad(rig, "a")
        #expect(Self.send(rig) == ["a to 1"])
        #expect(
            rig.answer("a", 503, .shutdown).settledWhole() == [
                "a rejected BadDeviceToken sends 3 doubt 1, app 1, the device token is bad in both environments",
                "a tier 1 attempt 2 Shutdown sends 3 doubt 1, app 1, ?",
            ])
        #expect(rig.isEmpty)
    }

    @Test func `A notification addressed to the other app is forwarded too if that app has another environment`() {
        let rig = Self.rig(returns: true)
        #expect(Self.offer(rig, rig.assignReady(), 0, "a", headers: ["push-environment": "development"]) == ["a to 1"])
        Self.bad(rig, "a")
        #expect(Self.send(rig) == ["a to 0"])
        rig.answer("a")
        #expect(rig.settledWhole() == ["a accepted  sends 2 doubt 0, app 0, the token was bad in development"])
    }

    @Test func `Forwarded notifications are deferred if the other host is unreachable, and the first app continues`() {
        let (rig, partition) = Self.ready { $0.includesBadTokens = true }
        rig.machine.setCapacity(AppIndex(1), requests: 0, now: rig.now)
        rig.machine.setReachable(AppIndex(1), false, now: rig.now)
        Self.offer(rig, partition, 0, "a")
        Self.bad(rig, "a")
        #expect(Self.send(rig) == [])
        #expect(rig.settle() == [])
        rig.wait(ms: 6_000)
        #expect(rig.settledWhole() == ["a tier 0 attempt 0 held sends 1 doubt 0, app 1, shop"])
        rig.receive(partition, 1, "b")
        #expect(Self.offer(rig, partition, 2, "c") == ["b to 0", "c to 0"])
        Self.bad(rig, "b")
        rig.answer("c")
        #expect(
            rig.settledWhole() == [
                "c accepted  sends 1 doubt 0, app 0", "b tier 0 attempt 0 held sends 1 doubt 0, app 1, shop",
            ])
        #expect(rig.isEmpty)
    }

    @Test func `If the other environment refuses the credential, only its circuit opens`() {
        let (rig, partition) = Rig.ready(apps: [Self.first, Self.other])
        rig.receive(partition, ["a", "b"])
        _ = Self.send(rig)
        Self.bad(rig, "a")
        _ = Self.send(rig)
        rig.answer("a", 403, .badEnvironmentKeyInToken)
        Self.bad(rig, "b")
        #expect(Self.offer(rig, partition, 2, "c") == ["c to 0"])
        rig.answer("c")
        #expect(
            rig.settledWhole() == [
                "c accepted  sends 1 doubt 0, app 0",
                "a tier 0 attempt 1 BadEnvironmentKeyInToken sends 2 doubt 0, app 1, shop",
                "b tier 0 attempt 0 held sends 1 doubt 0, app 1, shop",
            ])
        #expect(rig.isEmpty)
    }

    /// Answers one request that is in flight for this app.
    static func answer(_ rig: Rig, app: Int32, _ status: UInt16 = 200, _ reason: ReasonCode = .none) {
        guard let place = rig.sent.firstIndex(where: { rig.machine.store[$0.id.slot].app == app }) else {
            Issue.record("no request of app \(app) is in flight")
            return
        }
        let completion = Completion(id: rig.sent.remove(at: place).id, kind: .answered, status: status, reason: reason)
        rig.machine.handle(CompletionBatch(app: AppIndex(Int(app)), completions: [completion]), now: rig.now)
    }

    @Test func `Forwarded notifications of one device keep their order`() {
        let (rig, partition) = Self.ready()
        for offset in 0..<3 { rig.receive(partition, Int64(offset), "a") }
        #expect(Self.send(rig) == ["a to 0"])
        Self.answer(rig, app: 0, 400, .badDeviceToken)
        // The second notification is sent to this host while the first one is in flight at the other.
        #expect(Self.send(rig) == ["a to 0", "a to 1"])
        Self.answer(rig, app: 0, 400, .badDeviceToken)
        #expect(Self.send(rig) == ["a to 0"])
        Self.answer(rig, app: 1)
        #expect(Self.send(rig) == ["a to 1"])
        Self.answer(rig, app: 0, 400, .badDeviceToken)
        #expect(Self.send(rig) == [])
        Self.answer(rig, app: 1)
        #expect(Self.send(rig) == ["a to 1"])
        Self.answer(rig, app: 1)
        #expect(rig.settle().map(\.request) == (0..<3).map { "requests/0/\($0)/0" })
        #expect(rig.isEmpty)
    }

    @Test func `The first app's guard counts tokens that are bad in both environments`() {
        let (rig, partition) = Self.ready(guardPolicy: .hold, capacity: 100)
        var offset: Int64 = 0
        func play(_ count: Int, isBadInBoth: Bool) -> [String] {
            var written: [String] = []
            for _ in 0..<count {
                Self.offer(rig, partition, offset, "a")
                Self.bad(rig, "a")
                _ = Self.send(rig)
                rig.answer("a", isBadInBoth ? 400 : 200, isBadInBoth ? .badDeviceToken : .none)
                offset += 1
                written = rig.settledWhole()
                rig.commit(afterMs: 50)
            }
            return written
        }
        // A mix of good and bad tokens trips no guard.
        _ = play(100, isBadInBoth: false)
        #expect(rig.machine.takeEvents() == [])
        #expect(play(19, isBadInBoth: true) == ["a rejected BadDeviceToken sends 2 doubt 0, \(Self.badInBoth)"])
        #expect(rig.machine.takeEvents() == [])
        #expect(play(1, isBadInBoth: true) == ["a tier 0 attempt 1 BadDeviceToken sends 2 doubt 0, app 0"])
        #expect(rig.machine.takeEvents() == [.guardTripped(AppIndex(0), held: true)])
        #expect(rig.isEmpty)
    }

    @Test func `Forwarding uses at most half of the limit, and the rest is deferred`() {
        let (rig, partition) = Self.ready { $0.maxOpen = 10 }
        var held = 0
        for round in 0..<2 {
            for device in 0..<4 { rig.receive(partition, Int64(round * 4 + device), "d\(round)\(device)") }
            for sent in Self.send(rig) where sent.hasSuffix("to 0") { Self.bad(rig, String(sent.prefix { $0 != " " })) }
            _ = Self.send(rig)
            held += rig.settle().count { $0.target == .retry(tier: 0) && $0.app == 1 && $0.triedApp == "shop" }
        }
        expect(held, is: 3)
        expect(rig.machine.counters.apps[1].heldByCause[Int(DeferralReason.share.rawValue)], is: 3)
        expect(rig.sent.count, is: 5)
        for request in rig.sent { rig.answer(Rig.device(request)) }
        rig.settle()
        #expect(rig.isEmpty)
    }

    @Test func `With expiration 0 a notification is forwarded at once, or expires and is not a dead token`() {
        let (rig, partition) = Self.ready { $0.includesBadTokens = true }
        rig.receive(partition, ["a", "b"], headers: ["apns-expiration": "0"])
        _ = Self.send(rig)
        Self.bad(rig, "a")
        #expect(Self.send(rig) == ["a to 1"])
        rig.answer("a")
        _ = rig.machine.replaceApps([Self.first, ReloadTests.changed(Self.other) { $0.isPaused = true }], now: rig.now)
        Self.bad(rig, "b")
        let written = rig.settle()
        #expect(written.map(\.outcome) == [.accepted, .expired])
        #expect(written.map(\.detail) == [Self.badInFirst, Self.badInFirst])
        #expect(rig.isEmpty)
    }

    @Test func `A notification in doubt in the other environment is resent there, and the result shows both`() {
        let rig = Self.forwarded()
        rig.doubt("a")
        #expect(Self.send(rig) == ["a to 1"])
        rig.giveBack("a")
        #expect(Self.send(rig) == ["a to 1"])
        #expect(rig.finished("a") == ["a accepted  sends 3 doubt 1"])
        #expect(rig.isEmpty)
    }

    @Test func `In a partition that is being revoked nothing is forwarded, and the next owner tries again`() {
        let (rig, partition) = Self.ready { $0.includesBadTokens = true }
        Self.offer(rig, partition, 0, "a")
        rig.machine.revoke([partition])
        Self.bad(rig, "a")
        #expect(Self.send(rig) == [])
        #expect(rig.settle() == [])
        #expect(rig.commit(afterMs: 50).map(\.offset) == [0])
        expect(rig.machine.isDrained(partition), is: true)
        rig.machine.release([partition])
        #expect(rig.isEmpty)
    }

    @Test
    func `If a reload removes the other app, its notifications are deferred, and later bad tokens are rejected`() {
        let (rig, partition) = Self.ready()
        rig.receive(partition, ["a", "b"])
        _ = Self.send(rig)
        rig.machine.setCapacity(AppIndex(1), requests: 0, now: rig.now)
        Self.bad(rig, "a")
        _ = rig.machine.replaceApps([Rig.app], now: rig.now)
        Self.bad(rig, "b")
        #expect(
            rig.settledWhole() == [
                "b rejected BadDeviceToken sends 1 doubt 0, app 0",
                "a tier 0 attempt 0 held sends 1 doubt 0, app 1, shop",
            ])
        #expect(rig.isEmpty)
    }

    @Test func `Large records whose notifications were all forwarded do not use up their topic's limit`() {
        let (rig, partition) = Self.ready { $0.maxOpenBytes = 64 * 1_024 }
        let payload = #"{"aps":{"alert":""# + String(repeating: "x", count: 3_000) + #""}}"#
        var sentOn = 0
        for offset in 0..<40 as Range<Int64> {
            rig.receive(partition, offset, "d\(offset)", payload: payload)
            for sent in Self.send(rig) where sent.hasSuffix("to 0") {
                Self.bad(rig, String(sent.prefix { $0 != " " }))
                sentOn += 1
            }
            _ = Self.send(rig)
            rig.settle()
        }
        // The other app's host answers nothing, and the first app continues.
        expect(sentOn, is: 40)
        #expect(rig.machine.counters.apps[1].heldByCause[Int(DeferralReason.share.rawValue)] >= 20)
    }

    @Test
    func `If a reload renames the first app, its requests in flight are still forwarded, and no token counts as dead`()
    {
        let (rig, partition) = Self.ready { $0.includesBadTokens = true }
        Self.offer(rig, partition, 0, "a")
        let renamed = ReloadTests.changed(Self.first) { $0.name = "shop2" }
        _ = rig.machine.replaceApps([renamed, Self.other], now: rig.now)
        Self.bad(rig, "a")
        #expect(Self.send(rig) == ["a to 1"])
        #expect(rig.finished("a") == ["a accepted  sends 2 doubt 0"])
    }

    @Test func `A retry record of the other app goes to the first app if no app has its environment`() {
        let rig = Rig(apps: [Rig.app])
        let tier = rig.assignTier()
        #expect(Self.offer(rig, tier, 0, "a", headers: Self.retryHeaders(rig, tried: "shop")) == ["a to 0"])
        #expect(rig.finish("a").map(\.outcome) == [.accepted])
    }
}
