import Foundation
import TestSupport
import Testing

extension EndToEnd {
    @Suite struct AdminTests {
        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Every metric agrees with the topics and the server`() throws {
            let scene = try Scene("metrics")
            let simulator = try scene.startSimulator()
            let (worker, pages) = try scene.startWorkerWithPages()
            try scene.produce(5_000, "--prefixes", scene.prefixes(), "--calm")
            try scene.settle(worker)
            try scene.audit("--simulator", simulator.control)
            try scene.books("metrics", ["--metrics", pages.address, "--simulator", simulator.control])
            // One answer has an unknown reason, and one has none.
            try scene.send(to: deviceTokens(1, "fa17e4180") + deviceTokens(1, "fa17b4180"))
            let reasons = "apns_worker_reasons_total{app=\"shop\",reason="
            try pages.await("/metrics", says: reasons + "\"other\"} 1\n", reasons + "\"none\"} 2\n")
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker))
        func `A worker is alive at once, and ready when it has joined its group`() throws {
            let scene = try Scene("ready", partitions: 1)
            let servers = scene.configuration.servers
            scene.configuration.servers = "127.0.0.1:\(Ports.claim())"
            let (early, earlyPages) = try scene.startWorkerWithPages()
            #expect(try earlyPages.get("/livez") == (200, "alive\n"))
            let listen = earlyPages.address.replacing("http://", with: "")
            try Scene.worker("health --listen \(listen)").expect(0)
            try Scene.worker("health --ready --listen \(listen)").expect(1, "\(listen)/readyz answers HTTP/1.", " 503 ")
            try earlyPages.await("/readyz") { $0.0 == 503 && $0.1.contains(scene.configuration.servers) }
            try earlyPages.await("/status", says: #""health":"starting""#)
            try scene.stop(early)
            try Scene.worker("health --listen \(listen)").expect(1, "http://\(listen)/livez does not answer")

            // One worker has the only partition, the other has none. Both are ready.
            scene.configuration.servers = servers
            let (first, firstPages) = try scene.startWorkerWithPages()
            try firstPages.await("/readyz") { $0 == (200, "ready\n") }
            let (second, secondPages) = try scene.startWorkerWithPages(named: "second")
            try secondPages.await("/readyz") { $0 == (200, "ready\n") }
            try eventually("one partition of two workers", of: second) {
                try [firstPages, secondPages].map {
                    try $0.get("/status").1.components(separatedBy: #""role":"requests""#).count - 1
                }.sorted() == [0, 1]
            }
            for pages in [firstPages, secondPages] { #expect(try pages.get("/readyz").0 == 200) }
            for worker in [second, first] { try scene.stop(worker) }
        }
    }

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
