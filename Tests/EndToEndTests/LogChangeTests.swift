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
            try scene.commit(offset: .max - 10, metadata: Array("AAAA".utf8))
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
            // The log ends with the marker of a transaction, which is no record.
            try scene.settle(worker)
            #expect(try scene.resultsWithKcat().count == 1_500)
            try scene.stop(worker)
        }

        /// As `kafka-consumer-groups --reset-offsets --shift-by -100` does.
        @Test(.needs(.worker, .broker, .kcat))
        func `After a reset by another tool, everything that is sent again is in doubt`() throws {
            let scene = try Scene("reset", partitions: 1)
            _ = try scene.startSimulator()
            var worker = try scene.startWorker()
            try scene.send(to: deviceTokens(150))
            try scene.await(scene.configuration.results, holds: 150, of: worker)
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.commit(offset: 50, metadata: [])
            worker = try scene.startAssignedWorker()
            try scene.await(scene.configuration.results, holds: 250, of: worker)
            try scene.send(to: deviceTokens(1, "ff"))
            try scene.settle(worker)
            #expect(worker.text.contains("committed=50 records=100"), "\(worker.text)")
            #expect(try scene.resultObjects().count { ($0["in_doubt"] as? Int) == 1 } == 100)
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .kcat))
        func `A group without offsets starts where it is told, and says so`() throws {
            let scene = try Scene("start", partitions: 1)
            _ = try scene.startSimulator()
            try scene.send(to: deviceTokens(40))
            func start(_ start: String) throws -> ChildProcess {
                scene.configuration.group = "\(scene.name).\(start)"
                scene.configuration.more = "delivery: {start: \(start)}"
                return try scene.startWorker()
            }
            for command in ["check", "run"] {
                scene.configuration.group = "\(scene.name).fail"
                scene.configuration.more = "delivery: {start: fail}"
                let refused = try scene.startWorker(command)
                let ending = try refused.wait()
                #expect(ending == .exited(command == "run" ? 78 : 1), "\(refused.text)")
                #expect(refused.text.contains("no committed offset in \(scene.configuration.requests)"))
            }
            let latest = try start("latest")
            try latest.waitFor("delivery.start: latest")
            try scene.send(to: deviceTokens(1, "ff"))
            try scene.await(scene.configuration.results, holds: 1, of: latest)
            try scene.settle(latest)
            try scene.stop(latest)
            let earliest = try start("earliest")
            try scene.await(scene.configuration.results, holds: 42, of: earliest)
            try scene.settle(earliest)
            try scene.stop(earliest)
            #expect(earliest.text.contains("offset=0 records=41 oldest_age_s="), "\(earliest.text)")
            #expect(try scene.resultObjects().map { $0["in_doubt"] as? Int } == [0] + Array(repeating: 1, count: 41))
        }
    }
}
