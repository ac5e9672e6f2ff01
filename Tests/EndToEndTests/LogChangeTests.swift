import Delivery
import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// Tests of topics that are deleted or recreated while a worker runs, and of transactions.
    @Suite struct LogChangeTests {
        /// The interval at which the client refreshes topic metadata, which is ten seconds by default.
        private static let refreshes = "librdkafka: {topic.metadata.refresh.interval.ms: 1000}"

        @Test(.needs(.worker, .broker, .kcat))
        func `Requests of partitions and topics that are added later are not in doubt`() throws {
            let scene = try Scene("added", partitions: 1)
            let more = "\(scene.name).more"
            scene.configuration.requestTopics = #"\#(scene.configuration.requests), "^\#(scene.name)[.]more""#
            let worker = try scene.startWorker()
            try scene.send(5)
            try scene.awaitResults(5, of: worker)
            try scene.settleRequests(worker)
            try scene.setPartitions(of: scene.configuration.requests, to: 4)
            try scene.create(more)
            try scene.send(40)
            try scene.send(to: deviceTokens(20), in: more)
            try scene.awaitResults(65, of: worker)
            let doubtful = try scene.resultObjects().filter { $0["in_doubt"] as? Int != 0 }
            #expect(doubtful.isEmpty, "\(doubtful)")
            try scene.stop(worker)
        }

        /// APNs is slow while the topic is recreated. Requests in flight then belong to records that no longer exist.
        @Test(.needs(.worker, .broker, .python, .kcat))
        func `A topic that is recreated while requests are in flight is read from its beginning`() throws {
            let scene = try Scene("inflight", partitions: 1)
            scene.configuration.kafka = Self.refreshes
            scene.configuration.more = "drain: {shutdown: 2s}"
            let simulator = try scene.startSimulator()
            let worker = try scene.startAssignedWorker()
            try scene.send(to: deviceTokens(30))
            try scene.settleRequests(worker)
            try simulator.set("latency=10m")
            try scene.send(to: deviceTokens(50))
            try simulator.awaitRequests(80)
            // The new log ends below the offset committed for the old one.
            try scene.change("remake", scene.configuration.requests, "1", "20", "ff", "0")
            // This applies to later requests. Requests in flight keep their latency.
            try simulator.set("latency=0")
            // librdkafka may lose the group then, which ends the worker. The test starts it again, as a service manager
            // would.
            try eventually("results of the new topic") {
                try worker.ended != nil
                    || Set(scene.records(of: scene.configuration.results, "%k")).count { $0.hasPrefix("ff") } == 20
            }
            if worker.ended != nil { #expect(worker.text.contains("left the group after a fatal error")) }
            let last = worker.ended == nil ? worker : try scene.startWorker()
            try scene.awaitTokens(20, "ff", of: last)
            try scene.finish(last)
        }

        @Test(.needs(.worker, .broker, .kcat))
        func `A deleted topic delays no other`() throws {
            let scene = try Scene("gone")
            let other = "\(scene.name).other"
            try scene.create(other)
            scene.configuration.requestTopics = "\(scene.configuration.requests), \(other)"
            scene.configuration.kafka = Self.refreshes
            let (worker, pages) = try scene.startWorkerWithPages()
            try scene.send(to: deviceTokens(40))
            try scene.send(to: deviceTokens(40, "11"), in: other)
            try scene.awaitResults(80, of: worker)
            try scene.delete(other)
            // These are sent before and after the worker has noticed.
            try scene.send(to: deviceTokens(4, "22"))
            try scene.awaitResults(84, of: worker)
            try pages.await("/status", says: "create topic \(other)")
            try scene.send(to: deviceTokens(40, "33"))
            try scene.awaitResults(124, of: worker)
            try scene.finish(worker)
        }

        @Test(.needs(.worker, .broker, .kcat))
        func `Notifications that wait in a deleted retry topic are counted as lost`() throws {
            let scene = try Scene("waiting", partitions: 1)
            let retry = "\(scene.name).retry.1h"
            scene.configuration.kafka = Self.refreshes
            scene.configuration.retry = retry
            scene.configuration.retries = "tiers: {1h: \(retry)}, max_attempts: 1"
            try scene.create(retry)
            func write(_ count: Int, _ prefix: String, dueAfter seconds: Int) throws {
                let nowMs = Int(Date().timeIntervalSince1970 * 1_000)
                let headers = [
                    "apns-topic=com.example.shop", "push-retry-request=\(scene.configuration.requests)/0/0/0",
                    "push-retry-attempt=1", "push-retry-due-ms=\(nowMs + seconds * 1_000)",
                    "push-retry-first-ms=\(nowMs)",
                ]
                try scene.send(to: deviceTokens(count, prefix), in: retry, headers: headers)
            }
            let (worker, pages) = try scene.startWorkerWithPages(untilFine: true)
            try write(40, "11", dueAfter: 0)
            try scene.awaitResults(40, of: worker)
            try write(300, "22", dueAfter: 3_600)
            try pages.await("/status", says: #""lag":300"#)
            try scene.delete(retry)
            let status = try pages.await("/status", says: "up to 300 offsets were lost when topic \(retry) was deleted")
            #expect(Pages.problems(in: status).count { $0.text.contains("were lost") } == 1)
            // A broker that creates topics automatically may already have done so.
            _ = try? scene.create(retry)
            // The new log must end below the offset at which the old one was read, or nothing shows that it is new.
            try write(20, "33", dueAfter: 0)
            try scene.awaitResults(60, of: worker)
            try scene.finish(worker)
            #expect(worker.text.components(separatedBy: "lost_at_most=").count == 2, "\(worker.text)")
        }

        @Test(.needs(.worker, .broker, .kcat))
        func `A deleted result topic delays only results for it`() throws {
            let scene = try Scene("unwritable", partitions: 2)
            let worker = try scene.startWorker()
            try scene.send(to: deviceTokens(10))
            try scene.awaitResults(10, of: worker)
            try scene.delete(scene.configuration.unregistered)
            // These tokens are answered 410 Unregistered.
            try scene.send(to: deviceTokens(4, "fa1741010"))
            try worker.waitFor("create topic \(scene.configuration.unregistered)")
            try scene.send(to: deviceTokens(40, "22"))
            // The topic is not created again before these results are written.
            try scene.awaitResults(50, of: worker)
            // A broker that creates topics automatically may already have done so.
            _ = try? scene.create(scene.configuration.unregistered)
            try scene.await(scene.configuration.unregistered, holds: 4, of: worker)
            try scene.awaitResults(54, of: worker)
            try scene.finish(worker)
        }

        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Committed transactions are read between aborted ones`() throws {
            let scene = try Scene("transactions", partitions: 1)
            try scene.change("transactions", scene.configuration.requests, "0", "400")
            let worker = try scene.startWorker()
            try scene.awaitResults(1_500, of: worker)
            // The log ends with a transaction marker, which is not a record.
            try scene.settle(worker)
            #expect(try scene.resultsWithKcat().count == 1_500)
            try scene.stop(worker)
        }

        /// The test does the same as `kafka-consumer-groups --reset-offsets --shift-by -100`.
        @Test(.needs(.worker, .broker, .kcat))
        func `After a reset by another tool, everything sent again is in doubt`() throws {
            let scene = try Scene("reset", partitions: 1)
            var worker = try scene.startWorker()
            try scene.send(to: deviceTokens(150))
            try scene.awaitResults(150, of: worker)
            try scene.finish(worker)
            try scene.commit(offset: 50, metadata: [])
            worker = try scene.startAssignedWorker()
            try scene.awaitResults(250, of: worker)
            try scene.send(to: deviceTokens(1, "ff"))
            try scene.settle(worker)
            #expect(worker.text.contains("committed=50 in_doubt=100"), "\(worker.text)")
            try worker.waitFor("kind=group_shared")
            #expect(try scene.resultObjects().count { ($0["in_doubt"] as? Int) == 1 } == 100)
            try scene.stop(worker)
        }

        /// MirrorMaker commits a worker's metadata of another cluster with a translated offset. The worker ignores the
        /// metadata if its offset was another one. Otherwise the reset of the article on disaster recovery removes it.
        @Test(.ownBroker, .needs(.worker, .broker, .kcat, .javaClient), arguments: [30, 20] as [Int64])
        func `After offsets were translated from another cluster, all records above them are sent in doubt`(
            original: Int64
        ) throws {
            let scene = try Scene("translated", partitions: 1)
            scene.configuration.group += ".new"
            try scene.send(to: deviceTokens(60))
            var map = CommitMapWriter()
            map.start(base: original, limit: 1_000)
            map.settled(40..<50)
            map.finish(horizon: 50)
            try scene.commit(offset: 20, metadata: map.text)
            if original == 20 {
                let command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
                try ChildProcess.run(
                    Tool.javaClient.path(),
                    [
                        "-cp", "\(KafkaBroker.home ?? "")/libs/*", command, "--bootstrap-server", scene.servers,
                        "--group", scene.configuration.group, "--reset-offsets", "--to-current", "--all-topics",
                        "--execute",
                    ]
                ).expect(0, "NEW-OFFSET")
            }
            let worker = try scene.startAssignedWorker()
            try scene.awaitResults(40, of: worker)
            try scene.send(to: deviceTokens(1, "ff"))
            try scene.settleRequests(worker)
            #expect(worker.text.contains("committed=20 in_doubt=40"), "\(worker.text)")
            #expect(try scene.resultObjects().map { $0["in_doubt"] as? Int } == Array(repeating: 1, count: 40) + [0])
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .kcat))
        func `A group without offsets starts where it is configured, and reports that`() throws {
            let scene = try Scene("start", partitions: 1)
            _ = try scene.startSimulator()
            try scene.send(to: deviceTokens(40))
            func start(_ start: String) throws -> ChildProcess {
                scene.configuration.group = "\(scene.name).\(start)"
                scene.configuration.more = "delivery: {start: \(start)}"
                return try scene.startWorker()
            }
            let words = "no committed offset in \(scene.configuration.requests)"
            let refused = try start("fail")
            #expect(try refused.wait() == .exited(78) && refused.text.contains(words), "\(refused.text)")
            try scene.check().expect(1, words)
            let latest = try start("latest")
            try latest.waitFor("delivery.start: latest")
            try scene.send(to: deviceTokens(1, "ff"))
            try scene.awaitResults(1, of: latest)
            try scene.finish(latest)
            let earliest = try start("earliest")
            try scene.awaitResults(42, of: earliest)
            try earliest.waitFor("kind=offsets_missing")
            #expect(!latest.text.contains("kind=offsets_missing"))
            try scene.finish(earliest)
            #expect(earliest.text.contains("offset=0 records=41 oldest_age_s="), "\(earliest.text)")
            #expect(try scene.resultObjects().map { $0["in_doubt"] as? Int } == [0] + Array(repeating: 1, count: 41))
        }
    }
}
