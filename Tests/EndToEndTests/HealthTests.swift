import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// Problems with Kafka are named while they last.
    @Suite(.ownBroker)
    struct HealthTests {
        @Test(.needs(.worker, .broker, .python))
        func `A request topic that may not be read is named from the start until it may`() throws {
            let protected = try ProtectedScene("unread")
            let (broker, scene) = (protected.broker, protected.scene)
            let topic = scene.configuration.requests
            try broker.deny(.read, .topic(topic))
            try scene.produce(30, "--plain")
            let (worker, pages) = try scene.startWorkerWithPages()
            try protected.awaitProblem(
                "partition \(topic)/0", ["cannot be read", "grant READ on topic \(topic)"], worker, pages)
            // The log's end is unknown.
            #expect(try !pages.get("/metrics").1.contains(#"apns_worker_lag_records{role="requests"}"#))
            try broker.lift(.read, .topic(topic))
            try pages.await("/status", says: #""health":"fine""#)
            try scene.settle(worker)
            try pages.await("/metrics") { $0.1.contains(#"apns_worker_lag_records{role="requests"} 0"#) }
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python))
        func `A group whose permission is revoked is named once a commit is refused`() throws {
            let protected = try ProtectedScene("ungrouped")
            let (broker, scene) = (protected.broker, protected.scene)
            let (worker, pages) = try protected.startFine()
            let group = scene.configuration.group
            try broker.deny(.read, .group(group))
            try scene.produce(30, "--plain")
            try protected.awaitProblem(
                "group \(group)", ["commits are refused", "grant READ on group \(group)"], worker, pages)
            #expect(try pages.get("/readyz") == (200, "ready\n"))
            try broker.lift(.read, .group(group))
            try protected.awaitMended("group \(group)", worker, pages)
            try scene.finish(worker)
        }
    }
}
