import PushRecords
import Testing

@testable import Delivery

/// If the commits of one partition are refused permanently, its notifications cannot be sent.
struct ImpossibleCommitTests {
    /// Returns a rig in which the first commit of `denied` is refused permanently and that of `other` is accepted.
    static func denied(
        _ change: (inout MachineSettings) -> Void = { _ in }
    ) -> (rig: Rig, denied: PartitionID, other: PartitionID) {
        let rig = Rig(change)
        let denied = rig.assign(0)
        #expect(rig.takeCommit(of: .requests).count == 1)
        rig.finishCommit([.impossible])
        let other = rig.assign(1)
        #expect(rig.commit(afterMs: 50).map(\.partition) == [other])
        return (rig, denied, other)
    }

    @Test(arguments: [false, true])
    func `A partition whose commits are refused leaves half of the open limit to other partitions`(isFanOut: Bool) {
        let (rig, denied, other) = Self.denied { $0.maxOpen = 100 }
        if isFanOut {
            rig.receive(denied, 0, envelope: (0..<200).map { "d\($0)" })
        } else {
            rig.fill(denied, upTo: 200)
        }
        #expect(rig.send() == [])
        #expect(rig.machine.gauges.openNotifications == 25)
        #expect(rig.machine.room(for: other) > 50)
    }

    /// Returns a rig in which the first commit of `denied` is accepted, and its later ones are refused.
    static func deniedLater(_ apps: [AppRoute] = [Rig.app]) -> (rig: Rig, denied: PartitionID, other: PartitionID) {
        let rig = Rig(apps: apps) {
            $0.maxOpen = 200
            $0.horizonMargin = 10
        }
        let denied = rig.assignReady(0)
        return (rig, denied, rig.assignReady(1))
    }

    /// Commits all partitions. The commit of `denied` is refused permanently.
    static func refuse(_ rig: Rig, _ denied: PartitionID) {
        let entries = rig.wait(ms: 50).takeCommit(of: .requests)
        if !entries.isEmpty {
            rig.finishCommit(entries.map { $0.partition == denied ? .impossible : .acknowledged })
        }
    }

    @Test func `When commits become impossible, records above the horizon leave half of the limit to others`() {
        let (rig, denied, other) = Self.deniedLater()
        // Ten records are below the horizon, fifty are a quarter of the limit, and one waits for admission.
        #expect(rig.fill(denied) == 61)
        #expect(rig.machine.gauges.openNotifications == 60)
        rig.answerAll()
        Self.refuse(rig, denied)
        #expect(rig.send() == [])
        #expect(rig.machine.gauges.openNotifications == 50)
        #expect(rig.machine.room(for: denied) == 0)
        #expect(rig.machine.room(for: other) == 60)
        // The commit of `denied` is finally accepted.
        rig.commit(afterMs: 10_000)
        for _ in 0..<50 {
            rig.answerAll()
            rig.commit(afterMs: 50)
        }
        #expect(rig.isEmpty)
    }

    @Test
    func `If commits are accepted, one app's notifications delay another's for five seconds at most`() {
        let (rig, partition, _) = Self.deniedLater([Rig.app, MapSpanTests.slow])
        let slow = ["apns-topic": "com.example.slow"]
        #expect(rig.fill(partition, headers: slow) == 61)
        expect(rig.machine.nextDeadlineNs.map { $0 <= rig.now.ns + 5_000_000_000 }, is: true)
        rig.wait(ms: 5_000).send()
        rig.commit()
        rig.send()
        #expect(rig.fill(partition, from: 61, upTo: 90, headers: slow) == 90)
        rig.receive(partition, 90, "x", headers: Rig.toShop)
        let sent = rig.send()
        rig.commit(afterMs: 50)
        #expect((sent + rig.send()).contains("x"))
    }

    @Test
    func `A notification that waits for its commit leaves its device queue, and rejoins it after the commit`() {
        let (rig, denied, other) = Self.denied()
        #expect(rig.offer(denied, 0, "a") == [])
        #expect(rig.offer(other, 0, "a") == ["a"])
        #expect(rig.commit(afterMs: 10_000).map(\.partition).contains(denied))
        // The other partition's notification is in flight.
        #expect(rig.send() == [])
        #expect(rig.answer("a").send() == ["a"])
    }

    /// This is a regression test: the notification was removed from the list of waiting ones twice, which made its
    /// count wrong.
    @Test func `A notification that returns from its commit to a full device queue is deferred`() {
        let (rig, denied, other) = Self.denied { $0.deviceQueueLimit = 1 }
        #expect(rig.offer(denied, 0, "a", "b") == [])
        #expect(rig.offer(other, 0, "a") == ["a"])
        #expect(rig.commit(afterMs: 10_000).map(\.partition).contains(denied))
        #expect(rig.send() == ["b"])
        #expect(rig.settle().map(\.target) == [.retry(tier: 0)])
    }

    @Test func `A notification that waits for its commit keeps the device's order`() {
        let rig = Rig()
        let denied = rig.assign(0)
        let other = rig.assign(1)
        rig.receive(denied, 0, "a")
        rig.receive(other, 0, "a")
        #expect(rig.offer(denied, 1, "a") == [])
        Self.refuse(rig, denied)
        #expect(rig.send() == ["a"])
        rig.receive(denied, 2, "a")
        #expect(rig.commit(afterMs: 10_000).map(\.partition).contains(denied))
        for _ in 0..<3 { #expect(rig.answer("a").send() == ["a"]) }
        #expect(rig.finish("a").map(\.request) == ["requests/1/0/0"] + (0..<3).map { "requests/0/\($0)/0" })
        #expect(rig.isEmpty)
    }

    @Test func `After an expired lease, a notification below the horizon is sent before those above it`() {
        let rig = Rig {
            $0.horizonMargin = 1
            $0.leaseNs = 1_000_000_000
        }
        let denied = rig.assign(0)
        #expect(rig.takeCommit(of: .requests).count == 1)
        rig.finishCommit([.impossible])
        rig.receive(denied, 0, "a")
        #expect(rig.offer(denied, 5, "a") == [])
        rig.machine.setCapacity(AppIndex(0), requests: 0, now: rig.now)
        rig.wait(ms: 10_000)
        // The commit allows only the first notification, whose app has no connection.
        #expect(rig.commit().map(\.map.horizon) == [4])
        #expect(rig.send() == [])
        rig.wait(ms: 2_000)
        rig.machine.setCapacity(AppIndex(0), requests: 10, now: rig.now)
        #expect(rig.send() == [])
        for _ in 0..<4 {
            rig.commit(afterMs: 50)
            rig.sendAndAnswer()
        }
        #expect(rig.settle().map(\.request) == ["requests/0/0/0", "requests/0/5/0"])
        #expect(rig.isEmpty)
    }

    @Test func `If a circuit's probe waits for its commit, another notification becomes the probe`() {
        let (rig, denied, other) = Self.denied()
        #expect(rig.offer(other, 0, "a") == ["a"])
        rig.answer("a", 403, .badCertificate)
        rig.settle()
        #expect(rig.wait(ms: 1_500).offer(denied, 0, "b") == [])
        #expect(rig.offer(other, 1, "c") == ["c"])
        // When its commit is accepted, another notification is already the probe.
        rig.commit(afterMs: 10_000)
        #expect(rig.send() == [])
        #expect(rig.settle().map(\.token) == ["b"])
        rig.finish("c")
        #expect(rig.isEmpty)
    }
}
