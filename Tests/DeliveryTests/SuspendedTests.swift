import PushRecords
import Testing

@testable import Delivery

@Suite("Machine: lost partitions that come back")
struct SuspendedTests {
    /// What the group has of a partition.
    struct Committed {
        var offset: Int64
        var text: [UInt8]
    }

    /// Commits what there is, and keeps it as the group does.
    @discardableResult
    static func commit(_ rig: Rig, _ outcome: CommitOutcome = .acknowledged) -> Committed? {
        let entries = rig.machine.takeCommit(of: .requests, now: rig.now)
        guard let first = entries.first else { return nil }
        let committed = Committed(offset: first.offset, text: first.metadata)
        rig.finishCommit(entries.map { _ in outcome })
        return committed
    }

    static func assign(_ rig: Rig, _ committed: Committed?, logEnd: Int64? = nil) -> PartitionID {
        (committed?.text ?? []).withUnsafeBytes {
            rig.machine.assign(
                topic: "requests", partition: 0, role: .requests(weight: 1),
                committedOffset: committed?.offset ?? 0, metadata: $0, logEnd: logEnd)
        }
    }

    /// `a` settled and not committed, `b` in flight, `c` and a second `b` wait; then the session is lost.
    static func lost() -> (Rig, PartitionID, Committed?) {
        let rig = Rig(capacity: 2)
        let partition = assign(rig, nil)
        let committed = commit(rig)
        for (offset, device) in ["a", "b", "c", "b"].enumerated() { rig.receive(partition, Int64(offset), device) }
        #expect(rig.send() == ["a", "b"])
        rig.answer("a")
        rig.settle()
        rig.machine.suspend([partition])
        return (rig, partition, committed)
    }

    static func receipts(_ rig: Rig, _ partition: PartitionID) -> [String] {
        ["a", "b", "c", "b"].enumerated().map { "\(rig.receive(partition, Int64($0.offset), $0.element))" }
    }

    @Test("A dead token that cannot be written down when its session is lost goes to a tier")
    func unwritable() {
        let (rig, _, _) = Self.lost()
        rig.machine.setWritable(.unregistered, false, now: rig.now)
        rig.wait(ms: 60_000)
        rig.answer("b", 410, .unregistered, atMs: 1)
        #expect(rig.settle().map(\.kind) == [.retry(tier: 0)])
        #expect(rig.isEmpty)
    }

    @Test("Another record where one was dropped leaves nothing open for ever")
    func another() {
        let (rig, _, committed) = Self.lost()
        let back = Self.assign(rig, committed, logEnd: 4)
        rig.receive(back, 2, "c")
        rig.receive(back, 3, envelope: ["d", "e"])
        rig.commit()
        _ = rig.send()
        rig.answer("b")
        rig.answer("c")
        rig.settle()
        rig.wait(ms: 50)
        #expect(rig.commit().map(\.offset) == [4])
        #expect(rig.isEmpty)
    }

    @Test("Nothing that settled or is in flight is sent again; the rest is, in doubt below the reach")
    func resumed() {
        let (rig, lost, committed) = Self.lost()
        expect(rig.machine.status(of: lost)?.isSuspended, is: true)
        #expect(rig.send() == [])
        guard case .unassigned = rig.receive(lost, 4, "x") else {
            Issue.record("it takes no records")
            return
        }
        let back = Self.assign(rig, committed, logEnd: 4)
        #expect(back != lost)
        #expect(rig.machine.takeEvents().contains(.resumed(back)))
        expect(rig.machine.status(of: lost), is: nil)
        #expect(Self.receipts(rig, back) == ["known", "known", "taken", "taken"])
        rig.commit()
        #expect(rig.send() == ["c"])
        rig.answer("b")
        #expect(rig.send() == ["b"])
        rig.answer("b")
        rig.answer("c")
        #expect(
            Set(rig.settle().map(\.description)) == [
                "b accepted  sends 1 doubt 0", "b accepted  sends 2 doubt 1", "c accepted  sends 2 doubt 1",
            ])
        rig.wait(ms: 50)
        #expect(rig.commit().map(\.offset) == [4])
        #expect(rig.isEmpty)
    }

    @Test("It settles what is in flight while it is away")
    func settlesMeanwhile() {
        let (rig, _, committed) = Self.lost()
        rig.answer("b")
        #expect(rig.settle().count == 1)
        let back = Self.assign(rig, committed)
        #expect(Self.receipts(rig, back) == ["known", "known", "taken", "taken"])
    }

    @Test("What comes back unprocessed while it is away is taken again")
    func unprocessedMeanwhile() {
        let (rig, _, committed) = Self.lost()
        var recalled = 0
        rig.machine.recalls { recalled += $1.count }
        #expect(recalled == 1)
        rig.giveBack("b")
        let back = Self.assign(rig, committed)
        #expect(Self.receipts(rig, back) == ["known", "taken", "taken", "taken"])
    }

    @Test("A record that was read again once is known from then on")
    func readTwice() {
        let (rig, _, committed) = Self.lost()
        let back = Self.assign(rig, committed)
        _ = Self.receipts(rig, back)
        #expect("\(rig.receive(back, 2, "c"))" == "below(highest: 3)")
        #expect("\(rig.receive(back, 4, "d"))" == "taken")
    }

    @Test("Somebody else committed meanwhile: it is released, and everything is read anew")
    func ownedMeanwhile() {
        let (rig, lost, committed) = Self.lost()
        var other = committed
        other?.text = CommitMapTests.text(base: 0, CommitMap(reach: 501)).text
        let back = Self.assign(rig, other)
        #expect(rig.machine.takeEvents().contains(.suspendedReleased(lost)))
        #expect(Self.receipts(rig, back) == ["taken", "taken", "taken", "taken"])
        rig.answer("b")
        expect(rig.machine.counters.late, is: 1)
    }

    /// What becomes of the four when they are read anew.
    private static func doubts(_ rig: Rig, _ partition: PartitionID) -> [String: Int] {
        rig.answer("b")
        #expect(receipts(rig, partition) == ["taken", "taken", "taken", "taken"])
        var found: [String: Int] = [:]
        for _ in 0..<4 {
            rig.wait(ms: 50)
            rig.commit()
            for device in rig.send() { rig.answer(device) }
            for written in rig.settle() { found[written.request] = written.inDoubt }
        }
        #expect(rig.isEmpty)
        return found
    }

    @Test(
        "The group has nothing of its commits any more: what may have been sent is marked",
        arguments: [nil, 2, 9] as [Int64?])
    func committedNothing(_ logEnd: Int64?) {
        let (rig, lost, _) = Self.lost()
        let empty = UnsafeRawBufferPointer(start: nil, count: 0)
        let back = rig.machine.assign(
            topic: "requests", partition: 0, role: .requests(weight: 1), committedOffset: nil, metadata: empty,
            logEnd: logEnd)
        #expect(rig.machine.takeEvents().contains(.suspendedReleased(lost)))
        let isAbove = logEnd == 2 ? 0 : 1
        #expect(
            Self.doubts(rig, back) == [
                "requests/0/0/0": 1, "requests/0/1/0": 1, "requests/0/2/0": isAbove, "requests/0/3/0": isAbove,
            ])
    }

    @Test("Its offset was set by no worker: what may have been sent is marked")
    func committedByHand() {
        let (rig, _, _) = Self.lost()
        let back = Self.assign(rig, Committed(offset: 0, text: []))
        #expect(Self.doubts(rig, back).values.allSatisfy { $0 == 1 })
    }

    /// As an offsets log that was cut by an unclean election of its leader gives it back.
    @Test("An older commit of its own: what was sent since is marked, since nobody else knows")
    func committedBefore() {
        let rig = Rig(capacity: 2)
        let partition = Self.assign(rig, nil)
        Self.commit(rig)
        for (offset, device) in ["a", "b", "c", "b"].enumerated() { rig.receive(partition, Int64(offset), device) }
        #expect(rig.send() == ["a", "b"])
        rig.answer("a")
        rig.settle()
        rig.wait(ms: 50)
        #expect(Self.commit(rig)?.offset == 1)
        rig.machine.suspend([partition])
        // The group has what was committed first, as its owner wrote it, but for a reach that was lower then.
        var older = CommitMapWriter()
        older.start(base: 0, limit: 1_000)
        older.finish(reach: nil, owner: rig.machine.ledger.owner(of: partition))
        let back = Self.assign(rig, Committed(offset: 0, text: older.text))
        #expect(rig.machine.takeEvents().contains(.suspendedReleased(partition)))
        let doubts = Self.doubts(rig, back)
        #expect(doubts["requests/0/0/0"] == 1 && doubts["requests/0/1/0"] == 1)
    }

    @Test("Another worker's commit says itself what may have been sent")
    func committedByAnother() {
        let (rig, _, _) = Self.lost()
        let back = Self.assign(
            rig, Committed(offset: 0, text: CommitMapTests.text(base: 0, CommitMap(reach: 2)).text))
        #expect(
            Self.doubts(rig, back) == [
                "requests/0/0/0": 1, "requests/0/1/0": 1, "requests/0/2/0": 0, "requests/0/3/0": 0,
            ])
    }

    @Test("Nothing was committed before it was lost, so nothing was sent: nothing is marked")
    func neverCommitted() {
        let rig = Rig()
        let empty = UnsafeRawBufferPointer(start: nil, count: 0)
        func assign() -> PartitionID {
            rig.machine.assign(
                topic: "requests", partition: 0, role: .requests(weight: 1), committedOffset: nil, metadata: empty)
        }
        let partition = assign()
        rig.receive(partition, 0, "a")
        #expect(rig.send() == [])
        rig.machine.suspend([partition])
        rig.receive(assign(), 0, "a")
        rig.wait(ms: 50)
        rig.commit()
        #expect(rig.send() == ["a"])
        rig.answer("a")
        #expect(rig.settle().map(\.inDoubt) == [0])
    }

    @Test("The commit in flight when it was lost may have been taken", arguments: [true, false])
    func commitInFlight(_ isAnswered: Bool) {
        let rig = Rig(capacity: 2)
        let partition = Self.assign(rig, nil)
        Self.commit(rig)
        rig.receive(partition, 0, "a")
        rig.receive(partition, 1, "b")
        rig.send()
        rig.answer("a")
        rig.settle()
        rig.wait(ms: 50)
        let inFlight = rig.machine.takeCommit(of: .requests, now: rig.now)
        let committed = Committed(offset: inFlight[0].offset, text: inFlight[0].metadata)
        rig.machine.suspend([partition])
        if isAnswered { rig.finishCommit([.refused]) }
        let back = Self.assign(rig, committed)
        #expect(rig.machine.takeEvents().contains(.resumed(back)))
        #expect("\(rig.receive(back, 1, "b"))" == "known")
        if !isAnswered { rig.finishCommit([.acknowledged]) }
        rig.receive(back, 2, "c")
        #expect(rig.send() == [], "its reach is to be named first")
    }

    @Test("A fan-out: only the indexes that are neither settled nor in flight are taken again")
    func fanOut() {
        let rig = Rig(capacity: 3)
        let partition = Self.assign(rig, nil)
        let committed = Self.commit(rig)
        let devices = (0..<6).map { "t\($0)" }
        rig.receive(partition, 0, envelope: devices)
        #expect(rig.send() == ["t0", "t1", "t2"])
        rig.answer("t0")
        rig.settle()
        rig.answer("t1")
        rig.machine.suspend([partition])
        let back = Self.assign(rig, committed)
        #expect("\(rig.receive(back, 0, envelope: devices))" == "taken")
        rig.commit()
        #expect(rig.send() == ["t3", "t4"])
        rig.answer("t2")
        #expect(rig.send() == ["t5"])
        for device in ["t3", "t4", "t5"] { rig.answer(device) }
        #expect(rig.settle().map(\.inDoubt) == [0, 0, 1, 1, 1])
        rig.wait(ms: 50)
        #expect(rig.commit().map(\.offset) == [1])
        #expect(rig.isEmpty)
    }

    @Test("A fan-out whose rest was not admitted yet")
    func restOfFanOut() {
        var settings = MachineSettings()
        settings.maxOpen = 4
        let rig = Rig(settings)
        let partition = Self.assign(rig, nil)
        let committed = Self.commit(rig)
        let devices = (0..<10).map { "t\($0)" }
        rig.receive(partition, 0, envelope: devices)
        #expect(rig.send().count == 4)
        rig.answer("t1")
        rig.settle()
        rig.machine.suspend([partition])
        let back = Self.assign(rig, committed)
        #expect("\(rig.receive(back, 0, envelope: devices))" == "taken")
        rig.commit()
        var sent: [String] = []
        for _ in 0..<20 {
            let now = rig.send()
            sent += now
            for device in rig.sent.map(Rig.device) { rig.answer(device) }
            rig.settle()
        }
        #expect(sent == ["t4", "t5", "t6", "t7", "t8", "t9"])
        #expect(rig.isEmpty)
        rig.wait(ms: 50)
        #expect(rig.commit().map(\.offset) == [1])
    }

    @Test("What was dropped and does not come again, because retention took it, holds nothing back")
    func overtaken() {
        let (rig, _, committed) = Self.lost()
        rig.answer("b")
        rig.settle()
        let back = Self.assign(rig, committed)
        // Offsets 2 and 3 are gone.
        #expect("\(rig.receive(back, 4, "d"))" == "taken")
        rig.commit()
        #expect(rig.send() == ["d"])
        rig.answer("d")
        rig.settle()
        rig.wait(ms: 50)
        #expect(rig.commit().map(\.offset) == [5])
        #expect(rig.isEmpty)
    }

    @Test("A record below the offset that was committed is of another log: it is not taken for a known one")
    func lowerOffset() {
        let rig = Rig()
        let partition = Self.assign(rig, Committed(offset: 10, text: []))
        let committed = Self.commit(rig)
        for offset in 10..<14 as Range<Int64> { rig.receive(partition, offset, "d\(offset)") }
        rig.machine.suspend([partition])
        let back = Self.assign(rig, committed)
        #expect(rig.machine.takeEvents().contains(.resumed(back)))
        #expect("\(rig.receive(back, 3, "x"))" == "below(highest: 9)")
        #expect("\(rig.receive(back, 10, "d10"))" == "taken")
    }

    @Test("A log that ends below what was received was cut: its records are not taken for known ones")
    func cutMeanwhile() {
        let (rig, lost, committed) = Self.lost()
        let back = Self.assign(rig, committed, logEnd: 3)
        #expect(rig.machine.takeEvents().contains(.suspendedReleased(lost)))
        #expect(Self.receipts(rig, back) == ["taken", "taken", "taken", "taken"])

        let (whole, _, same) = Self.lost()
        let resumed = Self.assign(whole, same, logEnd: 4)
        #expect(whole.machine.takeEvents().contains(.resumed(resumed)))
    }

    @Test("A log that was cut and grew: no record there is the one that our own commit names settled")
    func grownPastTheCut() throws {
        let (rig, lost, committed) = try Self.lostNaming(2)
        // It was cut at 1, say, and has two new records, the second at the offset that the map names.
        let back = Self.assign(rig, committed, logEnd: 3)
        #expect(rig.machine.takeEvents().contains(.suspendedReleased(lost)))
        for (offset, device) in ["a", "x", "y", "z"].enumerated() {
            #expect("\(rig.receive(back, Int64(offset), device))" == "taken")
        }
        #expect(rig.commit().allSatisfy { $0.offset == 0 && $0.map.end == 0 })
        for device in ["a", "b", "d"] { rig.answer(device) }
        #expect(Set(rig.send()) == ["a", "x", "y", "z"])
        for device in ["a", "x", "y", "z"] { rig.answer(device) }
        #expect(rig.settle().map(\.inDoubt) == [1, 1, 1, 0])

        let (whole, _, same) = try Self.lostNaming(2)
        let resumed = Self.assign(whole, same, logEnd: 4)
        #expect(whole.machine.takeEvents().contains(.resumed(resumed)))
    }

    /// Four in flight, of which one settled, as the last commit says; then the session is lost.
    private static func lostNaming(_ offset: Int) throws -> (Rig, PartitionID, Committed) {
        let devices = ["a", "b", "c", "d"]
        let rig = Rig()
        let partition = assign(rig, nil)
        commit(rig)
        for (offset, device) in devices.enumerated() { rig.receive(partition, Int64(offset), device) }
        #expect(rig.send() == devices)
        rig.answer(devices[offset])
        rig.settle()
        rig.wait(ms: 50)
        let committed = try #require(commit(rig))
        let map = committed.text.withUnsafeBytes { CommitMap(metadata: $0, base: committed.offset) }
        #expect(map?.settled == [Int64(offset)..<Int64(offset) + 1])
        rig.machine.suspend([partition])
        return (rig, partition, committed)
    }

    @Test("One that took its log for new and was lost before its first commit does not go on from the commit before")
    func lostBeforeItBegan() {
        let rig = Rig()
        let committed = Committed(offset: 605, text: CommitMapTests.text(base: 605, CommitMap(reach: 610)).text)
        func assign(logEnd: Int64?) -> PartitionID {
            committed.text.withUnsafeBytes {
                rig.machine.assign(
                    topic: "requests", partition: 0, role: .requests(weight: 1), committedOffset: committed.offset,
                    metadata: $0, logStart: logEnd.map { _ in 0 }, logEnd: logEnd)
            }
        }
        let begun = assign(logEnd: 0)
        rig.machine.suspend([begun])
        // It is read from 605 on, since nobody tells where the log ends.
        let back = assign(logEnd: nil)
        #expect(rig.machine.takeEvents().last == .suspendedReleased(begun))
        #expect(rig.commit().map(\.offset) == [605], "nothing below it is committed before it is read")
        #expect("\(rig.receive(back, 0, "a"))" == "taken")
        #expect(rig.commit().map(\.offset) == [0])
        #expect(rig.send() == ["a"])
        rig.answer("a")
        #expect(rig.settle().map(\.inDoubt) == [1])
    }

    @Test("One whose offset was reset and that was lost before its next commit does not go on from the commit before")
    func lostAfterReset() {
        let rig = Rig()
        let committed = Committed(offset: 605, text: CommitMapTests.text(base: 605, CommitMap(reach: 610)).text)
        let partition = Self.assign(rig, committed)
        rig.receive(partition, 3, "a")
        rig.machine.suspend([partition])
        let back = Self.assign(rig, committed)
        #expect(rig.machine.takeEvents().last == .suspendedReleased(partition))
        #expect(rig.commit().map(\.offset) == [605])
        #expect("\(rig.receive(back, 3, "a"))" == "taken")
    }

    @Test("It is kept for ten minutes, or until it is released")
    func limits() {
        let (rig, lost, committed) = Self.lost()
        rig.answer("b")
        rig.settle()
        rig.wait(ms: 599_999)
        expect(rig.machine.status(of: lost)?.isSuspended, is: true)
        expect(rig.machine.nextDeadlineNs, is: rig.now.ns + 1_000_000)
        rig.wait(ms: 1)
        expect(rig.machine.status(of: lost), is: nil)
        #expect(rig.machine.takeEvents().contains(.suspendedReleased(lost)))
        #expect(rig.isEmpty)
        let back = Self.assign(rig, committed)
        #expect(Self.receipts(rig, back) == ["taken", "taken", "taken", "taken"])

        let (other, second, _) = Self.lost()
        other.machine.release([second])
        other.answer("b")
        #expect(other.isEmpty)
    }

    private static func another(_ hashSeed: UInt64) -> Rig {
        var settings = MachineSettings()
        settings.hashSeed = hashSeed
        return Rig(settings)
    }

    @Test("Another owner's commits differ from the one that it read: nobody takes them for his own")
    func commitsOfAnother() throws {
        let (rig, _, committed) = Self.lost()
        let reach = try #require(
            committed?.text.withUnsafeBytes { CommitMap(metadata: $0, base: committed?.offset ?? 0)?.reach })
        let other = Self.another(1)
        let partition = Self.assign(other, committed)
        let first = try #require(Self.commit(other))
        expect(first.offset, is: committed?.offset ?? -1)
        // A third one does not say again what the first one said.
        let third = Self.another(2)
        _ = Self.assign(third, first, logEnd: 4)
        let thirds = try #require(Self.commit(third))
        #expect(thirds.text != first.text && thirds.text != committed?.text)

        // What it gives up says just what it read: it settled nothing, and as much may have been sent.
        other.receive(partition, 0, "y")
        other.receive(partition, reach - 1, "z")
        #expect(other.send() == ["y", "z"])
        other.giveBack("y")
        other.doubt("z")
        other.machine.revoke([partition])
        other.wait(ms: 1_000)
        let last = try #require(Self.commit(other))
        let map = last.text.withUnsafeBytes { CommitMap(metadata: $0, base: last.offset) }
        #expect(map == CommitMap(reach: reach))
        let back = Self.assign(rig, last)
        expect(rig.machine.takeEvents().contains(.resumed(back)), is: false)
    }
}
