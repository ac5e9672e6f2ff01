import Foundation
import TestSupport
import Testing

extension EndToEnd.Commands {
    /// `--keylog` and the frames of log level trace: what shows why a first contact with Apple's servers fails.
    @Suite(.serialized) struct KeyLogTests {
        private static let token = String(repeating: "80fe", count: 16)

        /// How many connections have their secrets in the file, in the order of NSS key logs: label, random, secret.
        private static func connections(_ path: String) throws -> Int {
            let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
            for line in lines {
                #expect(line.wholeMatch(of: /[A-Z_0-9]+ [0-9a-f]{64} [0-9a-f]+/) != nil, "\(line)")
            }
            return lines.count { $0.hasPrefix("CLIENT_TRAFFIC_SECRET_0 ") }
        }

        @Test(.needs(.worker), .timeLimit(.minutes(1)))
        func `a direct send logs the secrets of its connection`() throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: KafkaBroker.uniqueName("keylog"))
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let simulator = try RunningSimulator(in: folder)
            var configuration = Configuration(servers: "127.0.0.1:1", name: "keylog")
            configuration.port = simulator.port
            let file = folder.appending(path: "worker.yaml").path
            try configuration.text.write(toFile: file, atomically: true, encoding: .utf8)
            let path = folder.appending(path: "keys.log").path
            func send(_ more: String...) throws -> Scene.Finished {
                try Scene.run(Tool.worker.path(), ["send", "-c", file, "-t", Self.token, "-a", "Hi"] + more)
            }
            for count in 1...2 {
                let sent = try send("--direct", "--keylog", path)
                #expect(sent.ending == .exited(0), "\(sent.text)")
                #expect(try Self.connections(path) == count)
            }
            let viaKafka = try send("--keylog", path)
            #expect(
                viaKafka.ending == .exited(64) && viaKafka.text.contains("--keylog is for --direct"),
                "\(viaKafka.text)")
            let nowhere = try send("--direct", "--keylog", folder.path)
            #expect(
                nowhere.ending == .exited(1) && nowhere.text.contains("key log \(folder.path): "), "\(nowhere.text)")
            try simulator.process.stop()
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(3)))
        func `a worker logs its secrets, and at level trace the head of each frame`() throws {
            let scene = try Scene("keylog")
            let simulator = try scene.startSimulator("--fault", "goaway:Shutdown@500")
            try scene.produce(1_000, "--plain")
            try scene.write(scene.configuration.text, to: "worker.yaml")
            let worker = try ChildProcess(
                Tool.worker.path(),
                [
                    "run", "-c", scene.file("worker.yaml"), "--keylog", scene.file("run.log"), "--log-part",
                    "apns=trace",
                ])
            try scene.settle(worker)
            try scene.stop(worker)
            #expect(try Self.connections(scene.file("run.log")) >= 2)
            let lines = worker.text.split(separator: "\n")
            #expect(lines.count { $0.contains("frame sent") && $0.contains("type=HEADERS") } >= 1_000)
            #expect(lines.contains { $0.contains("frame received") && $0.contains("type=GOAWAY") })
            try scene.audit("--simulator", simulator.control)

            let checked = try Scene.run(
                Tool.worker.path(),
                ["check", "-c", scene.file("worker.yaml"), "--probe", "--keylog", scene.file("probe.log")])
            #expect(checked.ending == .exited(0), "\(checked.text)")
            #expect(try Self.connections(scene.file("probe.log")) == 2)
            try simulator.process.stop()
        }
    }
}
