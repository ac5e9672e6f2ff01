import PushRecords
import Testing

@testable import Delivery

/// Partitions whose session is lost and which may return.
struct SuspendedTests {
    /// The group's committed state of a partition.
    struct Committed {
        var offset: Int64
        var text: [UInt8]
    }

    /// Commits all changes and stores them as the group does.
    @discardableResult
    static func commit(_ rig: Rig, _ outcome: CommitOutcome = .acknowledged) -> Committed? {
        let entries = rig.machine.takeCommit(of: .requests, now: rig.now)
        guard let first = entries.first else { return nil }
        rig.finishCommit(entries.map { _ in outcome })
        return Committed(offset: first.offset, text: first.metadata)
    }

    static func assign(_ rig: Rig, _ committed: Committed?, logEnd: Int64? = nil) -> PartitionID {
        rig.assign(committed: committed?.offset ?? 0, text: committed?.text, logEnd: logEnd)
    }

    /// Returns a rig after its session was lost. `a` was settled but not committed, `b` is in flight, and `c` and a
    /// second `b` wait.
    static func lost() -> (Rig, PartitionID, Committed?) {
        let rig = Rig(capacity: 2)
        let partition = assign(rig, nil)
        let committed = commit(rig)
        #expect(rig.offer(partition, 0, "a", "b", "c", "b") == ["a", "b"])
        rig.finish("a")
        rig.machine.suspend([partition])
        return (rig, partition, committed)
    }

    static func receipts(_ rig: Rig, _ partition: PartitionID) -> [String] {
        ["a", "b", "c", "b"].enumerated().map { "\(rig.receive(partition, Int64($0.offset), $0.element))" }
    }

    @Test func `While a session is lost nothing is sent, and after its return nothing is sent twice or in doubt`() {
        let (rig, lost, committed) = Self.lost()
        expect(rig.machine.ledger[lost.slot].phase, is: .suspended)
        #expect(rig.send() == [])
        #expect("\(rig.receive(lost, 4, "x"))" == "ignored")
        let back = Self.assign(rig, committed, logEnd: 4)
        #expect(back != lost)
        #expect(rig.machine.takeEvents().contains(.resumed(back)))
        expect(rig.machine.status(of: lost), is: nil)
        // The client reads again from the committed offset.
        #expect(Self.receipts(rig, back) == Array(repeating: "ignored", count: 4))
        #expect(rig.send() == [], "a new commit must name the records before they are sent")
        rig.commit()
        #expect(rig.send() == ["c"])
        #expect(rig.answer("b").send() == ["b"])
        rig.answer("b")
        #expect(rig.finish("c").allSatisfy { $0.inDoubt == 0 && $0.attempts == 1 })
        #expect(rig.isDone(at: 4))
    }

    @Test func `Requests in flight of a lost session are recalled, settle if answered, and wait if unprocessed`() {
        let (rig, _, committed) = Self.lost()
        var recalled = 0
        rig.machine.recalls { recalled += $1.count }
        #expect(recalled == 1)
        #expect(rig.giveBack("b").send() == [])
        let back = Self.assign(rig, committed)
        rig.commit()
        #expect(rig.send() == ["b", "c"])
        rig.machine.suspend([back])
        #expect(rig.finish("b").count == 1)
    }

    @Test func `A notification that waits for a lost session does not block its device in other partitions`() {
        let (rig, lost, _) = Self.lost()
        let other = rig.assignReady(1)
        rig.answer("b")
        rig.receive(other, ["c", "b"])
        #expect(Set(rig.send()) == ["b", "c"])
        rig.machine.release([lost])
        rig.finish("b", "c")
        #expect(rig.isEmpty)
    }

    @Test func `A fan-out continues after a lost session with the indexes that were not sent`() {
        let rig = Rig(capacity: 3) { $0.maxOpen = 4 }
        let partition = Self.assign(rig, nil)
        let committed = Self.commit(rig)
        rig.receive(partition, 0, envelope: (0..<10).map { "t\($0)" })
        #expect(rig.send() == ["t0", "t1", "t2"])
        rig.machine.suspend([partition])
        rig.finish("t0")
        #expect(rig.send() == [])
        _ = Self.assign(rig, committed)
        var sent = Set(["t0", "t1", "t2"])
        for _ in 0..<10 {
            rig.commit()
            for device in rig.sent.map(Rig.device) { rig.answer(device) }
            for device in rig.send() { expect(sent.insert(device).inserted, is: true) }
            #expect(rig.settle().allSatisfy { $0.inDoubt == 0 })
        }
        #expect(sent.count == 10)
        #expect(rig.isDone(at: 1))
    }

    /// The arguments are a commit of another worker, an older commit, and none.
    @Test(arguments: [(0, CommitMap(horizon: 2)), (0, nil), (nil, nil)] as [(Int64?, CommitMap?)])
    func `A suspended partition is released and read again if the group has a commit other than its last one`(
        offset: Int64?, map: CommitMap?
    ) {
        let (rig, lost, _) = Self.lost()
        let back = rig.assign(committed: offset, map: map ?? CommitMap())
        expect(rig.machine.status(of: lost), is: nil)
        #expect(Self.receipts(rig, back) == Array(repeating: "taken", count: 4))
        rig.answer("b")
        expect(rig.machine.counters.late, is: 1)
        rig.commit()
        #expect(rig.send() == ["a", "c"])
        let said = map == nil ? [0, 0] : [1, 0]
        #expect(
            rig.finish("a", "c").map(\.inDoubt) == said, "only records that the other worker may have sent are in doubt"
        )
    }

    @Test func `A suspended partition does not resume if its log ends below an offset that the map lists as settled`() {
        for logEnd in [8, 7] as [Int64] {
            let rig = Rig()
            let lost = rig.assign(map: CommitMap(horizon: 0, settled: [7..<8]), logStart: 0, logEnd: 8)
            let committed = Self.commit(rig)
            rig.machine.suspend([lost])
            let back = Self.assign(rig, committed, logEnd: logEnd)
            #expect(rig.machine.takeEvents().contains(.resumed(back)) == (logEnd == 8))
            #expect("\(rig.receive(back, 7, "d"))" == (logEnd == 8 ? "ignored" : "taken"))
        }
    }

    @Test func `A suspended partition is released soon after the group assigned nothing to this worker`() {
        let (rig, lost, _) = Self.lost()
        rig.machine.endAssignment(of: .retries)
        rig.wait(ms: CommitLedger.passedOverNs / 1_000_000 + 1)
        expect(rig.machine.status(of: lost) == nil, is: false)
        rig.machine.endAssignment(of: .requests)
        rig.wait(ms: CommitLedger.passedOverNs / 1_000_000 + 1)
        expect(rig.machine.status(of: lost), is: nil)
    }

    @Test(arguments: [true, false])
    func `A partition resumes from a commit that was in flight when its session was lost`(_ isAnswered: Bool) {
        let rig = Rig(capacity: 2)
        let partition = Self.assign(rig, nil)
        Self.commit(rig)
        rig.offer(partition, 0, "a", "b")
        rig.finish("a")
        rig.wait(ms: 50)
        let inFlight = rig.machine.takeCommit(of: .requests, now: rig.now)
        let committed = Committed(offset: inFlight[0].offset, text: inFlight[0].metadata)
        rig.machine.suspend([partition])
        if isAnswered { rig.finishCommit([.refused]) }
        let back = Self.assign(rig, committed)
        #expect(rig.machine.takeEvents().contains(.resumed(back)))
        if !isAnswered { rig.finishCommit([.acknowledged]) }
        #expect(rig.offer(back, 2, "c") == [], "a commit must name the horizon first")
    }

    @Test func `A restarted partition that is lost before its next commit does not resume from the earlier commit`() {
        let rig = Rig()
        let committed = Committed(offset: 605, text: CommitMapTests.text(base: 605, CommitMap(horizon: 610)))
        let begun = Self.assign(rig, committed, logEnd: 0)
        rig.machine.suspend([begun])
        let back = Self.assign(rig, committed)
        expect(rig.machine.status(of: begun), is: nil)
        #expect(rig.commit().map(\.offset) == [605])
        #expect("\(rig.receive(back, 605, "a"))" == "taken")
        #expect(rig.send() == ["a"])
        #expect(rig.finish("a").map(\.inDoubt) == [1])
    }

    @Test(arguments: [(false, 600_000), (true, 10_000)] as [(Bool, Int64)])
    func `A suspended partition is released after ten minutes, or ten seconds after another assignment`(
        hasOthers: Bool, limitMs: Int64
    ) {
        let (rig, lost, _) = Self.lost()
        rig.finish("b")
        if hasOthers { rig.machine.release([rig.assign(1)]) }
        rig.wait(ms: limitMs - 1)
        expect(rig.machine.ledger[lost.slot].phase, is: .suspended)
        expect(rig.machine.nextDeadlineNs, is: rig.now.ns + 1_000_000)
        rig.wait(ms: 1)
        expect(rig.machine.status(of: lost), is: nil)
        #expect(rig.isEmpty)

        let (other, second, _) = Self.lost()
        other.machine.release([second])
        other.answer("b")
        #expect(other.isEmpty)
    }

    @Test func `A partition whose session is lost while it is being revoked is released`() {
        let (rig, partition) = Rig.ready()
        #expect(rig.offer(partition, 0, "a") == ["a"])
        rig.machine.revoke([partition])
        rig.machine.suspend([partition])
        expect(rig.machine.status(of: partition), is: nil)
        rig.answer("a")
        #expect(rig.isEmpty)
    }

    @Test func `The commits of two owners differ even if their content is the same`() throws {
        let (rig, _, committed) = Self.lost()
        let horizon = try #require(
            committed?.text.withUnsafeBytes { CommitMap(metadata: $0, base: committed?.offset ?? 0)?.horizon })
        let other = Rig { $0.hashSeed = 1 }
        let partition = Self.assign(other, committed)
        let first = try #require(Self.commit(other))
        expect(first.offset, is: committed?.offset ?? -1)
        #expect(first.text != committed?.text)

        // The owner's last commit repeats the one it read: it settled nothing, and its sends stayed below the horizon.
        other.receive(partition, 0, "y")
        other.receive(partition, horizon - 1, "z")
        #expect(other.send() == ["y", "z"])
        other.giveBack("y")
        other.doubt("z")
        other.machine.revoke([partition])
        other.wait(ms: 1_000)
        let last = try #require(Self.commit(other))
        let map = last.text.withUnsafeBytes { CommitMap(metadata: $0, base: last.offset) }
        #expect(map == CommitMap(horizon: horizon))
        let back = Self.assign(rig, last)
        expect(rig.machine.takeEvents().contains(.resumed(back)), is: false)
    }

    /// Another program's metadata is the same before and after the other owner's assignment.
    @Test func `A suspended partition does not resume from a commit that no worker wrote`() {
        let rig = Rig()
        func assign() -> PartitionID { rig.assign(committed: 0, text: Array("another program".utf8), logEnd: 1) }
        rig.machine.suspend([assign()])
        let again = assign()
        expect(rig.machine.takeEvents().contains(.resumed(again)), is: false)
    }
}
