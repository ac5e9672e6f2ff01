import Foundation
import TestSupport
import Testing

extension EndToEnd.Refusals {
    /// A server that refuses for good: single notifications, or an app's every connection. What is refused waits in a
    /// tier; nothing else waits with it.
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
            #expect(results.allSatisfy { $0.hasSuffix(" outcome=accepted") })
            try simulator.process.stop()
        }

        /// All connections of one app allow no stream: it is held and named, and the topic moves on; another app goes
        /// on.
        @Test(.needs(.worker, .broker, .python, .kcat, .curl), .timeLimit(.minutes(3)))
        func anAppWithoutStreamsHoldsUpNobodyAndGoesOnWhenItHasSome() throws {
            let apps = try TwoApps("streamless") { scene in
                let closed = try scene.startSimulator()
                // As soon as a connection showed a provider token that is good.
                try scene.books("faults", "--simulator", closed.control, "streams=0")
                return closed
            }
            let (scene, worker, pages) = (apps.scene, apps.worker, apps.pages)
            // All but what opened the eyes of the two connections is held, so that the topic is committed to its end.
            try apps.awaitProblem("allow no stream", within: 20)
            try scene.books(
                "settle", "--group", scene.configuration.group, "--topics", scene.configuration.requests, "--stall",
                "100", within: 130)
            try scene.books(
                "count", "--topic", scene.configuration.results, "--at-least", "52", "--timeout", "60", within: 70)
            try pages.await("/metrics") { $0.1.contains(#"apns_worker_unreachable{app="shop"} 1"#) }
            #expect(worker.text.contains("connected, but no stream is allowed"))
            try apps.mend("streams=1000", resultsWithin: 60)
        }

        /// A host keeps its connections and answers nothing on them any more: its app is named,
        /// another one is not, and the first answer ends it. How long it took is printed.
        @Test(
            .needs(.worker, .broker, .python, .kcat, .curl), .timeLimit(.minutes(4)),
            arguments: ["reset-stream", "refuse-stream", "no-answer", "blackhole"])
        func aHostThatAnswersNothingIsNamed(fault: String) throws {
            let apps = try TwoApps("unanswered") { try $0.startSimulator() }
            let (scene, worker, pages) = (apps.scene, apps.worker, apps.pages)
            try scene.awaitResults(100)
            try apps.setFaults("fault=\(fault)@1")
            try apps.write("shop", 50..<60)
            let began = Date()
            let words = fault.contains("stream") ? "ends every request's stream" : "takes requests and answers none"
            try apps.awaitProblem(words, within: 20)
            let seconds = Date().timeIntervalSince(began)
            print("\(fault): named after \(String(format: "%.1f", seconds)) s")
            #expect(try pages.get("/metrics").1.contains("\napns_worker_degraded 1\n"))
            let said = worker.text.split(separator: "\n").filter { $0.contains("degraded") && $0.contains("app shop") }
            #expect(said.count == 1, "\(worker.text.suffix(4_000))")
            try apps.write("annex", 150..<160)
            try scene.books(
                "count", "--topic", scene.configuration.results, "--at-least", "110", "--timeout",
                "\(Int(Self.promptly))")
            try apps.setFaults("fault=")
            try apps.write("shop", 60..<70)
            try pages.await("/status", within: 90) { $0.1.contains(#""health":"fine""#) }
            try worker.waitFor("no longer degraded by this", seconds: 5)
            try apps.stop()
        }

        /// Every connection of one app is answered with a GOAWAY that blames the credential: its circuit opens and is
        /// named; another app goes on.
        @Test(.needs(.worker, .broker, .python, .kcat, .curl), .timeLimit(.minutes(3)))
        func aCredentialThatAGoAwayRefusesStopsItsAppOnly() throws {
            // Of another environment: apps that share key and environment share a circuit.
            let apps = try TwoApps("environment", annexIn: "development") {
                try $0.startSimulator("--fault", "goaway-environment@1")
            }
            let (scene, worker) = (apps.scene, apps.worker)
            let ended = try scene.tryBooks(
                "count",
                ["--topic", scene.configuration.results, "--at-least", "50", "--timeout", "\(Int(Self.promptly))"])
            #expect(ended.ending == .exited(0), "\(ended.text) results\n\(worker.text.suffix(8_000))")
            try apps.awaitProblem("BadCertificateEnvironment", within: 10)
            // What was held is sent.
            try apps.mend("fault=", resultsWithin: 100)
        }
    }
}

/// A worker of two apps, each with a simulator of its own: shop, whose simulator has the fault, and annex.
private struct TwoApps {
    let scene: Scene
    let worker: ChildProcess
    let pages: Pages
    private let faulty: RunningSimulator
    private let fine: RunningSimulator

    /// Starts all, and writes 50 requests for each app.
    init(
        _ name: String, annexIn environment: String = "production",
        startFaulty: (Scene) throws -> RunningSimulator
    ) throws {
        scene = try Scene(name, partitions: 1)
        fine = try scene.startSimulator()
        let port = scene.configuration.port
        faulty = try startFaulty(scene)
        scene.configuration.apps = scene.configuration.app(named: "annex", port: port)
            .replacingOccurrences(of: "production", with: environment)
        scene.configuration.admin = "127.0.0.1:0"
        worker = try scene.startWorker()
        pages = try Pages(of: worker)
        try pages.await("/status") { $0.1.contains(#""health":"fine""#) }
        try write("shop", 0..<50)
        try write("annex", 100..<150)
    }

    func write(_ app: String, _ numbers: Range<Int>) throws {
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

    /// Of shop's simulator.
    func setFaults(_ faults: String) throws { try scene.books("faults", "--simulator", faulty.control, faults) }

    /// Waits until the status names shop with these words, and not annex.
    func awaitProblem(_ words: String, within seconds: Double) throws {
        try pages.await("/status", within: seconds) {
            $0.1.contains(#""health":"degraded""#) && $0.1.contains(#""subject":"app shop""#) && $0.1.contains(words)
                && !$0.1.contains(#""subject":"app annex""#)
        }
    }

    /// Ends the fault: all of the 100 requests are accepted, and the worker is fine.
    func mend(_ faults: String, resultsWithin seconds: Double) throws {
        try setFaults(faults)
        try scene.books(
            "count", "--topic", scene.configuration.results, "--at-least", "100", "--timeout", "\(Int(seconds))",
            within: seconds + 10)
        try pages.await("/status", within: 20) { $0.1.contains(#""health":"fine""#) }
        try stop()
        #expect(try scene.resultsWithKcat().filter { $0.hasSuffix(" outcome=accepted") }.count == 100)
    }

    func stop() throws {
        try scene.stop(worker)
        try faulty.process.stop()
        try fine.process.stop()
    }
}
