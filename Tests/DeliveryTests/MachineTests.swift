import PushRecords
import Testing

@testable import Delivery

struct MachineTests {
    @Test func `A record becomes a request, a result and a committed offset, in that order`() {
        let rig = Rig()
        let partition = rig.assign()
        let first = rig.takeCommit()
        #expect(first == [.init(partition: partition, offset: 0, map: CommitMap(horizon: 500))])

        #expect(rig.offer(partition, 0, "a") == [])  // The horizon is not acknowledged.
        rig.finishCommit([.acknowledged])
        #expect(rig.send() == ["a"])
        #expect(rig.commit(afterMs: 50) == [])

        rig.answer("a")
        let written = rig.produce()
        #expect(written.map(\.description) == ["a accepted  sends 1 doubt 0"])
        #expect(written.map(\.request) == ["requests/0/0/0"])
        #expect(rig.commit(afterMs: 50) == [])  // Kafka has not acknowledged the result.

        rig.machine.acknowledged(written[0].id, now: rig.now)
        #expect(rig.commit() == [.init(partition: partition, offset: 1, map: CommitMap(horizon: 501))])
        #expect(rig.isEmpty)
    }

    @Test func `With no commit yet, the first record's offset is committed with the horizon before it is sent`() {
        let rig = Rig()
        let partition = rig.assign(committed: nil)
        #expect(rig.takeCommit() == [])
        #expect(rig.offer(partition, 77, "a") == [])
        #expect(rig.commit() == [.init(partition: partition, offset: 77, map: CommitMap(horizon: 578))])
        #expect(rig.send() == ["a"])
    }

    @Test func `Each device has one notification in flight, in order, and does not delay other devices`() {
        let (rig, partition) = Rig.ready()
        #expect(rig.offer(partition, 0, "a", "b", "a", "a", "b", "c") == ["a", "b", "c"])
        #expect(rig.answer("a").send() == ["a"])
        rig.answer("a", 400, .badDeviceToken)
        #expect(rig.answer("b").send() == ["a", "b"])
        rig.answer("b")
        #expect(rig.answer("a").send() == [])
        #expect(rig.settle().map(\.request) == [0, 2, 1, 4, 3].map { "requests/0/\($0)/0" })
        rig.finish("c")
        #expect(rig.isEmpty)
    }

    @Test func `A token in upper case and in lower case is the same device`() {
        let (rig, partition) = Rig.ready()
        rig.receive(partition, 0, key: Rig.token("~~").uppercased(), value: #"{"aps":{}}"#)
        rig.receive(partition, 1, key: Rig.token("~~").lowercased(), value: #"{"aps":{}}"#)
        #expect(rig.send() == ["~~"])
    }

    @Test func `With ordering: none all notifications of a device are sent at once`() {
        let (rig, partition) = Rig.ready { $0.ordering = .none }
        for offset in 0..<3 { rig.receive(partition, Int64(offset), "a") }
        #expect(rig.send() == ["a", "a", "a"])
    }

    @Test func `A notification that moves to a tier does not delay its successors`() {
        let (rig, partition) = Rig.ready()
        rig.offer(partition, 0, "a", "a")
        #expect(rig.answer("a", 503, .shutdown).send() == ["a"])
    }

    @Test func `A deferred notification moves to its tier once a commit names its record as sent, not before`() {
        let rig = Rig { $0.deviceQueueLimit = 1 }
        let partition = rig.assign()
        rig.receive(partition, 0, envelope: ["a", "a", "b"])
        #expect(rig.offer(partition, 1, "a") == [])
        #expect(rig.produce() == [])
        let first = rig.takeCommit()
        #expect(first.count == 1)
        #expect(rig.produce() == [])
        rig.finishCommit([.acknowledged])
        #expect(rig.produce().map(\.target) == [.retry(tier: 0), .retry(tier: 0)])
        #expect(rig.send() == ["a", "b"])
        // The worker dies after its retry records are in Kafka. The next owner counts the records as in doubt.
        let next = Rig { $0.deviceQueueLimit = 1 }
        let again = next.assign(committed: first[0].offset, map: first[0].map)
        next.receive(again, 0, envelope: ["a", "a", "b"])
        next.commit()
        #expect(next.settle().map(\.inDoubt) == [1])
    }

    @Test func `A deferred notification that was not moved yet is dropped when its partition is revoked`() {
        let rig = Rig { $0.deviceQueueLimit = 1 }
        let partition = rig.assign()
        rig.receive(partition, 0, envelope: ["a", "a", "b"])
        _ = rig.send()
        rig.machine.revoke([partition])
        #expect(rig.commit().map(\.map.horizon) == [0])
        #expect(rig.settle() == [])
        let isDrained = rig.machine.isDrained(partition)
        #expect(isDrained)
        rig.machine.release([partition])
        #expect(rig.isEmpty)
    }

    @Test func `A notification moved to a tier stays below the horizon, even if a later commit would have a lower one`()
    {
        let (rig, partition) = Rig.ready(capacity: 10) { $0.deviceQueueLimit = 1 }
        rig.receive(partition, 0, envelope: (0..<1_000).map { "d\($0)" })
        rig.send()
        rig.receive(partition, 5, "d0")
        #expect(rig.produce().map(\.target) == [.retry(tier: 0)])
        rig.finish("d1")
        #expect(rig.commit(afterMs: 50).allSatisfy { $0.map.horizon > 5 })
    }

    @Test func `Notifications beyond a device queue's limit go to the shortest tier without using up an attempt`() {
        let (rig, partition) = Rig.ready { $0.deviceQueueLimit = 3 }
        for offset in 0..<5 { rig.receive(partition, Int64(offset), "a") }
        let held = rig.settle()
        #expect(held.map(\.description) == Array(repeating: "a tier 0 attempt 0 held sends 0 doubt 0", count: 2))
        #expect(held.map(\.dueMs) == [rig.now.wallMs + 30_000, rig.now.wallMs + 30_000])
        #expect(rig.machine.takeEvents() == [.held(app: AppIndex(0), .device)])
        for _ in 0..<3 {
            #expect(rig.send() == ["a"])
            rig.answer("a")
        }
        rig.settle()
        #expect(rig.isEmpty)
    }

    @Test func `At most as many requests are handed out as the app's capacity allows`() {
        let (rig, partition) = Rig.ready(capacity: 2)
        #expect(rig.offer(partition, 0, "a", "b", "c", "d") == ["a", "b"])
        #expect(rig.send() == [])
        #expect(rig.answer("b").send() == ["c"])
        rig.machine.setCapacity(AppIndex(0), requests: 1, now: rig.now)
        #expect(rig.answer("a").send() == [])
        #expect(rig.answer("c").send() == ["d"])
    }

    @Test func `An unregistered token goes to the result topic, and to the dead-token topic if it has a timestamp`() {
        let (rig, partition) = Rig.ready()
        rig.offer(partition, 0, "a", "b")
        rig.answer("a", 410, .unregistered, atMs: 1_700_000_000_000)
        rig.answer("b", 410, .none)
        let written = rig.produce()
        #expect(written.map(\.target) == [.unregistered, .results, .results])
        #expect(written.map(\.outcome) == [.unregistered, .unregistered, .unregistered])
        #expect(written.map(\.reason) == ["Unregistered", "Unregistered", "HTTP 410"])
        // Both records must be acknowledged.
        rig.machine.acknowledged(written[0].id, now: rig.now)
        #expect(rig.commit(afterMs: 50) == [])
        rig.machine.acknowledged(written[1].id, now: rig.now)
        #expect(rig.commit().map(\.offset) == [1])
    }

    @Test
    func `With publish: failures an accepted notification without doubt is only counted, and settles with its verdict`()
    {
        let (rig, partition) = Rig.ready { $0.publishesOnlyFailures = true }
        rig.offer(partition, 0, "a", "b", "c")
        rig.answer("a")
        rig.answer("b", 400, .badTopic)
        rig.doubt("c").send()
        #expect(rig.finished("c") == ["b rejected BadTopic sends 1 doubt 0", "c accepted  sends 2 doubt 1"])
        expect(rig.machine.counters.apps[0].outcomes, is: [2, 0, 1, 0, 0, 0])
        #expect(rig.isDone(at: 3))
    }

    @Test func `A notification that cannot be sent is invalid with Apple's reason, and never sent`() {
        let (rig, partition) = Rig.ready()
        rig.receive(partition, 0, key: nil, value: #"{"aps":{}}"#, headers: [("push-device-token", "xyz")])
        rig.receive(partition, 1, "b", headers: ["apns-topic": "com.example.other"])
        #expect(rig.offer(partition, 2, "c", headers: ["apns-priority": "3"]) == [])
        #expect(
            rig.settled() == [
                " invalid BadDeviceToken sends 0 doubt 0", "b invalid BadTopic sends 0 doubt 0",
                "c invalid BadPriority sends 0 doubt 0",
            ])
        #expect(rig.isDone(at: 3))
    }

    @Test func `A dead letter settles when it is acknowledged`() throws {
        let (rig, partition) = Rig.ready()
        guard case .deadLetter(let id, .tombstone, _) = rig.receive(partition, 0, key: "x", value: nil) else {
            Issue.record("a tombstone must be a dead letter")
            return
        }
        #expect(rig.produce() == [])
        #expect(rig.commit(afterMs: 50) == [])
        rig.machine.acknowledged(id, now: rig.now)
        #expect(rig.commit().map(\.offset) == [1])
        #expect(rig.isEmpty)
    }

    @Test func `A repeated offset and offsets that the map names are not accepted again`() {
        let (rig, partition) = Rig.inheriting(CommitMap(settled: [6..<8]), committed: 5)
        var receipts: [String] = []
        for offset in [5, 6, 5, 7, 8] as [Int64] { receipts.append("\(rig.receive(partition, offset, "d\(offset)"))") }
        #expect(receipts == ["taken", "ignored", "ignored", "ignored", "taken"])
        #expect(rig.send() == ["d5", "d8"])
        expect(rig.machine.counters.duplicatesSkipped, is: 2)
    }

    @Test func `A notification expires if its record is too old or its expiration passes before the send`() {
        let (rig, partition) = Rig.ready(capacity: 1)
        let soon = "\(rig.now.wallMs / 1_000 + 10)"
        rig.receive(partition, 0, "old", timestampMs: rig.now.wallMs - 24 * 3_600_000 - 1)
        rig.receive(partition, 1, "past", headers: ["apns-expiration": "1700000000"])
        rig.receive(partition, 2, "first")
        rig.receive(partition, 3, "soon", headers: ["apns-expiration": soon])
        #expect(rig.offer(partition, 4, "never", headers: ["apns-expiration": "0"]) == ["first"])
        rig.wait(ms: 30_001)
        #expect(rig.answer("first").send() == [])
        let written = rig.settle()
        let expired = written.filter { $0.outcome == .expired }
        #expect(
            expired.map { "\($0.token): \($0.detail)" }.sorted() == [
                "never: apns-expiration is 0, and the notification would have needed a later send",
                "old: the request is older than delivery.max_age", "past: apns-expiration has passed",
                "soon: apns-expiration has passed",
            ])
        #expect(written.count == 5 && written.contains { $0.outcome == .accepted && $0.detail.isEmpty })
        #expect(rig.commit(afterMs: 50).map(\.offset) == [5])
    }

    @Test func `Open bytes have their own limit, and are released once their record is produced`() {
        let (rig, partition) = Rig.ready { $0.maxOpenBytes = 20_000 }
        let payload = #"{"aps":{"alert":"\#(String(repeating: "x", count: 3_000))"}}"#
        let taken = rig.fill(partition, payload: payload)
        #expect(taken > 3 && taken < 9)
        expect(rig.machine.gauges.openBytes <= 20_000 + 4_096, is: true)
        rig.send()
        for offset in 0..<taken { rig.answer("d\(offset)") }
        expect(rig.machine.room(for: partition), is: 0)
        rig.produce()
        expect(rig.machine.gauges.openBytes, is: 0)
        expect(rig.machine.room(for: partition) > 0, is: true)
    }

    @Test
    func `A request without an app belongs to its request topic's app, and one read from a tier to the app it names`() {
        let rig = Rig(apps: [Rig.app, Rig.news])
        let named = rig.assign(0, topic: "named", role: .requests(weight: 1, app: "news"))
        let other = rig.assign(0, topic: "other")
        rig.commit()
        rig.receive(named, 0, "n")
        rig.receive(named, 1, "s", headers: ["push-app": "shop"])
        rig.receive(named, 2, "t", headers: Rig.toShop)
        rig.receive(other, 0, "x")
        #expect(rig.send().sorted() == ["n", "s", "t"])
        let topics = rig.sent.map { String(decoding: $0.headers.topic, as: UTF8.self) }
        #expect(topics.sorted() == ["com.example.news", "com.example.shop", "com.example.shop"])
    }
}
