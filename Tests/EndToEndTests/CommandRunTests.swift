import Foundation
import TestSupport
import Testing

extension String {
    /// Returns the records that a command printed. The text also contains lines of standard error, such as those about
    /// a leader that is not elected yet.
    fileprivate func objects() throws -> [[String: Any]] {
        try split(separator: "\n").filter { $0.hasPrefix("{") }.map { try jsonObject($0) }
    }
}

private func token(_ prefix: String) -> String { prefix + String(repeating: "c0", count: 32 - prefix.count / 2) }

/// The value of a dead-token record.
private func deadToken(_ number: Int) -> String {
    #"{"device_token":"\#(hex(number, digits: 64))","observed_at_ms":\#(number)}"#
}

extension Scene {
    /// Writes values to the topic of dead tokens, whose records have keys because it is compacted.
    fileprivate func produceDead(_ values: [String], key: (String) -> Substring = { _ in "k" }) throws {
        try kcat(
            values.map { "\(key($0))\u{1e}\($0)" }, to: configuration.unregistered, options: ["-K\\x1e"])
    }
}

extension EndToEnd {
    /// Tests of `send`, `tail` and `schema` beside a running worker.
    @Suite struct CommandRunTests {
        @Test(.needs(.worker, .broker, .python))
        func `Send waits for its result`() throws {
            let scene = try Scene("send")
            _ = try scene.startSimulator()
            // Apple creates the ids, so a request can be found by a derived id only through its place.
            scene.configuration.more = "delivery: {apns_id: apple}"
            try scene.configure()
            let requests = scene.configuration.requests

            // No worker is running yet.
            let unheard = try scene.command("send --alert Hi --deadline 3s --token", token("00"))
            unheard.expect(1, "no result for \(requests)/", "within 3 s; check that a worker is running")
            let worker = try scene.startWorker()
            try scene.command("send --alert Hi --title There --token", token("01"))
                .expect(0, " accepted     200 \(token("01"))")
            try scene.write("{\"aps\": {\"content-available\": 1}}\n", to: "payload.json")
            let json = try scene.command(
                "send --push-type background --priority 5 --expiration 1h --collapse-id news --topic com.example.shop "
                    + "--app shop --environment production --format json --apns-id EABEAE54-14A8-11E5-B60B-1697F925EC7B",
                "--token", token("02"), "--payload", "@\(scene.file("payload.json"))")
            let result = try #require(try json.text.objects().first)
            #expect(json.ending == .exited(0) && result["outcome"] as? String == "accepted", "\(json.text)")
            #expect(result["apns_id"] as? String == "eabeae54-14a8-11e5-b60b-1697f925ec7b")
            try scene.command("send --alert Hi --token", token("fa174101")).expect(1, " unregistered 410 Unregistered ")
            try scene.command("send --alert Hi --topic com.example.other --token", token("03")).expect(1, " invalid ")

            // The first request was served as well. Its derived id contains its place.
            let line = try #require(unheard.text.firstMatch(of: /--apns-id ([0-9a-f-]{36})/))
            try scene.command("tail results --deadline 120s --apns-id", "\(line.1)")
                .expect(0, token("00"), "of \(requests)\n")
            try scene.stop(worker)
        }

        @Test(.needs(.worker))
        func `Send --direct delivers without Kafka`() throws {
            let scene = try Scene(withoutBroker: "direct")
            let closedPort = Ports.claim()
            let simulator = try scene.startSimulator()
            func send(_ prefix: String, _ line: String, _ more: String...) throws -> Scene.Finished {
                try scene.configure()
                return try scene.command("send --direct -t \(token(prefix)) \(line)", more)
            }
            try send("01", "-a Hi --collapse-id news --priority 5")
                .expect(0, " accepted     200 \(token("01")) com.example.shop app=shop apns-id=")
            let dead = try send(
                "fa174101", #"-p {"aps":{}} --format json --apns-id EABEAE54-14A8-11E5-B60B-1697F925EC7B"#)
            let answer = try #require(try dead.text.objects().first)
            #expect(dead.ending == .exited(1) && answer["status"] as? Int == 410, "\(dead.text)")
            #expect(answer["reason"] as? String == "Unregistered" && answer["app"] as? String == "shop")
            #expect(answer["outcome"] as? String == "unregistered", "\(dead.text)")
            #expect((answer["advice"] as? String)?.contains("delete the token") == true, "\(dead.text)")
            #expect(answer["apns_id"] as? String == "eabeae54-14a8-11e5-b60b-1697f925ec7b")
            // A worker reports the same.
            try send("01", "-a Hi --topic com.example.other")
                .expect(1, " invalid      BadTopic \(token("01")) com.example.other attempts=0 (")
            // The command rejects this payload as a worker would, and does not send it.
            try send("01", "-p []").expect(1, "the payload must be a JSON object")

            // This is how one person with a key sends, without a file and without Kafka.
            func sendByKey(_ line: String) throws -> Scene.Finished {
                try Scene.worker(
                    "send --direct --key-id SIMULATOR1 --host localhost --port \(simulator.port) --alert Hi "
                        + "--bundle-id com.example.shop --key-file \(scene.file("AuthKey_SIMULATOR1.p8")) "
                        + "--ca-file \(scene.file("ca.pem")) --token \(line)")
            }
            try sendByKey("\(token("01")) --team-id TEAM123456").expect(0, " accepted     200 ")
            try sendByKey("\(token("fa174001")) --team-id TEAM123456")
                .expect(1, " rejected     400 BadDeviceToken ", "(try development)")
            try sendByKey(token("01")).expect(78, "--team-id: is missing")

            // An unreachable server and one that does not answer are reported.
            scene.configuration.port = closedPort
            try send("01", "-a Hi --deadline 10s")
                .expect(
                    1,
                    "localhost:\(closedPort) could not be reached in time: 127.0.0.1:\(closedPort): Connection refused")
            let silent = DeadListener()
            (scene.configuration.host, scene.configuration.port) = ("127.0.0.1", Int(silent.port))
            try send("01", "-a Hi --deadline 3s")
                .expect(1, "send: still waiting for a connection to 127.0.0.1:\(silent.port) (3 s at most)\n")
        }

        @Test(.needs(.worker, .broker, .python))
        func `Sending with and without Kafka prints the same members`() throws {
            let scene = try Scene("alike", partitions: 1)
            _ = try scene.startSimulator("--environment", "development")
            scene.configuration.environment = "development"
            let worker = try scene.startWorker()
            for (prefix, options, outcome) in [
                ("01", "", "accepted"), ("fa174101", "", "unregistered"), ("fa174001", "", "rejected"),
                ("02", "--topic com.example.other", "invalid"),
            ] {
                func send(_ more: String) throws -> Scene.Finished {
                    try scene.command("send -t \(token(prefix)) -a Hi --format json \(options) \(more)")
                }
                let (kafka, direct) = (try send(""), try send("--direct"))
                #expect(kafka.ending == direct.ending && kafka.ending == .exited(outcome == "accepted" ? 0 : 1))
                var ours = try #require(try kafka.text.objects().first).filter { !($0.value is NSNull) }
                var theirs = try #require(try direct.text.objects().first)
                #expect(ours["outcome"] as? String == outcome && theirs["outcome"] as? String == outcome)
                #expect((ours["apns_unique_id"] is String) == (outcome == "accepted"), "\(kafka.text)")
                #expect((ours["advice"] is String) == (outcome == "unregistered" || outcome == "rejected"))
                #expect(ours.removeValue(forKey: "request") != nil)
                // A request that was never sent has no id, unless a record contains one.
                if outcome == "invalid" { ours["apns_id"] = nil }
                #expect(Set(ours.keys) == Set(theirs.keys), "\(kafka.text)\(direct.text)")
                for key in ["apns_id", "apns_unique_id", "requested_at_ms", "sent_at_ms", "settled_at_ms"] {
                    (ours[key], theirs[key]) = (nil, nil)
                }
                #expect(NSDictionary(dictionary: ours) == NSDictionary(dictionary: theirs))
            }
            try scene.stop(worker)
        }

        @Test(.needs(.worker))
        func `Send is refused if no result will be published`() throws {
            let scene = try Scene(withoutBroker: "refused")
            scene.configuration.resultKeys = "publish: failures"
            try scene.configure()
            try scene.command("send -t 00 -a Hi").expect(78, "results.publish is failures")
        }

        @Test(.needs(.worker, .broker, .python))
        func `Send reports where its notification waits`() throws {
            let scene = try Scene("putoff", partitions: 1)
            let tier = "\(scene.name).retry.1h"
            scene.configuration.retries = "tiers: {1h: \(tier)}, max_attempts: 3"
            scene.configuration.kafka = "create_topics: {partitions: 1, replication_factor: 1}"
            let worker = try scene.startAssignedWorker()
            try scene.command("send -t \(token("fa174291")) -a Hi --deadline 20s").expect(
                1, "the request waits in retry topic \(tier) (TooManyRequests) until 2",
                "apns-worker tail results --config \(scene.file("worker.yaml")) --apns-id ",
                "send: still waiting for the result of ")
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python))
        func `No notification of a topic that the worker has just created is in doubt`() throws {
            let scene = try Scene("created", partitions: 1)
            scene.configuration.requests = "\(scene.name).created"
            scene.configuration.kafka = "create_topics: {partitions: 8, replication_factor: 1}"
            try scene.configure()
            try scene.command("check").expect(1, scene.configuration.requests)
            let worker = try scene.startWorker()
            try worker.waitFor("partitions assigned group=\(scene.configuration.group) ")
            for number in 0..<4 {
                let sent = try scene.command("send -t \(token("0\(number)")) -a Hi --format json").expect(0)
                #expect(try sent.text.objects().first?["in_doubt"] as? Int == 0, "\(sent.text)")
            }
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python))
        func `Send reports a paused app`() throws {
            let scene = try Scene("paused", partitions: 1)
            scene.configuration.admin = "127.0.0.1:\(Ports.claim())"
            scene.configuration.appKeys = "paused: true"
            let worker = try scene.startWorker()
            try scene.command("send -t \(token("01")) -a Hi --deadline 5s")
                .expect(1, "(deferred, not sent)", "app shop is paused in this configuration")
            #expect(worker.text.contains("app paused app=shop"), "\(worker.text)")
            try scene.stop(worker)
            try scene.command("check").expect(0, "warning: app shop: paused; its notifications are deferred")
        }

        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Tail finds records by device, request or id`() throws {
            let scene = try Scene("find", partitions: 2)
            let worker = try scene.startWorker()
            let requests = scene.configuration.requests
            let tokens = (0..<3).map { token("0\($0)") }
            let dead = token("fa174101")
            let lines = [
                #"a:{"device_tokens":["\#(tokens[0])","\#(tokens[1])","xyz"],"payload":{"aps":{"alert":"Hi"}}}"#,
                #"\#(tokens[2]):{"aps":{"alert":"Hi"}}"#, #"\#(dead):{"aps":{"alert":"Hi"}}"#, "b:not json",
                #"\#(tokens[0].uppercased()):{"aps":{"alert":"Hi"}}"#,
                #"c:{"device_tokens":["\#(tokens[1])",7],"payload":{}}"#,
            ]
            try scene.kcat(lines, options: ["-p", "1", "-K:"])
            try scene.awaitResults(6)
            func find(_ line: String) throws -> Scene.Finished { try scene.command("tail \(line) --format text") }
            func places(_ text: String) -> [String] {
                text.split(separator: "\n").compactMap { line in
                    line.split(separator: " ").first { $0.hasPrefix("request=") }.map { String($0.dropFirst(8)) }
                }.sorted()
            }
            // The commands find all results of a record, one of them, and a dead letter, which has no result.
            let all = try find("results --deadline 120s --request \(requests)/1/0").expect(0)
            #expect(places(all.text) == (0..<3).map { "\(requests)/1/0/\($0)" })
            let one = try find("results --deadline 120s --request \(requests)/1/0/1").expect(0)
            #expect(places(one.text) == ["\(requests)/1/0/1"], "\(one.text)")
            try find("results --request \(requests)/1/3 --deadline 3s").expect(
                1, "no records were found before the deadline",
                "no matching records found so far; waiting for new records")
            try find("dead-letters --request \(requests)/1/3 --deadline 120s").expect(0, " not-json \(requests)/1/3 ")
            // A derived id contains the place.
            let id = try #require(one.text.firstMatch(of: /apns-id=([0-9a-f-]{36})/)).1
            let byID = try find("results --apns-id \(id) --deadline 120s").expect(0)
            #expect(places(byID.text) == ["\(requests)/1/0/1"], "\(byID.text)")
            // A device's records are found by its token in either case, or by the token's beginning. The command runs
            // until the deadline.
            for token in [tokens[0], tokens[0].uppercased(), String(tokens[0].prefix(9))] {
                let found = try find("results --device \(token) --deadline 3s")
                    .expect(0, "2 matching records found so far; waiting for new records")
                #expect(places(found.text) == ["\(requests)/1/0/0", "\(requests)/1/4/0"], "\(found.text)")
            }
            try find("unregistered --count 1 --deadline 120s --device \(dead.prefix(12))").expect(0, " \(dead) ")
            try find("dead-letters --count 1 --deadline 120s --device \(tokens[1])")
                .expect(0, " bad-envelope \(requests)/1/5 ")
            try scene.stop(worker)
        }

        /// The command does not wait for a notification that is due after the deadline, but reports errors at once.
        @Test(.needs(.worker, .broker, .python))
        func `Send reports when its notification will be sent`() throws {
            let scene = try Scene("later", partitions: 1)
            let tier = "\(scene.name).retry.1h"
            scene.configuration.retries = "tiers: {1s: \(scene.configuration.retry), 1h: \(tier)}, max_attempts: 3"
            scene.configuration.more = "delivery: {max_ahead: 24h}"
            scene.configuration.kafka = "create_topics: {partitions: 1, replication_factor: 1}"
            let worker = try scene.startWorker()
            func send(_ line: String) throws -> Scene.Finished {
                try scene.command("send -t \(token("00")) -a Hi --deadline 20s --not-before \(line)")
            }
            let at = Int(Date().timeIntervalSince1970) + 7_200
            let due = ISO8601DateFormatter().string(from: Date(timeIntervalSince1970: Double(at))).prefix(19)
            try send("\(at)").expect(
                0, " waits in \(tier) until \(due)",
                "apns-worker tail results --config \(scene.file("worker.yaml")) --apns-id ")
            let waiting = try #require(try send("2h --format json").expect(0).text.objects().first)
            #expect(waiting["retry_topic"] as? String == tier, "\(waiting)")
            #expect((waiting["not_before_ms"] as? Int ?? 0) / 1_000 >= at)
            try send("25h").expect(1, " invalid ", "further ahead than delivery.max_ahead")
            // A time in the past and one within the deadline.
            for time in ["0", "1s"] { try send(time).expect(0, " accepted ") }
            try scene.stop(worker)
            try send("2h --deadline 3s").expect(1, "check that a worker is running")
        }

        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Tail follows each topic`() throws {
            let scene = try Scene("tail")
            let worker = try scene.startWorker()
            // By default, tail shows records that are written after its start. `--count` ends it.
            let following = try scene.startCommand("tail results --count 60 --deadline 120s")
            let tokens = (0..<50).map { token(hex($0, digits: 8)) } + (0..<10).map { _ in token("fa174101") }
            let earlier = try scene.command("tail results --from end --deadline 1s").expect(0)
            #expect(!earlier.text.contains("device_token"), "\(earlier.text)")
            try scene.kcat(
                tokens.map { #"\#($0):{"aps":{"alert":"Hi"}}"# } + ["key:not json"], headers: ["trace=a\u{1}b"])
            #expect(try following.wait() == .exited(0), "\(following.text)")
            let results = try following.text.objects()
            #expect(results.compactMap { $0["device_token"] as? String }.sorted() == tokens.sorted())

            let dead = try scene.command("tail unregistered --from beginning --count 10 --format text").expect(0)
            let line = "Unregistered \(token("fa174101")) com.example.shop app=shop since=2020-10-20T22:44:17.728Z"
            #expect(dead.text.split(separator: "\n").allSatisfy { $0.hasSuffix(line) }, "\(dead.text)")

            let letter = try #require(try scene.command("tail dead-letters --from 1h --count 1").text.objects().first)
            #expect(letter["reason"] as? String == "not-json" && letter["key"] as? String == "key")
            #expect(letter["value"] as? String == "not json")
            #expect(letter["topic"] as? String == scene.configuration.requests)
            #expect(letter["headers"] as? [[String: String]] == [["name": "trace", "value": "a\u{1}b"]])

            // The command waits for more records than there are.
            try scene.command("tail dead-letters --from beginning -n 2 --deadline 2s --format text").expect(
                1, " not-json \(scene.configuration.requests)/", "1 of 2 records arrived before the deadline")
            try Scene.worker("tail results --bootstrap-servers \(scene.servers) --topic no.such.topic")
                .expect(1, "no.such.topic: there is no such topic")
            try scene.stop(worker)
        }

        /// The tombstone is written with the command of the article on personal data. Kafka compacts each partition
        /// separately.
        @Test(.needs(.worker, .broker, .kcat))
        func `A tombstone has the partition of its dead token, and tail skips it`() throws {
            let scene = try Scene("erased")
            let topic = scene.configuration.unregistered
            let dead = (0..<8).map { token("fa174101" + hex($0, digits: 2)) }
            let worker = try scene.startWorker()
            try scene.send(to: dead)
            try scene.await(topic, holds: 8, of: worker)
            try scene.stop(worker)
            let written = Set(try scene.records(of: topic, "%p %k"))
            try scene.kcat(
                dead.map { "\($0):" }, to: topic, options: ["-K:", "-Z", "-X", "partitioner=murmur2_random"])
            #expect(try scene.records(of: topic, "%S").count { $0 == "-1" } == 8)
            #expect(Set(try scene.records(of: topic, "%p %k")) == written && written.count == 8)
            try scene.kcat([#"aa:{"device_token":"aa","observed_at_ms":1}"#], to: topic)
            let shown = try scene.command("tail unregistered --from beginning --count 9").expect(0)
            #expect(try shown.text.objects().count == 9)
        }

        /// Added partitions and a recreated topic are read from their beginning.
        @Test(.needs(.worker, .broker, .kcat))
        func `Tail follows a topic that changes`() throws {
            let scene = try Scene("changes", partitions: 1)
            let topic = "\(scene.name).changes"
            try scene.create(topic)
            scene.configuration.unregistered = topic
            try scene.configure()
            let following = try scene.startCommand("tail unregistered --count 7 --deadline 120s --from beginning")
            func produce(_ numbers: ClosedRange<Int>, partition: Int) throws {
                try scene.kcat(numbers.map(deadToken), to: topic, options: ["-p", "\(partition)"])
            }
            func shown() -> Int { following.text.components(separatedBy: "observed_at_ms").count - 1 }
            try produce(1...2, partition: 0)
            try eventually("the first partition", of: following) { shown() == 2 }
            try scene.setPartitions(of: topic, to: 3)
            try produce(3...4, partition: 2)
            try eventually("a partition that was added", of: following) { shown() == 4 }
            try scene.delete(topic)
            try scene.create(topic)
            try produce(5...7, partition: 0)
            #expect(try following.wait() == .exited(0), "\(following.text)")
            for number in 1...7 {
                #expect(following.text.contains("\"observed_at_ms\":\(number)}"), "\(following.text)")
            }
            // The command may find the topic missing, or only see the new one.
            #expect(
                following.text.contains("was recreated") || following.text.contains("the topic no longer exists"),
                "\(following.text)")
        }

        /// A command that fails gets the same records again. Records that it accepted are committed.
        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Tail --exec commits the records that its command accepted`() throws {
            let scene = try Scene("exec")
            try scene.configure()
            let values = (0..<100).map(deadToken)
            try scene.produceDead(values)
            let tail = "tail unregistered --group \(scene.name) --batch 7 "
            func run(_ line: String, exec command: String) throws -> Scene.Finished {
                try scene.command(tail + line, "--exec", command)
            }
            func taken() -> [String] { scene.lines(of: "taken") }
            // The command reads its second batch and then fails once.
            let command = """
                cd \(scene.folder.path); cat > batch; echo >> batches
                if [ $(wc -l < batches) = 2 ]; then cp batch refused; exit 3; fi
                cat batch >> taken
                """
            try run("--count 50 --deadline 120s", exec: command)
                .expect(0, "the command exited with 3; 7 records are passed to the command again in 1 s")
            #expect(taken().count == 50 && taken()[7..<14] == scene.lines(of: "refused")[...])
            // Another member continues at the same offset until it is stopped.
            let second = try scene.startCommand(tail, "--exec", command)
            try eventually("100 records taken", of: second) { taken().count >= 100 }
            #expect(try second.stop() == .exited(0), "\(second.text)")
            #expect(taken().sorted() == values.sorted())
            try run("--deadline 3s", exec: command).expect(0)
            #expect(taken().count == 100)
            // If the command accepts nothing, tail fails, however often it tried.
            try scene.produceDead([values[0]])
            try run("--deadline 4s", exec: "exit 4").expect(1, "tail: 1 records were not processed before tail ended")
            // tail also fails if the command does not end. The deadline also ends the command and its child processes.
            try run("--deadline 3s", exec: "sleep 1000 & wait")
                .expect(1, "the command was stopped at --deadline; 1 records are not committed")
            // The session timeout of the configuration applies, here one that librdkafka refuses.
            scene.configuration.sessionTimeout = "600s"
            try scene.configure()
            try run("--deadline 60s", exec: "cat").expect(1, "session.timeout.ms")
        }

        /// Runs the worker's program with an empty, read-only file system at `/tmp`.
        private static func runWithoutTmp(_ arguments: [String]) throws -> Scene.Finished {
            let mount = #"mount -t tmpfs -o ro none /tmp && exec "$@""#
            return try ChildProcess.run("unshare", ["-rm", "sh", "-c", mount, "sh", Tool.worker.path()] + arguments)
        }

        @Test(
            .needs(.worker, .broker, .kcat),
            .enabled("unshare(1) may not mount over /tmp, or the program is in it") {
                (try? runWithoutTmp(["--help"]))?.ending == .exited(0)
            })
        func `Tail --exec runs with a read-only /tmp`() throws {
            let scene = try Scene("readonly", partitions: 1)
            try scene.produceDead([deadToken(1)])
            let words =
                "tail unregistered --bootstrap-servers \(scene.servers) --topic \(scene.configuration.unregistered) "
                + "--group \(scene.name) --count 1 --deadline 120s --exec"
            try Self.runWithoutTmp(words.split(separator: " ").map(String.init) + ["cat; ! touch /tmp/file"])
                .expect(0, deadToken(1), "Read-only file system")
        }

        /// As process 1 of a container, tail becomes the parent of its commands' orphans. As a subreaper (prctl(2)) it
        /// does too.
        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Orphans of --exec commands are reaped`() throws {
            let scene = try Scene("orphans")
            try scene.produceDead((0..<5).map(deadToken))
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
                try ChildProcess.run("sh", ["-c", "cat /proc/\(tail.processID)/task/*/children"]).text.isEmpty
            }
            #expect(try tail.stop() == .exited(0), "\(tail.text)")
        }

        /// A second member joins while the first one's command is running. The group waits for the command, so no
        /// record is passed twice.
        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Members of a tail group share records without duplicates`() throws {
            let scene = try Scene("share")
            try scene.configure()
            let values = (0..<400).map(deadToken)
            // Keys spread the records over the partitions.
            try scene.produceDead(values) { $0.dropFirst(17).prefix(64) }
            func member(_ name: String) throws -> ChildProcess {
                try scene.startCommand(
                    "tail unregistered --group \(scene.name) --batch 10", "--exec",
                    "cd \(scene.folder.path); cat > batch.\(name); sleep 0.3; cat batch.\(name) >> taken.\(name)")
            }
            func taken(_ name: String) -> [String] { scene.lines(of: "taken.\(name)") }
            let one = try member("one")
            try eventually("20 records taken", of: one) { taken("one").count >= 20 }
            let two = try member("two")
            try eventually("all records taken", of: two) { taken("one").count + taken("two").count >= values.count }
            #expect(try two.stop() == .exited(0), "\(two.text)")
            #expect(try one.stop() == .exited(0), "\(one.text)")
            #expect(!taken("two").isEmpty)
            #expect((taken("one") + taken("two")).sorted() == values.sorted())
        }
    }
}
