import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// Tests of `--keylog`, and of the frames at log level trace.
    @Suite struct KeyLogTests {
        /// Returns the number of connections whose secrets are in the file. Each line of an NSS key log has a label,
        /// the client's random and a secret.
        private static func connections(_ path: String) throws -> Int {
            let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
            for line in lines {
                #expect(line.wholeMatch(of: /[A-Z_0-9]+ [0-9a-f]{64} [0-9a-f]+/) != nil, "\(line)")
            }
            return lines.count { $0.hasPrefix("CLIENT_TRAFFIC_SECRET_0 ") }
        }

        @Test(.needs(.worker))
        func `A direct send logs the secrets of its connection`() throws {
            let scene = try Scene(withoutBroker: "keylog")
            _ = try scene.startSimulator()
            let path = scene.file("keys.log")
            for count in 1...2 {
                try scene.sendDirectly("--keylog", path).expect(0)
                #expect(try Self.connections(path) == count)
            }
            try scene.sendDirectly("--keylog", scene.folder.path).expect(1, "key log \(scene.folder.path): ")
            try scene.command("send -t 00 -a Hi --keylog keys.log").expect(64, "--keylog needs --direct")
        }

        @Test(.needs(.worker, .broker, .python))
        func `A worker logs its secrets, and each frame header at level trace`() throws {
            let scene = try Scene("keylog")
            let simulator = try scene.startSimulator("--fault", "goaway:Shutdown@500")
            try scene.produce(1_000, "--plain")
            let worker = try scene.startWorker(options: ["--keylog", scene.file("run.log"), "--log-part", "apns=trace"])
            try scene.finish(worker)
            #expect(try Self.connections(scene.file("run.log")) >= 2)
            let lines = worker.text.split(separator: "\n")
            #expect(lines.count { $0.contains("frame sent") && $0.contains("type=HEADERS") } >= 1_000)
            #expect(lines.contains { $0.contains("frame received") && $0.contains("type=GOAWAY") })
            try scene.audit("--simulator", simulator.control)

            try scene.check("--probe", "--keylog", scene.file("probe.log")).expect(0)
            #expect(try Self.connections(scene.file("probe.log")) == 2)
        }
    }
}
