import Foundation
import TestSupport
import Testing

extension EndToEnd.Rights {
    /// What is wrong with Kafka is named, whatever the worker is doing, and is over when it is over.
    @Suite(.serialized, .ownBroker)
    struct HealthTests {
        @Test(.needs(.worker, .broker, .python))
        func aRequestTopicThatMayNotBeReadIsNamedAndItsLagIsKnown() throws {
            let protected = try ProtectedScene("unread")
            let (broker, scene) = (protected.broker, protected.scene)
            _ = try scene.startSimulator()
            let topic = scene.configuration.requests
            try broker.deny(.read, .topic(topic))
            try scene.produce(30, "--plain")
            let (worker, pages) = try scene.startWorkerWithPages()
            try protected.awaitProblem("topic \(topic)", ["may not be read", "allow Read"], worker, pages)
            try pages.await("/metrics") { $0.1.contains(#"apns_worker_lag_records{role="requests"} 30"#) }
            try broker.lift(.read, .topic(topic))
            try protected.awaitMended("topic \(topic)", worker, pages)
            try scene.settle(worker)
            try pages.await("/metrics") { $0.1.contains(#"apns_worker_lag_records{role="requests"} 0"#) }
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python))
        func aGroupWhosePermissionIsRevokedIsNamedWhileTheWorkerIdles() throws {
            let protected = try ProtectedScene("ungrouped")
            let (broker, scene) = (protected.broker, protected.scene)
            _ = try scene.startSimulator()
            let (worker, pages) = try protected.startFine()
            let group = scene.configuration.group
            try broker.deny(.read, .group(group))
            try protected.awaitProblem("group \(group)", ["may not be used", "allow Read on the group"], worker, pages)
            #expect(try pages.get("/readyz") == (200, "ready\n"))
            try broker.lift(.read, .group(group))
            try protected.awaitMended("group \(group)", worker, pages)
            try scene.produce(30, "--plain")
            try scene.settle(worker)
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python))
        func aRequestTopicThatIsDeletedIsNamed() throws {
            let protected = try ProtectedScene("deleted")
            let (broker, scene) = (protected.broker, protected.scene)
            _ = try scene.startSimulator()
            let (worker, pages) = try protected.startFine()
            let topic = scene.configuration.requests
            try broker.delete([topic])
            try protected.awaitProblem("topic \(topic)", ["does not exist"], worker, pages)
            try scene.stop(worker)
        }

        /// A producer died and left its transaction open: readers of committed records get no further in that partition
        /// until the broker ends it.
        @Test(.needs(.worker, .broker, .python))
        func aTransactionThatIsLeftOpenIsNamedForItsPartition() throws {
            let protected = try ProtectedScene("open")
            let scene = protected.scene
            _ = try scene.startSimulator()
            let (worker, pages) = try protected.startFine()
            let topic = scene.configuration.requests
            try scene.change("transaction", topic, "1", "10", "60000")
            try scene.change("requests", topic, "40")
            let stalled = "partition \(topic)/1"
            try protected.awaitProblem(
                stalled, ["wait behind a transaction", "abort --topic \(topic) --partition 1 --start-offset 0"], worker,
                pages)
            // The other partition's 20, and nothing else is wrong.
            try scene.await(scene.configuration.results, holds: 20, of: worker)
            let metrics = try pages.get("/metrics").1
            #expect(metrics.ranges(of: "\napns_worker_problems{").count == 1, "\(metrics)")
            try scene.change("abort", topic, "1")
            try protected.awaitMended(stalled, worker, pages)
            try scene.await(scene.configuration.results, holds: 40, of: worker)
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python))
        func aRetryTopicThatIsAlteredToLoseRecordsIsNamed() throws {
            let protected = try ProtectedScene("altered")
            let scene = protected.scene
            _ = try scene.startSimulator()
            let (worker, pages) = try protected.startFine()
            let topic = scene.configuration.retry
            try scene.change("alter", topic, "cleanup.policy=compact")
            try protected.awaitProblem("topic \(topic)", ["cleanup.policy=compact", "set it to delete"], worker, pages)
            try scene.change("alter", topic, "cleanup.policy=delete")
            try protected.awaitMended("topic \(topic)", worker, pages)
            try scene.stop(worker)
        }
    }
}
