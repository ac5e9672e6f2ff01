import Testing

@testable import Delivery

struct LedgerCommitTests {
    /// Returns partitions 0 to 2, each with one record settled since the first commit.
    static func three() -> (Rig, [PartitionID]) {
        let rig = Rig()
        let ids = (0..<3).map { rig.assign(Int32($0)) }
        rig.commit()
        for id in ids { rig.receive(id, 0, "d\(id.slot.number)") }
        rig.answerAll()
        rig.wait(ms: 50)
        return (rig, ids)
    }

    static func next(_ rig: Rig, _ id: PartitionID, _ offset: Int64) {
        rig.deliver(id, offset, "d\(id.slot.number)")
    }

    @Test func `A refused partition backs off by itself, twice as long each time, up to 10 s`() {
        let (rig, ids) = Self.three()
        #expect(rig.takeCommit().count == 3)
        rig.finishCommit([.acknowledged, .refused, .acknowledged])
        var pauses: [Int64] = []
        var pause: Int64 = 100
        var offset: Int64 = 1
        for _ in 0..<9 {
            // The other partitions do not wait for the refused one.
            Self.next(rig, ids[0], offset)
            #expect(rig.wait(ms: 20).takeCommit().map(\.partition) == [ids[0]])
            rig.finishCommit([.acknowledged])
            offset += 1
            #expect(rig.wait(ms: pause - 21).takeCommit() == [])
            #expect(rig.wait(ms: 1).takeCommit().map(\.partition) == [ids[1]])
            rig.finishCommit([.refused])
            pauses.append(pause)
            pause = min(pause * 2, 10_000)
        }
        #expect(pauses == [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000])
        expect(rig.machine.ledger[ids[1].slot].commits.refusals, is: 10)
        expect(rig.machine.ledger[ids[0].slot].commits.refusals, is: 0)
        #expect(rig.commit(afterMs: 10_000).map(\.partition) == [ids[1]])
        expect(rig.machine.ledger[ids[1].slot].commits.refusals, is: 0)
    }

    @Test func `Refused commits are reported once, then at most every 10 s, and when they end`() {
        let (rig, ids) = Self.three()
        _ = rig.machine.takeEvents()
        var told: [Int64] = []
        let start = rig.now.ns
        for _ in 0..<600 {
            let entries = rig.takeCommit()
            if !entries.isEmpty { rig.finishCommit(entries.map { $0.partition == ids[1] ? .refused : .acknowledged }) }
            for case .commitsRefused(let id, _, let isImpossible) in rig.machine.takeEvents() {
                #expect(id == ids[1] && !isImpossible)
                told.append((rig.now.ns - start) / 1_000_000)
            }
            rig.wait(ms: 100)
        }
        #expect(told.count >= 4 && told.count <= 7)
        #expect(zip(told, told.dropFirst()).allSatisfy { $1 - $0 >= 10_000 })
        rig.commit(afterMs: 10_000)
        #expect(rig.machine.takeEvents() == [.commitsResumed(ids[1])])
    }

    @Test func `After an error that may belong to another partition, each partition is committed alone`() {
        let (rig, ids) = Self.three()
        #expect(rig.takeCommit().count == 3)
        rig.finishCommit([.unattributed, .unattributed, .unattributed])
        var alone: [PartitionID] = []
        for _ in 0..<3 {
            let entries = rig.takeCommit()
            #expect(entries.count == 1)
            alone += entries.map(\.partition)
            rig.finishCommit(entries.map { $0.partition == ids[1] ? .impossible : .acknowledged })
        }
        #expect(Set(alone) == Set(ids))
        #expect(rig.takeCommit() == [])
        expect(rig.machine.ledger[ids[1].slot].commits.isImpossible, is: true)
        #expect(rig.machine.takeEvents().contains(.commitsRefused(ids[1], refusals: 1, isImpossible: true)))
        for id in [ids[0], ids[2]] { Self.next(rig, id, 1) }
        #expect(rig.commit(afterMs: 50).map(\.partition) == [ids[0], ids[2]])
        #expect(rig.wait(ms: 100).takeCommit().map(\.partition) == [ids[1]])
    }

    @Test func `A partition that is committed alone takes turns with the others`() {
        let (rig, ids) = Self.three()
        #expect(rig.takeCommit().count == 3)
        rig.finishCommit([.unattributed, .acknowledged, .acknowledged])
        var order: [[PartitionID]] = []
        for offset in Int64(1)...4 {
            for id in ids { Self.next(rig, id, offset) }
            let entries = rig.wait(ms: 50).takeCommit()
            order.append(entries.map(\.partition))
            // The partition is still committed alone, because its error may belong to another partition.
            rig.finishCommit(entries.map { $0.partition == ids[0] ? .unattributed : .acknowledged })
        }
        #expect(order == [[ids[0]], [ids[1], ids[2]], [ids[0]], [ids[1], ids[2]]])
    }

    @Test func `A revoked partition is drained if its last commit is impossible`() {
        let (rig, ids) = Self.three()
        rig.machine.revoke(ids)
        let entries = rig.takeCommit()
        rig.finishCommit(entries.map { _ in .unattributed })
        for _ in ids {
            let entry = rig.takeCommit()
            rig.finishCommit(entry.map { $0.partition == ids[2] ? .impossible : .acknowledged })
        }
        for id in ids { expect(rig.machine.isDrained(id), is: true) }
        #expect(rig.takeCommit() == [])
    }

    // MARK: The lease

    static func leased() -> (Rig, PartitionID) {
        Rig.ready { $0.leaseNs = 8_000_000_000 }
    }

    @Test
    func `Without an acknowledged commit within the lease nothing is sent, and a commit goes out at once to renew it`()
    {
        let (rig, partition) = Self.leased()
        #expect(rig.wait(ms: 7_999).offer(partition, 0, "a") == ["a"])
        #expect(rig.wait(ms: 1).offer(partition, 1, "b") == [])
        expect(rig.machine.nextDeadlineNs.map { $0 <= rig.now.ns }, is: true)
        #expect(rig.takeCommit().count == 1)
        #expect(rig.send() == [])
        rig.finishCommit([.refused])
        #expect(rig.send() == [])
        rig.commit(afterMs: 100)
        #expect(rig.send() == ["b"])
    }

    @Test func `The lease starts when the commit is sent, and any partition of the group renews it`() {
        let (rig, partition) = Self.leased()
        let other = rig.assign(1)
        rig.wait(ms: 5_000)
        rig.receive(other, 0, "x")
        #expect(rig.takeCommit().map(\.partition) == [other])
        #expect(rig.wait(ms: 4_000).offer(partition, 0, "a") == [])
        rig.finishCommit([.acknowledged])
        #expect(Set(rig.send()) == ["a", "x"])
        rig.wait(ms: 4_000)
        #expect(rig.offer(partition, 1, "b") == [], "the lease ends 8 s after the commit was sent")
    }

    @Test func `Deferred notifications wait for the lease too, because their tier would send them`() {
        let paused = ReloadTests.changed(Rig.app) { $0.isPaused = true }
        let (rig, partition) = Rig.ready(apps: [paused]) { $0.leaseNs = 8_000_000_000 }
        rig.wait(ms: 8_000).send()
        rig.receive(partition, 0, "a")
        #expect(rig.produce() == [])
        rig.commit()
        #expect(rig.produce().count == 1)
    }
}
