import PushRecords
import Testing

@testable import Delivery

struct LatencyCountsTests {
    @Test(
        arguments: [
            (-5, 0), (0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1_023, 10), (1_024, 11), (4_194_303, 22), (4_194_304, 23),
            (Int64.max / 2, 23),
        ] as [(Int64, Int)])
    func `Latencies are counted by the bit width of their milliseconds`(_ ms: Int64, _ bucket: Int) {
        var counts = LatencyCounts()
        counts.count(ms)
        for each in 0..<LatencyCounts.bucketCount { #expect(counts[each] == (each == bucket ? 1 : 0)) }
        #expect(counts.sumMs == max(0, ms))
        #expect(counts.count == 1)
    }
}

struct StatusTests {
    @Test func `A partition's status has its open notifications, their age and the committed offset`() {
        let rig = Rig()
        let partition = rig.assign(committed: 5)
        let fresh = rig.machine.status(of: partition)
        expect(fresh?.watermark, is: 5)
        expect(fresh?.committed, is: nil)
        rig.commit()
        let receivedMs = rig.now.wallMs
        for offset in 5..<9 { rig.receive(partition, Int64(offset), "d\(offset)", timestampMs: receivedMs - 70) }
        rig.send()
        rig.wait(ms: 40)
        rig.finish("d6")
        rig.commit()
        expect(
            rig.machine.status(of: partition),
            is: PartitionStatus(
                topic: "requests", partition: 0, watermark: 5, committed: 5, highestReceived: 8, span: 4,
                openRecords: 3, openNotifications: 3, oldestOpenMs: receivedMs - 70, isDraining: false))
        rig.machine.revoke([partition])
        expect(rig.machine.status(of: partition)?.isDraining, is: true)
        rig.machine.release([partition])
        expect(rig.machine.status(of: partition), is: nil)
    }

    @Test func `An app's status has its waiting notifications, those handed out and the current limit`() {
        let (rig, partition) = Rig.ready(
            apps: [Rig.app, ReloadTests.changed(Rig.news) { $0.guardPolicy = .warn }], capacity: 30)
        for offset in 0..<32 {
            rig.receive(partition, Int64(offset), "d\(offset)", headers: Rig.toShop)
        }
        rig.send()
        rig.answer("d0")
        let shop = AppStatus(
            isPaused: false, open: 32, ready: 2, handed: 29,
            concurrency: 30, isGuardTripped: false, isCredentialRefused: false, isCutOff: false)
        let news = AppStatus(
            isPaused: false, open: 0, ready: 0, handed: 0,
            concurrency: 20, isGuardTripped: false, isCredentialRefused: false, isCutOff: false)
        expect(rig.machine.appStatuses, is: [shop, news])
        _ = rig.machine.replaceApps([ReloadTests.changed(Rig.news) { $0.isPaused = true }], now: rig.now)
        expect(rig.machine.appStatuses.map(\.isPaused), is: [false, true])
    }

    @Test func `Counters include times, commits, inherited doubts, deferrals and retries`() {
        let (rig, partition) = Rig.inheriting(CommitMap(horizon: 1))
        let startMs = rig.now.wallMs
        for offset in 0..<3 { rig.receive(partition, Int64(offset), "d\(offset)", timestampMs: startMs - 10) }
        rig.send()
        rig.wait(ms: 6)
        rig.answer("d0")
        rig.answer("d1", 429, .tooManyRequests)
        rig.wait(ms: 100)
        rig.doubt("d2", died: false).send()
        rig.wait(ms: 1)
        rig.finish("d2")
        rig.commit()
        let app = rig.machine.counters.apps[0]
        expect([app.answerTimes[1], app.answerTimes[3], app.answerTimes.count], is: [1, 2, 3])
        expect(app.answerTimes.sumMs, is: 6 + 6 + 1)
        expect(app.inDoubt, is: 2)
        expect(app.retries, is: [1, 0, 0])
        expect(app.handed, is: 4)
        expect(rig.machine.counters.apps[0].settleTimes[7], is: 3)
        expect(rig.machine.counters.apps[0].settleTimes.sumMs, is: 3 * 117)
        expect(rig.machine.counters.offsetsCommitted, is: 3)
        expect(rig.machine.counters.commitsAcknowledged, is: 2)
        expect(rig.machine.counters.recordsReceived, is: 3)
        expect(rig.machine.counters.notificationsSettled, is: 3)
    }
}
