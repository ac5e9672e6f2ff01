import Foundation
import TestSupport
import Testing

extension EndToEnd.FalseAnswers {
    /// What a broker says falsely, or not at all, by a proxy before it (`Books/kafka_proxy.py`).
    @Suite(.serialized) struct FalseAnswersTests {
        /// A scene whose worker is behind the proxy; all else asks the broker itself.
        private final class Proxied {
            let scene: Scene
            let proxy: ChildProcess
            let simulator: RunningSimulator
            let worker: ChildProcess
            let pages: Pages
            let address: String

            init(_ label: String, partitions: Int = 2) throws {
                scene = try Scene(label, partitions: partitions)
                let port = KafkaBroker.freePorts(1)[0]
                address = "127.0.0.1:\(port)"
                let program = URL(fileURLWithPath: Scene.program).deletingLastPathComponent()
                    .appending(path: "kafka_proxy.py").path
                proxy = try ChildProcess(Tool.python.path(), [program, scene.servers, "\(port)"])
                try proxy.waitFor("listening", seconds: 20)
                simulator = try scene.startSimulator()
                scene.configuration.servers = address
                scene.configuration.admin = "127.0.0.1:0"
                worker = try scene.startWorker()
                pages = try Pages(of: worker)
                try pages.await("/readyz", within: 60) { $0 == (200, "ready\n") }
                try pages.await("/status") { $0.1.contains(#""health":"fine""#) }
            }

            func tell(_ words: String) throws {
                proxy.write("\(words)\n")
                try proxy.waitFor("done \(words)\n", seconds: 10)
            }

            /// Writes requests for tokens that begin so, and waits until so many tokens have results.
            func request(_ count: Int, _ prefix: String, total: Int) throws {
                try scene.change("requests", scene.configuration.requests, "\(count)", prefix)
                try scene.awaitTokens(total, within: 60, of: worker)
            }

            /// Waits until `/status` names the subject with these words; returns how many seconds that took.
            func awaitProblem(_ subject: String, _ words: [String]) throws -> Double {
                let began = Date()
                try pages.await("/status", within: 60) { answer in
                    answer.1.contains(#""health":"degraded""#) && answer.1.contains(subject)
                        && words.allSatisfy(answer.1.contains)
                }
                return Date().timeIntervalSince(began)
            }

            /// Nothing was sent twice, and nothing was lost.
            func expectOnce(_ count: Int) throws {
                let text = try scene.change("tokens", scene.configuration.results)
                #expect(text.contains("distinct \(count) records \(count) "), "\(text)")
                #expect(try scene.accepted(simulator) == count)
            }

            func end() throws {
                try scene.stop(worker)
                try simulator.process.stop()
                try proxy.stop()
            }
        }

        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(5)))
        func aTopicThatACommitFalselyDoesNotFindIsCommittedAgain() throws {
            let proxied = try Proxied("unfound")
            let scene = proxied.scene
            try proxied.request(100, "aa", total: 100)
            try scene.settle(proxied.worker)
            // UNKNOWN_TOPIC_OR_PARTITION.
            try proxied.tell("commit-error \(scene.configuration.requests) 3 16")
            try scene.change("requests", scene.configuration.requests, "40", "bb")
            let seconds = try proxied.awaitProblem(
                "partition \(scene.configuration.requests)/",
                ["UNKNOWN_TOPIC_OR_PART"])
            print("named after \(seconds) s")
            try proxied.pages.await("/status", within: 60) { $0.1.contains(#""health":"fine""#) }
            try proxied.request(40, "cc", total: 180)
            try scene.settle(proxied.worker)
            try proxied.expectOnce(180)
            #expect(!proxied.worker.text.contains("joining the group anew"), "\(proxied.worker.text.suffix(4_000))")
            try proxied.end()
        }

        @Test(
            .needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(5)),
            arguments: ["fetch", "produce"])
        func aConnectionThatAnswersNothingIsNamed(kind: String) throws {
            let proxied = try Proxied("stalled")
            let scene = proxied.scene
            try proxied.request(40, "aa", total: 40)
            try scene.settle(proxied.worker)
            if kind == "fetch" {
                // Longer than a request waits for its answer: who idles is no stall.
                usleep(13_000_000)
                #expect(try proxied.pages.get("/status").1.contains(#""health":"fine""#))
            }
            try proxied.tell("stall \(kind)")
            try scene.change("requests", scene.configuration.requests, "10", "bb")
            try proxied.proxy.waitFor("stalled ", seconds: 20)
            let seconds = try proxied.awaitProblem(
                "broker \(proxied.address)", [kind == "fetch" ? "Fetch" : "Produce", "look at"])
            print("\(kind): named \(seconds) s after the first request was not answered")
            #expect(seconds < 15)
            let metrics = try proxied.pages.get("/metrics").1
            #expect(metrics.contains("\napns_worker_degraded 1\n"))
            try proxied.tell("flow")
            let began = Date()
            try scene.awaitTokens(50, within: 60, of: proxied.worker)
            try proxied.pages.await("/status", within: 60) { $0.1.contains(#""health":"fine""#) }
            print("\(kind): fine \(Date().timeIntervalSince(began)) s after it flowed again")
            try scene.settle(proxied.worker)
            try proxied.end()
        }
    }
}
