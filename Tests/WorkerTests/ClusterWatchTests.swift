import Configuration
import EventLoop
import Kafka
import Testing

@testable import Worker

/// What the watch reports of librdkafka's in-process brokers.
struct ClusterWatchTests {
    /// Of two brokers one is gone, and with it the leaders of partitions that it held alone.
    @Test(.timeLimit(.minutes(3))) func `Partitions without a leader are named until they have one`() throws {
        let mock = try MockCluster(brokers: 2)
        var configuration = WorkerConfiguration(
            kafka: KafkaSettings(bootstrapServers: mock.bootstrapServers), apps: [])
        configuration.requestTopics = [RequestTopic(name: "^requests[.].*")]
        let tier = try #require(configuration.retry.tiers.first).topic
        let named = [
            "requests.shop": "what is in them", tier: "and what is", configuration.results.topic: "to be written",
        ]
        for name in ["requests.shop", "requests.news"] { try mock.create(name, partitions: 8) }
        for output in configuration.outputTopics { try mock.create(output.name, partitions: 8) }
        func setLeaders(_ broker: Int?) throws {
            for name in named.keys {
                for number in [6, 3] as [Int32] {
                    try mock.setLeader(of: TopicPartition(name, number), broker: broker)
                }
            }
        }

        let loop = try Loop()
        var reports: [ClusterReport] = []
        let watch = try ClusterWatch(
            configuration, try configuration.cluster(),
            reports: Mailbox<ClusterReport>(loop: loop) { batch in
                // What comes after a round tells that round's once more.
                reports += batch.filter { $0.leftTiers == nil && $0.leftTiersFailure == nil }
            },
            batchEnds: Mailbox(loop: loop) { _ in }, logs: Mailbox(loop: loop) { _ in })
        defer { watch.stop() }
        func faults(_ report: ClusterReport) -> [Fault] {
            report.faults(bootstrapServers: "").filter { $0.kind == .leaderless }
        }
        /// How many rounds it takes until that is so; 5: it is not.
        func rounds(until isReached: ([Fault]) -> Bool) -> Int {
            for number in 1..<5 {
                let before = reports.count
                while reports.count == before { loop.runOnce(timeoutNs: 100_000_000) }
                if let report = reports.last, report.silence == nil, isReached(faults(report)) { return number }
            }
            return 5
        }

        #expect(rounds { $0.isEmpty } == 1)
        try setLeaders(nil)
        try mock.setReachable(false, broker: 2)
        let startNs = LoopTime.read().monotonicNs
        // Not by the first, which may have met an election; one that brokers did not answer in time counts for nothing.
        #expect((2...4).contains(rounds { !$0.isEmpty }))
        let tookMs = (LoopTime.read().monotonicNs - startNs) / 1_000_000
        #expect(tookMs < 30_000, "two rounds of 5 s, what they take, and a machine that has other things to do")
        let found = faults(try #require(reports.last))
        #expect(Set(found.map(\.subject)) == Set(named.keys.map { "topic \($0)" }))
        for fault in found {
            #expect(fault.text.contains("has 2 of 8 partitions without a leader (the first: 3)"))
            #expect(fault.text.contains(try #require(named[String(fault.subject.dropFirst(6))])))
        }
        try mock.setReachable(true, broker: 2)
        try setLeaders(2)
        // One that was under way may have seen none yet.
        #expect(rounds { $0.isEmpty } <= 2)
    }
}
