import Foundation
import TestSupport
import Testing

extension EndToEnd.Outages {
    /// Stopping ends, whatever the brokers do.
    @Suite(.serialized, .ownBroker)
    struct StoppingTests {
        /// librdkafka 2.0.2 waits for ever for a thread of its own after that.
        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(6)))
        func theProcessEndsAfterATopicsPermissionWasLost() throws {
            let protected = try ProtectedScene("stuck")
            let (broker, scene) = (protected.broker, protected.scene)
            _ = try scene.startSimulator()
            let (worker, pages) = try protected.startFine()
            try scene.produce(100, "--plain")
            try scene.settle(worker)
            let topic = scene.configuration.requests
            try broker.deny(.all, .topic(topic))
            try broker.deny(.all, .topic(scene.configuration.unregistered))
            try protected.awaitProblem(
                "topic \(topic)", ["cannot be read", "grant READ on topic \(topic)"], worker, pages)
            worker.signal(SIGTERM)
            let ending = try worker.wait(seconds: 60)
            #expect(ending == .exited(0), "\(worker.text.suffix(4_000))")
        }

        /// The core is in a stop that cannot go on: its last commit has no answer.
        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(6)), arguments: [SIGTERM, SIGINT])
        func aSecondSignalEndsTheProcessAtOnce(signal: Int32) throws {
            let protected = try ProtectedScene("impatient")
            let scene = protected.scene
            _ = try scene.startSimulator()
            let (worker, _) = try protected.startFine()
            try scene.produce(100, "--plain")
            try scene.settle(worker)
            protected.broker.freeze()
            defer { protected.broker.unfreeze() }
            worker.signal(SIGTERM)
            try worker.waitFor("stopping: draining", seconds: 10)
            #expect(worker.ended == nil)
            try expectEnd(of: worker, by: signal)
        }

        /// Before there is a loop that turns: it waits for a broker that does not answer.
        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(6)))
        func aSecondSignalEndsTheProcessWhileItWaitsForKafka() throws {
            let protected = try ProtectedScene("early")
            _ = try protected.scene.startSimulator()
            protected.broker.freeze()
            defer { protected.broker.unfreeze() }
            let worker = try protected.scene.startWorker()
            try worker.waitFor("admin pages", seconds: 30)
            worker.signal(SIGINT)
            // The two must not come as one.
            usleep(50_000)
            try expectEnd(of: worker, by: SIGTERM)
        }

        private func expectEnd(of worker: ChildProcess, by signal: Int32) throws {
            let start = Date()
            worker.signal(signal)
            let ending = try worker.wait(seconds: 30)
            let seconds = Date().timeIntervalSince(start)
            print("ended after \(String(format: "%.2f", seconds)) s")
            // The first may have come to its end just before.
            #expect(ending == .exited(128 + signal), "\(worker.text.suffix(4_000))")
            #expect(seconds < 3)
        }
    }
}
