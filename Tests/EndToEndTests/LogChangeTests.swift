import Foundation
import Kafka
import TestSupport
import Testing

extension EndToEnd.Logs {
    /// Topics that are deleted or recreated under a running worker, offsets that no log has, and transactions.
    @Suite(.serialized, .timeLimit(.minutes(5))) struct LogChangeTests {
        @Test(.needs(.worker, .broker, .kcat))
        func `A committed offset that no log has is read from the beginning`() throws {
            let scene = try Scene("offset", partitions: 2)
            _ = try scene.startSimulator()
            try scene.commit(partition: 0, offset: .max - 10, metadata: "AAAA")
            try scene.commit(partition: 1, offset: .max - 10, metadata: "")
            try scene.send(to: deviceTokens(40))
            let worker = try scene.startWorker()
            try scene.await(scene.configuration.results, holds: 40, of: worker)
            try scene.settle(worker)
            #expect(worker.text.contains("the partition's log is another one"))
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .kcat))
        func `A recreated topic is read from its beginning`() throws {
            let scene = try Scene("anew")
            _ = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.send(to: deviceTokens(800))
            try scene.await(scene.configuration.results, holds: 800, of: worker)
            try scene.delete(scene.configuration.requests)
            try scene.create(scene.configuration.requests)
            try scene.send(to: deviceTokens(600, "ff"))
            try scene.await(scene.configuration.results, holds: 1_400, of: worker)
            try scene.settle(worker)
            try scene.stop(worker)
        }

        /// Apple is slow while the topic is recreated. What is in flight then belongs to records that are gone.
        @Test(.needs(.worker, .broker, .python, .kcat))
        func `A topic that is recreated while requests are in flight is read from its beginning`() throws {
            let scene = try Scene("inflight", partitions: 1)
            let simulator = try scene.startSimulator("--latency", "20s")
            let worker = try scene.startAssignedWorker()
            try scene.send(to: deviceTokens(50))
            try simulator.awaitRequests(50)
            // The new log ends below what was read of the old one.
            try scene.change("remake", scene.configuration.requests, "1", "20", "ff", "0")
            // From the next request on; requests in flight keep their latency.
            try simulator.set("latency=0")
            func isRead() throws -> Bool {
                Set(try scene.records(of: scene.configuration.results, "%k")).filter { $0.hasPrefix("ff") }.count == 20
            }
            // librdkafka may lose the group then, which ends the worker: it is started again by what runs it.
            try eventually("results of the new topic's 20 device tokens", of: worker) {
                try worker.ended != nil || isRead()
            }
            if worker.ended != nil { #expect(worker.text.contains("the group cannot be read any more")) }
            let last = worker.ended == nil ? worker : try scene.startWorker()
            try eventually("results of the new topic's 20 device tokens", of: last) { try isRead() }
            try scene.settle(last)
            try scene.stop(last)
        }

        @Test(.needs(.worker, .broker, .kcat))
        func `A deleted topic holds up no other`() throws {
            let scene = try Scene("gone", partitions: 4)
            let other = "\(scene.name).other"
            try scene.create(other)
            scene.configuration.requestTopics = "\(scene.configuration.requests), \(other)"
            _ = try scene.startSimulator()
            let (worker, pages) = try scene.startWorkerWithPages()
            try scene.send(to: deviceTokens(40))
            try scene.send(to: deviceTokens(40, "11"), in: other)
            try scene.await(scene.configuration.results, holds: 80, of: worker)
            try scene.delete(other)
            // Before and after the worker has noticed.
            try scene.send(to: deviceTokens(4, "22"))
            try scene.await(scene.configuration.results, holds: 84, of: worker)
            try pages.await("/status", says: "create topic \(other)")
            try scene.send(to: deviceTokens(40, "33"))
            try scene.await(scene.configuration.results, holds: 124, of: worker)
            try scene.settle(worker)
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .kcat))
        func `A deleted result topic holds up only what needs it`() throws {
            let scene = try Scene("unwritable", partitions: 2)
            _ = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.send(to: deviceTokens(10))
            try scene.await(scene.configuration.results, holds: 10, of: worker)
            try scene.delete(scene.configuration.unregistered)
            // Answered 410 Unregistered.
            try scene.send(to: deviceTokens(4, "fa1741010"))
            try worker.waitFor("create topic \(scene.configuration.unregistered)", seconds: 60)
            try scene.send(to: deviceTokens(40, "22"))
            // Nothing creates the topic again before these results are there.
            try scene.await(scene.configuration.results, holds: 50, of: worker)
            // A broker that creates topics by itself may have done so already.
            _ = try? scene.create(scene.configuration.unregistered)
            try scene.await(scene.configuration.unregistered, holds: 4, of: worker)
            try scene.await(scene.configuration.results, holds: 54, of: worker)
            try scene.settle(worker)
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Committed transactions are read between aborted ones`() throws {
            let scene = try Scene("transactions", partitions: 1)
            _ = try scene.startSimulator()
            try scene.change("transactions", scene.configuration.requests, "0", "400")
            let worker = try scene.startWorker()
            try scene.await(scene.configuration.results, holds: 1_500, of: worker)
            // A commit covers the last record, not the transaction markers behind it.
            try scene.send(to: deviceTokens(1, "ff"))
            try scene.settle(worker)
            #expect(try scene.resultsWithKcat().count == 1_501)
            try scene.stop(worker)
        }
    }
}

extension Scene {
    /// Commits for the worker's group, which must have no member.
    fileprivate func commit(partition: Int32, offset: Int64, metadata: String) throws {
        let consumer = try Consumer(
            ConsumerSettings(
                cluster: ClusterSettings(bootstrapServers: servers), role: .requests, groupID: configuration.group))
        let place = TopicPartition(configuration.requests, partition)
        let entry = CommitEntry(place, offset: offset, metadata: Array(metadata.utf8))
        var code: KafkaCode?
        let isCommitted = try waitUntil(seconds: 30) {
            code = nil
            try consumer.commit([entry], tag: 1)
            return waitUntil(seconds: 5, everyMs: 0) {
                consumer.serve(timeoutMs: 100) { event in
                    if case .committed(let reply) = event { code = reply.code }
                }
                return code != nil
            } && code == KafkaCode.none
        }
        guard isCommitted else { throw Unexpected("the commit is refused: \(code?.name ?? "no answer")") }
    }
}
