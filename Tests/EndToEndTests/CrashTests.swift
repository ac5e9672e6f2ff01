import Foundation
import TestSupport
import Testing

extension EndToEnd.Troubles {
    /// Records at which the worker dies. The product has no such record: a library that is loaded before it dies for it
    /// (`Books/poison.c`).
    @Suite(.serialized) struct CrashTests {
        /// In the payload (`read`), or in the device token (`send`).
        private static let word = "badbadbadbadbadbadbadbadbadbad"

        /// Three workers, 5,000 records, one of which kills whoever reads it.
        @Test(.needs(.worker, .broker, .python, .kcat, .curl), .needsClang, .timeLimit(.minutes(4)))
        func `One record kills nobody elses notifications`() throws {
            let scene = try Scene("crashed", partitions: 6)
            _ = try scene.startSimulator("--latency", "20ms")
            let library = try Self.library(in: scene)
            var workers: [(process: ChildProcess, port: Int)] = []
            for name in ["first", "second", "third"] {
                let port = Ports.claim()
                scene.configuration.admin = "127.0.0.1:\(port)"
                let worker = try scene.startWorker(
                    named: name, kafka: "group_instance_id: \(name)", environment: poison(library, at: "read"))
                try worker.waitFor("partitions assigned group=\(scene.configuration.group) ", seconds: 60)
                workers.append((worker, port))
            }
            try write(5_000, poisonAt: 2_500, in: scene)

            let died = try awaitDeath(of: workers.map(\.process))
            try scene.awaitTokens(4_999, of: died)

            let letters = try deadLetters(of: scene)
            #expect(letters.count == 1, "\(letters)")
            let letter = try #require(letters.first)
            #expect(letter.contains("push-dlq-reason=worker-crashed") && letter.contains(Self.word))
            // The supervisor of the worker that died said where, twice, and lives on; no other worker died.
            let place = try #require(died.text.firstMatch(of: /died of SIG\w+ at record (\S+);/)).1
            #expect(died.text.ranges(of: "died of").count == 2)
            #expect(place.hasPrefix("\(scene.configuration.requests)/"))
            for field in ["partition", "offset"] {
                let value = try #require(
                    letter.firstMatch(of: try Regex("push-dlq-\(field)=([0-9]+)"))?.output[1].substring)
                #expect(place.split(separator: "/").contains(value))
            }
            #expect(!died.text.contains(Self.word), "no payload in the log")
            for (worker, _) in workers {
                #expect(worker.ended == nil)
                #expect(worker.text.contains("died of") == (worker === died))
            }
            let port = try #require(workers.first { $0.process === died }?.port)
            let page = try Scene.run(Tool.curl.path(), ["-s", "http://127.0.0.1:\(port)/metrics"], within: 10).text
            #expect(page.contains("\napns_worker_crashes_total 2\n"), "\(page.suffix(2_000))")
            let status = try Scene.run(Tool.curl.path(), ["-s", "http://127.0.0.1:\(port)/status"], within: 10).text
            #expect(status.contains("\"condemned\":[\"\(place)\"]"), "\(status)")

            // Every partition is read on.
            try write(300, poisonAt: nil, from: 100_000, in: scene)
            try scene.settle(died)
            for (worker, _) in workers { try scene.stop(worker) }
        }

        @Test(
            .needs(.worker, .broker, .python, .kcat), .needsClang, .timeLimit(.minutes(4)),
            arguments: [("read", "abort"), ("read", "stack"), ("read", "kill"), ("send", "segv"), ("send", "kill")])
        func `A record that kills twice is a dead letter, however and on whichever thread`(
            at place: String, by way: String
        ) throws {
            let scene = try Scene("died-\(place)-\(way)", partitions: 1)
            _ = try scene.startSimulator()
            let library = try Self.library(in: scene)
            let worker = try scene.startWorker(
                kafka: "group_instance_id: one", environment: poison(library, at: place, by: way))
            try write(20, poisonAt: 10, in: scene)
            try scene.settle(worker)
            #expect(try deadLetters(of: scene).count == 1)
            #expect(worker.text.ranges(of: "died of").count == 2, "\(worker.text.suffix(4_000))")
            try scene.stop(worker)
        }

        /// The same offset of a topic that is made anew is another record: it is given up after two deaths of its own.
        @Test(.needs(.worker, .broker, .python, .kcat), .needsClang, .timeLimit(.minutes(5)))
        func `Deaths at a topic that is made anew count anew`() throws {
            let scene = try Scene("died-anew", partitions: 1)
            _ = try scene.startSimulator()
            let library = try Self.library(in: scene)
            let worker = try scene.startWorker(
                kafka: "group_instance_id: one", environment: poison(library, at: "read"))
            try write(20, poisonAt: 10, in: scene)
            try scene.await(scene.configuration.results, holds: 19, of: worker)
            try scene.settle(worker)
            #expect(worker.text.ranges(of: "died of").count == 2, "\(worker.text.suffix(4_000))")
            try scene.change("delete", scene.configuration.requests)
            try scene.change("create", scene.configuration.requests, "1")
            try write(15, poisonAt: 10, from: 100, in: scene)
            try scene.await(scene.configuration.deadLetters, holds: 2, of: worker)
            try scene.await(scene.configuration.results, holds: 33, of: worker)
            #expect(worker.text.ranges(of: "died of").count == 4, "\(worker.text.suffix(6_000))")
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python, .kcat), .needsClang, .timeLimit(.minutes(4)))
        func `A worker that dies while it stops is not started again`() throws {
            let scene = try Scene("stopped", partitions: 1)
            _ = try scene.startSimulator()
            let library = try Self.library(in: scene)
            let worker = try scene.startWorker(
                kafka: "group_instance_id: one", environment: poison(library, at: "read", by: "stop"))
            try write(20, poisonAt: 10, in: scene)
            #expect(try worker.wait(seconds: 60) == .exited(1))
            #expect(worker.text.contains("; while it was stopping\n"), "\(worker.text.suffix(4_000))")
            #expect(worker.text.ranges(of: "died of").count == 1, "\(worker.text.suffix(4_000))")
        }

        /// No record is to blame, so restarts back off until something changes. A stop ends the waiting.
        @Test(
            .needs(.worker, .broker, .python), .needsClang, .timeLimit(.minutes(4)),
            arguments: [("dial", "trap"), ("broker", "segv"), ("broker", "kill")])
        func `Deaths at no record back off`(at place: String, by way: String) throws {
            let scene = try Scene("unknown", partitions: 1)
            _ = try scene.startSimulator()
            let library = try Self.library(in: scene)
            let worker = try scene.startWorker(
                kafka: "group_instance_id: one", environment: poison(library, at: place, by: way))
            for next in ["starting it again\n", "starting it again in 1 s\n", "in 2 s\n", "in 4 s\n"] {
                try worker.waitFor("at no known record; starting it again", seconds: 60)
                try worker.waitFor(next, seconds: 60)
            }
            worker.signal(SIGTERM)
            #expect(try worker.wait(seconds: 20) == .exited(0), "\(worker.text.suffix(4_000))")
            #expect(worker.text.ranges(of: "died of").count == 4, "\(worker.text.suffix(4_000))")
        }

        @Test(.needs(.worker, .broker, .python, .kcat), .timeLimit(.minutes(4)))
        func `A worker that is killed is started again, and dies with its supervisor`() throws {
            let scene = try Scene("killed", partitions: 1)
            _ = try scene.startSimulator("--latency", "20ms")
            let worker = try scene.startWorker(kafka: "group_instance_id: one")
            try worker.waitFor("partitions assigned group=\(scene.configuration.group) ", seconds: 60)
            let first = try worker.workerID
            try #require(first != worker.processID)
            try write(500, poisonAt: nil, in: scene)
            try scene.awaitResults(50)
            kill(first, SIGKILL)
            try worker.waitFor("the worker died of SIGKILL", seconds: 20)
            try scene.settle(worker)
            #expect(Set(try scene.resultsWithKcat().compactMap { $0.split(separator: " ").first }).count == 500)
            #expect(try deadLetters(of: scene).isEmpty)
            let second = try worker.workerID
            #expect(second != first && second != worker.processID)
            worker.signal(SIGKILL)
            // All output has ended: the worker is gone as well.
            #expect(try worker.wait(seconds: 20) == .signalled(SIGKILL))
        }

        @Test(.needs(.worker, .broker, .python), .needsClang, .timeLimit(.minutes(4)))
        func `Who wants a core has it at once`() throws {
            let scene = try Scene("core", partitions: 1)
            _ = try scene.startSimulator()
            let library = try Self.library(in: scene)
            scene.configuration.more = "crash: core"
            let worker = try scene.startWorker(environment: poison(library, at: "dial", by: "abort"))
            #expect(try worker.wait(seconds: 60) == .signalled(SIGABRT))
            #expect(!worker.text.contains("died of"))
        }

        // MARK: Parts

        private static func library(in scene: Scene) throws -> String {
            let path = scene.file("poison.so")
            let source = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
                .appending(path: "Books/poison.c").path
            let ended = try Scene.run("clang", ["-shared", "-fPIC", "-O1", "-w", "-o", path, source, "-ldl"])
            guard ended.ending == .exited(0) else { throw Unexpected("clang: \(ended.text)") }
            return path
        }

        private func poison(_ library: String, at place: String, by way: String = "trap") -> [String: String] {
            ["LD_PRELOAD": library, "POISON_WORD": Self.word, "POISON_AT": place, "POISON_BY": way]
        }

        /// Plain records, each for a device of its own; one of them has the word in payload and device token.
        private func write(_ count: Int, poisonAt poison: Int?, from first: Int = 0, in scene: Scene) throws {
            let lines = (first..<first + count).map { number in
                let isPoison = number - first == poison
                let token = isPoison ? Self.word + hex(number, digits: 34) : hex(number, digits: 64)
                return "\(token):{\"aps\":{\"alert\":\"\(isPoison ? Self.word : "Hi")\"}}"
            }
            try scene.write(lines.joined(separator: "\n") + "\n", to: "lines.txt")
            try scene.produceWithKcat("lines.txt")
        }

        private func awaitDeath(of workers: [ChildProcess]) throws -> ChildProcess {
            var died: ChildProcess?
            try eventually("a worker's death") {
                died = workers.first { $0.text.contains("died of") }
                return died != nil
            }
            return try #require(died)
        }

        private func deadLetters(of scene: Scene) throws -> [String] {
            try Scene.run(
                Tool.kcat.path(),
                [
                    "-C", "-q", "-e", "-b", scene.servers, "-t", scene.configuration.deadLetters, "-o", "beginning",
                    "-f", "%h %s\n",
                ]
            ).text.split(separator: "\n").map(String.init)
        }
    }
}

extension Trait where Self == ConditionTrait {
    static var needsClang: Self {
        let path = ProcessInfo.processInfo.environment["PATH", default: ""]
        let isThere = path.split(separator: ":").contains {
            FileManager.default.isExecutableFile(atPath: "\($0)/clang")
        }
        return .enabled(if: isThere, "missing: clang, to build what a worker dies of")
    }
}
