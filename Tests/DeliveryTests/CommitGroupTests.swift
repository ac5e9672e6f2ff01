import PushRecords
import Testing

@testable import Delivery

struct CommitGroupTests {
    static func both() -> (Rig, requests: PartitionID, retries: PartitionID) {
        let (rig, requests) = Rig.ready()
        let retries = rig.assignTier()
        rig.wait(ms: 50)
        return (rig, requests, retries)
    }

    @Test func `A slow commit reply to one group does not delay the other`() {
        let (rig, requests, retries) = Self.both()
        let headers = rig.retryHeaders()
        rig.offer(retries, 0, "a", headers: headers)
        rig.finish("a")
        #expect(rig.takeCommit(of: .retries).map(\.partition) == [retries])
        for offset in 0..<3 {
            rig.deliver(requests, Int64(offset), "b")
            #expect(rig.wait(ms: 50).takeCommit(of: .retries) == [])
            #expect(rig.takeCommit(of: .requests).map(\.offset) == [Int64(offset) + 1])
            rig.finishCommit([.acknowledged])
        }
        rig.finishCommit([.acknowledged], of: .retries)
        expect(rig.machine.status(of: retries)?.committed, is: 1)
    }

    @Test(arguments: [(1, 200), (199, 200), (200, 20)] as [(Int64, Int64)])
    func `Many settled notifications shorten the commit interval`(_ settled: Int64, _ intervalMs: Int64) {
        let (rig, partition) = Rig.ready {
            $0.commitIntervalNs = 200_000_000
            $0.horizonMargin = 10_000
        }
        rig.fill(partition, upTo: settled)
        _ = rig.answerAll()
        expect(rig.machine.nextDeadlineNs, is: rig.now.ns + intervalMs * 1_000_000)
        #expect(rig.wait(ms: intervalMs - 1).takeCommit() == [])
        #expect(rig.wait(ms: 1).takeCommit().map(\.offset) == [settled])
    }

    @Test(arguments: [(5, 15), (15, 15), (40, 40), (400, 400), (5_000, 1_000)] as [(Int64, Int64)])
    func `Slow commit replies widen the commit interval, up to a second`(_ replyMs: Int64, _ pauseMs: Int64) {
        let (rig, requests, _) = Self.both()
        rig.deliver(requests, 0, "b")
        #expect(rig.takeCommit(of: .requests).count == 1)
        rig.wait(ms: replyMs)
        rig.finishCommit([.acknowledged])
        rig.deliver(requests, 1, "c")
        expect(rig.machine.nextDeadlineNs, is: rig.now.ns + pauseMs * 1_000_000)
        #expect(rig.wait(ms: pauseMs - 1).takeCommit(of: .requests) == [])
        #expect(rig.wait(ms: 1).takeCommit(of: .requests).count == 1)
    }
}
