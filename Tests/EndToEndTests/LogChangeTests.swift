import Foundation
import Kafka
import TestSupport
import Testing

extension EndToEnd.Logs {
    /// Logs that change under a running worker, and offsets that no log has.
    @Suite(.serialized) struct LogChangeTests {
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func aCommittedOffsetThatNoLogHasIsReadFromTheBeginning() throws {
            let scene = try Scene("offset", partitions: 2)
            let simulator = try scene.startSimulator()
            try scene.commit(partition: 0, offset: .max - 10, metadata: "AAAA")
            try scene.commit(partition: 1, offset: .max - 10, metadata: "")
            try scene.change("requests", scene.configuration.requests, "40")
            let worker = try scene.startWorker()
            let seconds = try scene.await(scene.configuration.results, holds: 40, within: 60, of: worker)
            print("40 results \(seconds) s after the start of the worker")
            try scene.settle(worker)
            #expect(worker.text.contains("the partition's log is another one"))
            try scene.stop(worker)
            try simulator.process.stop()
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func aTopicThatIsMadeAnewIsReadFromItsBeginning() throws {
            let scene = try Scene("anew")
            let simulator = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.change("requests", scene.configuration.requests, "800")
            try scene.await(scene.configuration.results, holds: 800, within: 60, of: worker)
            try scene.change("delete", scene.configuration.requests)
            try scene.change("create", scene.configuration.requests, "8")
            try scene.change("requests", scene.configuration.requests, "600", "ff")
            let seconds = try scene.await(scene.configuration.results, holds: 1_400, within: 90, of: worker)
            print("600 results \(seconds) s after they were readable")
            #expect(seconds < 15)
            try scene.settle(worker)
            try scene.stop(worker)
            try simulator.process.stop()
        }

        /// The new log is longer than the old one was when it is looked at first: no offset is out of range.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func aTopicThatIsMadeAnewAndOutgrowsTheOldOneIsReadFromItsBeginning() throws {
            let scene = try Scene("outgrown", partitions: 2)
            let simulator = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.change("requests", scene.configuration.requests, "600")
            try scene.await(scene.configuration.results, holds: 600, within: 60, of: worker)
            try scene.settle(worker)
            // Two of the watch's rounds, which nothing tells of.
            usleep(12_000_000)
            try scene.change("delete", scene.configuration.requests)
            try scene.change("create", scene.configuration.requests, "2")
            try scene.change("requests", scene.configuration.requests, "700", "ff")
            let seconds = try scene.awaitTokens(1_300, within: 60, of: worker)
            print("700 results \(seconds) s after they were readable")
            #expect(seconds < 15, "\(worker.text.suffix(6_000))")
            // Those read before the new log was noticed, and again from its beginning.
            try scene.settle(worker)
            let text = try scene.change("tokens", scene.configuration.results)
            #expect(text.contains("distinct 1300 ") && text.contains("unmarked 0"), "\(text)")
            #expect(worker.text.contains("the partition's log is another one"))
            try scene.stop(worker)
            try simulator.process.stop()
        }

        /// Gone for less than its readers look away, and filled by a mirror: the records have the times of those that
        /// it copied.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func aTopicThatIsMadeAnewAtOnceWithOldRecordsIsReadFromItsBeginning() throws {
            let scene = try Scene("mirrored", partitions: 2)
            let simulator = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.change("requests", scene.configuration.requests, "600")
            try scene.await(scene.configuration.results, holds: 600, within: 60, of: worker)
            try scene.settle(worker)
            // Two of the watch's rounds, which nothing tells of.
            usleep(12_000_000)
            try scene.change("remake", scene.configuration.requests, "2", "900", "ff", "3600")
            let seconds = try scene.awaitTokens(1_500, within: 60, of: worker)
            print("900 results \(seconds) s after they were readable")
            #expect(seconds < 25)
            try scene.settle(worker)
            let text = try scene.change("tokens", scene.configuration.results)
            #expect(text.contains("distinct 1500 ") && text.contains("unmarked 0"), "\(text)")
            try scene.stop(worker)
            try simulator.process.stop()
        }

        /// Apple is slow while the topic is made anew.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func whatIsInFlightOfALogThatIsGoneHasItsResults() throws {
            let scene = try Scene("inflight", partitions: 1)
            let simulator = try scene.startSimulator("--latency", "20s")
            let worker = try scene.startWorker()
            try worker.waitFor("partitions assigned group=\(scene.configuration.group) ", seconds: 60)
            try scene.change("requests", scene.configuration.requests, "50")
            // One of the watch's rounds. Then the new log's offsets go on, and the group is joined anew for it.
            usleep(6_000_000)
            try scene.change("remake", scene.configuration.requests, "1", "100", "ff", "0")
            try worker.waitFor("joining the group anew", seconds: 30)
            // Of what is sent from here on; what is in flight is answered when it would have been.
            try scene.books("faults", "--simulator", simulator.control, "latency=0")
            try scene.awaitTokens(150, within: 90, of: worker)
            try scene.settle(worker)
            try scene.stop(worker)
            try simulator.process.stop()
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func aTopicThatIsDeletedHoldsUpNoOther() throws {
            let scene = try Scene("gone", partitions: 4)
            let other = "\(scene.name).other"
            try scene.change("create", other, "4")
            scene.configuration.requestTopics = "\(scene.configuration.requests), \(other)"
            let simulator = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.change("requests", scene.configuration.requests, "40")
            try scene.change("requests", other, "40", "11")
            try scene.await(scene.configuration.results, holds: 80, within: 60, of: worker)
            try scene.change("delete", other)
            var longest = 0.0
            for round in 1...20 {
                let before = Date()
                try scene.change("requests", scene.configuration.requests, "4", hex(round, digits: 2))
                try scene.await(scene.configuration.results, holds: 80 + 4 * round, within: 60, of: worker)
                longest = max(longest, Date().timeIntervalSince(before))
                usleep(500_000)
            }
            print("the longest that four requests took while the other topic was gone: \(longest) s")
            #expect(longest < 5)
            try scene.settle(worker)
            try scene.stop(worker)
            try simulator.process.stop()
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func aResultTopicThatIsDeletedHoldsUpWhatNeedsItOnly() throws {
            let scene = try Scene("unwritable", partitions: 2)
            let prefix = try #require(try scene.prefix(of: "Unregistered"))
            let simulator = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.change("requests", scene.configuration.requests, "10")
            try scene.await(scene.configuration.results, holds: 10, within: 60, of: worker)
            try scene.change("delete", scene.configuration.unregistered)
            try scene.change("requests", scene.configuration.requests, "4", prefix)
            try worker.waitFor("create topic \(scene.configuration.unregistered)", seconds: 60)
            try scene.change("requests", scene.configuration.requests, "40", "22")
            let seconds = try scene.await(scene.configuration.results, holds: 50, within: 60, of: worker)
            print("40 results \(seconds) s after they were written, with the dead-token topic gone")
            #expect(seconds < 10)
            // A broker that makes topics by itself may have made it already.
            _ = try? scene.change("create", scene.configuration.unregistered, "2")
            try scene.await(scene.configuration.unregistered, holds: 4, within: 90, of: worker)
            try scene.await(scene.configuration.results, holds: 54, within: 60, of: worker)
            try scene.settle(worker)
            try scene.stop(worker)
            try simulator.process.stop()
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(4)))
        func `Committed transactions are read between aborted ones`() throws {
            let scene = try Scene("transactions", partitions: 1)
            let simulator = try scene.startSimulator()
            try scene.change("transactions", scene.configuration.requests, "0", "400")
            let worker = try scene.startWorker()
            try scene.await(scene.configuration.results, holds: 1_500, within: 60, of: worker)
            // A commit reaches behind the last record only, not behind the transactions' markers.
            try scene.change("requests", scene.configuration.requests, "1")
            try scene.settle(worker)
            #expect(try scene.resultsWithKcat().count == 1_501)
            try scene.stop(worker)
            try simulator.process.stop()
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
