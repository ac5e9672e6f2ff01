import Foundation
import TestSupport
import Testing

extension EndToEnd.Troubles {
    /// A server that refuses for good: single notifications, or an app's every connection. What is refused waits in a tier;
    /// nothing else waits with it.
    @Suite(.serialized) struct RefusalTests {
        /// How long a good record may take, in seconds.
        static let promptly = 5.0

        /// Prefixes of device tokens: its stream is always refused; it lies above a GOAWAY that it provokes, always.
        @Test(.needs(.worker, .broker, .python, .kcat), .timeLimit(.minutes(4)), arguments: ["fa17f0030", "fa17f0130"])
        func whatIsAlwaysRefusedHoldsUpNobodyAndNotForEver(prefix: String) throws {
            let scene = try Scene("refusal", partitions: 1)
            let simulator = try scene.startSimulator()
            let worker = try scene.startWorker()
            var good = 0
            func write(_ count: Int, around refused: Int) throws {
                let first = good
                good += count
                let tokens =
                    (first..<(first + count / 2)).map { hex($0, digits: 64) }
                    + (0..<refused).map { prefix + hex(first + $0, digits: 55) }
                    + ((first + count / 2)..<good).map { hex($0, digits: 64) }
                try scene.write(
                    tokens.map { #"\#($0):{"aps":{"alert":"Hi"}}"# }.joined(separator: "\n") + "\n", to: "lines.txt")
                try scene.produceWithKcat("lines.txt")
            }
            func expectResults(_ what: String) throws {
                let ended = try scene.tryBooks(
                    "count",
                    [
                        "--topic", scene.configuration.results, "--at-least", "\(good)", "--timeout",
                        "\(Int(Self.promptly))",
                    ])
                if ended.ending != .exited(0) {
                    throw Unexpected("\(what): \(ended.text) of \(good) results\n\(worker.text.suffix(8_000))")
                }
            }
            try write(20, around: 0)
            try scene.awaitResults(good)
            try write(100, around: 1)
            try expectResults("around the refused")
            // While they are tried again.
            for round in 0..<4 {
                Thread.sleep(forTimeInterval: 1)
                try write(10, around: 0)
                try expectResults("\(round + 1) s later")
            }
            // The watermark passes them, though they are never answered.
            let refused = Date()
            do {
                try scene.books(
                    "settle", "--group", scene.configuration.group, "--topics", scene.configuration.requests,
                    "--stall", "100", within: 130)
            } catch {
                throw Unexpected("\(error)\n\(worker.text.suffix(8_000))")
            }
            print("\(prefix): passed \(String(format: "%.1f", Date().timeIntervalSince(refused))) s later")
            try write(10, around: 0)
            try scene.awaitResults(good)
            try scene.stop(worker)
            let results = try scene.resultsWithKcat()
            #expect(results.count == good)
            #expect(results.allSatisfy { $0.contains(" outcome=accepted,") })
            try simulator.process.stop()
        }

        /// All connections of one app allow no stream: it is held and named, and the topic moves on; another app goes on.
        @Test(.needs(.worker, .broker, .python, .kcat, .curl), .timeLimit(.minutes(3)))
        func anAppWithoutStreamsHoldsUpNobodyAndGoesOnWhenItHasSome() throws {
            let scene = try Scene("streamless", partitions: 1)
            let fine = try scene.startSimulator()
            let port = scene.configuration.port
            let closed = try scene.startSimulator()
            // As soon as a connection showed a provider token that is good.
            try scene.books("faults", "--simulator", closed.control, "streams=0")
            scene.configuration.apps = scene.configuration.app(named: "annex", port: port)
            scene.configuration.admin = "127.0.0.1:0"
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try pages.await("/status") { $0.1.contains(#""health":"fine""#) }
            try Self.write("shop", 0..<50, to: scene)
            try Self.write("annex", 100..<150, to: scene)
            // All but what opened the eyes of the two connections is held, so that the topic is committed to its end.
            try pages.await("/status", within: 20) {
                $0.1.contains(#""health":"degraded""#) && $0.1.contains(#""subject":"app shop""#)
                    && $0.1.contains("allow no stream") && !$0.1.contains(#""subject":"app annex""#)
            }
            try scene.books(
                "settle", "--group", scene.configuration.group, "--topics", scene.configuration.requests, "--stall",
                "100", within: 130)
            try scene.books(
                "count", "--topic", scene.configuration.results, "--at-least", "52", "--timeout", "60", within: 70)
            try pages.await("/metrics") { $0.1.contains(#"apns_worker_unreachable{app="shop"} 1"#) }
            #expect(worker.text.contains("connected, but no stream is allowed"))
            try scene.books("faults", "--simulator", closed.control, "streams=1000")
            try scene.books(
                "count", "--topic", scene.configuration.results, "--at-least", "100", "--timeout", "60", within: 70)
            try pages.await("/status", within: 20) { $0.1.contains(#""health":"fine""#) }
            try scene.stop(worker)
            #expect(try scene.resultsWithKcat().filter { $0.contains(" outcome=accepted,") }.count == 100)
            try closed.process.stop()
            try fine.process.stop()
        }

        /// A host keeps its connections and answers nothing on them any more: its app is named within ten seconds, another one
        /// is not, and the first answer ends it.
        @Test(
            .needs(.worker, .broker, .python, .kcat, .curl), .timeLimit(.minutes(4)),
            arguments: ["reset-stream", "refuse-stream", "no-answer", "blackhole"])
        func aHostThatAnswersNothingIsNamed(fault: String) throws {
            let scene = try Scene("unanswered", partitions: 1)
            let fine = try scene.startSimulator()
            let port = scene.configuration.port
            let mute = try scene.startSimulator()
            scene.configuration.apps = scene.configuration.app(named: "annex", port: port)
            scene.configuration.admin = "127.0.0.1:0"
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try pages.await("/status") { $0.1.contains(#""health":"fine""#) }
            try Self.write("shop", 0..<50, to: scene)
            try Self.write("annex", 100..<150, to: scene)
            try scene.awaitResults(100)
            try scene.books("faults", "--simulator", mute.control, "fault=\(fault)@1")
            try Self.write("shop", 50..<60, to: scene)
            let began = Date()
            let words = fault.contains("stream") ? "ends every request's stream" : "takes requests and answers none"
            try pages.await("/status", within: 20) {
                $0.1.contains(#""health":"degraded""#) && $0.1.contains(#""subject":"app shop""#)
                    && $0.1.contains(words)
                    && !$0.1.contains(#""subject":"app annex""#)
            }
            let seconds = Date().timeIntervalSince(began)
            print("\(fault): named after \(String(format: "%.1f", seconds)) s")
            #expect((8..<14).contains(seconds), "named after \(seconds) s")
            #expect(try pages.get("/metrics").1.contains("\napns_worker_degraded 1\n"))
            let said = worker.text.split(separator: "\n").filter { $0.contains("degraded") && $0.contains("app shop") }
            #expect(said.count == 1, "\(worker.text.suffix(4_000))")
            try Self.write("annex", 150..<160, to: scene)
            try scene.books(
                "count", "--topic", scene.configuration.results, "--at-least", "110", "--timeout",
                "\(Int(Self.promptly))")
            try scene.books("faults", "--simulator", mute.control, "fault=")
            try Self.write("shop", 60..<70, to: scene)
            try pages.await("/status", within: 90) { $0.1.contains(#""health":"fine""#) }
            try worker.waitFor("no longer degraded by this", seconds: 5)
            try scene.stop(worker)
            try mute.process.stop()
            try fine.process.stop()
        }

        private static func write(_ app: String, _ numbers: Range<Int>, to scene: Scene) throws {
            try scene.write(
                numbers.map { #"\#(hex($0, digits: 64)):{"aps":{"alert":"Hi"}}"# }.joined(separator: "\n") + "\n",
                to: "lines.txt")
            let ended = try Scene.run(
                Tool.kcat.path(),
                [
                    "-P", "-b", scene.servers, "-t", scene.configuration.requests, "-K:", "-H",
                    "apns-topic=com.example.\(app)", "-l", scene.file("lines.txt"),
                ])
            guard ended.ending == .exited(0) else { throw Unexpected("kcat: \(ended.text)") }
        }

        /// Every connection of one app is answered with a GOAWAY that blames the credential: its circuit opens and is named;
        /// another app goes on.
        @Test(.needs(.worker, .broker, .python, .kcat, .curl), .timeLimit(.minutes(3)))
        func aCredentialThatAGoAwayRefusesStopsItsAppOnly() throws {
            let scene = try Scene("environment", partitions: 1)
            let fine = try scene.startSimulator()
            let port = scene.configuration.port
            let wrong = try scene.startSimulator("--fault", "goaway-environment@1")
            // Of another environment: apps that share key and environment share a circuit.
            scene.configuration.apps = scene.configuration.app(named: "annex", port: port)
                .replacingOccurrences(of: "production", with: "development")
            scene.configuration.admin = "127.0.0.1:0"
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try pages.await("/status") { $0.1.contains(#""health":"fine""#) }
            try Self.write("shop", 0..<50, to: scene)
            try Self.write("annex", 100..<150, to: scene)
            let ended = try scene.tryBooks(
                "count",
                ["--topic", scene.configuration.results, "--at-least", "50", "--timeout", "\(Int(Self.promptly))"])
            #expect(ended.ending == .exited(0), "\(ended.text) results\n\(worker.text.suffix(8_000))")
            try pages.await("/status", within: 10) {
                $0.1.contains(#""health":"degraded""#) && $0.1.contains(#""subject":"app shop""#)
                    && $0.1.contains("BadCertificateEnvironment") && !$0.1.contains(#""subject":"app annex""#)
            }
            // It is mended: what was held is sent.
            try scene.books("faults", "--simulator", wrong.control, "fault=")
            try scene.books(
                "count", "--topic", scene.configuration.results, "--at-least", "100", "--timeout", "100", within: 110)
            try pages.await("/status", within: 20) { $0.1.contains(#""health":"fine""#) }
            try scene.stop(worker)
            #expect(try scene.resultsWithKcat().filter { $0.contains(" outcome=accepted,") }.count == 100)
            try wrong.process.stop()
            try fine.process.stop()
        }
    }
}
