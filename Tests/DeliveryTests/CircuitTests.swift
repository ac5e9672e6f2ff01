import PushRecords
import Testing

@testable import Delivery

struct CircuitTests {
    static func id(_ slot: UInt32) -> NotificationID { NotificationID(slot: NotificationSlot(slot), generation: 1) }
    static let second: Int64 = 1_000_000_000

    @Test func `Probes run one at a time, at intervals that double from one second to a minute`() {
        var circuit = Circuit(handedNs: 0, nowNs: 10)
        circuit.fault(handedNs: 0)
        var nowNs: Int64 = 10
        for delay in [1, 2, 4, 8, 16, 32, 60, 60] as [Int64] {
            expect(circuit.admits(Self.id(1), nowNs: nowNs + delay * Self.second - 1), is: false)
            nowNs += delay * Self.second
            expect(circuit.admits(Self.id(2), nowNs: nowNs), is: true)
            expect(circuit.admits(Self.id(3), nowNs: nowNs + 100 * Self.second), is: false)
            circuit.probeFailed(nowNs: nowNs)
        }
        nowNs += 60 * Self.second
        expect(circuit.admits(Self.id(4), nowNs: nowNs), is: true)
    }
}

struct MachineCircuitTests {
    static let held = "tier 0 attempt 0 held sends 0 doubt 0"

    static let opened = DeliveryEvent.circuitOpened(.credential(of: AppIndex(0)), reason: .badCertificate)
    static let closed = DeliveryEvent.circuitClosed(.credential(of: AppIndex(0)))

    @Test
    func `An open circuit holds everything before it is resent, and only the answered notification uses an attempt`() {
        let (rig, partition) = Rig.ready(capacity: 3)
        #expect(rig.offer(partition, 0, "a", "a", "b", "c", "d") == ["a", "b", "c"])
        rig.answer("a", 403, .badCertificate)
        #expect(rig.machine.takeEvents() == [Self.opened, .held(app: AppIndex(0), .credential)])
        #expect(rig.send() == [])
        // Requests in flight end normally: one that returns unprocessed is held by the circuit, a refused one uses an
        // attempt.
        rig.giveBack("b")
        #expect(rig.answer("c", 403, .badCertificate).offer(partition, 5, "e") == [])
        #expect(
            rig.settled() == [
                "a tier 0 attempt 1 BadCertificate sends 1 doubt 0", "a \(Self.held)", "d \(Self.held)",
                "b \(Self.held)", "c tier 0 attempt 1 BadCertificate sends 1 doubt 0", "e \(Self.held)",
            ])
        expect(rig.machine.appStatuses[0].isCredentialRefused, is: true)
        #expect(rig.isDone(at: 6))
    }

    /// Returns a rig whose circuit has just opened because of this answer to `x`.
    static func open(_ apps: [AppRoute] = [Rig.app]) -> (Rig, PartitionID) {
        let (rig, partition) = Rig.ready(apps: apps)
        rig.offer(partition, 0, "x", headers: Rig.toShop)
        rig.answer("x", 403, .badCertificate)
        rig.settle()
        _ = rig.machine.takeEvents()
        return (rig, partition)
    }

    @Test(arguments: [(200, .none), (410, .none), (400, .badTopic)] as [(UInt16, ReasonCode)])
    func `A single probe is sent, and any answer other than the circuit's fault closes the circuit`(
        _ status: UInt16, _ reason: ReasonCode
    ) {
        let (rig, partition) = Self.open()
        #expect(rig.wait(ms: 1_000).offer(partition, 1, "a", "b") == ["a"])
        #expect(rig.settled() == ["b \(Self.held)"])
        rig.answer("a", status, reason, atMs: 1)
        #expect(rig.machine.takeEvents() == [.held(app: AppIndex(0), .credential), Self.closed])
        expect(rig.machine.appStatuses[0].isCredentialRefused, is: false)
        #expect(rig.offer(partition, 3, "c") == ["c"])
        rig.finish("c")
        #expect(rig.isEmpty)
    }

    @Test(arguments: [(503, .none), (500, .internalServerError), (404, .none)] as [(UInt16, ReasonCode)])
    func `A probe's answer without a credential check closes no circuit`(_ status: UInt16, _ reason: ReasonCode) {
        for fault in [ReasonCode.badCertificate, .topicMismatch] {
            let (rig, partition) = Rig.ready()
            var offset: Int64 = 0
            func tries(_ device: String) -> Bool {
                rig.receive(partition, offset, device, headers: Rig.toShop)
                offset += 1
                return rig.send() == [device]
            }
            #expect(tries("a"))
            rig.answer("a", 403, fault)
            rig.wait(ms: 1_000)
            #expect(tries("b"))
            rig.answer("b", 403, fault)
            for round in 0..<3 {
                rig.wait(ms: 1_999)
                #expect(!tries("early\(round)"))
                rig.wait(ms: 1)
                #expect(tries("probe\(round)"))
                rig.answer("probe\(round)", status, reason)
                #expect(!tries("behind\(round)"))
            }
            rig.wait(ms: 2_000)
            #expect(tries("good"))
            rig.answer("good")
            #expect(tries("after"))
        }
    }

    @Test
    func `An unprocessed or doubtful probe is repeated, and a dropped, expired or lost one is replaced`() {
        let (rig, partition) = Self.open()
        let other = rig.assignReady(1)
        #expect(rig.wait(ms: 1_000).offer(other, 0, "a") == ["a"])
        #expect(rig.giveBack("a").send() == ["a"])
        #expect(rig.doubt("a").send() == ["a"])
        #expect(rig.offer(partition, 1, "b") == [])
        rig.machine.revoke([other])
        rig.giveBack("a")
        #expect(rig.offer(partition, 2, "c", headers: ["apns-expiration": "\(rig.now.wallMs / 1_000)"]) == [])
        #expect(rig.offer(partition, 3, "d") == ["d"])
        rig.machine.release([partition])
        let again = rig.assignReady()
        #expect(rig.offer(again, 0, "e") == [])  // The lost probe is still in flight.
        #expect(rig.answer("d").offer(again, 1, "f") == ["f"])
        rig.finish("f")
        rig.commit(afterMs: 50)
        rig.machine.release([other])
        #expect(rig.isEmpty)
    }

    @Test
    func `Replacing the credential closes the circuit at once, and notifications refused with the old one are resent`()
    {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Rig.news])
        rig.offer(partition, 0, "x", "y", headers: Rig.toShop)
        rig.answer("x", 403, .badCertificate)
        rig.settle()
        _ = rig.machine.takeEvents()
        rig.wait(ms: 10)
        rig.machine.credentialReplaced(AppIndex(1), now: rig.now)
        #expect(rig.machine.takeEvents() == [])
        rig.machine.credentialReplaced(AppIndex(0), now: rig.now)
        #expect(rig.machine.takeEvents() == [Self.closed])
        #expect(rig.offer(partition, 2, "z", headers: Rig.toShop) == ["z"])
        #expect(rig.answer("y", 403, .badCertificate).send() == ["y"])
        #expect(rig.machine.takeEvents() == [])
        rig.wait(ms: 10)
        rig.answer("y", 403, .badCertificate)
        #expect(rig.machine.takeEvents() == [Self.opened])
    }

    @Test func `TopicMismatch holds only that topic of the app, and a probe of the topic closes the circuit`() {
        let other = ["apns-topic": "com.example.shop.voip", "apns-push-type": "voip"]
        let (rig, partition) = Rig.ready()
        rig.receive(partition, 0, "a", headers: Rig.toShop)
        rig.offer(partition, 1, "b", headers: other)
        rig.answer("a", 403, .topicMismatch)
        let name = CircuitName.topic("com.example.shop", of: AppIndex(0))
        #expect(rig.machine.takeEvents().last == .circuitOpened(name, reason: .topicMismatch))
        expect(rig.machine.appStatuses[0].isCredentialRefused, is: true)
        rig.receive(partition, 2, "c", headers: Rig.toShop)
        #expect(rig.offer(partition, 3, "d", headers: other) == ["d"])
        #expect(rig.wait(ms: 1_000).offer(partition, 4, "e", "f", headers: Rig.toShop) == ["e"])
        rig.answer("e", 403, .topicMismatch)
        #expect(rig.wait(ms: 2_000).offer(partition, 6, "g", headers: Rig.toShop) == ["g"])
        rig.answer("g")
        #expect(rig.machine.takeEvents().last == .circuitClosed(name))
        #expect(rig.offer(partition, 7, "h", headers: Rig.toShop) == ["h"])
        let written = rig.finish("b", "d", "h").filter { $0.target != .results }
        #expect(written.map(\.token) == ["a", "c", "f", "e"])
        #expect(written.map(\.attempt) == [1, 0, 0, 1])
        #expect(rig.isEmpty)
    }

    @Test func `The circuits of a removed app and of its topics close`() {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Rig.news])
        rig.offer(partition, 0, "a", headers: Rig.toShop)
        rig.answer("a", 403, .topicMismatch)
        _ = rig.machine.takeEvents()
        _ = rig.machine.replaceApps([Rig.news], now: rig.now)
        #expect(rig.machine.takeEvents().contains(.circuitClosed(.topic("com.example.shop", of: AppIndex(0)))))
        expect(rig.machine.appStatuses[0].isCredentialRefused, is: false)
        // After its return the app is treated as a new one.
        let back = rig.machine.replaceApps([Rig.news, Rig.app], now: rig.now)
        rig.machine.setCapacity(back.indexes[1], requests: 10, now: rig.now)
        #expect(rig.offer(partition, 1, "b", headers: Rig.toShop) == ["b"])
    }

    @Test(arguments: [200, 503] as [UInt16])
    func `A probe of an unreachable host also closes the credential circuit if its answer shows a credential check`(
        status: UInt16
    ) {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Rig.news])
        rig.offer(partition, 0, "a", headers: Rig.toShop)
        rig.answer("a", 403, .badCertificate)
        rig.machine.setReachable(AppIndex(0), false, now: rig.now)
        rig.machine.setCapacity(AppIndex(0), requests: 0, now: rig.now)
        rig.wait(ms: 20_000)
        expect(rig.machine.appStatuses[0].isCutOff, is: true)
        rig.wait(ms: 2_000)
        rig.machine.setCapacity(AppIndex(0), requests: 10, now: rig.now)
        #expect(rig.offer(partition, 1, "b", headers: Rig.toShop) == ["b"])
        rig.answer("b", status)
        expect(rig.machine.appStatuses[0].isCutOff, is: false)
        expect(rig.machine.appStatuses[0].isCredentialRefused, is: status == 503)
    }

    @Test func `A probe that waits when its circuit closes may be held by the circuit of its topic`() {
        let voip = ["apns-topic": "com.example.shop.voip", "apns-push-type": "voip"]
        let (rig, partition) = Rig.ready()
        rig.receive(partition, 0, "a", headers: Rig.toShop)
        rig.offer(partition, 1, "b", "d", headers: voip)
        rig.answer("b", 403, .badCertificate)
        rig.wait(ms: 600)
        rig.answer("a", 403, .topicMismatch)
        rig.wait(ms: 400)
        rig.settle()
        rig.machine.setCapacity(AppIndex(0), requests: 0, now: rig.now)
        rig.receive(partition, 3, "c", headers: Rig.toShop)
        #expect(rig.settle() == [])
        #expect(Set(rig.finished("d")) == ["c \(Self.held)", "d accepted  sends 1 doubt 0"])
        #expect(rig.isEmpty)
    }

    @Test func `With several apps, an app that cannot connect is deferred after five seconds until it can`() {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Rig.news], capacity: 0)
        rig.receive(partition, 0, "a", headers: Rig.toShop)
        rig.machine.setReachable(AppIndex(0), false, now: rig.now)
        rig.wait(ms: 4_999)
        rig.machine.setReachable(AppIndex(0), false, now: rig.now)
        #expect(rig.settle() == [])
        expect(rig.machine.nextDeadlineNs, is: rig.now.ns + 1_000_000)
        rig.wait(ms: 1)
        rig.receive(partition, 1, "b", headers: Rig.toShop)
        #expect(rig.settled() == ["a \(Self.held)", "b \(Self.held)"])
        #expect(
            rig.machine.takeEvents() == [
                .circuitOpened(.connection(of: AppIndex(0)), reason: .none), .held(app: AppIndex(0), .unreachable),
            ])
        expect(rig.machine.appStatuses.map(\.isCutOff), is: [true, false])
        rig.machine.setReachable(AppIndex(0), true, now: rig.now)
        rig.machine.setCapacity(AppIndex(0), requests: 10, now: rig.now)
        #expect(rig.machine.takeEvents() == [.circuitClosed(.connection(of: AppIndex(0)))])
        #expect(rig.offer(partition, 2, "c", headers: Rig.toShop) == ["c"])
    }

    @Test
    func `With several apps, an app whose connections end without an answer is deferred and sends one probe at a time`()
    {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Rig.news], capacity: 0)
        func connect(_ capacity: Int) { rig.machine.setCapacity(AppIndex(0), requests: capacity, now: rig.now) }
        rig.machine.setReachable(AppIndex(0), false, now: rig.now)
        rig.receive(partition, 0, "a", headers: Rig.toShop)
        for _ in 0..<4 {
            rig.wait(ms: 1_000)
            connect(10)
            #expect(rig.send() == ["a"])
            rig.wait(ms: 200)
            AgainRefusedTests.refuse(rig, "a")
            connect(0)
        }
        rig.wait(ms: 200)
        #expect(rig.settle().map(\.token) == ["a"])
        expect(rig.machine.appStatuses.map(\.isCutOff), is: [true, false])
        // Without a connection there is no probe. With one, there is one probe.
        rig.wait(ms: 1_000)
        rig.receive(partition, 1, "b", headers: Rig.toShop)
        connect(10)
        for (offset, device) in ["c", "d"].enumerated() {
            rig.receive(partition, Int64(offset) + 2, device, headers: Rig.toShop)
        }
        #expect(rig.send() == ["c"])
        #expect(rig.settle().map(\.token) == ["b", "d"])
        #expect(rig.doubt("c").settled() == ["c tier 0 attempt 0 held sends 1 doubt 1"])
        // The next probe waits longer.
        #expect(rig.wait(ms: 1_999).offer(partition, 4, "e", headers: Rig.toShop) == [])
        #expect(rig.wait(ms: 1).offer(partition, 5, "f", headers: Rig.toShop) == ["f"])
        expect(rig.machine.appStatuses.map(\.isCutOff), is: [true, false])
        rig.answer("f")
        expect(rig.machine.appStatuses.map(\.isCutOff), is: [false, false])
        #expect(rig.machine.takeEvents().last == .circuitClosed(.connection(of: AppIndex(0))))
        #expect(rig.offer(partition, 6, "g", headers: Rig.toShop) == ["g"])
    }

    @Test
    func `An app with a stable connection is not deferred while its first answer is awaited or it has no requests`() {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Rig.news], capacity: 0)
        rig.machine.setReachable(AppIndex(0), false, now: rig.now)
        rig.wait(ms: 4_900)
        rig.machine.setCapacity(AppIndex(0), requests: 10, now: rig.now)
        rig.wait(ms: 4_900)
        expect(rig.machine.nextDeadlineNs, is: rig.now.ns + 100_000_000)
        rig.wait(ms: 10_000)
        expect(rig.machine.appStatuses[0].isCutOff, is: false)
        expect(rig.machine.nextDeadlineNs, is: nil)
        rig.machine.setCapacity(AppIndex(0), requests: 0, now: rig.now)
        rig.wait(ms: 4_900)
        rig.machine.setCapacity(AppIndex(0), requests: 10, now: rig.now)
        #expect(rig.offer(partition, 0, "a", headers: Rig.toShop) == ["a"])
        rig.wait(ms: 4_900)
        expect(rig.machine.appStatuses[0].isCutOff, is: false)
        rig.wait(ms: 100)
        expect(rig.machine.appStatuses[0].isCutOff, is: true)
        rig.answer("a")
        rig.machine.setReachable(AppIndex(0), true, now: rig.now)
        expect(rig.machine.appStatuses[0].isCutOff, is: false)
    }

    @Test func `A connection that its transport reports in a turn counts before the timers of that turn`() {
        let rig = Rig(apps: [Rig.app, Rig.news], capacity: 0)
        rig.machine.setReachable(AppIndex(0), false, now: rig.now)
        rig.now.ns += 400_000_000
        rig.machine.setCapacity(AppIndex(0), requests: 10, now: rig.now)
        expect(rig.machine.nextDeadlineNs, is: rig.now.ns + CircuitBreakers.cutOffNs)
    }

    @Test func `A remaining connection, or one opened within five seconds, prevents deferral`() {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Rig.news], capacity: 1)
        rig.receive(partition, ["a", "b"], headers: Rig.toShop)
        rig.machine.setReachable(AppIndex(0), false, now: rig.now)
        rig.wait(ms: 10_000)
        #expect(rig.settle() == [])
        rig.machine.setCapacity(AppIndex(0), requests: 0, now: rig.now)
        rig.wait(ms: 4_000)
        rig.machine.setReachable(AppIndex(0), true, now: rig.now)
        rig.machine.setReachable(AppIndex(0), false, now: rig.now)
        rig.wait(ms: 4_000)
        #expect(rig.settle() == [])
        // Without a second app there is none to protect.
        _ = rig.machine.replaceApps([Rig.app], now: rig.now)
        rig.wait(ms: 600_000)
        #expect(rig.settle() == [])
        rig.machine.setCapacity(AppIndex(0), requests: 1, now: rig.now)
        #expect(rig.send() == ["a"])
    }
}
