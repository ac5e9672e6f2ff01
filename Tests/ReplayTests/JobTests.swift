import PushRecords
import Testing

@testable import Kafka
@testable import Replay

/// The commits of a job, and the job that a later run reads from them.
@Suite struct JobTests {
    private func commit(_ entry: CommitEntry) -> CommittedOffset {
        CommittedOffset(partition: entry.partition, offset: entry.offset, metadata: entry.metadata, code: .none)
    }

    @Test func `A job is resumed from its commits`() throws {
        var progress = ReplayJob(order { $0.sinceMs = 17 }, [source: 3..<100, other: 0..<0])
        progress.partitions[source]?.move(to: 40)
        for (place, kind) in ReplayOutcome.allCases.enumerated() {
            progress.partitions[source]?.counts[kind] = Int64(place + 1)
        }
        let entries = progress.entries(since: nil)
        #expect(entries.count == 2)
        #expect(entries.allSatisfy { $0.metadata.count < 300 && $0.metadata.allSatisfy { (0x20...0x7E).contains($0) } })
        let again = try #require(try ReplayJob(order(), entries.map { commit($0) }))
        #expect(again == progress && again.sinceMs == 17 && again.untilMs == nil)
        #expect(again.entries(since: progress).isEmpty)
        progress.partitions[source]?.move(to: 41)
        #expect(progress.entries(since: again).map(\.offset) == [41] && progress != again)
    }

    @Test func `A group without commits has no job, and a partition without a commit is not part of a job`() throws {
        let none = CommittedOffset(partition: other, offset: nil, metadata: [], code: .none)
        #expect(try ReplayJob(order(), [none]) == nil)
        let entry = try #require(job().entries(since: nil).first)
        #expect(try ReplayJob(order(), [none, commit(entry)])?.partitions.keys.map(\.self) == [source])
    }

    @Test func `A run with other conditions than its job is refused`() throws {
        let entry = try #require(job().entries(since: nil).first)
        var changed = order()
        changed.fingerprint = "fedcba9876543210"
        let error = #expect(throws: CommandFailure.self) { try ReplayJob(changed, [commit(entry)]) }
        #expect(error?.description.contains("other conditions: choose another --name") == true)
    }

    @Test(arguments: [
        "", "replay4", "replay3 f -1 -1 9 0 0 0 0 0 0 0", "replay4 f -1 -1 4 0 0 0 0 0 0 0",
        "replay4 f x -1 9 0 0 0 0 0 0 0", "replay4 f -1 -1 9", "{}",
    ])
    func `A commit that is not from a replay is refused`(metadata: String) {
        let found = CommittedOffset(partition: source, offset: 5, metadata: Array(metadata.utf8), code: .none)
        let error = #expect(throws: CommandFailure.self) { try ReplayJob(order(), [found]) }
        #expect(error?.description.contains("that is not from a replay") == true)
    }

    @Test func `Counted items move a job up to the log ends at its start`() throws {
        var gatherer = Gatherer(order())
        var progress = job([source: 4, other: 10])
        for (offset, partition) in [(0, source), (5, other), (3, source)] as [(Int64, TopicPartition)] {
            let found = gatherer.take(offset, result(offset), of: partition)
            let item = try #require(found)
            progress.count(item, .matched)
            progress.count(item, .produced)
        }
        #expect(progress.partitions.mapValues(\.position) == [source: 4, other: 6] && !progress.isDone)
        #expect(progress.partitions[source]?.counts == [.matched: 2, .produced: 2] && progress.counts[.produced] == 3)
        progress.partitions[other]?.move(to: .max)
        progress.partitions[other]?.move(to: 3)
        #expect(progress.isDone && progress.partitions[other]?.position == 10)
    }
}
