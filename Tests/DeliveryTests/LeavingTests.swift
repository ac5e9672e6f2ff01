@testable import Delivery
import PushRecords
import Testing

struct LeavingTests {
    /// Returns a rig with four records. `a` is handed out, and the others wait for the only stream.
    static func busy() -> (Rig, PartitionID) {
        let (rig, partition) = Rig.ready(capacity: 1)
        #expect(rig.offer(partition, 0, "a", "b", "a", "c") == ["a"])
        return (rig, partition)
    }

    // MARK: Commits

    @Test func `One commit is in flight at a time, with the changes since the last one`() {
        let rig = Rig()
        let first = rig.assignReady(0)
        let second = rig.assignReady(1)
        rig.wait(ms: 50).deliver(first, 0, "a")
        #expect(rig.takeCommit().map(\.partition) == [first])
        rig.deliver(second, 0, "b")
        rig.deliver(first, 1, "c")
        #expect(rig.wait(ms: 100).takeCommit() == [])
        rig.finishCommit([.acknowledged])
        #expect(rig.commit(afterMs: 100).map(\.partition) == [first, second])
        #expect(rig.commit(afterMs: 100) == [])
        expect(rig.machine.nextDeadlineNs, is: nil)
    }

    @Test func `A refused commit is replaced by the newest state after a pause`() {
        let (rig, _) = Self.busy()
        rig.finish("a")
        #expect(rig.wait(ms: 50).takeCommit().map(\.offset) == [1])
        rig.finishCommit([.refused])
        rig.send()
        rig.finish("b")
        #expect(rig.wait(ms: 50).takeCommit() == [])
        #expect(rig.commit(afterMs: 50).map(\.offset) == [2])
    }

    @Test
    func `If commit metadata is too large, only the longest map is halved at once, and it keeps its horizon`() {
        let rig = Rig()
        let settled = (0..<1_000).map { (number: Int64) in number * 2 + 1..<number * 2 + 2 }
        let long = rig.assign(0, map: CommitMap(horizon: 2_500, settled: settled))
        _ = rig.assign(1)
        let whole = rig.machine.takeCommit(of: .requests, now: rig.now).map(\.metadata.count)
        rig.finishCommit([.metadataTooLarge, .metadataTooLarge])
        let half = rig.machine.takeCommit(of: .requests, now: rig.now)
        #expect(half.count == 2 && half[0].metadata.count <= whole[0] / 2 && half[1].metadata.count == whole[1])
        #expect(half[0].metadata.withUnsafeBytes { CommitMap(metadata: $0, base: 0) }?.horizon == 2_500)
        rig.finishCommit(half.map { _ in .acknowledged })
        let events = rig.machine.takeEvents()
        #expect(
            events.filter { if case .metadataRefused = $0 { true } else { false } }
                == [.metadataRefused(long, characters: whole[0])])
        #expect(events.contains { if case .mapCut = $0 { true } else { false } })
        expect(rig.machine.counters.mapsCut, is: 1)
    }

    @Test
    func `After two deaths, records that the first owner may have sent stay below the horizon until they are settled`()
    {
        let rig = Rig()
        let partition = rig.assign(committed: 0, map: CommitMap(horizon: 5_000))
        #expect(rig.commit().map(\.map.horizon) == [5_000])
        #expect(rig.deliver(partition, 0, "a") == ["a accepted  sends 2 doubt 1"])
        #expect(rig.commit(afterMs: 50).map(\.map.horizon) == [5_000])
        #expect(rig.deliver(partition, 4_999, "b") == ["b accepted  sends 2 doubt 1"])
        let last = rig.commit(afterMs: 50)
        #expect(last.map(\.offset) == [5_000])
        #expect(last.allSatisfy { $0.map.horizon > 5_000 })
    }

    @Test func `Records beyond the end of the log at assignment are not in doubt, also for the next owner`() {
        let (rig, partition) = Rig.inheriting(CommitMap(horizon: 500), logEnd: 1)
        rig.receive(partition, ["a", "b"])
        #expect(rig.answerAll().map(\.description) == ["a accepted  sends 2 doubt 1", "b accepted  sends 1 doubt 0"])
        let other = rig.assign(1, committed: 7, map: CommitMap(horizon: 50_000), logEnd: 12)
        #expect(rig.commit(afterMs: 50).last?.map.horizon == 507)
        rig.machine.revoke([other])
        #expect(rig.commit().map(\.map.horizon) == [12])
    }

    /// kafka-consumer-groups commits offsets without metadata.
    @Test(arguments: ["", "another tool's"])
    func `After an offset that no worker committed, the records in the log are in doubt`(metadata: String) {
        let rig = Rig()
        let partition = rig.assign(committed: 7, text: Array(metadata.utf8), logStart: 0, logEnd: 300_000)
        #expect(rig.machine.takeEvents() == [.foreignCommit(partition, committed: 7, doubtedBelow: 300_000)])
        let first = rig.commit()
        #expect(first.map(\.offset) == [7] && first.map(\.map.horizon) == [300_000])
        rig.offer(partition, 7, "a")
        rig.offer(partition, 299_999, "b", "c")
        #expect(rig.finished("a") == ["a accepted  sends 2 doubt 1"])
        #expect(rig.finished("b") == ["b accepted  sends 2 doubt 1"])
        #expect(rig.commit(afterMs: 50).map(\.offset) == [300_000])
        rig.send()
        #expect(rig.finished("c") == ["c accepted  sends 1 doubt 0"])
        rig.machine.release([partition])
        let unknown = rig.assign(committed: 7, text: Array(metadata.utf8))
        let end = 7 + Partition.SendHorizon.maximum
        #expect(rig.machine.takeEvents() == [.foreignCommit(unknown, committed: 7, doubtedBelow: end)])
    }

    @Test func `Without a committed offset, the records in the log are in doubt, and are reported with the first one`()
    {
        let rig = Rig()
        let partition = rig.assign(committed: nil, logStart: 3, logEnd: 5)
        let first = rig.commit()
        #expect(first.map(\.offset) == [3] && first.map(\.map.horizon) == [503])
        #expect(rig.machine.takeEvents() == [])
        rig.receive(partition, 3, "a", timestampMs: rig.now.wallMs - 7_000)
        #expect(rig.machine.takeEvents() == [.startedWithoutOffset(partition, offset: 3, records: 2, ageMs: 7_000)])
        rig.send()
        rig.offer(partition, 4, "b", "c")
        #expect(rig.finished("a") == ["a accepted  sends 2 doubt 1"])
        #expect(rig.finished("b") == ["b accepted  sends 2 doubt 1"])
        #expect(rig.finished("c") == ["c accepted  sends 1 doubt 0"])
        #expect(rig.machine.takeEvents() == [])
    }

    @Test func `If the log is empty or read from its end, nothing is in doubt without a committed offset`() {
        let rig = Rig()
        let partition = rig.assign(committed: nil, logStart: 5, logEnd: 5)
        #expect(rig.commit() == [.init(partition: partition, offset: 5, map: CommitMap(horizon: 505))])
        rig.offer(partition, 5, "a")
        #expect(rig.finished("a") == ["a accepted  sends 1 doubt 0"])
        #expect(rig.machine.takeEvents() == [])
    }

    // MARK: The end of the log

    @Test func `With nothing open, the commit passes transaction markers and gaps after the last record`() {
        let (rig, partition) = Rig.ready()
        rig.machine.reachedEnd(partition, offset: 0)
        #expect(rig.commit(afterMs: 50) == [])
        rig.machine.reachedEnd(partition, offset: 3)
        #expect(rig.commit(afterMs: 50).map(\.offset) == [3])
        rig.machine.reachedEnd(partition, offset: 3)
        rig.machine.reachedEnd(partition, offset: 2)
        #expect(rig.commit(afterMs: 50) == [])
    }

    @Test func `The end of the log never moves the commit past an open record`() {
        let (rig, partition) = Rig.ready()
        rig.offer(partition, 0, "a", "b")
        rig.machine.reachedEnd(partition, offset: 9)
        #expect(rig.commit(afterMs: 50).allSatisfy { $0.offset == 0 })
        _ = rig.finished("b")
        #expect(rig.commit(afterMs: 50).allSatisfy { $0.offset == 0 })
        _ = rig.finished("a")
        #expect(rig.commit(afterMs: 50).map(\.offset) == [9])
        rig.offer(partition, 9, "c")
        rig.machine.reachedEnd(partition, offset: 11)
        #expect(rig.commit(afterMs: 50).allSatisfy { $0.offset == 9 })
        _ = rig.finished("c")
        #expect(rig.commit(afterMs: 50).map(\.offset) == [11])
    }

    @Test func `A partition that is being revoked does not commit the end of its log`() {
        let (rig, partition) = Rig.ready()
        rig.machine.revoke([partition])
        rig.machine.reachedEnd(partition, offset: 9)
        #expect(rig.commit(afterMs: 50).map(\.offset) == [0])
    }

    // MARK: Revoke

    @Test func `On revocation queued notifications are dropped, and those on a connection may settle`() {
        let (rig, partition) = Self.busy()
        rig.machine.revoke([partition])
        expect(rig.machine.isDrained(partition), is: false)
        #expect("\(rig.receive(partition, 4, "x"))" == "ignored")
        expect(rig.machine.room(for: partition), is: 0)
        #expect(rig.answer("a").send() == [])
        rig.settle()
        #expect(rig.takeCommit() == [.init(partition: partition, offset: 1, map: CommitMap())])
        expect(rig.machine.isDrained(partition), is: false)
        rig.finishCommit([.acknowledged])
        expect(rig.machine.isDrained(partition), is: true)
        rig.machine.release([partition])
        #expect(rig.isEmpty)
        expect(rig.machine.nextDeadlineNs, is: nil)
    }

    @Test func `On revocation requests are recalled, and those that return unprocessed are dropped`() {
        let (rig, partition) = Self.busy()
        let id = rig.sent[0].id
        rig.machine.revoke([partition])
        var recalled: [NotificationID] = []
        rig.machine.recalls { recalled += $1 }
        #expect(recalled == [id])
        #expect(rig.giveBack("a").send() == [])
        #expect(rig.commit() == [.init(partition: partition, offset: 0, map: CommitMap())])
        expect(rig.machine.isDrained(partition), is: true)
    }

    @Test func `A send in doubt during the drain stays below the horizon`() {
        let (rig, partition) = Rig.ready()
        rig.offer(partition, 0, "a", "b", "c")
        rig.machine.revoke([partition])
        rig.answer("a")
        rig.answer("c")
        #expect(rig.doubt("b").send() == [])
        rig.settle()
        #expect(rig.commit() == [.init(partition: partition, offset: 1, map: CommitMap(horizon: 2, settled: [2..<3]))])
        expect(rig.machine.isDrained(partition), is: true)
    }

    @Test func `At the drain limit the last commit's horizon covers open records`() {
        let (rig, partition) = Rig.ready()
        rig.offer(partition, 0, "a", "b", "c")
        rig.answer("b")
        rig.produce()
        rig.machine.revoke([partition])
        rig.giveBack("c")
        rig.commit(afterMs: 30_000)
        expect(rig.machine.isDrained(partition), is: false)
        rig.machine.stopWaiting([partition])
        #expect(rig.commit() == [.init(partition: partition, offset: 0, map: CommitMap(horizon: 2))])
        expect(rig.machine.isDrained(partition), is: true)
        rig.machine.release([partition])
        rig.answer("a")
        expect(rig.machine.counters.late, is: 1)
        #expect(rig.isEmpty)
    }

    @Test func `On revocation the rest of a fan-out is dropped, and the map names its settled indexes`() {
        let (rig, partition) = Rig.ready { $0.maxOpen = 4 }
        rig.receive(partition, 0, envelope: (0..<10).map { "t\($0)" })
        rig.receive(partition, 1, "x")
        #expect(rig.send().count == 4)
        rig.finish("t2")
        rig.machine.revoke([partition])
        rig.finish("t0", "t1", "t3")
        let map = CommitMap(partials: [.init(offset: 0, indexes: [0..<4])])
        #expect(rig.commit() == [.init(partition: partition, offset: 0, map: map)])
        rig.machine.release([partition])
        #expect(rig.isEmpty)
    }

    @Test func `Revoking one partition lets the device queues of others continue`() {
        let rig = Rig(capacity: 10)
        let leaving = rig.assignReady(0)
        let staying = rig.assignReady(1)
        rig.commit(afterMs: 50)
        rig.receive(staying, 0, "b")
        rig.receive(leaving, ["a", "a"])
        rig.receive(staying, 1, "a")
        rig.receive(leaving, 2, "a")
        rig.receive(staying, 2, "a")
        rig.receive(leaving, 3, "b")
        #expect(Set(rig.send()) == ["a", "b"])
        rig.machine.revoke([leaving])
        rig.answer("b")
        rig.answer("a")
        for offset in 1...2 {
            #expect(rig.send() == ["a"])
            #expect(rig.finish("a").last?.request == "requests/1/\(offset)/0")
        }
        #expect(rig.send() == [])
        rig.commit()
        rig.machine.release([leaving])
        #expect(rig.isEmpty)
    }

    @Test func `A revoked partition without a commit or a record is drained at once`() {
        let rig = Rig()
        let partition = rig.assign(committed: nil)
        rig.machine.revoke([partition])
        expect(rig.machine.isDrained(partition), is: true)
        #expect(rig.commit() == [])
    }

    // MARK: Lost

    @Test func `A lost partition is dropped, and its late completions and acknowledgements are ignored`() {
        let (rig, partition) = Rig.ready()
        rig.offer(partition, 0, "a", "b", "a", "c")
        rig.answer("b")
        let produced = rig.produce()
        rig.answer("c")
        rig.machine.release([partition])
        expect(rig.machine.nextProduction(for: .results), is: nil)
        rig.machine.acknowledged(produced[0].id, now: rig.now)

        // The device is still in flight. The partition's next owner, which may be this worker again, waits for the
        // answer.
        let again = rig.assignReady()
        #expect(again != partition)
        #expect(rig.offer(again, 0, "a", "b") == ["b"])
        #expect(rig.answer("a").send() == ["a"])
        expect(rig.machine.counters.late, is: 2)
        rig.finish("a", "b")
        #expect(rig.isEmpty)
        #expect(rig.commit(afterMs: 50) == [.init(partition: again, offset: 2, map: CommitMap(horizon: 502))])
    }

    @Test func `The reply to a commit of a lost partition is ignored`() {
        let (rig, partition) = Self.busy()
        rig.finish("a")
        #expect(rig.wait(ms: 50).takeCommit().count == 1)
        rig.machine.release([partition])
        let again = rig.assign()
        rig.finishCommit([.acknowledged])
        #expect(rig.offer(again, 0, "z") == [])  // No commit has named the new assignment's horizon.
    }
}
