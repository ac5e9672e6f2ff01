import Foundation
import Kafka
import TestSupport
import Testing

extension EndToEnd.Logs {
    /// Logs that change under a running worker, and offsets that no log has.
    @Suite(.serialized) struct LogChangeTests {
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func `A committed offset that no log has is read from the beginning`() throws {
            let scene = try Scene("offset", partitions: 2)
            _ = try scene.startSimulator()
            try scene.commit(partition: 0, offset: .max - 10, metadata: "AAAA")
            try scene.commit(partition: 1, offset: .max - 10, metadata: "")
            try scene.change("requests", scene.configuration.requests, "40")
            let worker = try scene.startWorker()
            try scene.await(scene.configuration.results, holds: 40, of: worker)
            try scene.settle(worker)
            #expect(worker.text.contains("the partition's log is another one"))
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func `A topic that is made anew is read from its beginning`() throws {
            let scene = try Scene("anew")
            _ = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.change("requests", scene.configuration.requests, "800")
            try scene.await(scene.configuration.results, holds: 800, of: worker)
            try scene.change("delete", scene.configuration.requests)
            try scene.change("create", scene.configuration.requests, "8")
            try scene.change("requests", scene.configuration.requests, "600", "ff")
            try scene.await(scene.configuration.results, holds: 1_400, of: worker)
            try scene.settle(worker)
            try scene.stop(worker)
        }

        /// Apple is slow while the topic is made anew.
        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(5)))
        func `What is in flight of a log that is gone has its results`() throws {
            let scene = try Scene("inflight", partitions: 1)
            let simulator = try scene.startSimulator("--latency", "20s")
            let worker = try scene.startWorker()
            try worker.waitFor("partitions assigned group=\(scene.configuration.group) ", seconds: 60)
            try scene.change("requests", scene.configuration.requests, "50")
            func arrived() throws -> Int {
                try Scene.run(Tool.curl.path(), ["-s", "-m", "10", "\(simulator.control)/tokens"]).text
                    .split(separator: "\n").count
            }
            while try arrived() < 50 { usleep(100_000) }
            // The new log ends below what was read of the old one.
            try scene.change("remake", scene.configuration.requests, "1", "20", "ff", "0")
            // Of what is sent from here on; what is in flight is answered when it would have been.
            try simulator.set("latency=0")
            try scene.awaitTokens(70, of: worker)
            try scene.settle(worker)
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func `A topic that is deleted holds up no other`() throws {
            let scene = try Scene("gone", partitions: 4)
            let other = "\(scene.name).other"
            try scene.change("create", other, "4")
            scene.configuration.requestTopics = "\(scene.configuration.requests), \(other)"
            _ = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.change("requests", scene.configuration.requests, "40")
            try scene.change("requests", other, "40", "11")
            try scene.await(scene.configuration.results, holds: 80, of: worker)
            try scene.change("delete", other)
            // Each round begins when the results of the one before are there, while the other topic stays gone.
            for round in 1...20 {
                try scene.change("requests", scene.configuration.requests, "4", hex(round, digits: 2))
                try scene.await(scene.configuration.results, holds: 80 + 4 * round, of: worker)
                usleep(500_000)
            }
            try scene.settle(worker)
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func `A result topic that is deleted holds up what needs it only`() throws {
            let scene = try Scene("unwritable", partitions: 2)
            let prefix = try #require(try scene.prefix(of: "Unregistered"))
            _ = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.change("requests", scene.configuration.requests, "10")
            try scene.await(scene.configuration.results, holds: 10, of: worker)
            try scene.change("delete", scene.configuration.unregistered)
            try scene.change("requests", scene.configuration.requests, "4", prefix)
            try worker.waitFor("create topic \(scene.configuration.unregistered)", seconds: 60)
            try scene.change("requests", scene.configuration.requests, "40", "22")
            // Nothing makes the topic again before these results are there.
            try scene.await(scene.configuration.results, holds: 50, of: worker)
            // A broker that makes topics by itself may have made it already.
            _ = try? scene.change("create", scene.configuration.unregistered, "2")
            try scene.await(scene.configuration.unregistered, holds: 4, of: worker)
            try scene.await(scene.configuration.results, holds: 54, of: worker)
            try scene.settle(worker)
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(4)))
        func `Committed transactions are read between aborted ones`() throws {
            let scene = try Scene("transactions", partitions: 1)
            _ = try scene.startSimulator()
            try scene.change("transactions", scene.configuration.requests, "0", "400")
            let worker = try scene.startWorker()
            try scene.await(scene.configuration.results, holds: 1_500, of: worker)
            // A commit reaches behind the last record only, not behind the transactions' markers.
            try scene.change("requests", scene.configuration.requests, "1")
            try scene.settle(worker)
            #expect(try scene.resultsWithKcat().count == 1_501)
            try scene.stop(worker)
        }
    }
}

extension Scene {
    /// Commits for the worker's group, which must have no member.
    func commit(partition: Int32, offset: Int64, metadata: String) throws {
        let consumer = try Consumer(
            ConsumerSettings(
                cluster: ClusterSettings(bootstrapServers: servers), role: .requests, groupID: configuration.group))
        let place = TopicPartition(configuration.requests, partition)
        let entry = CommitEntry(place, offset: offset, metadata: Array(metadata.utf8))
        var code: KafkaCode?
        let deadline = Date(timeIntervalSinceNow: 30)
        while code != KafkaCode.none {
            guard Date() < deadline else { throw Unexpected("the commit is refused: \(code?.name ?? "no answer")") }
            code = nil
            try consumer.commit([entry], tag: 1)
            while code == nil, Date() < deadline {
                consumer.serve(timeoutMs: 100) { event in
                    if case .committed(let reply) = event { code = reply.code }
                }
            }
        }
    }

    /// The prefix of device tokens that the simulator answers with a reason, as its help names it.
    func prefix(of reason: String) throws -> String? {
        let help = try Self.run(Tool.worker.path(), ["simulate", "--help"])
        for line in help.text.split(separator: "\n") where line.contains(reason) {
            for word in line.split(whereSeparator: { !$0.isLetter && !$0.isNumber })
            where word.allSatisfy(\.isHexDigit) && word.count >= 2 && word.contains(where: { $0.isLetter }) {
                return String(word)
            }
        }
        return nil
    }
}
