import TestSupport
import Testing

extension EndToEnd {
    /// A broker that accepts requests and does not answer, simulated by a proxy (`Books/kafka_proxy.py`).
    @Suite struct FalseAnswersTests {
        @Test(.needs(.worker, .broker, .python, .kcat), arguments: [("fetch", "1"), ("produce", "0")])
        func `A broker that stops answering on a connection is reported`(kind: String, apiKey: String) throws {
            let scene = try Scene("stalled", partitions: 2)
            let proxy = try scene.startBook("kafka_proxy.py", [scene.servers])
            try proxy.waitFor("\n")
            let port = try RunningSimulator.port(of: "listening", proxy)
            scene.configuration.servers = "127.0.0.1:\(port)"
            let (worker, pages) = try scene.startWorkerWithPages(untilFine: true)
            try scene.send(to: deviceTokens(40, "aa"))
            try scene.awaitTokens(40, of: worker)
            try scene.settle(worker)
            proxy.write("\(apiKey)\n")
            try proxy.waitFor("stalling \(apiKey)\n")
            try scene.send(to: deviceTokens(10, "bb"))
            let words =
                kind == "fetch"
                ? ["broker 127.0.0.1:\(port)", "accepts requests but does not answer"]
                : ["topic \(scene.configuration.results)", "is not acknowledged"]
            try pages.await("/status") { answer in
                (["\"health\":\"degraded\"", "check the"] + words).allSatisfy(answer.1.contains)
            }
            try pages.await("/metrics", says: "\napns_worker_degraded 1\n")
            proxy.write("flow\n")
            try scene.awaitTokens(50, of: worker)
            try pages.await("/status", says: #""health":"fine""#)
            try scene.finish(worker)
        }
    }
}
