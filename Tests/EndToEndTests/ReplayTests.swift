import Foundation
import Kafka
import TestSupport
import Testing

extension Scene {
    /// Runs `Books/replays.py`.
    @discardableResult
    fileprivate func replays(_ arguments: String...) throws -> String { try book("replays.py", arguments) }

    /// Writes `count` notifications in all forms, and waits for their results. Returns the number of those rejected
    /// with BadCollapseId, which is one in ten.
    fileprivate func produceFailing(_ count: Int, of worker: ChildProcess) throws -> Int {
        let text = try replays("produce", servers, configuration.requests, file("replay.jsonl"), "\(count)")
        try awaitResults(count, of: worker)
        return try #require(Int(text.trimmingCharacters(in: .newlines)))
    }

    /// Checks that each failed notification was requested again `times` times unchanged, and no other one.
    fileprivate func checkReplay(times: Int = 1) throws {
        try replays("check", servers, configuration.requests, file("replay.jsonl"), "\(times)")
    }

    fileprivate func records(of topic: String) throws -> [ReadBack] {
        try replays("list", servers, topic).split(separator: "\n").map {
            try JSONDecoder().decode(ReadBack.self, from: Data($0.utf8))
        }
    }

    fileprivate func replay(_ line: String, _ more: String...) throws -> Finished {
        try command("replay \(line)", more)
    }
}

private struct ReadBack: Decodable {
    var partition: Int
    var key: String
    var value: String?
    var headers: [[String]]

    /// The place of the first request.
    var of: String? { headers.first { $0[0] == "push-replay-of" }?[1] }
}

extension EndToEnd {
    /// Tests that notifications with a certain reason are requested again once, even if runs are killed.
    @Suite struct ReplayTests {
        /// The number of notifications in the large run, of which one in ten fails. The full size is 100000.
        private static let count = Int(ProcessInfo.processInfo.environment["APNS_WORKER_E2E_REPLAY"] ?? "") ?? 4_000

        private static let failed = "results --reason BadCollapseId"

        @Test(.needs(.worker, .broker, .python))
        func `Failed notifications are replayed once, even if runs are killed`() throws {
            let scene = try Scene("replay")
            let simulator = try scene.startSimulator()
            let worker = try scene.startWorker()
            let wanted = try scene.produceFailing(Self.count, of: worker)
            let tried = try scene.replay("\(Self.failed) --dry-run --format json").expect(0)
            let dry = try jsonObject(try #require(tried.text.split(separator: "\n").last))
            #expect(dry["produced"] as? Int == wanted && dry["matched"] as? Int == wanted)

            // Each run is killed after some progress.
            for kill in 1...3 {
                let process = try scene.startCommand("replay \(Self.failed) --rate \(wanted / 8)/s")
                try scene.awaitResults(Self.count + wanted * kill / 10)
                try process.killNow()
            }
            try scene.replay(Self.failed).expect(0, "\(wanted) requests were produced again", ", resumed")
            try scene.checkReplay()

            let again = try scene.replay(Self.failed).expect(0, "was completed earlier, so nothing is produced")
            try scene.replay("results --reason BadPriority --name \(again.text.split(separator: " ")[1])")
                .expect(1, "belongs to a job with other conditions")
            try scene.checkReplay()
            try scene.awaitResults(Self.count + wanted, of: worker)
            try scene.stop(worker)
            // Requests of aborted transactions were never sent.
            try scene.replays("sent", simulator.control, scene.file("replay.jsonl"))
        }

        @Test(.needs(.worker, .broker, .python))
        func `Of two concurrent replay runs the second continues, and the first ends`() throws {
            let scene = try Scene("replay-twice")
            let worker = try scene.startWorker()
            let wanted = try scene.produceFailing(3_000, of: worker)
            let first = try scene.startCommand("replay \(Self.failed) --rate 40/s")
            // The first run has written some requests.
            try scene.awaitResults(3_020)
            try scene.replay(Self.failed).expect(0, ", resumed")
            #expect(try first.wait() == .exited(1))
            #expect(first.text.contains("another run of this job has "), "\(first.text)")
            try scene.checkReplay()
            // A run that is stopped or out of time reports that the same command continues.
            try scene.replay("\(Self.failed) --name short --rate 20/s --deadline 2s")
                .expect(1, "--deadline reached before all records were processed")
            let stopped = try scene.startCommand("replay \(Self.failed) --name short --rate 20/s")
            try scene.awaitResults(3_060 + wanted)
            #expect(try stopped.stop() == .exited(1))
            #expect(
                stopped.text.contains("stopped before all records were processed; run the same command again"),
                "\(stopped.text)")
            try scene.replay("\(Self.failed) --name short").expect(0)
            try scene.checkReplay(times: 2)
            try scene.stop(worker)
        }
    }

    /// Tests of the selection of requests. They need no worker, because only the records matter.
    @Suite struct ReplayedRecordsTests {
        private static func scene(_ name: String) throws -> Scene {
            let scene = try Scene(name, partitions: 2)
            try scene.makeSigningKey(scene.configuration.keyFile)
            scene.configuration.caFile = ""
            try scene.configure()
            return scene
        }

        @Test(.needs(.worker, .broker, .python, .openssl))
        func `Conditions select requests, and omitted requests are reported`() throws {
            let scene = try Self.scene("replay-case")
            let text = try scene.replays("case", scene.servers, scene.name)
            let places = try JSONDecoder().decode([String: String].self, from: Data(text.utf8))
            func place(_ kind: String, _ index: Int = 0) -> String { "\(places[kind] ?? "?")/\(index)" }
            /// Runs a replay with these conditions, and returns the places of the requests that it writes to a separate
            /// topic.
            func run(_ sink: String, _ line: String, status: Int32 = 0) throws -> (Scene.Finished, Set<String>) {
                let topic = "\(scene.name).\(sink)"
                try scene.create(topic, partitions: 1)
                let ended = try scene.replay("results --to \(topic) \(line)").expect(status)
                let found = try scene.records(of: topic).compactMap(\.of)
                #expect(Set(found).count == found.count, "\(found)")
                return (ended, Set(found))
            }
            let all = Set([
                place("plain"), place("annex"), place("late"), place("twice"), place("many", 3), place("channel"),
                place("large"),
            ])
            let (ended, produced) = try run("all", "--all", status: 1)
            #expect(produced == all)
            ended.expect(
                1, "\(place("other")) is gone: the record has a different timestamp",
                "/10000000/0 is gone: the partition has ",
                "of 11 results that matched", "1 were additional results of the same notifications",
                "1 have expired and were skipped", "2 no longer exist")
            #expect(try run("expired", "--all --expired", status: 1).1 == all.union([place("expired")]))
            #expect(
                try run("accepted", "--outcome accepted --app shop --since 2023-01-01T00:00:00Z").1 == [place("good")])
            #expect(
                try run("places", "--request \(place("many", 3)) --request \(place("plain"))").1 == [
                    place("many", 3), place("plain"),
                ])
            try expectToSayWhatMatchesNothing(scene, matching: place("plain"), not: place("many", 2))
            // One notification of an envelope is requested in payload form with the envelope's key.
            _ = try run("one", "--request \(places["many"] ?? "")")
            let one = try #require(try scene.records(of: "\(scene.name).one").first)
            #expect(one.key == "campaign" && one.value == #"{"aps": {}}"#)
            #expect(
                one.headers == [
                    ["push-replay-of", place("many", 3)], ["apns-push-type", "alert"],
                    ["push-device-token", hex(103, digits: 64)],
                ])

            // A record that is too large for its topic is reported. The others of its batch are written.
            let narrow = "\(scene.name).narrow"
            try scene.create(narrow, partitions: 1, configuration: [KafkaProperty("max.message.bytes", "2000")])
            try scene.replay("results --app big --app annex --to \(narrow)")
                .expect(1, "\(place("large")) is not requested again: the broker refused the new request")
            #expect(try scene.records(of: narrow).compactMap(\.of) == [place("annex")])

            // A dry run reports all of this and changes nothing.
            let before = try scene.records(of: scene.configuration.requests).count
            let dry = try scene.replay("results --all --dry-run")
                .expect(1, "7 requests would be produced again", "nothing was written")
            let row = /\n +1 +\S+requests +annex +rejected +Forbidden +\(first/
            #expect(dry.text.firstMatch(of: row) != nil, "\(dry.text)")
            #expect(try scene.records(of: scene.configuration.requests).count == before)
            // The requests return to their topic and partition.
            try scene.replay("results --all").expect(1)
            let after = try scene.records(of: scene.configuration.requests).filter { $0.of != nil }
            #expect(after.count == 7)
            for record in after {
                #expect(record.of?.split(separator: "/")[1] == "\(record.partition)", "\(record)")
            }

            // The topic is recreated, so all records are gone.
            try scene.change("remake", scene.configuration.requests, "2", "50", "00", "60")
            try scene.replay("results --all --name late --to \(scene.name).one")
                .expect(1, "0 requests were produced again", " 10 no longer exist")
        }

        /// Places without a match are reported, even if there is nothing to read.
        private func expectToSayWhatMatchesNothing(_ scene: Scene, matching plain: String, not missing: String) throws {
            let line = "results --request \(missing) --request \(plain) --name missed --to \(scene.name).all"
            let missed = try scene.replay(line).expect(
                1, "is done after", "\(missing): no result or dead letter of this request matches")
            #expect(!missed.text.contains("\(plain): no result"), "\(missed.text)")
            try scene.replay(line).expect(0, "was completed earlier")
            for more in ["--dry-run", ""] {
                try scene.replay("results --request \(plain) --since 1ms \(more)")
                    .expect(1, "\(plain): no result or dead letter of this request matches")
            }
            // A reason that matches nothing gets a hint. A dry run that is stopped reports it.
            try scene.replay("results --reason BadTopc --dry-run").expect(0, "did you mean BadTopic?")
            try scene.replay("results --reason BadTopic --dry-run --deadline 1ms")
                .expect(1, "that matched so far", " are left to read")
            // A job's name belongs to one source. The target topic is checked before anything is promised.
            try scene.replay("dead-letters --all --name missed").expect(0)
            try scene.replay("results --all --dry-run --to \(scene.name).nowhere")
                .expect(1, ".nowhere: there is no such topic")
        }

        @Test(.needs(.worker, .broker, .python, .openssl))
        func `Dead letters are replayed as the original records`() throws {
            let scene = try Self.scene("replay-letters")
            let text = try scene.replays("letters", scene.servers, scene.name)
            let large = try #require(Int(text.trimmingCharacters(in: .newlines)))
            let requests = scene.configuration.requests
            try scene.replay("dead-letters --reason not-json").expect(0)
            let one = try scene.records(of: requests).filter { $0.of != nil }
            #expect(one.count == 1 && one.first?.value == "{" && one.first?.key == "key" && one.first?.partition == 0)
            #expect(one.first?.headers == [["push-replay-of", "\(requests)/0/900001/0"], ["a", "1"]])

            let sink = "\(scene.name).sink"
            try scene.create(sink, partitions: 1)
            try scene.replay("dead-letters --all --to \(sink)").expect(
                1,
                "\(requests)/0/\(large + 11) is gone: the record at the request's offset is not the record in the dead letter",
                "\(requests)/0/5 is not requested again: the record was written by the worker",
                "\(requests)/0/6 is not requested again: the record's headers cannot be read",
                "of 6 dead letters that matched: 3 requests were produced again, 1 no longer exist, 2 cannot be requested again"
            )
            let found = try scene.records(of: sink)
            #expect(found.count == 3)
            #expect(Set(found.compactMap(\.of)) == Set([900_001, 900_002, large].map { "\(requests)/0/\($0)/0" }))
            let whole = found.first { $0.of == "\(requests)/0/\(large)/0" }
            #expect(whole?.value?.count == 3_020 && whole?.headers.last == ["x", "large"])
        }

        @Test(.needs(.worker, .broker, .python, .openssl), .ownBroker)
        func `A replay reports missing permissions`() throws {
            let (scene, broker) = try Scene.protected("replay-rights")
            try scene.makeSigningKey(scene.configuration.keyFile)
            scene.configuration.caFile = ""
            try scene.configure()
            _ = try scene.replays("case", broker.bootstrapServers, scene.name)
            let group = "\(scene.configuration.group).replay.results-j"
            let (requests, results) = (scene.configuration.requests, scene.configuration.results)
            func without(
                _ operation: KafkaBroker.Operation, _ resource: KafkaBroker.Resource, _ line: String,
                _ words: String, exec: String...
            ) throws {
                try broker.deny(operation, resource)
                defer { try? broker.lift(operation, resource) }
                let ended = try scene.command("\(line) --deadline 20s", exec).expect(1, words)
                #expect(!ended.text.contains("no such topic"), "\(ended.text)")
            }
            let replay = "replay results --app annex --name j"
            try scene.command(replay).expect(1, "grant WRITE and DESCRIBE on transactional id \(group)")
            try broker.allowTransactions()
            let unread = "topic \(results) cannot be read: grant READ on topic \(results)\n"
            try without(.read, .group(group), replay, "grant READ on group \(group)")
            try without(.read, .topic(results), replay, unread)
            try without(
                .read, .topic(requests), replay, "topic \(requests) cannot be read: grant READ on topic \(requests)")
            let unwritten = "topic \(requests) cannot be written: grant WRITE on topic \(requests)\n"
            try without(.write, .topic(requests), replay, unwritten)
            // A dry run writes nothing and reads no progress.
            try broker.deny(.read, .group(group))
            try broker.deny(.write, .topic(requests))
            try scene.command("\(replay) --dry-run").expect(0)
            try broker.lift(.read, .group(group))
            try broker.lift(.write, .topic(requests))
            // Other commands that read and write report the same texts.
            let (tail, fed) = ("tail results", "tail results --group \(scene.name).fed")
            let send = "send --token \(hex(1, digits: 64)) --alert Hi"
            for operation in [KafkaBroker.Operation.read, .describe] {
                try without(operation, .topic(results), tail, unread)
            }
            try without(.read, .topic(results), fed, unread, exec: "--exec", "cat > /dev/null")
            let unheld = "group \(scene.name).fed cannot be used: grant READ on group \(scene.name).fed\n"
            try without(.read, .group("\(scene.name).fed"), fed, unheld, exec: "--exec", "cat > /dev/null")
            try without(.describe, .topic(results), send, unread)
            for operation in [KafkaBroker.Operation.write, .describe] {
                try without(operation, .topic(requests), send, unwritten)
            }
            // Nothing has been done yet, and the failed attempts left nothing behind.
            try scene.command(replay).expect(0, "1 requests were produced again")
        }
    }
}

extension EndToEnd.Outages {
    @Suite struct ReplayOutageTests {
        /// The outage is longer than a transaction's time limit, so the brokers abort the transaction.
        @Test(.needs(.worker, .broker, .python), .ownBroker, .long)
        func `An outage only delays a replay`() throws {
            let broker = try KafkaBroker.expendable.get()
            let scene = try Scene("replay-outage", on: broker)
            let worker = try scene.startWorker()
            _ = try scene.produceFailing(4_000, of: worker)
            let replay = try scene.startCommand("replay results --reason BadCollapseId --rate 60/s")
            try scene.awaitResults(4_050)
            defer { broker.unfreeze() }
            broker.freeze()
            // Reports are ten seconds apart. At the fourth one, a transaction's 20 s have passed.
            try eventually("four reports of trouble", of: replay) {
                replay.text.components(separatedBy: "; trying again").count > 4
            }
            broker.unfreeze()
            #expect(try replay.wait() == .exited(0), "\(replay.text)")
            try scene.checkReplay()
            try worker.killNow()
        }
    }
}
