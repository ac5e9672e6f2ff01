import PushRecords
import Testing

@testable import Delivery

struct HoldingTests {
    @Test func `A deferral's duration restarts after a pause or its end, and its reports are limited in rate`() {
        var holding = DeferredCounts()
        func note(_ now: Int64, _ pause: Int64?) -> String {
            let second = CommitBackoff.eventPauseNs / 10
            let noted = holding.note(now * second, pauseNs: pause.map { $0 * second }, roundNs: 10)
            return "\(noted.forNs / second) \(noted.isNews)"
        }
        #expect(note(100, 50) == "0 true")
        #expect(note(109, 50) == "9 false")
        #expect(note(159, 50) == "59 true")
        #expect(note(210, 50) == "0 true")
        #expect(note(1_000, nil) == "790 true")
        holding.firstNs = nil
        #expect(note(1_001, nil) == "0 false")
    }
}

struct MachineHoldingTests {

    @Test func `A share also counts bytes, so that large payloads of one app leave room for others`() {
        let rig = Rig(apps: [Rig.app, Rig.news]) { $0.maxOpenBytes = 32 * 1_024 }
        rig.machine.setCapacity(AppIndex(0), requests: 0, now: rig.now)
        let slow = rig.assignReady(0, topic: "slow")
        let other = rig.assignReady(0, topic: "other")
        let payload = #"{"aps":{"alert":"\#(String(repeating: "x", count: 3_500))"}}"#
        rig.fill(slow, upTo: 20, headers: Rig.toShop, payload: payload)
        expect(rig.machine.gauges.openBytes <= 20 * 1_024, is: true)
        #expect(rig.offer(other, 0, "n", headers: Rig.toNews) == ["n"])
        // The app's notifications wait for five seconds before they are deferred.
        #expect(rig.settle() == [])
        rig.wait(ms: 5_000).send()
        #expect(rig.settle().map(\.attempt) == [0])
        expect(rig.machine.room(for: slow) > 0, is: true)
    }

    @Test func `An app whose sends return repeatedly does not make others wait longer`() {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Rig.news]) { $0.maxOpen = 4 }
        rig.receive(partition, (0..<3).map { "s\($0)" }, headers: Rig.toShop)
        rig.send()
        for _ in 0..<4 {
            for device in rig.sent.map(Rig.device) { rig.giveBack(device) }
            rig.wait(ms: 1_000).send()
        }
        #expect(rig.settle() == [])
        for device in rig.sent.map(Rig.device) { rig.giveBack(device) }
        rig.machine.setCapacity(AppIndex(0), requests: 0, now: rig.now)
        rig.wait(ms: 1_000).send()
        #expect(rig.settled() == ["s2 tier 0 attempt 0 held sends 0 doubt 0"])
    }

    @Test
    func `An app with only unanswered notifications in flight makes others wait for five seconds at most`() {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Rig.news]) { $0.maxOpen = 8 }
        rig.receive(partition, (0..<5).map { "s\($0)" }, headers: Rig.toShop)
        #expect(rig.send() == ["s0", "s1", "s2", "s3"])
        rig.commit()
        expect(rig.machine.nextDeadlineNs, is: rig.now.ns + 5_000_000_000)
        rig.wait(ms: 3_000)
        // One notification finishes, so the wait restarts.
        rig.finish("s0")
        #expect(rig.send() == ["s4"])
        rig.receive(partition, 5, "s5", headers: Rig.toShop)
        rig.wait(ms: 4_999).send()
        #expect(rig.settle() == [])
        rig.wait(ms: 1).send()
        #expect(rig.settled() == ["s5 tier 0 attempt 0 held sends 0 doubt 0"])
        #expect(rig.offer(partition, 6, "n", headers: Rig.toNews) == ["n"])
    }

    @Test func `A full app without a connection causes no wake-up while another app sends`() {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Rig.news], capacity: 0) { $0.maxOpen = 8 }
        rig.receive(partition, (0..<4).map { "s\($0)" }, headers: Rig.toShop)
        rig.wait(ms: 6_000)
        rig.receive(
            partition, 4, envelope: (0..<9).map { "n\($0)" },
            more: #", "headers": {"apns-topic": "com.example.news"}"#)
        rig.send()
        expect(rig.machine.gauges.openNotifications, is: 8)
        rig.commit()
        expect(rig.machine.nextDeadlineNs, is: rig.now.ns + 5_000_000_000)
        rig.machine.setCapacity(AppIndex(1), requests: 4, now: rig.now)
        rig.send()
        rig.commit()
        expect(rig.machine.nextDeadlineNs, is: nil)
    }

    @Test func `With a single app its notifications wait without a time limit`() {
        let (rig, partition) = Rig.ready(capacity: 0) { $0.maxOpen = 4 }
        rig.receive(partition, (0..<4).map { "s\($0)" })
        expect(rig.machine.room(for: partition), is: 0)
        rig.wait(ms: 3_600_000)
        #expect(rig.settle() == [])
    }
}

struct WeightTests {
    @Test func `Half the limit is reserved for topics by weight, and all tiers count as one topic of weight 1`() {
        let rig = Rig(capacity: 0) { $0.maxOpen = 120 }
        let campaign = rig.assignReady(0, topic: "campaign")
        let urgent = rig.assignReady(0, topic: "urgent", role: .requests(weight: 10))
        let short = rig.assignTier()
        let long = rig.assignTier(900_000)
        expect(rig.machine.room(for: campaign), is: 60 + 5)
        expect(rig.machine.room(for: urgent), is: 60 + 50)
        expect(rig.machine.room(for: short), is: 60 + 5)
        rig.receive(campaign, (0..<65).map { "c\($0)" })
        expect(rig.machine.room(for: campaign), is: 0)
        expect(rig.machine.room(for: urgent), is: 50)
        expect(rig.machine.room(for: short), is: 5)
        for offset in 0..<5 {
            rig.receive(short, Int64(offset), "r", headers: rig.retryHeaders())
        }
        expect(rig.machine.room(for: long), is: 0)
        expect(rig.machine.room(for: urgent), is: 50)
        // A topic that is no longer read leaves its share to the others.
        rig.machine.revoke([urgent])
        rig.machine.stopWaiting([urgent])
        rig.commit(afterMs: 1_000)
        rig.machine.release([urgent])
        expect(rig.machine.room(for: campaign), is: 25)
    }

    @Test func `Free streams are distributed by weight within each app`() {
        let rig = Rig(apps: [Rig.app, Rig.news], capacity: 0)
        let campaign = rig.assignReady(0, topic: "campaign")
        let urgent = rig.assignReady(0, topic: "urgent", role: .requests(weight: 4))
        for (app, topic) in ["com.example.shop", "com.example.news"].enumerated() {
            for offset in 0..<200 {
                let place = Int64(app * 200 + offset)
                rig.receive(campaign, place, "c\(app).\(offset)", headers: ["apns-topic": topic])
            }
            for offset in 0..<100 {
                rig.receive(urgent, Int64(app * 100 + offset), "u\(app).\(offset)", headers: ["apns-topic": topic])
            }
        }
        for app in 0..<2 { rig.machine.setCapacity(AppIndex(app), requests: 50, now: rig.now) }
        let sent = rig.send()
        #expect(sent.count == 100)
        for app in 0..<2 { #expect(sent.count { $0.hasPrefix("u\(app)") } == 40) }
        // A topic that is alone may use all streams.
        for device in sent where device.hasPrefix("u") { rig.answer(device) }
        rig.machine.revoke([urgent])
        #expect(rig.send().filter { $0.hasPrefix("c") }.count == 80)
    }
}
