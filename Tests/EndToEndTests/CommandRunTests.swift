import Foundation
import Kafka
import TestSupport
import Testing

extension EndToEnd.Commands {
    /// `send`, `tail` and `schema` beside a running worker.
    @Suite(.serialized) struct CommandRunTests {
        private let temporary = try! TemporaryFolder()

        private static func token(_ prefix: String) -> String {
            prefix + String(repeating: "c0", count: 32 - prefix.count / 2)
        }

        private static func run(_ arguments: [String], within seconds: Double = ChildProcess.patience) throws
            -> Scene.Finished
        {
            try Scene.run(Tool.worker.path(), arguments, within: seconds)
        }

        /// The records that a command printed. The same text has its lines on standard error, such as those about
        /// a leader that is not elected yet.
        private static func objects(_ text: String) throws -> [[String: Any]] {
            try text.split(separator: "\n").filter { $0.hasPrefix("{") }.map { try jsonObject($0) }
        }

        @Test(.needs(.worker, .broker, .python))
        func `Send waits for its result`() throws {
            let scene = try Scene("send", partitions: 4)
            _ = try scene.startSimulator()
            // The ids are Apple's, so that only its place finds a request by a derived one.
            scene.configuration.more = "delivery: {apns_id: apple}"
            try scene.write(scene.configuration.text, to: "worker.yaml")
            let send = ["send", "--config", scene.file("worker.yaml"), "--token"]

            // No worker is running yet.
            let unheard = try Self.run(send + [Self.token("00"), "--alert", "Hi", "--deadline", "5s"])
            #expect(unheard.ending == .exited(1))
            #expect(unheard.text.contains("no result of \(scene.configuration.requests)/"), "\(unheard.text)")
            #expect(unheard.text.contains("within 5 s; is a worker running?"), "\(unheard.text)")

            let worker = try scene.startWorker()
            let accepted = try Self.run(send + [Self.token("01"), "--alert", "Hi", "--title", "There"])
            #expect(accepted.ending == .exited(0) && accepted.text.contains(" accepted     200 \(Self.token("01"))"))
            try scene.write("{\"aps\": {\"content-available\": 1}}\n", to: "payload.json")
            let json = try Self.run(
                send + [
                    Self.token("02"), "--payload", "@\(scene.file("payload.json"))", "--push-type", "background",
                    "--priority", "5", "--expiration", "1h", "--collapse-id", "news", "--apns-id",
                    "EABEAE54-14A8-11E5-B60B-1697F925EC7B", "--topic", "com.example.shop", "--app", "shop",
                    "--environment", "production", "--format", "json",
                ])
            let result = try #require(try Self.objects(json.text).first)
            #expect(json.ending == .exited(0) && result["outcome"] as? String == "accepted", "\(json.text)")
            #expect(result["apns_id"] as? String == "eabeae54-14a8-11e5-b60b-1697f925ec7b")
            let dead = try Self.run(send + [Self.token("fa174101"), "--alert", "Hi"])
            #expect(dead.ending == .exited(1) && dead.text.contains(" unregistered 410 Unregistered "), "\(dead.text)")
            let wrong = try Self.run(send + [Self.token("03"), "--alert", "Hi", "--topic", "com.example.other"])
            #expect(wrong.ending == .exited(1) && wrong.text.contains(" invalid "), "\(wrong.text)")

            // The first one was served as well; its id spells the place of its request.
            let line = try #require(unheard.text.firstMatch(of: /--apns-id ([0-9a-f-]{36})/))
            let found = try Self.run(
                ["tail", "results", "-c", scene.file("worker.yaml"), "--apns-id", "\(line.1)", "--deadline", "120s"])
            #expect(found.ending == .exited(0) && found.text.contains(Self.token("00")), "\(found.text)")
            #expect(found.text.contains("of \(scene.configuration.requests)\n"), "\(found.text)")
            try scene.stop(worker)
        }

        /// Without a broker.
        @Test(.needs(.worker))
        func `Send directly`() throws {
            let folder = temporary.url
            let closedPort = Ports.claim()
            let simulator = try RunningSimulator(in: folder)
            defer { try? simulator.process.killNow() }
            var configuration = Configuration(servers: "127.0.0.1:1", name: "direct")
            configuration.port = simulator.port
            let file = try temporary.write(configuration.text)
            let send = ["send", "--direct", "-c", file, "-t"]

            let accepted = try Self.run(
                send + [Self.token("01"), "-a", "Hi", "--collapse-id", "news", "--priority", "5"])
            #expect(accepted.ending == .exited(0), "\(accepted.text)")
            let line = " accepted     200 \(Self.token("01")) com.example.shop app=shop apns-id="
            #expect(accepted.text.contains(line), "\(accepted.text)")
            let dead = try Self.run(
                send + [
                    Self.token("fa174101"), "-p", #"{"aps":{}}"#, "--format", "json", "--apns-id",
                    "EABEAE54-14A8-11E5-B60B-1697F925EC7B",
                ])
            let answer = try #require(try Self.objects(dead.text).first)
            #expect(dead.ending == .exited(1) && answer["status"] as? Int == 410, "\(dead.text)")
            #expect(answer["reason"] as? String == "Unregistered" && answer["app"] as? String == "shop")
            #expect(answer["outcome"] as? String == "unregistered", "\(dead.text)")
            #expect((answer["advice"] as? String)?.contains("delete it") == true, "\(dead.text)")
            #expect(answer["apns_id"] as? String == "eabeae54-14a8-11e5-b60b-1697f925ec7b")
            // As a worker says it.
            let unknown = try Self.run(send + [Self.token("01"), "-a", "Hi", "--topic", "com.example.other"])
            #expect(unknown.ending == .exited(1), "\(unknown.text)")
            #expect(unknown.text.contains(" invalid      BadTopic \(Self.token("01")) com.example.other attempts=0 ("))
            // Refused here as a worker would refuse it, and never sent.
            let wrong = try Self.run(send + [Self.token("01"), "-p", "[]"])
            #expect(wrong.ending == .exited(1) && wrong.text.contains("the payload must be a JSON object"))

            // One person with a key: no file, and nothing of Kafka.
            let flags =
                [
                    "send", "--direct", "--key-file", folder.appending(path: "AuthKey_SIMULATOR1.p8").path, "--key-id",
                    "SIMULATOR1", "--ca-file", folder.appending(path: "ca.pem").path, "--host", "localhost", "--port",
                    "\(simulator.port)", "--bundle-id", "com.example.shop", "--alert", "Hi",
                ]
            let first = try Self.run(flags + ["--team-id", "TEAM123456", "--token", Self.token("01")])
            #expect(first.ending == .exited(0) && first.text.contains(" accepted     200 "), "\(first.text)")
            let other = try Self.run(flags + ["--team-id", "TEAM123456", "--token", Self.token("fa174001")])
            #expect(
                other.ending == .exited(1) && other.text.contains(" rejected     400 BadDeviceToken "), "\(other.text)")
            #expect(other.text.contains("(try development)"), "\(other.text)")
            let team = try Self.run(flags + ["--token", Self.token("01")])
            #expect(team.ending == .exited(78) && team.text.contains("--team-id: is missing"), "\(team.text)")

            configuration.port = closedPort
            _ = try temporary.write(configuration.text)
            let unreachable = try Self.run(send + [Self.token("01"), "-a", "Hi", "--deadline", "1s"])
            #expect(unreachable.ending == .exited(1), "\(unreachable.text)")
            let cause =
                "localhost:\(closedPort) could not be reached in time: 127.0.0.1:\(closedPort): Connection refused"
            #expect(unreachable.text.contains(cause), "\(unreachable.text)")

            // A server that does not answer is named.
            let silent = try DeadListener("127.0.0.1")
            configuration.host = "127.0.0.1"
            configuration.port = silent.port
            _ = try temporary.write(configuration.text)
            let waited = try Self.run(send + [Self.token("01"), "-a", "Hi", "--deadline", "3s"])
            #expect(waited.ending == .exited(1), "\(waited.text)")
            let words = "send: still waiting for a connection to 127.0.0.1:\(silent.port) (3 s at most)\n"
            #expect(waited.text.contains(words), "\(waited.text)")
        }

        @Test(.needs(.worker, .broker, .python))
        func `Both ways of sending print the same members`() throws {
            let scene = try Scene("alike", partitions: 1)
            _ = try scene.startSimulator("--environment", "development")
            scene.configuration.appKeys = "environment: development"
            let text = scene.configuration.text.replacingOccurrences(of: "    environment: production\n", with: "")
            try scene.write(text, to: "worker.yaml")
            let worker = try scene.start(Tool.worker.path(), ["run", "--config", scene.file("worker.yaml")])
            for (token, options, outcome) in [
                ("01", [], "accepted"), ("fa174101", [], "unregistered"), ("fa174001", [], "rejected"),
                ("02", ["--topic", "com.example.other"], "invalid"),
            ] as [(String, [String], String)] {
                let arguments =
                    ["send", "-c", scene.file("worker.yaml"), "-t", Self.token(token), "-a", "Hi"] + options
                func ask(_ more: String...) throws -> Scene.Finished { try Self.run(arguments + more) }
                let (kafka, direct) = (try ask("--format", "json"), try ask("--format", "json", "--direct"))
                #expect(kafka.ending == direct.ending && kafka.ending == .exited(outcome == "accepted" ? 0 : 1))
                var ours = try #require(try Self.objects(kafka.text).first).filter { !($0.value is NSNull) }
                var theirs = try #require(try Self.objects(direct.text).first)
                #expect(ours["outcome"] as? String == outcome && theirs["outcome"] as? String == outcome)
                #expect((ours["apns_unique_id"] is String) == (outcome == "accepted"), "\(kafka.text)")
                #expect((ours["advice"] is String) == (outcome == "unregistered" || outcome == "rejected"))
                #expect(ours.removeValue(forKey: "request") != nil)
                // What was never sent has no id where no record spells one.
                if outcome == "invalid" { ours["apns_id"] = nil }
                #expect(Set(ours.keys) == Set(theirs.keys), "\(kafka.text)\(direct.text)")
                for key in ["apns_id", "apns_unique_id", "requested_at_ms", "sent_at_ms", "settled_at_ms"] {
                    ours[key] = nil
                    theirs[key] = nil
                }
                #expect(NSDictionary(dictionary: ours) == NSDictionary(dictionary: theirs))
            }
            try scene.stop(worker)
        }

        @Test(.needs(.worker))
        func `Send is refused where no result comes`() throws {
            var text = Configuration(servers: "127.0.0.1:1", name: "refused").text
            text.replace("results: {topic: ", with: "results: {publish: failures, topic: ")
            let ended = try Self.run(["send", "-c", temporary.write(text), "-t", Self.token("00"), "-a", "Hi"])
            #expect(ended.ending == .exited(78) && ended.text.contains("results.publish is failures"), "\(ended.text)")
        }

        @Test(.needs(.worker, .broker, .python))
        func `Send says where its notification waits`() throws {
            let scene = try Scene("putoff", partitions: 1)
            _ = try scene.startSimulator()
            let tier = "\(scene.name).retry.1h"
            scene.configuration.retries = "tiers: {1h: \(tier)}, max_attempts: 3"
            let worker = try scene.startWorker(kafka: "create_topics: {partitions: 1, replication_factor: 1}")
            let file = scene.file("worker.yaml")
            let sent = try Self.run(
                ["send", "-c", file, "-t", Self.token("fa174291"), "-a", "Hi", "--deadline", "15s"])
            #expect(sent.ending == .exited(1), "\(sent.text)")
            let words = "a worker put it off to \(tier) (TooManyRequests), to be sent again at 2"
            #expect(sent.text.contains(words), "\(sent.text)")
            #expect(sent.text.contains("apns-worker tail results --config \(file) --apns-id "), "\(sent.text)")
            #expect(sent.text.contains("send: still waiting for the result of "), "\(sent.text)")
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python))
        func `Send names a paused app`() throws {
            let scene = try Scene("paused", partitions: 1)
            _ = try scene.startSimulator()
            let port = Ports.claim()
            scene.configuration.admin = "127.0.0.1:\(port)"
            scene.configuration.appKeys = "paused: true"
            let worker = try scene.startWorker()
            let send = [
                "send", "-c", scene.file("worker.yaml"), "-t", Self.token("01"), "-a", "Hi", "--deadline", "10s",
            ]
            let held = try Self.run(send)
            #expect(held.ending == .exited(1), "\(held.text)")
            #expect(held.text.contains("(held: it was not sent)"), "\(held.text)")
            #expect(worker.text.contains("app is paused: nothing of it is sent app=shop"), "\(worker.text)")
            try scene.stop(worker)
            #expect(held.text.contains("app shop is paused in this configuration"), "\(held.text)")
            let checked = try scene.startWorker("check")
            #expect(try checked.wait() == .exited(0), "\(checked.text)")
            #expect(checked.text.contains("warning: app shop: it is paused: nothing of it is sent"), "\(checked.text)")
        }

        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Tail finds records by device, request or id`() throws {
            let scene = try Scene("find", partitions: 2)
            _ = try scene.startSimulator()
            let worker = try scene.startWorker()
            let requests = scene.configuration.requests
            let tokens = (0..<3).map { Self.token("0\($0)") }
            let dead = Self.token("fa174101")
            let lines = [
                #"a:{"device_tokens":["\#(tokens[0])","\#(tokens[1])","xyz"],"payload":{"aps":{"alert":"Hi"}}}"#,
                #"\#(tokens[2]):{"aps":{"alert":"Hi"}}"#, #"\#(dead):{"aps":{"alert":"Hi"}}"#, "b:not json",
                #"\#(tokens[0].uppercased()):{"aps":{"alert":"Hi"}}"#,
                #"c:{"device_tokens":["\#(tokens[1])",7],"payload":{}}"#,
            ]
            try scene.kcat(lines, options: ["-p", "1", "-K:"])
            try scene.awaitResults(6)
            func find(_ kind: String, _ more: String...) throws -> Scene.Finished {
                try Self.run(["tail", kind, "-c", scene.file("worker.yaml"), "--format", "text"] + more)
            }
            func places(_ text: String) -> [String] {
                text.split(separator: "\n").compactMap { line in
                    line.split(separator: " ").first { $0.hasPrefix("request=") }.map { String($0.dropFirst(8)) }
                }.sorted()
            }
            // All of a record, one of it, and no dead letter's.
            let all = try find("results", "--request", "\(requests)/1/0", "--deadline", "120s")
            #expect(all.ending == .exited(0), "\(all.text)")
            #expect(places(all.text) == (0..<3).map { "\(requests)/1/0/\($0)" })
            let one = try find("results", "--request", "\(requests)/1/0/1", "--deadline", "120s")
            #expect(one.ending == .exited(0) && places(one.text) == ["\(requests)/1/0/1"], "\(one.text)")
            let none = try find("results", "--request", "\(requests)/1/3", "--deadline", "3s")
            #expect(none.ending == .exited(1) && none.text.contains("no records were found before the deadline"))
            #expect(none.text.contains("no records were found so far; waiting for what comes"), "\(none.text)")
            let letter = try find("dead-letters", "--request", "\(requests)/1/3", "--deadline", "120s")
            #expect(letter.ending == .exited(0) && letter.text.contains(" not-json \(requests)/1/3 "), "\(letter.text)")
            // A derived id names the place, of a dead letter too.
            let id = try #require(one.text.firstMatch(of: /apns-id=([0-9a-f-]{36})/)).1
            let byID = try find("results", "--apns-id", "\(id)", "--deadline", "120s")
            #expect(byID.ending == .exited(0) && places(byID.text) == ["\(requests)/1/0/1"], "\(byID.text)")
            // A device's, in either case, by its beginning too; it goes on until the deadline.
            for token in [tokens[0], tokens[0].uppercased(), String(tokens[0].prefix(9))] {
                let found = try find("results", "--device", token, "--deadline", "3s")
                #expect(found.ending == .exited(0), "\(found.text)")
                #expect(places(found.text) == ["\(requests)/1/0/0", "\(requests)/1/4/0"], "\(found.text)")
                #expect(found.text.contains("2 records were found so far; waiting for what comes"))
            }
            let gone = try find(
                "unregistered", "--device", String(dead.prefix(12)), "--count", "1", "--deadline", "120s")
            #expect(gone.ending == .exited(0) && gone.text.contains(" \(dead) "), "\(gone.text)")
            let inEnvelope = try find("dead-letters", "--device", tokens[1], "--count", "1", "--deadline", "120s")
            #expect(inEnvelope.ending == .exited(0) && inEnvelope.text.contains(" bad-envelope \(requests)/1/5 "))
            try scene.stop(worker)
        }

        /// A notification that is due after the deadline is not waited for, but errors in it are reported at once.
        @Test(.needs(.worker, .broker, .python))
        func `Send says when its notification will be sent`() throws {
            let scene = try Scene("later", partitions: 1)
            _ = try scene.startSimulator()
            let tier = "\(scene.name).retry.1h"
            scene.configuration.retries = "tiers: {1s: \(scene.configuration.retry), 1h: \(tier)}, max_attempts: 3"
            scene.configuration.more = "delivery: {max_ahead: 24h}"
            let worker = try scene.startWorker(kafka: "create_topics: {partitions: 1, replication_factor: 1}")
            let file = scene.file("worker.yaml")
            let send = ["send", "-c", file, "-t", Self.token("00"), "-a", "Hi", "--deadline", "20s", "--not-before"]
            let at = Int(Date().timeIntervalSince1970) + 7_200
            let sent = try Self.run(send + ["\(at)"])
            #expect(sent.ending == .exited(0), "\(sent.text)")
            let due = ISO8601DateFormatter().string(from: Date(timeIntervalSince1970: Double(at))).prefix(19)
            #expect(sent.text.contains(" waits in \(tier), to be sent at \(due)"), "\(sent.text)")
            #expect(sent.text.contains("apns-worker tail results --config \(file) --apns-id "), "\(sent.text)")
            let json = try Self.run(send + ["2h", "--format", "json"])
            let waiting = try #require(try Self.objects(json.text).first)
            #expect(json.ending == .exited(0) && waiting["retry_topic"] as? String == tier, "\(json.text)")
            #expect((waiting["not_before_ms"] as? Int ?? 0) / 1_000 >= at)
            let wrong = try Self.run(send + ["25h"])
            #expect(wrong.ending == .exited(1) && wrong.text.contains(" invalid "), "\(wrong.text)")
            #expect(wrong.text.contains("further ahead than delivery.max_ahead"), "\(wrong.text)")
            // In the past, and within the deadline.
            for time in ["0", "1s"] {
                let soon = try Self.run(send + [time])
                #expect(soon.ending == .exited(0) && soon.text.contains(" accepted "), "\(soon.text)")
            }
            try scene.stop(worker)
            let nobody = try Self.run(send + ["2h", "--deadline", "3s"])
            #expect(nobody.ending == .exited(1) && nobody.text.contains("is a worker running?"), "\(nobody.text)")
        }

        @Test(.needs(.worker, .broker, .python))
        func `Topics that cannot be made are explained`() throws {
            let scene = try Scene("uncreated", partitions: 1)
            _ = try scene.startSimulator()
            scene.configuration.results = "\(scene.name).missing"
            func check(_ creation: String) throws -> Scene.Finished {
                let ended = try scene.startWorker("check", kafka: "create_topics: \(creation)")
                return Scene.Finished(ending: try ended.wait(), text: ended.text)
            }
            // Three replicas, of which one broker has no room.
            let refused = try check("true")
            #expect(refused.ending == .exited(1), "\(refused.text)")
            let words = "the brokers do not make topic \(scene.configuration.results) (kafka.create_topics): "
            #expect(refused.text.contains("not fine: kafka: \(words)"), "\(refused.text)")
            #expect(
                refused.text.contains("set kafka.create_topics.replication_factor to the number of brokers at most"))
            #expect(!refused.text.contains("cannot be reached: ") && !refused.text.contains("all topics are there"))
            let worker = try scene.startWorker(kafka: "create_topics: true")
            let log = try worker.waitFor("kind=topics_missing")
            #expect(!log.contains("kafka_unreachable"), "\(log)")
            try scene.stop(worker)

            let fine = try check("{partitions: 1, replication_factor: 1}")
            #expect(fine.ending == .exited(0), "\(fine.text)")
            let verdict = " reached, run makes the topics that are missing: \(scene.configuration.results)\n"
            #expect(fine.text.contains(verdict), "\(fine.text)")
            #expect(!fine.text.contains("do not exist") && !fine.text.contains("cannot be read"), "\(fine.text)")
            // Nothing was made.
            #expect(try check("false").ending == .exited(1))
        }

        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Tail follows each topic`() throws {
            let scene = try Scene("tail", partitions: 4)
            _ = try scene.startSimulator()
            let worker = try scene.startWorker()
            let tail = ["--config", scene.file("worker.yaml")]
            // From the end: it shows what comes after it began. (`--count` ends it.)
            let following = try ChildProcess(
                Tool.worker.path(), ["tail", "results", "--count", "60", "--deadline", "120s"] + tail)
            let tokens = (0..<50).map { Self.token(hex($0, digits: 8)) } + (0..<10).map { _ in Self.token("fa174101") }
            let earlier = try Self.run(["tail", "results", "--from", "end", "--deadline", "1s"] + tail)
            #expect(earlier.ending == .exited(0) && !earlier.text.contains("device_token"), "\(earlier.text)")
            try scene.kcat(
                tokens.map { #"\#($0):{"aps":{"alert":"Hi"}}"# } + ["key:not json"], headers: ["trace=a\u{1}b"])
            #expect(try following.wait() == .exited(0), "\(following.text)")
            let results = try Self.objects(following.text)
            #expect(results.compactMap { $0["device_token"] as? String }.sorted() == tokens.sorted())

            let dead = try Self.run(
                ["tail", "unregistered", "--from", "beginning", "--count", "10", "--format", "text"] + tail)
            #expect(dead.ending == .exited(0))
            let line = "Unregistered \(Self.token("fa174101")) com.example.shop app=shop since=2020-10-20T22:44:17.728Z"
            #expect(dead.text.split(separator: "\n").allSatisfy { $0.hasSuffix(line) }, "\(dead.text)")

            let letters = try Self.run(["tail", "dead-letters", "--from", "1h", "--count", "1"] + tail)
            let letter = try #require(try Self.objects(letters.text).first)
            #expect(letter["reason"] as? String == "not-json" && letter["key"] as? String == "key")
            #expect(
                letter["value"] as? String == "not json" && letter["topic"] as? String == scene.configuration.requests)
            let headers = letter["headers"] as? [[String: String]]
            #expect(headers == [["name": "trace", "value": "a\u{1}b"]])

            // More was asked for than there is.
            let short = try Self.run(
                ["tail", "dead-letters", "--from", "beginning", "-n", "2", "--deadline", "2s", "--format", "text"]
                    + tail)
            #expect(short.ending == .exited(1))
            #expect(short.text.contains(" not-json \(scene.configuration.requests)/"), "\(short.text)")
            #expect(short.text.contains("1 of 2 records came before the deadline"), "\(short.text)")
            let missing = try Self.run(
                ["tail", "results", "--bootstrap-servers", scene.servers, "--topic", "no.such.topic"])
            #expect(missing.ending == .exited(1) && missing.text.contains("no.such.topic: there is no such topic"))
            try scene.stop(worker)
        }

        /// Partitions that are added and a topic that is recreated are read from their beginning.
        @Test(.needs(.worker, .broker, .kcat))
        func `Tail follows a topic that changes`() throws {
            let broker = try #require(KafkaBroker.shared)
            let topic = try broker.newTopic("changes")
            let following = try ChildProcess(
                Tool.worker.path(),
                [
                    "tail", "unregistered", "--bootstrap-servers", broker.bootstrapServers, "--topic", topic, "--count",
                    "7", "--deadline", "120s", "--from", "beginning",
                ])
            func produce(_ numbers: ClosedRange<Int>, partition: Int) throws {
                let lines = numbers.map { #"{"device_token":"\#(hex($0, digits: 64))","observed_at_ms":\#($0)}"# }
                let writer = try ChildProcess(
                    Tool.kcat.path(), ["-P", "-b", broker.bootstrapServers, "-t", topic, "-p", "\(partition)"])
                writer.write(lines.joined(separator: "\n"))
                writer.closeInput()
                #expect(try writer.wait() == .exited(0), "\(writer.text)")
            }
            func shown() -> Int { following.text.components(separatedBy: "observed_at_ms").count - 1 }
            try produce(1...2, partition: 0)
            try eventually("the first partition", of: following) { shown() == 2 }
            try broker.setPartitions(of: topic, to: 3)
            try produce(3...4, partition: 2)
            try eventually("a partition that was added", of: following) { shown() == 4 }
            try broker.delete([topic])
            try broker.create([NewTopic(topic, partitions: 1, replicationFactor: 1)])
            try produce(5...7, partition: 0)
            #expect(try following.wait() == .exited(0), "\(following.text)")
            for number in 1...7 {
                #expect(following.text.contains("\"observed_at_ms\":\(number)}"), "\(following.text)")
            }
            // Of the topic, or of the partition whose end is below what was read.
            #expect(following.text.contains("was recreated"), "\(following.text)")
        }

        /// A command that fails gets the same records again; records that it took are committed.
        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Exec commits what the command took`() throws {
            let scene = try Scene("exec", partitions: 4)
            let values = (0..<100).map {
                #"{"device_token":"\#(hex($0, digits: 64))","observed_at_ms":\#($0)}"#
            }
            func produce(_ values: [String]) throws {
                try scene.kcat(values, to: scene.configuration.unregistered, options: ["-K\\x1e"])
            }
            // A compacted topic's records have keys.
            try produce(values.map { "k\u{1e}\($0)" })
            let tail = [
                "tail", "unregistered", "--bootstrap-servers", scene.servers, "--topic",
                scene.configuration.unregistered, "--group", scene.name, "--batch", "7", "--exec",
            ]
            // It refuses its second batch once, after it has read it.
            let command = """
                cd \(scene.folder.path); cat > batch; echo >> batches
                if [ $(wc -l < batches) = 2 ]; then cp batch refused; exit 3; fi
                cat batch >> taken
                """
            let first = try Self.run(tail + [command, "--count", "50", "--deadline", "120s"], within: 300)
            #expect(first.ending == .exited(0), "\(first.text)")
            #expect(first.text.contains("the command exited with 3; its 7 records are handed over again in 1 s"))
            #expect(try lines("taken").count == 50)
            #expect(try lines("taken")[7..<14].elementsEqual(lines("refused")))
            // Another member goes on where it ended, until it is told to stop.
            let second = try ChildProcess(Tool.worker.path(), tail + [command])
            try await50More(second)
            #expect(try second.stop() == .exited(0), "\(second.text)")
            #expect(try lines("taken").sorted() == values.sorted())
            let third = try Self.run(tail + [command, "--deadline", "3s"])
            #expect(third.ending == .exited(0))
            #expect(try lines("taken").count == 100)
            // A command that takes nothing is no success, however long it was tried.
            try produce(["k\u{1e}\(values[0])"])
            let refused = try Self.run(tail + ["exit 4", "--deadline", "8s"])
            #expect(refused.ending == .exited(1), "\(refused.text)")
            #expect(refused.text.contains("tail: 1 records were not taken before the end"), "\(refused.text)")
            // Nor is one that has no end: the deadline is one for it, too, and for what it started.
            let endless = try Self.run(tail + ["sleep 1000 & wait", "--deadline", "3s"])
            #expect(endless.ending == .exited(1), "\(endless.text)")
            let words = "the command was ended at --deadline; its 1 records are not committed"
            #expect(endless.text.contains(words), "\(endless.text)")

            func lines(_ name: String) throws -> [String] {
                try String(contentsOfFile: scene.file(name), encoding: .utf8).split(separator: "\n").map(String.init)
            }
            func await50More(_ process: ChildProcess) throws {
                try eventually("100 records taken", of: process) { try lines("taken").count >= 100 }
            }
        }

        /// As process 1 of a container tail gets the orphans of its commands. A subreaper (prctl(2)) gets them, too.
        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Orphans of exec commands are reaped`() throws {
            let scene = try Scene("orphans")
            try scene.kcat(
                (0..<5).map { #"k\#u{1e}{"device_token":"\#(hex($0, digits: 64))","observed_at_ms":1}"# },
                to: scene.configuration.unregistered, options: ["-K\\x1e"])
            let subreaper =
                "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1); os.execv(sys.argv[1], sys.argv[1:])"
            let tail = try ChildProcess(
                Tool.python.path(),
                [
                    "-c", subreaper, Tool.worker.path(), "tail", "unregistered", "--bootstrap-servers", scene.servers,
                    "--topic", scene.configuration.unregistered, "--group", scene.name, "--batch", "1", "--exec",
                    "cd \(scene.folder.path); cat > /dev/null; (sleep 0.2; echo >> ended) &",
                ])
            try eventually("five orphans that ended", of: tail) {
                (try? String(contentsOfFile: scene.file("ended"), encoding: .utf8))?.count == 5
            }
            try eventually("no child that is left", of: tail) {
                try Scene.run("sh", ["-c", "cat /proc/\(tail.processID)/task/*/children"]).text.isEmpty
            }
            #expect(try tail.stop() == .exited(0), "\(tail.text)")
        }

        /// A second member joins while the first one's command runs: the group waits for it, so no record is handed
        /// over twice.
        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Members share without repeating`() throws {
            let scene = try Scene("share", partitions: 4)
            let values = (0..<400).map { #"{"device_token":"\#(hex($0, digits: 64))","observed_at_ms":\#($0)}"# }
            try scene.kcat(
                values.map { "\($0.dropFirst(17).prefix(64))\u{1e}\($0)" }, to: scene.configuration.unregistered,
                options: ["-K\\x1e"])
            func member(_ name: String) throws -> ChildProcess {
                let command =
                    "cd \(scene.folder.path); cat > batch.\(name); sleep 0.3; cat batch.\(name) >> taken.\(name)"
                return try ChildProcess(
                    Tool.worker.path(),
                    [
                        "tail", "unregistered", "--bootstrap-servers", scene.servers, "--topic",
                        scene.configuration.unregistered, "--group", scene.name, "--batch", "10", "--exec", command,
                    ])
            }
            func taken(_ name: String) -> [Substring] {
                ((try? String(contentsOfFile: scene.file("taken.\(name)"), encoding: .utf8)) ?? "").split(
                    separator: "\n")
            }
            let one = try member("one")
            try eventually("20 records taken", of: one) { taken("one").count >= 20 }
            let two = try member("two")
            try eventually("all records taken", of: two) { taken("one").count + taken("two").count >= values.count }
            #expect(try two.stop() == .exited(0), "\(two.text)")
            #expect(try one.stop() == .exited(0), "\(one.text)")
            #expect(!taken("two").isEmpty)
            #expect((taken("one") + taken("two")).map(String.init).sorted() == values.sorted())
        }

        /// All that the worker writes to Kafka matches `schema`.
        @Test(.needs(.worker, .broker, .python), .needsJSONSchema)
        func `Schemas hold`() throws {
            let scene = try Scene("schemas")
            _ = try scene.startSimulator()
            // Faults of the credential would hold everything else back for a while.
            let faults = [
                "BadCertificate", "BadCertificateEnvironment", "ExpiredProviderToken", "InvalidProviderToken",
                "MissingProviderToken", "UnrelatedKeyIdInToken", "BadEnvironmentKeyIdInToken",
            ]
            let verdicts = faults.map { "\($0): reject" }.joined(separator: ", ")
            scene.configuration.more = "delivery: {verdicts: {\(verdicts)}}"
            let worker = try scene.startWorker()
            try scene.produce(2_000, "--prefixes", scene.prefixes())
            try scene.settle(worker)
            try scene.stop(worker)
            let names = scene.configuration
            func check(_ checks: String...) throws -> Scene.Finished {
                try Scene.run(
                    #require(pythonWithValidator),
                    [Scene.book("schemas.py"), "--servers", scene.servers, "--worker", Tool.worker.path()] + checks)
            }
            let checked = try check(
                "value:result:\(names.results)", "headers:result-headers:\(names.results)",
                "value:unregistered:\(names.unregistered)", "headers:dead-letter-headers:\(names.deadLetters)",
                "headers:retry-headers:\(names.retry)")
            #expect(checked.ending == .exited(0), "\(checked.text)")
            // The check itself: what is no result is found.
            let wrong = try check("value:result:\(names.unregistered)")
            #expect(wrong.ending == .exited(1) && wrong.text.contains("FOUND"), "\(wrong.text)")
        }
    }
}

/// Python with a Kafka client and a validator; Debian's has both where the one that comes first on the path has not.
private let pythonWithValidator: String? = [Tool.python.place, "/usr/bin/python3"].compactMap(\.self).first { python in
    let tried = try? ChildProcess(python, ["-c", "import confluent_kafka, jsonschema"])
    return (try? tried?.wait()) == .exited(0)
}

extension Trait where Self == ConditionTrait {
    fileprivate static var needsJSONSchema: Self {
        .enabled(
            if: pythonWithValidator != nil,
            "missing: Python with confluent_kafka and jsonschema (Docker/setup --tests)")
    }
}
