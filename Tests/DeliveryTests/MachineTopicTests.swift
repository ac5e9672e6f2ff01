import PushRecords
import Testing

@testable import Delivery

struct MachineTopicTests {
    /// Takes the productions that wait for a topic.
    static func take(_ rig: Rig, _ target: ProductionTarget) -> [NotificationID] {
        var ids: [NotificationID] = []
        while let id = rig.machine.nextProduction(for: target) {
            ids.append(id)
            rig.machine.produced(id, to: target)
        }
        return ids
    }

    static func answered(_ devices: [(String, UInt16, ReasonCode)]) -> Rig {
        let (rig, partition) = Rig.ready()
        rig.receive(partition, devices.map(\.0))
        rig.send()
        for (device, status, reason) in devices { rig.answer(device, status, reason, atMs: status == 410 ? 1 : 0) }
        return rig
    }

    @Test
    func `Each output topic has its own queue, so that waiting results delay neither retry records nor dead tokens`() {
        let rig = Self.answered([("a", 200, .none), ("b", 503, .shutdown), ("c", 410, .unregistered)])
        rig.machine.setWritable(.results, false, now: rig.now)
        for target in [.results, .unregistered, .retry(tier: 1)] as [ProductionTarget] {
            expect(rig.machine.nextProduction(for: target) != nil, is: true)
        }
        expect(rig.machine.nextProduction(for: .retry(tier: 0)) != nil, is: false)
        expect(rig.machine.nextProduction(for: .deadLetters) != nil, is: false)
        let retries = Self.take(rig, .retry(tier: 1))
        let tokens = Self.take(rig, .unregistered)
        #expect(retries.count == 1 && tokens.count == 1)
        for id in retries + tokens { rig.machine.acknowledged(id, now: rig.now) }
        // The result of the dead token is not written yet.
        expect(rig.machine.gauges.openNotifications, is: 2)
        rig.machine.setWritable(.results, true, now: rig.now)
        #expect(rig.settle().map(\.token) == ["a", "c"])
        #expect(rig.isEmpty)
    }

    @Test
    func `A retry skips a tier that cannot be written, and is due by the delay of the tier that is used`() {
        let rig = AgainTests.ready()
        rig.machine.setWritable(.retry(tier: 1), false, now: rig.now)
        let written = rig.answer("a", 503, .shutdown).settle()
        #expect(written.map(\.target) == [.retry(tier: 2)])
        #expect(written.map(\.dueMs) == [rig.now.wallMs + 7_200_000])
    }

    /// Returns the only assigned partition.
    static func partition(_ rig: Rig) -> PartitionID { PartitionID(slot: PartitionSlot(0), generation: 1) }

    @Test
    func `A record that waits for an unwritable tier goes to another one, or waits if there is none`() {
        let rig = Self.answered([("a", 503, .shutdown), ("b", 503, .shutdown)])
        rig.machine.setWritable(.retry(tier: 1), false, now: rig.now)
        expect(rig.machine.nextProduction(for: .retry(tier: 1)) != nil, is: false)
        rig.machine.setWritable(.retry(tier: 0), false, now: rig.now)
        expect(rig.machine.settlement.tiers.isAnyWritable, is: true)
        rig.machine.setWritable(.retry(tier: 2), false, now: rig.now)
        expect(rig.machine.settlement.tiers.isAnyWritable, is: false)
        expect(rig.machine.nextProduction(for: .retry(tier: 2)) != nil, is: true)
        rig.wait(ms: 10)
        rig.machine.setWritable(.retry(tier: 0), true, now: rig.now)
        expect(rig.machine.settlement.tiers.isAnyWritable, is: true)
        let written = rig.settle()
        #expect(written.map(\.target) == [.retry(tier: 0), .retry(tier: 0)])
        #expect(written.map(\.token) == ["a", "b"])
        #expect(written.map(\.attempt) == [1, 1])
        #expect(written[0].dueMs == rig.now.wallMs + 30_000)
        #expect(rig.isEmpty)
    }

    @Test
    func `If dead tokens cannot be written, new and waiting ones are deferred without using up an attempt`() {
        let rig = Self.answered([("a", 410, .unregistered), ("b", 200, .none)])
        rig.receive(Self.partition(rig), 2, "c")
        rig.send()
        rig.machine.setWritable(.unregistered, false, now: rig.now)
        rig.answer("c", 410, .unregistered, atMs: 1)
        #expect(
            rig.settled() == [
                "b accepted  sends 1 doubt 0", "a tier 0 attempt 0 held sends 1 doubt 0",
                "c tier 0 attempt 0 held sends 1 doubt 0",
            ])
        #expect(rig.machine.takeEvents() == [.held(app: AppIndex(0), .unwritable)])
        expect(rig.machine.counters.apps[0].heldByCause[Int(DeferralReason.unwritable.rawValue)], is: 2)
        #expect(rig.isEmpty)
        rig.machine.setWritable(.unregistered, true, now: rig.now)
        rig.receive(Self.partition(rig), 3, "d")
        rig.send()
        #expect(rig.answer("d", 410, .unregistered, atMs: 1).settle().map(\.target) == [.unregistered, .results])
        #expect(rig.isEmpty)
    }

    @Test(arguments: [false, true])
    func `With expiration 0, a dead token that cannot be written expires and does not wait for its topic`(
        isToldBefore: Bool
    ) {
        let (rig, partition) = Rig.ready()
        rig.offer(partition, 0, "a", headers: ["apns-expiration": "0"])
        if isToldBefore { rig.machine.setWritable(.unregistered, false, now: rig.now) }
        rig.answer("a", 410, .unregistered, atMs: 1)
        rig.machine.setWritable(.unregistered, false, now: rig.now)
        #expect(rig.settle().map(\.outcome) == [.expired])
        #expect(rig.isEmpty)
    }

    /// The argument is the delay of the tier that the token was read from, if any.
    @Test(
        arguments: [
            (nil, [true, true, true], 0), (1_000, [true, true, true], 1), (60_000, [true, true, true], 2),
            (900_000, [true, true, true], 2), (1_000, [true, false, true], 2), (1_000, [true, false, false], 0),
        ] as [(Int64?, [Bool], Int)])
    func `A dead token that is deferred again goes to a longer tier each time, and stays in the longest`(
        readFrom delayMs: Int64?, writable: [Bool], to tier: Int
    ) {
        let rig = Rig { $0.tierDelaysMs = [1_000, 60_000, 900_000] }
        for (tier, isWritable) in writable.enumerated() {
            rig.machine.setWritable(.retry(tier: tier), isWritable, now: rig.now)
        }
        rig.machine.setWritable(.unregistered, false, now: rig.now)
        let partition = delayMs.map { rig.assignTier($0) } ?? rig.assignReady()
        rig.offer(partition, 0, "a", headers: delayMs == nil ? [:] : rig.retryHeaders(attempt: 0))
        rig.answer("a", 410, .unregistered, atMs: 1)
        #expect(rig.settle().map(\.tier) == [tier])
    }

    @Test func `A dead token waits for its topic if its result was already produced or no tier can be written`() {
        let rig = Self.answered([("a", 410, .unregistered), ("b", 410, .unregistered)])
        let id = rig.machine.nextProduction(for: .results)!
        rig.machine.produced(id, to: .results)
        rig.machine.acknowledged(id, now: rig.now)
        for tier in 0..<3 { rig.machine.setWritable(.retry(tier: tier), false, now: rig.now) }
        rig.machine.setWritable(.unregistered, false, now: rig.now)
        for tier in 0..<3 { expect(rig.machine.nextProduction(for: .retry(tier: tier)) != nil, is: false) }
        rig.machine.setWritable(.retry(tier: 2), true, now: rig.now)
        expect(rig.machine.nextProduction(for: .results) != nil, is: false)
        #expect(Self.take(rig, .retry(tier: 2)).count == 1)
        rig.machine.setWritable(.unregistered, true, now: rig.now)
        #expect(Self.take(rig, .unregistered) == [id])
        rig.machine.acknowledged(id, now: rig.now)
        expect(rig.machine.gauges.openNotifications, is: 1)
    }

    @Test func `With include_bad_tokens a bad token is deferred like a dead one, otherwise its result is written`() {
        for isIncluded in [false, true] {
            let rig = Rig { $0.includesBadTokens = isIncluded }
            rig.machine.setWritable(.unregistered, false, now: rig.now)
            rig.receive(rig.assignReady(), 0, "a")
            rig.send()
            rig.answer("a", 400, .badDeviceToken)
            #expect(rig.settle().map(\.target) == [isIncluded ? .retry(tier: 0) : .results])
            #expect(rig.isEmpty)
        }
    }

    @Test func `A dead token of a draining partition is deferred, and the partition can be revoked`() {
        let rig = Self.answered([("a", 410, .unregistered)])
        rig.machine.revoke([Self.partition(rig)])
        rig.machine.setWritable(.unregistered, false, now: rig.now)
        #expect(rig.settle().map(\.target) == [.retry(tier: 0)])
        rig.commit()
        expect(rig.machine.isDrained(Self.partition(rig)), is: true)
    }

    @Test func `Unacknowledged dead letters use the byte budget, so that a flood of them stops reading`() {
        let (rig, partition) = Rig.ready { $0.maxOpenBytes = 64 << 10 }
        let text = String(repeating: "x", count: 4 << 10)
        var ids: [NotificationID] = []
        for offset in 0..<1_000 as Range<Int64> where rig.machine.room(for: partition) > 0 {
            // Half of the dead letters are tombstones with a long key.
            let (key, value): (String?, String?) = offset % 2 == 0 ? (text, nil) : (nil, text)
            if case .deadLetter(let id, _, _) = rig.receive(partition, offset, key: key, value: value) {
                ids.append(id)
            }
        }
        #expect(ids.count == 16)
        expect(rig.machine.gauges.openBytes, is: 64 << 10)
        rig.machine.acknowledged(ids.removeLast(), now: rig.now)
        expect(rig.machine.room(for: partition) > 0, is: true)
        for id in ids { rig.machine.acknowledged(id, now: rig.now) }
        #expect(rig.isEmpty)
    }

    @Test func `If dead letters cannot be written, only a partition with a hundred of them is read no further`() {
        let rig = Rig()
        let bad = rig.assignReady(0)
        let good = rig.assignReady(1)
        rig.machine.setWritable(.deadLetters, false, now: rig.now)
        var ids: [NotificationID] = []
        while rig.machine.room(for: bad) > 0, ids.count < 1_000 {
            guard case .deadLetter(let id, _, _) = rig.receive(bad, Int64(ids.count), key: "x", value: nil) else {
                Issue.record("the record must be a dead letter")
                return
            }
            ids.append(id)
        }
        #expect(ids.count == 100)
        expect(rig.machine.room(for: good) > 0, is: true)
        rig.machine.acknowledged(ids.removeLast(), now: rig.now)
        expect(rig.machine.room(for: bad) > 0, is: true)
        rig.machine.setWritable(.deadLetters, true, now: rig.now)
        for id in ids { rig.machine.acknowledged(id, now: rig.now) }
        #expect(rig.isEmpty)
    }
}
