import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// Tests of the admin pages of running workers.
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
            try pages.await("/metrics") {
                $0.1.contains("apns_worker_reasons_total{app=\"shop\",reason=\"other\"} 1\n")
                    && $0.1.contains("apns_worker_reasons_total{app=\"shop\",reason=\"none\"} 2\n")
            }
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
}
