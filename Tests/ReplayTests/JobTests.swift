import Kafka
import PushRecords
import Testing

@testable import Replay

/// What a job's commits say, and what whoever goes on with it reads of them.
@Suite struct JobTests {
    private func commit(_ entry: CommitEntry) -> CommittedOffset {
        CommittedOffset(partition: entry.partition, offset: entry.offset, metadata: entry.metadata)
    }

    @Test func aJobGoesOnAsItsCommitsSay() throws {
        var progress = JobProgress(facts(since: 17), [source: 3..<100, other: 0..<0])
        progress.moved(source, to: 40, within: 12)
        var counts = ReplayCounts()
        for (number, (_, count)) in ReplayCounts.letters.enumerated() { counts[keyPath: count] = Int64(number + 1) }
        progress.count(source, counts)
        let entries = progress.entries(since: nil)
        #expect(entries.count == 2)
        #expect(entries.allSatisfy { $0.metadata.count < 300 && $0.metadata.allSatisfy { (0x20...0x7E).contains($0) } })
        let again = try #require(try JobProgress(order(), entries.map { commit($0) }))
        #expect(again.partitions == progress.partitions && again.facts == progress.facts)
        #expect(again.isWhat(entries.map { commit($0) }) && again.counts == counts)
        // Nothing differs from what was committed.
        #expect(again.entries(since: progress).isEmpty)
        progress.moved(source, to: 41)
        #expect(progress.entries(since: again).map(\.offset) == [41])
        #expect(!progress.isWhat(entries.map { commit($0) }))
        // Not only the offset: what was written by another run may have come as far.
        progress.moved(source, to: 40, within: 13)
        #expect(!progress.isWhat(entries.map { commit($0) }))
    }

    @Test func aJobThatHasNotBegunIsNone() throws {
        let none = CommittedOffset(partition: source, offset: nil, metadata: [])
        #expect(try JobProgress(order(), [none]) == nil)
    }

    /// A partition that was added later has nothing that was there when the job began.
    @Test func aPartitionThatCameLaterIsNoneOfIts() throws {
        let entry = try #require(job().entries(since: nil).first)
        let found = try JobProgress(
            order(), [commit(entry), CommittedOffset(partition: other, offset: nil, metadata: [])])
        #expect(found?.partitions.keys.map(\.self) == [source])
    }

    @Test func otherConditionsAreAnotherJob() throws {
        let entry = try #require(job().entries(since: nil).first)
        var changed = order()
        changed.fingerprint = "fedcba9876543210"
        let error = #expect(throws: ReplayFailure.self) { try JobProgress(changed, [commit(entry)]) }
        #expect(error?.description.contains("other conditions: give another --name") == true)
    }

    @Test(arguments: [
        "", "replay1", "replay2 f=0 b=1 start=0 end=9", "replay1 f=0 b=1 start=0 end=4",
        "replay1 f=0 b=1 start=6 end=9",
        "replay1 f=0 b=x start=0 end=9", "replay1 f=0 b=1 start=0 end", "{}",
    ])
    func whatNoReplayCommittedIsRefused(metadata: String) {
        let found = CommittedOffset(partition: source, offset: 5, metadata: Array(metadata.utf8))
        let error = #expect(throws: ReplayFailure.self) { try JobProgress(order(), [found]) }
        #expect(error?.description.contains("none of a replay's") == true)
    }

    /// Whoever runs a job that is done hears the same.
    @Test func whatMatchedNothingIsKept() throws {
        let names = (0..<9).map { ReplaySelection.Place("apns.requests/3/\(100 * $0)")! }
        let selection = order { $0.places = Set(names) }.selection
        #expect(selection.orderedPlaces == names)
        var progress = job([source: 10, other: 0])
        #expect(progress.unmatched(names) == names)
        for (number, partition) in [(0, source), (3, source), (7, other)] { progress.found(number, in: partition) }
        let entries = progress.entries(since: nil)
        #expect(
            entries.map { String(decoding: $0.metadata, as: UTF8.self) }.sorted().last?.hasSuffix(" found=9") == true)
        let again = try #require(try JobProgress(order(), entries.map { commit($0) }))
        #expect(again.partitions == progress.partitions)
        #expect(again.unmatched(names) == [1, 2, 4, 5, 6, 8].map { names[$0] })
        // With all that one may name, a commit is still one that brokers take.
        for number in 0..<ReplaySelection.placeLimit { progress.found(number, in: source) }
        #expect(progress.entries(since: again).allSatisfy { $0.metadata.count < 4_000 })
    }

    @Test func itIsDoneAtTheEndsItBeganWith() {
        var progress = job([source: 10, other: 5])
        #expect(!progress.isDone && progress.passed == (0, 15))
        progress.moved(source, to: .max)
        #expect(!progress.isDone && progress.partitions[source]?.position == 10)
        progress.moved(other, to: 5)
        #expect(progress.isDone && progress.passed == (15, 15))
    }

    // MARK: Rates

    @Test func aRateIsKept() {
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
        // After a pause nothing is made up for but a quarter of a second.
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

    // MARK: Memory

    private final class Remembering {
        var memory = RequestMemory(limit: 3)

        func isNew(
            _ offset: Int64, _ index: Int32 = 0, partition: Int32 = 0, atMs: Int64 = 1_000, device name: String = device
        ) throws -> Bool {
            let text = result(offset, index: index, partition: partition, requestedAtMs: atMs, device: name)
            return memory.insert(try DeliveryResult(json: Array(text.utf8)))
        }
    }

    @Test func aRequestIsNewOnce() throws {
        let memory = Remembering()
        #expect(try memory.isNew(1) && !memory.isNew(1))
        #expect(try memory.isNew(1, 1) && memory.isNew(1, partition: 1))
        // The last three at least are known, whatever comes.
        for offset in 2..<100 as Range<Int64> {
            #expect(try memory.isNew(offset))
            for known in max(2, offset - 2)...offset { #expect(try !memory.isNew(known), "\(known) of \(offset)") }
        }
        #expect(try memory.isNew(1), "what is long ago is forgotten")
    }

    /// Another record was at that place before, or somebody says so.
    @Test func whatIsSaidOfAnotherRecordHidesNothing() throws {
        let memory = Remembering()
        #expect(try memory.isNew(1, atMs: 900) && memory.isNew(1) && !memory.isNew(1, atMs: 900))
        #expect(try memory.isNew(1, device: "00") && !memory.isNew(1))
    }

    // MARK: What others may have committed

    /// Whoever may commit for the group may commit any number.
    @Test(arguments: [
        "m=9223372036854775807", "within=-9223372036854775808", "within=9223372036854775807", "p=-1",
    ])
    func absurdNumbersOfCommitsAreNone(word: String) throws {
        let bytes = Array("replay1 f=0123456789abcdef b=9000 start=0 end=100 \(word)".utf8)
        let read = try #require(PartitionProgress.read(5, bytes)).progress
        #expect(read.within == nil && read.counts == ReplayCounts() && read.position == 5)
    }

    @Test func partsOfAbsurdLogsAreTold() throws {
        let ends: [TopicPartition: Range<Int64>] = [source: 0..<(1 << 62) - 1, other: 0..<(1 << 62) - 1]
        #expect(JobProgress(facts(), ends).passed.all > 9e18)
        #expect(PartitionProgress.read(5, Array("replay1 f=0 b=1 start=0 end=\(Int64.max)".utf8)) == nil)
    }
}
