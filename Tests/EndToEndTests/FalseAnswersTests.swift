import Foundation
import TestSupport
import Testing

extension EndToEnd.FalseAnswers {
    /// A broker that takes requests and answers none, by a proxy before it (`Books/kafka_proxy.py`).
    @Suite(.serialized) struct FalseAnswersTests {
        @Test(.needs(.worker, .broker, .python), arguments: ["fetch", "produce"])
        func `A connection that answers nothing is named`(kind: String) throws {
            let scene = try Scene("stalled", partitions: 2)
            let proxy = try scene.startBook("kafka_proxy.py", [scene.servers])
            let port = try scene.port(of: proxy)
            func tell(_ words: String) throws {
                proxy.write("\(words)\n")
                try proxy.waitFor("done \(words)\n")
            }
            _ = try scene.startSimulator()
            scene.configuration.servers = "127.0.0.1:\(port)"
            let (worker, pages) = try scene.startWorkerWithPages(untilFine: true)
            try scene.change("requests", scene.configuration.requests, "40", "aa")
            try scene.awaitTokens(40, of: worker)
            try scene.settle(worker)
            if kind == "fetch" {
                // Longer than a request waits for its answer: who idles is no stall.
                Thread.sleep(forTimeInterval: 13)
                #expect(try pages.get("/status").1.contains(#""health":"fine""#))
            }
            try tell("stall \(kind)")
            try scene.change("requests", scene.configuration.requests, "10", "bb")
            try proxy.waitFor("stalled ")
            let words =
                kind == "fetch"
                ? ["broker 127.0.0.1:\(port)", "takes requests and does not answer"]
                : ["topic \(scene.configuration.results)", "has no acknowledgement"]
            try pages.await("/status") { answer in
                (["\"health\":\"degraded\"", "look at"] + words).allSatisfy(answer.1.contains)
            }
            try pages.await("/metrics", says: "\napns_worker_degraded 1\n")
            try tell("flow")
            try scene.awaitTokens(50, of: worker)
            try pages.await("/status", says: #""health":"fine""#)
            try scene.settle(worker)
            try scene.stop(worker)
        }
    }
}
