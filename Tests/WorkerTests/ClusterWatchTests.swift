import Configuration
import EventLoop
import Kafka
import TestSupport
import Testing

@testable import Worker

/// What the watch reports of librdkafka's in-process brokers.
@Suite(.waiting) struct ClusterWatchTests {
    /// Of two brokers one is gone, and with it the leaders of partitions that it held alone.
    @Test(.timeLimit(.minutes(5))) func `Partitions without a leader are named until they have one`() throws {
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
            })
        defer { watch.stop() }
        func faults(_ report: ClusterReport) -> [Fault] {
            report.faults(bootstrapServers: "").filter { $0.kind == .leaderless }
        }
        /// How many rounds that were answered it takes until that is so; 5: it is not.
        func rounds(until isReached: ([Fault]) -> Bool) -> Int {
            var answered = 0
            for _ in 0..<12 where answered < 4 {
                let before = reports.count
                while reports.count == before { loop.runOnce(timeoutNs: 100_000_000) }
                guard let report = reports.last, report.silence == nil else { continue }
                answered += 1
                if isReached(faults(report)) { return answered }
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
        #expect(tookMs < 60_000, "two rounds of 5 s, what they take, and a machine that has other things to do")
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

    /// Replicas that have another configuration write to a tier that this one does not name: it is found once the
    /// group's members change, long before the next look that comes by itself.
    @Test(.timeLimit(.minutes(5))) func `A tier that others left is found when it is to be looked for`() throws {
        let mock = try MockCluster()
        var configuration = WorkerConfiguration(
            kafka: KafkaSettings(bootstrapServers: mock.bootstrapServers), apps: [])
        configuration.requestTopics = [RequestTopic(name: "requests")]
        try mock.create("requests", partitions: 1)
        for output in configuration.outputTopics { try mock.create(output.name, partitions: 1) }
        let cluster = try configuration.cluster()

        let loop = try Loop()
        var found: [[LeftTiers.Tier]] = []
        let watch = try ClusterWatch(
            configuration, cluster,
            reports: Mailbox<ClusterReport>(loop: loop) { batch in found += batch.compactMap(\.leftTiers) })
        defer { watch.stop() }
        let startNs = LoopTime.read().monotonicNs
        func run(seconds: Int64, until condition: () -> Bool) {
            let endNs = LoopTime.read().monotonicNs + seconds * 1_000_000_000
            while !condition(), LoopTime.read().monotonicNs < endNs { loop.runOnce(timeoutNs: 50_000_000) }
        }
        run(seconds: 40) { !found.isEmpty }
        #expect(found.first?.isEmpty == true)

        try mock.create("left", partitions: 1)
        let producer = try Producer(ProducerSettings(cluster: cluster))
        let topic = try producer.topic("left")
        #expect(
            producer.produce(
                to: topic, key: UnsafeRawBufferPointer(start: nil, count: 0),
                value: UnsafeRawBufferPointer(start: nil, count: 0), headers: [], tag: 1) == .none)
        #expect(producer.flush(timeoutMs: 20_000, report: { _ in }, event: { _ in }) == 0)
        let member = try Consumer(configuration.consumer(.retries, of: cluster))
        try member.commit([CommitEntry(TopicPartition("left", 0), offset: 0)], tag: 1)
        var isCommitted = false
        run(seconds: 20) {
            member.serve { event in
                if case .committed(let reply) = event { isCommitted = reply.code == .none }
            }
            return isCommitted
        }
        #expect(isCommitted)
        watch.lookForLeftTiers()
        run(seconds: 40) { found.last?.isEmpty == false }
        #expect(found.last?.map(\.topic) == ["left"] && found.last?.map(\.records) == [1])
        #expect(LoopTime.read().monotonicNs - startNs < 55_000_000_000, "it would be found by itself after a minute")
    }
}
