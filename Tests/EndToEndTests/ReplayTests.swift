import Foundation
import Kafka
import TestSupport
import Testing

extension Scene {
    /// Runs `Books/replays.py`.
    @discardableResult
    fileprivate func replays(_ arguments: String..., within seconds: Double = 240) throws -> String {
        let ended = try Self.run(Tool.python.path(), [Self.book("replays.py")] + arguments, within: seconds)
        guard ended.ending == .exited(0) else {
            throw Unexpected("replays.py \(arguments) \(ended.ending):\n\(ended.text)")
        }
        return ended.text
    }

    fileprivate func records(of topic: String) throws -> [ReadBack] {
        try replays("list", servers, topic).split(separator: "\n").map {
            try JSONDecoder().decode(ReadBack.self, from: Data($0.utf8))
        }
    }

    fileprivate func replay(_ arguments: String..., within seconds: Double = 120) throws -> Finished {
        try replay(arguments[0], Array(arguments.dropFirst()), within: seconds)
    }

    fileprivate func replay(_ source: String, _ options: [String], within seconds: Double = 120) throws -> Finished {
        try Self.run(
            Tool.worker.path(), ["replay", source, "--config", file("worker.yaml")] + options, within: seconds)
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

extension EndToEnd.Deliveries {
    /// Notifications that failed by a reason are requested again once, also by runs that are killed.
    @Suite(.serialized) struct ReplayTests {
        /// Notifications of the large run; one in ten fails. The full size is 100000.
        private static let count = Int(ProcessInfo.processInfo.environment["APNS_WORKER_E2E_REPLAY"] ?? "") ?? 6_000

        /// Its first request is answered with BadCollapseId, further ones are accepted; of the other with BadPriority.
        private static let failing = "fa1740001"
        private static let other = "fa1740041"

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(10)))
        func `Failed notifications are replayed once, also by runs that are killed`() throws {
            let scene = try Scene("replay")
            let simulator = try scene.startSimulator()
            let worker = try scene.startWorker()
            let requests = scene.configuration.requests
            let book = scene.file("replay.jsonl")
            try scene.replays("produce", scene.servers, requests, book, "\(Self.count)", Self.failing, Self.other)
            try scene.awaitResults(Self.count)
            let tried = try scene.replay("results", "--reason", "BadCollapseId", "--dry-run", "--format", "json")
            let dry = try jsonObject(try #require(tried.text.split(separator: "\n").last))
            let wanted = try #require(dry["produced"] as? Int)
            #expect(tried.ending == .exited(0) && wanted > Self.count / 20 && dry["matched"] as? Int == wanted)

            // Killed at any moment, again and again; so slowly that there is something to be killed.
            let command = ["replay", "results", "--config", scene.file("worker.yaml"), "--reason", "BadCollapseId"]
            var kills = 0
            while kills < 3 {
                let process = try ChildProcess(Tool.worker.path(), command + ["--rate", "\(max(50, wanted / 4))/s"])
                let moment = Double.random(in: 0.1..<1.5)
                Thread.sleep(forTimeInterval: moment)
                guard process.ended == nil else { break }
                try process.killNow()
                kills += 1
            }
            let last = try scene.replay("results", "--reason", "BadCollapseId")
            #expect(last.ending == .exited(0), "\(last.text)")
            #expect(last.text.contains("\(wanted) requests were produced again"), "\(last.text)")
            #expect(kills >= 2 && last.text.contains("going on with it"), "\(last.text)")
            try scene.replays("check", scene.servers, requests, book, Self.failing)

            let again = try scene.replay("results", "--reason", "BadCollapseId")
            #expect(again.ending == .exited(0) && again.text.contains("was done before, and nothing is produced"))
            let changed = try scene.replay(
                "results", "--reason", "BadPriority", "--name", "\(again.text.split(separator: " ")[1])")
            #expect(changed.ending == .exited(1) && changed.text.contains("is of a job with other conditions"))
            try scene.replays("check", scene.servers, requests, book, Self.failing)

            try scene.awaitResults(Self.count + wanted)
            try scene.stop(worker)
            // Aborted requests were never sent.
            try scene.replays("sent", simulator.control, book, Self.failing)
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(4)))
        func `Of two runs at once the second goes on, and the first ends`() throws {
            let scene = try Scene("replay-twice")
            _ = try scene.startSimulator()
            let worker = try scene.startWorker()
            let book = scene.file("replay.jsonl")
            try scene.replays(
                "produce", scene.servers, scene.configuration.requests, book, "3000", Self.failing, Self.other)
            try scene.awaitResults(3_000)
            let command = ["replay", "results", "--config", scene.file("worker.yaml"), "--reason", "BadCollapseId"]
            let first = try ChildProcess(Tool.worker.path(), command + ["--rate", "40/s"])
            // It has written something.
            try scene.awaitResults(3_020)
            let second = try scene.replay("results", "--reason", "BadCollapseId")
            #expect(second.ending == .exited(0) && second.text.contains("going on with it"), "\(second.text)")
            #expect(try first.wait(seconds: 60) == .exited(1))
            #expect(first.text.contains("another run of this job has "), "\(first.text)")
            try scene.replays("check", scene.servers, scene.configuration.requests, book, Self.failing)
            // Told to stop, or out of time, it says that the same command goes on.
            let short = try scene.replay(
                "results", "--reason", "BadCollapseId", "--name", "short", "--rate", "20/s", "--deadline", "2s")
            #expect(short.ending == .exited(1) && short.text.contains("--deadline came before all was done"))
            let stopped = try ChildProcess(
                Tool.worker.path(), command + ["--name", "short", "--rate", "20/s"])
            Thread.sleep(forTimeInterval: 1)
            #expect(try stopped.stop(seconds: 20) == .exited(1))
            #expect(stopped.text.contains("stopped before all was done; the same command goes on"), "\(stopped.text)")
            #expect(try scene.replay("results", "--reason", "BadCollapseId", "--name", "short").ending == .exited(0))
            try scene.replays("check", scene.servers, scene.configuration.requests, book, Self.failing, "2")
            try scene.stop(worker)
        }
    }
}

extension EndToEnd.Records {
    /// The choice of requests, without a worker: only records matter.
    @Suite(.serialized) struct ReplayedRecordsTests {
        private static func scene(_ name: String) throws -> Scene {
            let scene = try Scene(name, partitions: 2)
            try scene.makeSigningKey(scene.configuration.keyFile)
            try scene.write(
                scene.configuration.text.replacingOccurrences(of: "tls: {ca_file: ca.pem}", with: ""), to: "worker.yaml"
            )
            return scene
        }

        @Test(.needs(.worker, .broker, .python, .openssl), .timeLimit(.minutes(4)))
        func `Conditions choose requests, and those left out are named`() throws {
            let scene = try Self.scene("replay-case")
            let text = try scene.replays("case", scene.servers, scene.name)
            let places = try JSONDecoder().decode([String: String].self, from: Data(text.utf8))
            func place(_ kind: String, _ index: Int = 0) -> String { "\(places[kind] ?? "?")/\(index)" }
            var sinks = 0
            /// What a run with these conditions produces, to a topic of its own.
            func run(_ arguments: String..., status: Int32 = 0, saying words: [String] = []) throws -> Set<String> {
                sinks += 1
                let sink = "\(scene.name).sink\(sinks)"
                try scene.create(sink, partitions: 1)
                let ended = try Scene.run(
                    Tool.worker.path(),
                    ["replay", "results", "--config", scene.file("worker.yaml"), "--to", sink] + arguments)
                #expect(ended.ending == .exited(status), "\(ended.text)")
                for word in words { #expect(ended.text.contains(word), "\(word): \(ended.text)") }
                let found = try scene.records(of: sink)
                #expect(Set(found.compactMap(\.of)).count == found.count, "\(found)")
                return Set(found.compactMap(\.of))
            }
            let channel = place("channel")
            let all = Set([
                place("plain"), place("annex"), place("late"), place("twice"), place("many", 3), channel,
                place("large"),
            ])
            let gone = [
                "\(place("other")) is gone: the record there has another time", "/10000000/0 is gone: the log has ",
                "of 11 results that matched", "1 were further results of the same", "1 have expired and were left out",
                "2 are gone",
            ]
            #expect(try run("--all", status: 1, saying: gone) == all)
            #expect(try run("--all", "--expired", status: 1) == all.union([place("expired")]))
            #expect(try run("--app", "annex") == [place("annex")])
            #expect(try run("--app", "annex", "--app", "shop", "--reason", "Forbidden") == [place("annex")])
            #expect(try run("--outcome", "abandoned") == [place("late"), place("large")])
            #expect(try run("--outcome", "accepted") == [place("good")])
            #expect(try run("--since", "2024-01-01T00:00:00Z") == [place("late")])
            #expect(
                try run("--since", "2023-01-01T00:00:00Z", "--until", "2023-12-01T00:00:00Z", status: 1)
                    == all.subtracting([place("late")]))
            #expect(try run("--since", "2h", saying: ["of 0 results"]) == [])
            #expect(try run("--request", "\(places["many"] ?? "")") == [place("many", 3)])
            #expect(
                try run("--request", place("many", 3), "--request", place("plain")) == [
                    place("many", 3), place("plain"),
                ])
            #expect(
                try run(
                    "--request", place("many", 2), status: 1, saying: ["\(place("many", 2)): nothing of it matches"])
                    == [])
            try expectToSayWhatMatchesNothing(scene, matching: place("plain"), not: place("many", 2))
            // One notification of an envelope, in payload form, with the envelope's key.
            let sink = "\(scene.name).one"
            try scene.create(sink, partitions: 1)
            _ = try scene.replay("results", "--request", place("many", 3), "--to", sink)
            let one = try #require(try scene.records(of: sink).first)
            #expect(one.key == "campaign" && one.value == #"{"aps": {}}"#)
            #expect(
                one.headers == [
                    ["push-replay-of", place("many", 3)], ["apns-push-type", "alert"],
                    ["push-device-token", hex(103, digits: 64)],
                ])

            // A record that is too large for its topic is named; the others of its batch are written.
            let narrow = "\(scene.name).narrow"
            try scene.create(narrow, partitions: 1, configuration: [KafkaProperty("max.message.bytes", "2000")])
            let refused = try scene.replay("results", "--app", "big", "--app", "annex", "--to", narrow)
            #expect(refused.ending == .exited(1), "\(refused.text)")
            #expect(
                refused.text.contains("\(place("large")) is not requested again: the topic refuses its record"),
                "\(refused.text)")
            #expect(try scene.records(of: narrow).compactMap(\.of) == [place("annex")])

            // A dry run tells all of it, and changes nothing.
            let before = try scene.records(of: scene.configuration.requests).count
            let dry = try scene.replay("results", "--all", "--dry-run")
            #expect(dry.ending == .exited(1) && dry.text.contains("7 requests would be produced again"))
            #expect(dry.text.contains("nothing was written"), "\(dry.text)")
            #expect(dry.text.firstMatch(of: /\n +1 +\S+requests +annex +rejected +Forbidden\n/) != nil, "\(dry.text)")
            #expect(try scene.records(of: scene.configuration.requests).count == before)
            // Back to where they were: the partition, too.
            #expect(try scene.replay("results", "--all").ending == .exited(1))
            let after = try scene.records(of: scene.configuration.requests).filter { $0.of != nil }
            #expect(after.count == 7)
            for record in after {
                #expect(record.of?.split(separator: "/")[1] == "\(record.partition)", "\(record)")
            }

            // The topic is made anew: all of it is gone.
            try scene.change("remake", scene.configuration.requests, "2", "50", "00", "60")
            let late = try scene.replay("results", "--all", "--name", "late", "--to", sink)
            #expect(late.ending == .exited(1) && late.text.contains("0 requests were produced again"), "\(late.text)")
            #expect(late.text.contains(" 10 are gone"), "\(late.text)")
        }

        /// Places for which nothing matches are named, also where nothing was to be read.
        private func expectToSayWhatMatchesNothing(
            _ scene: Scene, matching plain: String, not missing: String
        ) throws {
            let options = ["--request", missing, "--request", plain, "--name", "missed", "--to", "\(scene.name).sink1"]
            let missed = try scene.replay("results", options)
            #expect(missed.ending == .exited(1) && missed.text.contains("is done after"), "\(missed.text)")
            #expect(missed.text.contains("\(missing): nothing of it matches"), "\(missed.text)")
            #expect(!missed.text.contains("\(plain): nothing"), "\(missed.text)")
            #expect(try scene.replay("results", options).text.contains("was done before"))
            for more in [["--dry-run"], []] {
                let ended = try scene.replay("results", ["--request", plain, "--since", "1ms"] + more)
                #expect(ended.ending == .exited(1), "\(ended.text)")
                #expect(ended.text.contains("\(plain): nothing of it matches"), "\(ended.text)")
            }
            // A hint about a reason that nothing has, and a dry run that is stopped.
            let mistyped = try scene.replay("results", "--reason", "BadTopc", "--dry-run")
            #expect(mistyped.text.contains("did you mean BadTopic?"), "\(mistyped.text)")
            let short = try scene.replay("results", "--reason", "BadTopic", "--dry-run", "--deadline", "1ms")
            #expect(short.ending == .exited(1), "\(short.text)")
            #expect(
                short.text.contains("that matched so far") && short.text.contains("that is not all"), "\(short.text)")
            // A name is one of its source, and where all goes is looked at before anything is promised.
            #expect(try scene.replay("dead-letters", ["--all", "--name", "missed"]).ending == .exited(0))
            let nowhere = try scene.replay("results", ["--all", "--dry-run", "--to", "\(scene.name).nowhere"])
            #expect(nowhere.ending == .exited(1) && nowhere.text.contains(".nowhere: there is no such topic"))
        }

        @Test(.needs(.worker, .broker, .python, .openssl), .timeLimit(.minutes(4)))
        func `Dead letters are replayed as their records were`() throws {
            let scene = try Self.scene("replay-letters")
            let text = try scene.replays("letters", scene.servers, scene.name)
            let places = try JSONDecoder().decode([String: Int].self, from: Data(text.utf8))
            let requests = scene.configuration.requests
            let large = places["large"] ?? 0
            let chosen = try scene.replay("dead-letters", "--reason", "not-json")
            #expect(chosen.ending == .exited(0), "\(chosen.text)")
            let one = try scene.records(of: requests).filter { $0.of != nil }
            #expect(one.count == 1 && one.first?.value == "{" && one.first?.key == "key" && one.first?.partition == 0)
            #expect(one.first?.headers == [["push-replay-of", "\(requests)/0/900001/0"], ["a", "1"]])

            let sink = "\(scene.name).sink"
            try scene.create(sink, partitions: 1)
            let all = try scene.replay("dead-letters", "--all", "--to", sink)
            #expect(all.ending == .exited(1), "\(all.text)")
            for words in [
                "\(requests)/0/\(large + 11) is gone: the record there is another one than its dead letter is about",
                "\(requests)/0/5 is not requested again: it is a record that the worker wrote",
                "\(requests)/0/6 is not requested again: its headers cannot be read",
                "of 6 dead letters that matched: 3 requests were produced again, 1 are gone, 2 cannot be requested again",
            ] { #expect(all.text.contains(words), "\(words): \(all.text)") }
            let found = try scene.records(of: sink)
            #expect(found.count == 3)
            #expect(Set(found.compactMap(\.of)) == Set([900_001, 900_002, large].map { "\(requests)/0/\($0)/0" }))
            let whole = found.first { $0.of == "\(requests)/0/\(large)/0" }
            #expect(whole?.value?.count == 3_020 && whole?.headers.last == ["x", "large"])
        }
    }
}

extension EndToEnd.Outages {
    /// Rights that are missing, and brokers that are away.
    @Suite(.serialized) struct ReplayRightsTests {
        @Test(.needs(.worker, .broker, .python, .openssl), .ownBroker, .timeLimit(.minutes(5)))
        func `Missing rights are named`() throws {
            let protected = try ProtectedScene("replay-rights")
            let (scene, broker) = (protected.scene, protected.broker)
            try scene.makeSigningKey(scene.configuration.keyFile)
            try scene.write(
                scene.configuration.text.replacingOccurrences(of: "tls: {ca_file: ca.pem}", with: ""), to: "worker.yaml"
            )
            _ = try scene.replays("case", broker.bootstrapServers, scene.name)
            let group = "\(scene.configuration.group).replay.results-j"
            let (requests, results) = (scene.configuration.requests, scene.configuration.results)
            func run(_ words: String, without operation: KafkaBroker.Operation, _ resource: KafkaBroker.Resource) throws
            {
                try broker.deny(operation, resource)
                defer { try? broker.lift(operation, resource) }
                let ended = try scene.replay("results", "--app", "annex", "--name", "j", within: 60)
                #expect(ended.ending == .exited(1) && ended.text.contains(words), "\(words): \(ended.text)")
            }
            let untold = try scene.replay("results", "--app", "annex", "--name", "j", within: 60)
            #expect(
                untold.ending == .exited(1)
                    && untold.text.contains("grant WRITE and DESCRIBE on transactional id \(group)"), "\(untold.text)")
            try broker.allowTransactions()
            try run("grant READ on group \(group)", without: .read, .group(group))
            try run("topic \(results) cannot be read: grant READ on topic \(results)", without: .read, .topic(results))
            try run(
                "topic \(requests) cannot be read: grant READ on topic \(requests)", without: .read, .topic(requests))
            try run(
                "topic \(requests) cannot be written: grant WRITE on topic \(requests)", without: .write,
                .topic(requests))
            // A dry run writes nothing, and asks for no progress.
            try broker.deny(.read, .group(group))
            try broker.deny(.write, .topic(requests))
            let dry = try scene.replay("results", "--app", "annex", "--name", "j", "--dry-run")
            #expect(dry.ending == .exited(0), "\(dry.text)")
            try broker.lift(.read, .group(group))
            try broker.lift(.write, .topic(requests))
            // The same words of those that read and write by themselves.
            let file = ["--config", scene.file("worker.yaml"), "--deadline", "20s"]
            func ask(
                _ words: String, without operation: KafkaBroker.Operation, _ resource: KafkaBroker.Resource,
                _ arguments: [String]
            ) throws {
                try broker.deny(operation, resource)
                defer { try? broker.lift(operation, resource) }
                let ended = try Scene.run(Tool.worker.path(), arguments + file)
                #expect(ended.ending == .exited(1) && ended.text.contains(words), "\(arguments): \(ended.text)")
                #expect(!ended.text.contains("no such topic"), "\(ended.text)")
            }
            let (tail, fed) = (["tail", "results"], ["--group", "\(scene.name).fed", "--exec", "cat > /dev/null"])
            let send = ["send", "--token", hex(1, digits: 64), "--alert", "Hi"]
            let unread = "topic \(results) cannot be read: grant READ on topic \(results)\n"
            for operation in [KafkaBroker.Operation.read, .describe] {
                try ask(unread, without: operation, .topic(results), tail)
            }
            try ask(unread, without: .read, .topic(results), tail + fed)
            let unheld = "group \(scene.name).fed cannot be used: grant READ on group \(scene.name).fed\n"
            try ask(unheld, without: .read, .group("\(scene.name).fed"), tail + fed)
            try ask(unread, without: .describe, .topic(results), send)
            let unwritten = "topic \(requests) cannot be written: grant WRITE on topic \(requests)\n"
            for operation in [KafkaBroker.Operation.write, .describe] {
                try ask(unwritten, without: operation, .topic(requests), send)
            }
            // Nothing was done yet, and nothing is left of what was tried.
            let last = try scene.replay("results", "--app", "annex", "--name", "j")
            #expect(last.ending == .exited(0) && last.text.contains("1 requests were produced again"), "\(last.text)")
        }

        /// The outage is longer than a transaction may take, so that the brokers abort it.
        @Test(.needs(.worker, .broker, .python), .ownBroker, .long, .timeLimit(.minutes(5)))
        func `An outage costs a replay nothing`() throws {
            let broker = try KafkaBroker.expendable.get()
            let scene = try Scene("replay-outage", on: broker)
            _ = try scene.startSimulator()
            let worker = try scene.startWorker()
            let book = scene.file("replay.jsonl")
            try scene.replays(
                "produce", scene.servers, scene.configuration.requests, book, "4000", "fa1740001", "fa1740041")
            try scene.awaitResults(4_000)
            let replay = try ChildProcess(
                Tool.worker.path(),
                [
                    "replay", "results", "--config", scene.file("worker.yaml"), "--reason", "BadCollapseId", "--rate",
                    "60/s",
                ])
            try scene.awaitResults(4_050)
            defer { broker.unfreeze() }
            broker.freeze()
            // Reports are ten seconds apart: with the fourth one, a transaction has had its 20 s.
            try eventually("four reports of trouble", of: replay) {
                replay.text.components(separatedBy: "; trying again").count > 4
            }
            broker.unfreeze()
            #expect(try replay.wait(seconds: 120) == .exited(0), "\(replay.text)")
            try scene.replays("check", scene.servers, scene.configuration.requests, book, "fa1740001")
            try worker.killNow()
        }
    }
}
