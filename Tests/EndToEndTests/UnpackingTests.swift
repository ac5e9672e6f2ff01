import Foundation
import TestSupport
import Testing

extension EndToEnd.Batches {
    /// Batches that are small in the log and large once unpacked: none kills the worker, makes it large, or stops it.
    @Suite(.serialized) struct UnpackingTests {
        /// Writes the batches and returns a line for each: partition, first and last offset, what it is.
        @discardableResult
        private static func write(_ what: [String], to topic: String, of scene: Scene) throws -> [[Substring]] {
            let script = URL(fileURLWithPath: Scene.program).deletingLastPathComponent().appending(path: "batches.py")
            let ended = try Scene.run(
                Tool.python.path(),
                [script.path, "--servers", scene.servers, "--topic", topic] + what, within: 240)
            guard ended.ending == .exited(0) else { throw Unexpected(ended.text) }
            print(ended.text)
            return ended.text.split(separator: "\n").map { $0.split(separator: " ") }
        }

        /// `push-dlq-…` headers of all dead letters.
        private static func letters(of scene: Scene) throws -> [Substring] {
            try Scene.run(
                Tool.kcat.path(),
                [
                    "-C", "-q", "-e", "-b", scene.servers, "-t", scene.configuration.deadLetters, "-o", "beginning",
                    "-f", "%h\n",
                ]
            ).text.split(separator: "\n").filter { $0.contains("push-dlq-reason") }
        }

        /// Topic, partition, first and last offset of what went to the dead letters as a batch.
        private static func places(of scene: Scene) throws -> [[Substring]] {
            try letters(of: scene).filter { $0.contains("push-dlq-reason=unreadable-batch") }.map { letter in
                ["topic", "partition", "offset", "last-offset"].map { name in
                    letter.split(separator: ",").first { $0.hasPrefix("push-dlq-\(name)=") }?.split(separator: "=").last
                        ?? "none"
                }
            }
        }

        /// The requests, `PARTITION/OFFSET`, that have a result.
        private static func answered(in scene: Scene) throws -> Set<String> {
            let results = try Scene.run(
                Tool.kcat.path(),
                [
                    "-C", "-q", "-e", "-b", scene.servers, "-t", scene.configuration.results, "-o", "beginning", "-f",
                    "%s\n",
                ]
            ).text.split(separator: "\n")
            return try Set(
                results.map { result in
                    guard let place = result.firstMatch(of: /"partition":([0-9]+),"offset":([0-9]+)/) else {
                        throw Unexpected("no place in \(result)")
                    }
                    return "\(place.1)/\(place.2)"
                })
        }

        @Test(.needs(.worker, .broker, .python, .kcat), .timeLimit(.minutes(8)))
        func batchesTooLargeToUnpackAreDeadLettersAndTheOthersGoOn() throws {
            let scene = try Scene("bombs", partitions: 4)
            scene.configuration.kafka = "unpack_memory: 192MiB"
            let simulator = try scene.startSimulator()
            // What librdkafka would unpack (up to 90 MB), what it would not, and what is allowed and yet large.
            let written = try Self.write(
                [
                    "good:3@0", "zstd:60:6@0", "good:2@0", "zstd:110:2@0", "good:2@0",
                    "gzip:110:2@1", "good:2@1", "lz4:60:3@2", "good:2@2", "full:zstd:20:3000@2",
                    "zstd:20:3@3", "good:3@3",
                ], to: scene.configuration.requests, of: scene)
            var bombs = written.filter { $0[3].contains("60") || $0[3].contains("110") }
                .map { [scene.configuration.requests[...]] + $0[0...2] }
            #expect(bombs.count == 13)
            bombs += try Self.write(["zstd:60:1@0", "gzip:110:1@0"], to: scene.configuration.retry, of: scene)
                .map { [scene.configuration.retry[...]] + $0[0...2] }
            let worker = try scene.startWorker()
            let seconds = try scene.await(scene.configuration.results, holds: 34, within: 120, of: worker)
            // The three that may be unpacked are no JSON.
            try scene.await(scene.configuration.deadLetters, holds: bombs.count + 3, within: 60, of: worker)
            let resident = try worker.largestResidentKilobytes()
            print("all results \(seconds) s after the start, \(resident) kB resident at most")
            #expect(resident < 400_000)
            let places = try Self.places(of: scene)
            #expect(Set(places) == Set(bombs))
            #expect(places.count == bombs.count)
            try scene.settle(worker)
            try scene.stop(worker)
            try simulator.process.stop()
        }

        /// What a worker has no room for has its place in the log all the same, and comes again in smaller batches.
        @Test(.needs(.worker, .broker, .python, .kcat), .timeLimit(.minutes(4)))
        func whatWasTooLargeToUnpackIsReplayed() throws {
            let scene = try Scene("unpacked", partitions: 1)
            scene.configuration.kafka = "max_batch_bytes: 4MiB"
            let simulator = try scene.startSimulator()
            try Self.write(
                ["good:3@0", "full:zstd:2000:3000@0", "good:2@0"], to: scene.configuration.requests, of: scene)
            let worker = try scene.startWorker()
            try scene.await(scene.configuration.results, holds: 5, within: 60, of: worker)
            try scene.await(scene.configuration.deadLetters, holds: 1, within: 30, of: worker)
            #expect(try Self.places(of: scene) == [[scene.configuration.requests[...], "0", "3", "2002"]])
            let replay = try Scene.run(
                Tool.worker.path(),
                ["replay", "dead-letters", "--config", scene.file("worker.yaml"), "--reason", "unreadable-batch"])
            #expect(
                replay.ending == .exited(0) && replay.text.contains("2000 requests were produced again"),
                "\(replay.text)")
            try scene.await(scene.configuration.results, holds: 2_005, within: 60, of: worker)
            #expect(try scene.resultsWithKcat().filter { $0.contains("push-replay-of=") }.count == 2_000)
            try scene.stop(worker)
            try simulator.process.stop()
        }

        /// Snappy's end is not told by librdkafka: it is found by asking.
        @Test(.needs(.worker, .broker, .python, .curl, .kcat), .timeLimit(.minutes(5)))
        func batchesOfSnappyThatOnlyBrokersUnpackAreDeadLetteredAndTheOthersGoOn() throws {
            let scene = try Scene("snappy", partitions: 2)
            scene.configuration.admin = "127.0.0.1:0"
            let simulator = try scene.startSimulator()
            let topic = scene.configuration.requests
            try Self.write(["good:3@0", "snappy:4:0@0"], to: topic, of: scene)
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try scene.await(scene.configuration.results, holds: 7, within: 60, of: worker)
            // The second of partition 0 right behind the first; one of a single record; one at the end of its log.
            let written = try Self.write(
                [
                    "good:1@0", "snappy:500:3@0", "snappy:2:1@0", "good:2@0", "snappy:1:2@0", "good:1@0",
                    "snappy:100:3@1",
                ], to: topic, of: scene)
            let start = Date()
            try pages.await("/status", within: 20) { $0.1.contains(#""subject":"partition \#(topic)"#) }
            try scene.await(scene.configuration.results, holds: 11, within: 30, of: worker)
            print("read on behind three batches \(Date().timeIntervalSince(start)) s after they were written")
            #expect(Date().timeIntervalSince(start) < 20)
            try scene.await(scene.configuration.deadLetters, holds: 4, within: 30, of: worker)
            try Self.write(["good:1@1", "snappy:3:0@1"], to: topic, of: scene)
            try scene.await(scene.configuration.results, holds: 15, within: 30, of: worker)
            let places = try Self.places(of: scene)
            let damaged = written.filter { $0[3].hasPrefix("snappy") }.map { [topic[...]] + $0[0...2] }
            #expect(places.count == 4 && Set(places) == Set(damaged))
            try pages.await("/status", within: 10) { !$0.1.contains(#""subject":"partition \#(topic)"#) }
            let (_, status) = try pages.get("/status")
            #expect(status.contains(#""unreadable_batches":4"#))
            try scene.settle(worker)
            // One for each, still.
            #expect(try Self.letters(of: scene).count == 4)
            try scene.stop(worker)
            try simulator.process.stop()
        }

        /// What a producer wrote by hand: records that claim other offsets than theirs, and a length that librdkafka
        /// and Java read differently. Each such batch is one dead letter; all that is beside it has its result,
        /// although the worker is killed meanwhile.
        @Test(.needs(.worker, .broker, .python, .curl, .kcat), .timeLimit(.minutes(6)))
        func batchesWhoseRecordsAreNotInOrderAreDeadLetteredAndNothingBesideThemIsLost() throws {
            let scene = try Scene("disorder", partitions: 4)
            scene.configuration.admin = "127.0.0.1:0"
            let simulator = try scene.startSimulator()
            let topic = scene.configuration.requests
            var written = try Self.write(
                [
                    "full:none:50:1@0", "odd:none:far@0", "full:none:1100:1@0", "odd:none:far@0", "full:none:3:1@0",
                    "full:none:10:1@1", "odd:none:twice@1", "full:none:20:1@1", "odd:none:back@1", "good:3@1",
                    "odd:none:long@2", "full:snappy:30:1@2", "odd:none:long@2", "odd:snappy:long@2", "good:2@2",
                    "odd:none:early@3", "odd:none:inside@3", "full:snappy:1100:1@3",
                ], to: topic, of: scene)
            for share in [1, 1_000] {
                let worker = try scene.startWorker()
                try scene.await(scene.configuration.results, holds: share, within: 60, of: worker)
                try worker.killNow()
            }
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try scene.settle(worker)
            // With another behind it, and at the end of the log.
            for how in ["none:far", "none:twice", "none:long", "snappy:long"] {
                let start = Date()
                let batches = try Self.write(["odd:\(how)@0", "good:1@0", "odd:\(how)@1"], to: topic, of: scene)
                written += batches
                while try !Self.answered(in: scene).contains("0/\(batches[1][1])") {
                    guard Date().timeIntervalSince(start) < 20 else { break }
                    usleep(50_000)
                }
                let seconds = Date().timeIntervalSince(start)
                print("\(how): what is behind it has its result \(seconds) s after it was written")
                // The machine may be loaded.
                #expect(seconds < 10, "\(how)")
            }
            try scene.settle(worker)
            let good = try written.filter { !$0[3].hasPrefix("odd") }.flatMap { batch in
                guard let first = Int(batch[1]), let last = Int(batch[2]) else { throw Unexpected("\(batch)") }
                return (first...last).map { "\(batch[0])/\($0)" }
            }
            let answered = try Self.answered(in: scene)
            #expect(answered == Set(good), "\(answered.symmetricDifference(good).sorted().prefix(20))")
            let odd = written.filter { $0[3].hasPrefix("odd") }.map { [topic[...]] + $0[0...2] }
            let places = try Self.places(of: scene)
            // What was not committed when the worker was killed is passed by again.
            #expect(Set(places) == Set(odd))
            let (_, status) = try pages.get("/status")
            #expect(status.contains(#""checked":true"#))
            try scene.stop(worker)
            try simulator.process.stop()
        }

        /// As `batches.py` makes them.
        private static func token(_ partition: Int, _ number: Int) -> String {
            "00" + hex(partition, digits: 10) + hex(number, digits: 52)
        }

        /// Without TLS, something on the way from the broker changes device tokens: nothing of that is sent. What was
        /// damaged on its way is read when it is asked for again; what stays so becomes one dead letter, and what is
        /// behind it goes on.
        @Test(.needs(.worker, .broker, .python, .curl, .kcat), .timeLimit(.minutes(4)))
        func damagedTokensAreNeverBelievedAndTheOthersGoOn() throws {
            let scene = try Scene("damage", partitions: 3)
            let simulator = try scene.startSimulator()
            let topic = scene.configuration.requests
            let port = Ports.claim()
            let script = URL(fileURLWithPath: Scene.program).deletingLastPathComponent().appending(path: "damage.py")
            let proxy = try ChildProcess(
                Tool.python.path(),
                [
                    script.path, "--listen", "\(port)", "--broker", scene.servers, "--first", "4", "--always",
                    Self.token(2, 91), Self.token(1, 2),
                ])
            try proxy.waitFor("listening", seconds: 20)
            scene.configuration.servers = "127.0.0.1:\(port)"
            // Numbers 0 to 99; 90 to 92 are the first batch that stays damaged.
            try Self.write(
                [
                    "full:none:30:1@0", "full:snappy:30:1@0", "full:none:30:1@1", "full:none:3:1@2", "good:2@2",
                    "full:none:5:1@2",
                ], to: topic, of: scene)
            let worker = try scene.startWorker()
            let first = try scene.await(scene.configuration.results, holds: 97, within: 60, of: worker)
            print("97 results \(first) s after the start")
            // Numbers 0 to 3 of partition 1 are the second.
            let start = Date()
            try Self.write(["full:none:4:1@1", "good:2@1"], to: topic, of: scene)
            try scene.await(scene.configuration.results, holds: 99, within: 30, of: worker)
            let seconds = Date().timeIntervalSince(start)
            print("what is behind damage that stays has its result \(seconds) s after it was written")
            #expect(seconds < 5)
            try scene.settle(worker)
            let places = try Self.places(of: scene)
            #expect(Set(places) == [[topic[...], "2", "0", "2"], [topic[...], "1", "30", "33"]])
            #expect(places.count == 2)
            var expected: [String: Int] = [:]
            for number in 0..<60 { expected[Self.token(0, number)] = 1 }
            for number in 60..<90 { expected[Self.token(1, number)] = 1 }
            for number in 93..<100 { expected[Self.token(2, number)] = 1 }
            for number in 4..<6 { expected[Self.token(1, number)] = 1 }
            // Lines "token arrived accepted".
            var arrived: [String: Int] = [:]
            let lines = try Scene.run(Tool.curl.path(), ["-s", "-m", "10", "\(simulator.control)/tokens"]).text
            for line in lines.split(separator: "\n") {
                let fields = line.split(separator: " ")
                arrived[String(fields[0])] = Int(fields[1])
            }
            #expect(arrived == expected)
            let damaged = proxy.text.split(separator: "\n").filter { $0.hasPrefix("damaged") }
            print("\(damaged.count) responses were damaged")
            #expect(damaged.count >= 4 + 2 * 3)
            try scene.stop(worker)
            try proxy.stop()
            try simulator.process.stop()
        }

        /// Many gaps, which are in order.
        @Test(.needs(.worker, .broker, .python, .kcat), .timeLimit(.minutes(4)))
        func transactionsAreReadAsTheyAre() throws {
            let scene = try Scene("transactions", partitions: 1)
            let simulator = try scene.startSimulator()
            try scene.change("transactions", scene.configuration.requests, "0", "400")
            let worker = try scene.startWorker()
            let seconds = try scene.await(scene.configuration.results, holds: 1_500, within: 60, of: worker)
            print("1500 results of 300 transactions between 100 that were aborted, \(seconds) s after the start")
            // A commit goes no further than behind a record.
            try Self.write(["good:1@0"], to: scene.configuration.requests, of: scene)
            try scene.settle(worker)
            #expect(try scene.resultsWithKcat().count == 1_501)
            #expect(try Self.letters(of: scene) == [])
            try scene.stop(worker)
            try simulator.process.stop()
        }

        /// A topic that is sent far slower than it is read fills the memory with what it has unread; one beside it goes
        /// on.
        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(8)))
        func whatOneTopicHoldsKeepsNoOtherWaiting() throws {
            let scene = try Scene("hoarders", partitions: 8)
            // Twice `max_open_bytes` come on top, 32 MiB.
            scene.configuration.kafka = "unpack_memory: 96MiB"
            scene.configuration.admin = "127.0.0.1:0"
            let simulator = try scene.startSimulator("--latency", "500ms", "--streams", "20")
            let (backlog, urgent) = (scene.configuration.requests, "\(scene.name).urgent")
            try scene.create(urgent)
            scene.configuration.requestTopics = "\(backlog), \(urgent)"
            // Of 1 MB each: hardly any room is left.
            try Self.write((0..<400).map { "full:zstd:250:3700:shop@\($0 % 8)" }, to: backlog, of: scene)
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try pages.await("/status", within: 60) { !$0.1.contains(#""put_off_for_memory":0,"#) }
            // Of 2 MB each.
            try Self.write((0..<2).map { "full:zstd:500:3700:shop@\($0)" }, to: urgent, of: scene)
            let written = Date()
            try scene.books(
                "settle", "--group", scene.configuration.group, "--topics", urgent, "--stall", "90", within: 130)
            let (_, status) = try pages.get("/status")
            print("settled after \(Date().timeIntervalSince(written)) s; \(status)")
            #expect(Date().timeIntervalSince(written) < 90)
            #expect(!status.contains(#""unpacked_from_reserve":0,"#))
            #expect(status.contains(#""subject":"topic \#(backlog)""#) && status.contains("lie unread in memory"))
            #expect(!status.contains(#""subject":"topic \#(urgent)""#))
            #expect(!status.contains(#""subject":"partition \#(urgent)"#))
            let resident = try worker.largestResidentKilobytes()
            #expect(resident < 400_000)
            // The rest would take minutes.
            try worker.killNow()
            try simulator.process.stop()
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(12)))
        func largeBatchesOfManyPartitionsAreUnpackedAsThereIsRoom() throws {
            let scene = try Scene("large-batches", partitions: 60)
            scene.configuration.kafka = "unpack_memory: 192MiB"
            let simulator = try scene.startSimulator()
            try Self.write((0..<60).map { "full:zstd:300:40000@\($0)" }, to: scene.configuration.requests, of: scene)
            let worker = try scene.startWorker()
            let seconds = try scene.await(scene.configuration.results, holds: 18_000, within: 420, of: worker)
            let resident = try worker.largestResidentKilobytes()
            print("18000 results \(seconds) s after the start, \(resident) kB resident at most")
            #expect(resident < 400_000)
            try scene.settle(worker)
            try scene.stop(worker)
            try simulator.process.stop()
        }
    }
}
