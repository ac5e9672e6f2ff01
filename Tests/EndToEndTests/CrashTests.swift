import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// Tests of records at which the worker crashes. The product has no such record, so a preloaded library crashes at
    /// a certain word (`Books/poison.c`).
    @Suite struct CrashTests {
        /// The word at which the library crashes, in the payload (`read`) or in the device token (`send`).
        private static let word = "badbadbadbadbadbadbadbadbadbad"

        /// Three workers read 5,000 records, one of which crashes the worker that reads it.
        @Test(.needs(.worker, .broker, .kcat, .clang))
        func `A record that crashes the worker causes no loss of other notifications`() throws {
            let scene = try Scene("crashed", partitions: 6)
            _ = try scene.startSimulator("--latency", "20ms")
            scene.configuration.admin = "127.0.0.1:0"
            let workers = try ["first", "second", "third"].map { name in
                let worker = try start(name, in: scene, at: "read")
                try worker.waitFor("partitions assigned group=\(scene.configuration.group) ")
                return worker
            }
            try write(5_000, poisonAt: 2_500, in: scene)

            var dead: ChildProcess?
            try eventually("a worker's death") {
                dead = workers.first { $0.text.contains("died of") }
                return dead != nil
            }
            let died = try #require(dead)
            try scene.awaitTokens(4_999, of: died)

            let letters = try deadLetters(of: scene)
            #expect(letters.count == 1, "\(letters)")
            let letter = try #require(letters.first)
            #expect(letter.contains("push-dlq-reason=worker-crashed") && letter.contains(Self.word))
            // The supervisor of that worker logged the place twice and is still running. No other worker crashed.
            let place = try #require(died.text.firstMatch(of: /died of SIG\w+ at record (\S+);/)).1
            #expect(died.text.ranges(of: "died of").count == 2)
            #expect(place.hasPrefix("\(scene.configuration.requests)/"))
            let partition = try #require(letter.firstMatch(of: /push-dlq-partition=([0-9]+)/)).1
            let offset = try #require(letter.firstMatch(of: /push-dlq-offset=([0-9]+)/)).1
            #expect(place.hasSuffix("/\(partition)/\(offset)"))
            #expect(!died.text.contains(Self.word), "a payload is in the log")
            for worker in workers {
                #expect(worker.ended == nil)
                #expect(worker.text.contains("died of") == (worker === died))
            }
            let pages = try Pages(of: died)
            try pages.await("/metrics", says: "\napns_worker_crashes_total 2\n")
            try pages.await("/status", says: "\"condemned\":[\"\(place)\"]")

            // All partitions are still read.
            try write(300, from: 100_000, in: scene)
            try scene.settle(died)
            for worker in workers { try scene.stop(worker) }
        }

        @Test(
            .needs(.worker, .broker, .kcat, .clang),
            arguments: [("read", "abort"), ("read", "stack"), ("read", "kill"), ("send", "segv"), ("send", "kill")])
        func `A record that crashes the worker twice becomes a dead letter, on any thread`(
            at place: String, by way: String
        ) throws {
            let scene = try Scene("died-\(place)-\(way)", partitions: 1)
            let worker = try start(in: scene, at: place, by: way)
            try write(20, poisonAt: 10, in: scene)
            try scene.settle(worker)
            #expect(try deadLetters(of: scene).count == 1)
            #expect(worker.text.ranges(of: "died of").count == 2, "\(worker.text.suffix(4_000))")
            guard way == "abort" else { return try scene.stop(worker) }

            // The same offset of the recreated topic is another record, which becomes a dead letter only after two
            // crashes at the new record.
            try scene.awaitResults(19, of: worker)
            try scene.delete(scene.configuration.requests)
            try scene.create(scene.configuration.requests)
            try write(15, poisonAt: 10, from: 100, in: scene)
            try scene.await(scene.configuration.deadLetters, holds: 2, of: worker)
            try scene.awaitResults(33, of: worker)
            #expect(worker.text.ranges(of: "died of").count == 4, "\(worker.text.suffix(6_000))")
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .kcat, .clang))
        func `A worker that crashes while it stops is not restarted`() throws {
            let scene = try Scene("stopped", partitions: 1)
            let worker = try start(in: scene, at: "read", by: "stop")
            try write(20, poisonAt: 10, in: scene)
            #expect(try worker.wait() == .exited(1))
            #expect(worker.text.contains("; the worker was already stopping\n"), "\(worker.text.suffix(4_000))")
            #expect(worker.text.ranges(of: "died of").count == 1, "\(worker.text.suffix(4_000))")
        }

        /// Restarts back off, because no record causes the crashes. A stop ends the backoff.
        @Test(
            .needs(.worker, .broker, .clang), arguments: [("dial", "trap"), ("broker", "segv"), ("broker", "kill")])
        func `Restarts back off when no record causes the crashes`(at place: String, by way: String) throws {
            let scene = try Scene("unknown", partitions: 1)
            let worker = try start(in: scene, at: place, by: way)
            for next in ["starting it again\n", "starting it again in 1 s\n", "in 2 s\n", "in 4 s\n"] {
                try worker.waitFor("; no record is known as the cause; starting it again")
                try worker.waitFor(next)
            }
            worker.signal(SIGTERM)
            #expect(try worker.wait() == .exited(0), "\(worker.text.suffix(4_000))")
            #expect(worker.text.ranges(of: "died of").count == 4, "\(worker.text.suffix(4_000))")
        }

        @Test(.needs(.worker, .broker, .kcat))
        func `A killed worker is restarted, and ends with its supervisor`() throws {
            let scene = try Scene("killed", partitions: 1)
            _ = try scene.startSimulator("--latency", "20ms")
            let worker = try scene.startAssignedWorker()
            let first = try worker.workerID
            try #require(first != worker.processID)
            try write(500, in: scene)
            try scene.awaitResults(50)
            kill(first, SIGKILL)
            try worker.waitFor("the worker died of SIGKILL")
            try scene.settle(worker)
            #expect(Set(try scene.records(of: scene.configuration.results, "%k")).count == 500)
            #expect(try deadLetters(of: scene).isEmpty)
            let second = try worker.workerID
            #expect(second != first && second != worker.processID)
            worker.signal(SIGKILL)
            // `wait` includes the end of all output, so the worker has ended as well.
            #expect(try worker.wait() == .signalled(SIGKILL))
        }

        @Test(.needs(.worker, .broker, .clang))
        func `With the setting crash: core, the first crash ends the process`() throws {
            let scene = try Scene("core", partitions: 1)
            scene.configuration.more = "crash: core"
            let worker = try start(in: scene, at: "dial", by: "abort")
            #expect(try worker.wait() == .signalled(SIGABRT))
            #expect(!worker.text.contains("died of"))
        }

        // MARK: Shared functions

        /// Starts a static member that crashes at the given place.
        private func start(
            _ name: String = "one", in scene: Scene, at place: String, by way: String = "trap"
        ) throws -> ChildProcess {
            scene.configuration.kafka = "group_instance_id: \(name)"
            return try scene.startWorker(
                named: name,
                environment: [
                    "LD_PRELOAD": scene.compile("poison.c"), "POISON_WORD": Self.word, "POISON_AT": place,
                    "POISON_BY": way,
                ])
        }

        /// Writes plain records, each for another device. The poisonous one has the word in its payload and device
        /// token.
        private func write(_ count: Int, poisonAt poison: Int? = nil, from first: Int = 0, in scene: Scene) throws {
            try scene.kcat(
                (first..<first + count).map { number in
                    let isPoison = number - first == poison
                    let token = isPoison ? Self.word + hex(number, digits: 34) : hex(number, digits: 64)
                    return "\(token):{\"aps\":{\"alert\":\"\(isPoison ? Self.word : "Hi")\"}}"
                })
        }

        private func deadLetters(of scene: Scene) throws -> [Substring] {
            try scene.records(of: scene.configuration.deadLetters, "%h %s")
        }
    }
}
