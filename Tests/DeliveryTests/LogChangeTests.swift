import Testing

@testable import Delivery

struct LogChangeTests {
    @Test func `A partition is read from its committed offset, or from the log's start or end`() {
        func start(_ committed: Int64?, _ logStart: Int64?, _ logEnd: Int64?) -> AssignmentStart {
            AssignmentStart(committed: committed, logStart: logStart, logEnd: logEnd)
        }
        #expect(start(nil, 3, 9) == .nothingCommitted)
        #expect(start(5, 3, 9) == .at(5))
        #expect(start(9, 3, 9) == .at(9))
        #expect(start(10, 3, 9) == .logChanged)
        #expect(start(3, 3, 9) == .at(3))
        #expect(start(2, 3, 9) == .overtaken)
        #expect(start(10, nil, nil) == .at(10))
        #expect(start(10, -1_001, -1_001) == .at(10))
        #expect(start(-1, 3, 9) == .logChanged)
        #expect(start(OffsetLimit.highest, nil, nil) == .at(OffsetLimit.highest))
        #expect(start(.max, nil, nil) == .logChanged)
    }

    private static func settleAll(_ rig: Rig, _ partition: PartitionID, _ offsets: Range<Int64>, _ name: String)
        -> [Rig.Written]
    {
        for offset in offsets { rig.receive(partition, offset, "\(name)\(offset)") }
        var written: [Rig.Written] = []
        for _ in 0..<10 {
            rig.commit(afterMs: 50)
            written += rig.answerAll()
        }
        return written
    }

    @Test
    func `After a topic is recreated under a running worker, all its records are sent, in doubt below the old horizon`()
    {
        let (rig, old) = Rig.ready(capacity: 10_000)
        #expect(Self.settleAll(rig, old, 0..<600, "a").count == 600)
        let reached = rig.machine.ledger[old.slot].horizon.acknowledged
        #expect("\(rig.receive(old, 0, "b0"))" == "ignored")
        _ = rig.machine.takeEvents()
        let new = rig.machine.beginAnew(old, logEnd: 600, now: rig.now)
        #expect(new != old)
        #expect(rig.machine.takeEvents() == [.logChanged(new, committed: 600, start: nil, end: 600)])
        let written = Self.settleAll(rig, new, 0..<600, "b")
        #expect(written.count == 600 && reached >= 600)
        #expect(written.allSatisfy { $0.inDoubt == 1 })
        // These records were written after the topic was recreated, so no worker can have sent them.
        #expect(Self.settleAll(rig, new, 600..<610, "c").allSatisfy { $0.inDoubt == 0 })
        expect(rig.machine.status(of: old), is: nil)
        #expect(rig.machine.ledger.slots.map { rig.machine.ledger[$0].id } == [new])
    }

    @Test(arguments: [4, 9, 12, 13, nil] as [Int64?])
    func `A log that ends below the map's offsets was truncated, and all its records are sent in doubt`(
        _ logEnd: Int64?
    ) {
        let rig = Rig()
        let map = CommitMap(horizon: 6, settled: [3..<5, 8..<12], partials: [.init(offset: 12, indexes: [0..<2])])
        let partition = rig.assign(committed: 2, map: map, logStart: 0, logEnd: logEnd)
        let isCut = (logEnd ?? .max) < 13
        #expect(
            rig.machine.takeEvents()
                == (isCut ? [.logChanged(partition, committed: 2, start: 0, end: logEnd)] : []))
        let offsets: [Int64] = [2, 3, 8, 11, 12, 13]
        let receipts = offsets.map { "\(rig.receive(partition, $0, "d\($0)"))" }
        #expect(
            receipts
                == (isCut
                    ? Array(repeating: "taken", count: 6)
                    : ["taken", "ignored", "ignored", "ignored", "taken", "taken"]))
        let commits = rig.commit()
        #expect(commits.map(\.offset) == [2])
        // After a truncation, the commit names no record as settled.
        #expect(commits.allSatisfy { ($0.map.end == 0) == isCut })
        rig.sendAndAnswer()
        if let logEnd, isCut { #expect(rig.settle().map(\.inDoubt) == offsets.map { $0 < logEnd ? 1 : 0 }) }
    }

    @Test func `After a log change nothing more of the old log is sent, and requests in flight have no result`() {
        let (rig, old) = Rig.ready(capacity: 1)
        #expect(rig.offer(old, 0, "a", "b", "c") == ["a"])
        // The log was truncated. It still contains the first record.
        let new = rig.machine.beginAnew(old, logEnd: 1, now: rig.now)
        expect(rig.machine.status(of: old), is: nil)
        rig.receive(new, 0, "a")
        rig.commit()
        rig.answer("a")
        expect(rig.machine.counters.late, is: 1)
        #expect(rig.settle() == [])
        #expect(rig.send() == ["a"])
        #expect(rig.finished("a") == ["a accepted  sends 2 doubt 1"])
        #expect(rig.isEmpty)
    }

    @Test
    func `A record below the committed offset shows that the log changed, and committed offsets may have been sent`() {
        let rig = Rig()
        let old = rig.assign(committed: 3)
        #expect("\(rig.receive(old, 0, "d0"))" == "ignored")
        let new = rig.machine.beginAnew(old, from: 0, logEnd: 9, now: rig.now)
        rig.commit()
        for offset in Int64(0)..<5 { rig.receive(new, offset, "d\(offset)") }
        #expect(rig.answerAll().map(\.inDoubt) == [1, 1, 1, 0, 0])
    }

    @Test func `Offsets that the inherited commit names as settled count as sent, even before they are read`() {
        let rig = Rig()
        let old = rig.assign(committed: 3, map: CommitMap(settled: [600..<700]))
        let new = rig.machine.beginAnew(old, from: 0, logEnd: 1_000, now: rig.now)
        rig.commit()
        for offset in [599, 699, 700] as [Int64] { rig.receive(new, offset, "d\(offset)") }
        var doubts: [Int] = []
        for _ in 0..<2 {
            doubts += rig.answerAll().map(\.inDoubt)
            rig.commit(afterMs: 50)
        }
        #expect(doubts == [1, 1, 0])
    }

    @Test func `A log that is read from a known offset is committed at once, with its offsets in doubt`() throws {
        let (rig, old) = Rig.ready(capacity: 10_000)
        #expect(Self.settleAll(rig, old, 0..<300, "a").count == 300)
        let new = rig.machine.beginAnew(old, from: 100, logEnd: 350, now: rig.now)
        rig.machine.revoke([new])
        let last = rig.commit(afterMs: 1_000)
        #expect(last.map(\.partition) == [new] && last.map(\.offset) == [100])
        let horizon = try #require(last.first?.map.horizon)
        #expect(horizon >= 300 && horizon <= 350)
        let isDrained = rig.machine.isDrained(new)
        #expect(isDrained)
    }

    @Test func `The reply to a commit of the old log does not affect the new one`() {
        let (rig, old) = Rig.ready()
        rig.deliver(old, 0, "a")
        #expect(rig.wait(ms: 50).takeCommit().count == 1)
        let new = rig.machine.beginAnew(old, logEnd: nil, now: rig.now)
        rig.receive(new, 0, "b")
        rig.finishCommit([.acknowledged])
        #expect(rig.send() == [])
        rig.commit()
        #expect(rig.send() == ["b"])
    }

    @Test func `After a commit beyond the log's end everything is new, and in doubt up to the log's end`() {
        let rig = Rig()
        let map = CommitMap(horizon: 1_200, settled: [701..<720])
        let partition = rig.assign(committed: 700, map: map, logStart: 0, logEnd: 2)
        #expect(rig.machine.takeEvents() == [.logChanged(partition, committed: 700, start: 0, end: 2)])
        #expect(rig.commit().map(\.offset) == [0])
        for offset in Int64(0)..<4 { rig.receive(partition, offset, "d\(offset)") }
        #expect(rig.answerAll().map(\.inDoubt) == [1, 1, 0, 0])
    }

    @Test func `Offsets that retention deleted are reported, and the map stays valid`() {
        let rig = Rig()
        let partition = rig.assign(committed: 5, map: CommitMap(settled: [9..<11]), logStart: 8, logEnd: 12)
        #expect(rig.machine.takeEvents() == [.overtaken(partition, committed: 5, start: 8)])
        rig.commit()
        for offset in Int64(8)..<12 { rig.receive(partition, offset, "d\(offset)") }
        rig.commit()
        #expect(rig.send() == ["d8", "d11"])
    }
}
