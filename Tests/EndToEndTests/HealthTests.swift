import Foundation
import TestSupport
import Testing

extension EndToEnd.Outages {
    /// What is wrong with Kafka shows within seconds, whatever the worker is doing, and is over when it is over.
    @Suite(.serialized, .ownBroker)
    struct HealthTests {
        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(6)))
        func `A request topic that may not be read is named from the start until it may`() throws {
            let protected = try ProtectedScene("unread")
            let (broker, scene) = (protected.broker, protected.scene)
            _ = try scene.startSimulator()
            let topic = scene.configuration.requests
            try broker.deny(.read, .topic(topic))
            try scene.produce(30, "--plain")
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try worker.waitFor("may not read topic \(topic): allow Read", seconds: 30)
            try protected.awaitProblem(
                "partition \(topic)/0", ["cannot be read", "grant READ on topic \(topic)"], worker, pages)
            // Nothing is known of the log's end.
            #expect(try !pages.get("/metrics").1.contains(#"apns_worker_lag_records{role="requests"}"#))
            try broker.lift(.read, .topic(topic))
            try pages.await("/status", within: 60) { $0.1.contains(#""health":"fine""#) }
            try scene.settle(worker)
            try pages.await("/metrics") { $0.1.contains(#"apns_worker_lag_records{role="requests"} 0"#) }
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(6)))
        func `A group whose permission is revoked is named once a commit is refused`() throws {
            let protected = try ProtectedScene("ungrouped")
            let (broker, scene) = (protected.broker, protected.scene)
            _ = try scene.startSimulator()
            let (worker, pages) = try protected.startFine()
            let group = scene.configuration.group
            try broker.deny(.read, .group(group))
            try scene.produce(30, "--plain")
            try protected.awaitProblem(
                "group \(group)", ["commits are refused", "grant READ on group \(group)"], worker, pages)
            #expect(try pages.get("/readyz") == (200, "ready\n"))
            try broker.lift(.read, .group(group))
            try protected.awaitMended("group \(group)", worker, pages)
            try scene.settle(worker)
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(6)))
        func aBrokerThatFreezesIsNamedWhileTheWorkerIdles() throws {
            let protected = try ProtectedScene("frozen")
            let (broker, scene) = (protected.broker, protected.scene)
            _ = try scene.startSimulator()
            let (worker, pages) = try protected.startFine()
            broker.freeze()
            defer { broker.unfreeze() }
            try protected.awaitProblem("kafka", ["no broker of", "answers"], worker, pages)
            #expect(try pages.get("/livez").0 == 200)
            broker.unfreeze()
            try protected.awaitMended("kafka", worker, pages)
            try scene.produce(30, "--plain")
            try scene.settle(worker)
            try scene.stop(worker)
        }

        /// A later outage is no unreadiness, or no rollout could mend it.
        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(3)))
        func degradedAndReadyWhileKafkaIsAway() throws {
            let broker = try KafkaBroker.expendable.get()
            let scene = try Scene("away", partitions: 1, on: broker)
            _ = try scene.startSimulator()
            scene.configuration.admin = "127.0.0.1:0"
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try pages.await("/status") { $0.1.contains(#""health":"fine""#) }
            try broker.stop(kill: true)
            let away = Result {
                try pages.await("/status") {
                    $0.1.contains(#""health":"degraded""#) && $0.1.contains("no broker of \(broker.bootstrapServers)")
                }
                #expect(try pages.get("/readyz") == (200, "ready\n"))
            }
            // Others need it, too.
            try broker.start()
            try away.get()
            try pages.await("/status", within: 60) { $0.1.contains(#""health":"fine""#) }
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(6)))
        func aRequestTopicThatIsDeletedIsNamed() throws {
            let protected = try ProtectedScene("deleted")
            let (broker, scene) = (protected.broker, protected.scene)
            _ = try scene.startSimulator()
            let (worker, pages) = try protected.startFine()
            let topic = scene.configuration.requests
            try broker.delete([topic])
            try protected.awaitProblem("topic \(topic)", ["cannot be read", "create topic \(topic)"], worker, pages)
            try scene.stop(worker)
        }
    }
}
