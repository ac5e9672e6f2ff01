import Foundation
import TestSupport
import Testing

extension EndToEnd.Commands {
    /// `--trace`: what one sends to the authors after the first contact with Apple's servers. It has what passed, and
    /// no secret.
    @Suite(.serialized) struct TraceTests {
        private static let token = String(repeating: "80fe", count: 16)
        /// What no trace may have: a device token, a payload, a person's name, a provider token, a key.
        private static let secrets = [token, "Confidential", "Ms Smith", "eyJ", "PRIVATE KEY"]

        private static func expectNoSecret(_ trace: TraceLines) {
            for secret in secrets { #expect(!trace.text.contains(secret), "\(secret) is in the trace") }
            #expect(!trace.text.contains(/[0-9A-Fa-f]{32}/), "a device token is in the trace")
        }

        @Test(.needs(.worker), .timeLimit(.minutes(1)))
        func aDirectSendIsKept() throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: KafkaBroker.uniqueName("trace"))
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let simulator = try RunningSimulator(in: folder)
            var configuration = Configuration(servers: "127.0.0.1:1", name: "trace")
            configuration.port = simulator.port
            let file = folder.appending(path: "worker.yaml").path
            try configuration.text.write(toFile: file, atomically: true, encoding: .utf8)
            let path = folder.appending(path: "trace.jsonl").path
            func send(_ more: String...) throws -> Scene.Finished {
                try Scene.run(
                    Tool.worker.path(),
                    ["send", "-c", file, "-t", Self.token, "-a", "Confidential", "--collapse-id", "Ms Smith"] + more)
            }
            let sent = try send("--direct", "--trace", path)
            #expect(sent.ending == .exited(0), "\(sent.text)")
            let trace = try TraceLines(path)
            Self.expectNoSecret(trace)
            let events = trace.compactMap { $0["event"] as? String }
            #expect(events.first == "begin" && events.last == "closed", "\(events)")
            #expect(trace.contains { $0["event"] as? String == "dial" && $0["app"] as? String == "shop" })
            let open = try #require(trace.first { $0["event"] as? String == "open" })
            #expect(open["alpn"] as? String == "h2" && open["tls"] as? String == "TLSv1.3")
            let certificate = try #require(open["certificate"] as? [String: String])
            #expect(certificate["names"]?.contains("DNS:localhost") == true, "\(certificate)")
            #expect(certificate["not_after"]?.firstMatch(of: /^\d{4}-\d\d-\d\d$/) != nil)
            #expect(trace.contains { $0["handshake"] as? String == "client_hello" })
            #expect(trace.contains { $0["record"] as? String == "application_data" && $0["length"] is Int })
            let settings = try #require(trace.frames("SETTINGS", "received").first?["settings"] as? [String: Int])
            #expect(settings["MAX_CONCURRENT_STREAMS"] == 1, "\(settings)")
            let request = try #require(trace.frames("HEADERS", "sent").first?["headers"] as? [[String]])
            #expect(request.contains([":path", "/3/device/80fe80fe… (64 characters)"]), "\(request)")
            #expect(request.contains(["apns-topic", "com.example.shop"]))
            #expect(request.contains { $0[0] == "authorization" && $0[1].hasPrefix("bearer (") })
            #expect(trace.frames("DATA", "sent").allSatisfy { $0["body"] == nil && $0["length"] is Int })
            let answer = try #require(trace.frames("HEADERS", "received").first?["headers"] as? [[String]])
            #expect(answer.contains([":status", "200"]))
            #expect(trace.frames("GOAWAY", "sent").count == 1)

            // A second one goes on behind it; what Apple says is kept.
            let refused = try Scene.run(
                Tool.worker.path(),
                [
                    "send", "-c", file, "-t", "fa174001" + Self.token.dropFirst(8), "-a", "Hi", "--direct", "--trace",
                    path,
                ])
            #expect(refused.ending == .exited(1), "\(refused.text)")
            let both = try TraceLines(path)
            #expect(both.filter { $0["event"] as? String == "begin" }.count == 2)
            #expect(
                both.frames("DATA", "received").contains { $0["body"] as? String == #"{"reason":"BadDeviceToken"}"# })
            Self.expectNoSecret(both)

            let viaKafka = try send("--trace", path)
            #expect(
                viaKafka.ending == .exited(64) && viaKafka.text.contains("--trace is for --direct"), "\(viaKafka.text)")
            let nowhere = try send("--direct", "--trace", folder.path)
            #expect(nowhere.ending == .exited(1) && nowhere.text.contains("trace \(folder.path): "), "\(nowhere.text)")
            try simulator.process.stop()
        }

        /// A worker's connections and what ends them, and those of `check --probe`.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(3)))
        func aWorkerAndAProbeAreKept() throws {
            let scene = try Scene("trace")
            let simulator = try scene.startSimulator("--fault", "goaway:Shutdown@500")
            try scene.produce(1_000, "--plain")
            try scene.write(scene.configuration.text, to: "worker.yaml")
            let worker = try ChildProcess(
                Tool.worker.path(),
                ["run", "-c", scene.file("worker.yaml"), "--trace", scene.file("run.jsonl")])
            try scene.settle(worker)
            try scene.stop(worker)
            let trace = try TraceLines(scene.file("run.jsonl"))
            #expect(trace.frames("GOAWAY", "received").contains { $0["body"] as? String == #"{"reason":"Shutdown"}"# })
            // Each of them, with all header fields: no table of theirs was lost.
            let requests = trace.frames("HEADERS", "sent")
            #expect(requests.count >= 1_000)
            #expect(requests.allSatisfy { ($0["headers"] as? [[String]])?.count ?? 0 >= 6 })
            Self.expectNoSecret(trace)
            try scene.audit("--simulator", simulator.control)

            let checked = try Scene.run(
                Tool.worker.path(),
                ["check", "-c", scene.file("worker.yaml"), "--probe", "--trace", scene.file("probe.jsonl")])
            #expect(checked.ending == .exited(0), "\(checked.text)")
            let probe = try TraceLines(scene.file("probe.jsonl"))
            #expect(probe.filter { $0["event"] as? String == "open" }.count == 2)
            #expect(probe.frames("HEADERS", "sent").count == 1)
            Self.expectNoSecret(probe)
            try simulator.process.stop()
        }
    }
}

/// The lines of a trace, and its text.
struct TraceLines: Sequence {
    let text: String
    private let lines: [[String: Any]]

    init(_ path: String) throws {
        text = try String(contentsOfFile: path, encoding: .utf8)
        lines = try text.split(separator: "\n").map { line in
            guard let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any] else {
                throw Unexpected("no object: \(line)")
            }
            return object
        }
    }

    func makeIterator() -> IndexingIterator<[[String: Any]]> { lines.makeIterator() }

    /// Those of frames of a type, in one direction.
    func frames(_ type: String, _ direction: String) -> [[String: Any]] {
        lines.filter { $0["type"] as? String == type && $0["direction"] as? String == direction }
    }
}
