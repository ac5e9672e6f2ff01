import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// Problems with Kafka are reported while they last.
    @Suite(.ownBroker)
    struct HealthTests {
        @Test(.needs(.worker, .broker, .python))
        func `A request topic without a read permission is reported from the start until it is granted`() throws {
            let (scene, broker) = try Scene.protected("unread")
            let topic = scene.configuration.requests
            try broker.deny(.read, .topic(topic))
            try scene.produce(30, "--plain")
            let (worker, pages) = try scene.startWorkerWithPages()
            try pages.awaitProblem("partition \(topic)/0", "cannot be read", "grant READ on topic \(topic)")
            // The log's end is unknown.
            try pages.await("/metrics") { !$0.1.contains(#"apns_worker_lag_records{role="requests"}"#) }
            try broker.lift(.read, .topic(topic))
            try pages.await("/status", says: #""health":"fine""#)
            try scene.settle(worker)
            try pages.await("/metrics") { $0.1.contains(#"apns_worker_lag_records{role="requests"} 0"#) }
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python))
        func `A group whose permission is revoked is reported until it is granted again`() throws {
            let (scene, broker) = try Scene.protected("ungrouped")
            let (worker, pages) = try scene.startWorkerWithPages(untilFine: true)
            let group = scene.configuration.group
            try broker.deny(.read, .group(group))
            try scene.produce(30, "--plain")
            // First commits are rejected. Then the session is lost, and the worker cannot join the group again.
            try pages.awaitProblem(
                "group \(group)", "the worker's user has no access to the group", "grant Read on the group")
            try broker.lift(.read, .group(group))
            try pages.awaitMended("group \(group)")
            try scene.finish(worker)
        }

        /// After this fault, librdkafka 2.0.2 never finishes destroying a client.
        @Test(.needs(.worker, .broker, .python))
        func `The process ends after a topic's permission was lost`() throws {
            let (scene, broker) = try Scene.protected("stuck")
            let (worker, pages) = try scene.startWorkerWithPages(untilFine: true)
            try scene.produce(100, "--plain")
            try scene.settle(worker)
            let topic = scene.configuration.requests
            try broker.deny(.all, .topic(topic))
            try broker.deny(.all, .topic(scene.configuration.unregistered))
            try pages.await("/status", says: topic, "cannot be read")
            worker.signal(SIGTERM)
            #expect(try worker.wait() == .exited(0), "\(worker.text.suffix(4_000))")
        }
    }

    /// A broker that accepts requests and does not answer, simulated by a proxy (`Books/kafka_proxy.py`).
    @Suite struct FalseAnswersTests {
        @Test(.needs(.worker, .broker, .python, .kcat), arguments: [("fetch", "1"), ("produce", "0")])
        func `A broker that stops answering on a connection is reported`(kind: String, apiKey: String) throws {
            let scene = try Scene("stalled", partitions: 2)
            let proxy = try scene.startBook("kafka_proxy.py", [scene.servers])
            try proxy.waitFor("\n")
            let port = try proxy.port(after: "listening")
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
            try pages.await("/status", says: "\"health\":\"degraded\"", "check the", words[0], words[1])
            try pages.await("/metrics", says: "\napns_worker_degraded 1\n")
            proxy.write("flow\n")
            try scene.awaitTokens(50, of: worker)
            try pages.await("/status", says: #""health":"fine""#)
            try scene.finish(worker)
        }
    }
}
