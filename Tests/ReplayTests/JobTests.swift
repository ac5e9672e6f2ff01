import Kafka
import PushRecords
import Testing

@testable import Replay

/// What a job's commits say, and what a run that goes on with the job reads of them.
@Suite struct JobTests {
    private func commit(_ entry: CommitEntry) -> CommittedOffset {
        CommittedOffset(partition: entry.partition, offset: entry.offset, metadata: entry.metadata)
    }

    @Test func `A job goes on as its commits say`() throws {
        var progress = ReplayJob(order { $0.sinceMs = 17 }, beganMs: 9_000, [source: 3..<100, other: 0..<0])
        progress.move(source, to: 40)
        for kind in ReplayCounts.Kind.allCases { progress.partitions[source]?.counts[kind] = Int64(kind.rawValue + 1) }
        let entries = progress.entries(since: nil)
        #expect(entries.count == 2)
        #expect(entries.allSatisfy { $0.metadata.count < 300 && $0.metadata.allSatisfy { (0x20...0x7E).contains($0) } })
        let again = try #require(try ReplayJob(order(), entries.map { commit($0) }))
        #expect(again == progress && again.sinceMs == 17 && again.untilMs == nil)
        #expect(again.isCommitted(entries.map { commit($0) }))
        // Nothing differs from what was committed.
        #expect(again.entries(since: progress).isEmpty)
        progress.move(source, to: 41)
        #expect(progress.entries(since: again).map(\.offset) == [41])
        #expect(!progress.isCommitted(entries.map { commit($0) }))
        // Another run may have come as far with other counts.
        var different = again
        different.partitions[source]?.counts[.produced] += 1
        #expect(!different.isCommitted(entries.map { commit($0) }))
    }

    @Test func `A group without commits has no job, and a partition that was added is not part of one`() throws {
        let none = CommittedOffset(partition: other, offset: nil, metadata: [])
        #expect(try ReplayJob(order(), [none]) == nil)
        let entry = try #require(job().entries(since: nil).first)
        #expect(try ReplayJob(order(), [none, commit(entry)])?.partitions.keys.map(\.self) == [source])
    }

    @Test func `Other conditions are another job`() throws {
        let entry = try #require(job().entries(since: nil).first)
        var changed = order()
        changed.fingerprint = "fedcba9876543210"
        let error = #expect(throws: CommandFailure.self) { try ReplayJob(changed, [commit(entry)]) }
        #expect(error?.description.contains("other conditions: give another --name") == true)
    }

    @Test(arguments: [
        "", "replay2", "replay1 f 1 -1 -1 0 9 0 0 0 0 0 0 0 0", "replay2 f 1 -1 -1 0 4 0 0 0 0 0 0 0 0",
        "replay2 f 1 -1 -1 6 9 0 0 0 0 0 0 0 0", "replay2 f x -1 -1 0 9 0 0 0 0 0 0 0 0", "replay2 f 1 -1 -1 0 9", "{}",
    ])
    func `A commit that no replay made is refused`(metadata: String) {
        let found = CommittedOffset(partition: source, offset: 5, metadata: Array(metadata.utf8))
        let error = #expect(throws: CommandFailure.self) { try ReplayJob(order(), [found]) }
        #expect(error?.description.contains("that no replay made") == true)
    }

    @Test func `A job is done at the ends that it began with`() {
        var progress = job([source: 10, other: 5])
        #expect(!progress.isDone && progress.part(at: [source: 6]) == 0.4)
        progress.move(source, to: .max)
        #expect(!progress.isDone && progress.partitions[source]?.position == 10)
        progress.move(other, to: 5)
        #expect(progress.isDone && progress.part(at: [:]) == 1)
        progress.move(other, to: 3)
        #expect(progress.isDone, "it never goes back")
    }

    @Test func `Items in two halves are committed in two halves`() {
        var gatherer = Gatherer(order())
        let items = [(0, source, 1), (5, other, 2), (3, source, 3), (9, other, 4)].compactMap {
            (offset: Int64, partition: TopicPartition, request: Int64) in
            gatherer.take(offset, result(request), of: partition)
        }
        func fetched(_ items: ArraySlice<ReplayItem>) -> FetchedItems {
            var fetched = FetchedItems()
            for item in items {
                fetched.count(item, .matched)
                fetched.count(item, .produced)
            }
            return fetched
        }
        let begun = job([source: 100, other: 100])
        let half = begun.after(items[..<2], fetched(items[..<2]))
        #expect(half.partitions[source]?.position == 1 && half.partitions[other]?.position == 6)
        #expect(half.partitions[other]?.counts[.matched] == 1)
        let whole = half.after(items[2...], fetched(items[2...]))
        #expect(whole.partitions[source]?.position == 4 && whole.partitions[other]?.position == 10)
        #expect(whole == begun.after(items[...], fetched(items[...])) && whole.counts[.produced] == 4)
    }

    @Test func `A rate is kept, and a pause is not made up for`() {
        var pace = Pace(perSecond: 1_000)
        #expect(pace.batchLimit == 250)
        var nowNs: Int64 = 5_000_000_000
        var times: [Int64] = []
        for _ in 0..<40 {
            nowNs += pace.waitNs(nowNs)
            times.append(nowNs)
            pace.spent(250, nowNs)
            // What each transaction takes.
            nowNs += 30_000_000
        }
        #expect(times[39] - times[0] >= 9_500_000_000 && times[39] - times[0] <= 9_800_000_000)
        for first in times.indices {
            let within = times[first...].prefix { $0 < times[first] + 1_000_000_000 }
            #expect(within.count * 250 <= 1_250, "in a second \(within.count * 250)")
        }
        nowNs += 60_000_000_000
        var burst = 0
        while pace.waitNs(nowNs) == 0 {
            pace.spent(250, nowNs)
            burst += 250
        }
        #expect(burst <= 500)
        #expect(Pace(perSecond: nil).batchLimit == 10_000 && Pace(perSecond: nil).waitNs(1) == 0)
        #expect(Pace(perSecond: 1).batchLimit == 1 && Pace(perSecond: 1_000_000).batchLimit == 10_000)
    }
}
