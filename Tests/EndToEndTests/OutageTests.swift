import Foundation
import Kafka
import TestSupport
import Testing

extension EndToEnd.Outages {
    /// The broker is unavailable for longer than the session timeout, under load.
    @Suite struct OutageTests {
        @Test(
            .needs(.worker, .broker, .python), .ownBroker,
            arguments: Long.isWanted ? ["frozen", "stopped"] : ["stopped"])
        func `An outage of the broker causes only a delay`(_ kind: String) throws {
            let broker = try KafkaBroker.expendable.get()
            let scene = try Scene("outage", on: broker)
            let simulator = try scene.startSimulator("--latency", "50ms")
            let (worker, pages) = try scene.startWorkerWithPages()
            let count = Long.isWanted ? 45_000 : 15_000
            let load = try scene.startLoad(count, rate: count / 15, "--plain")
            try scene.awaitResults(count / 15)
            defer { broker.unfreeze() }
            if kind == "frozen" { broker.freeze() } else { try broker.stop(kill: false) }
            // Requests are in flight when the broker freezes, so the lag is above 0, and unknown after the loss.
            let lag = #"apns_worker_lag_records{role="requests"} "#
            let loss = "partitions lost, another worker may read them group=\(scene.configuration.group) "
            try pages.await("/metrics") { answer in
                #expect(kind == "stopped" || !answer.1.contains(lag + "0\n"))
                return !answer.1.contains(lag) && worker.text.contains(loss)
            }
            if kind == "frozen" { broker.unfreeze() } else { try broker.start() }
            #expect(try load.wait() == .exited(0), "\(load.text.suffix(500))")
            try scene.finish(worker)
            #expect(worker.text.contains("lost partitions assigned again"), "\(worker.text.suffix(4_000))")
            // No other worker has owned the partitions, so nothing is sent twice or in doubt.
            try scene.audit("--simulator", simulator.control)
        }

        @Test(.needs(.worker, .broker, .python), .ownBroker)
        func `A frozen broker is reported while the worker idles`() throws {
            let (scene, broker) = try Scene.protected("frozen", isStopped: true)
            let (worker, pages) = try scene.startWorkerWithPages(untilFine: true)
            broker.freeze()
            defer { broker.unfreeze() }
            try pages.awaitProblem("kafka", "no broker of", "answers")
            // An outage must not make workers unready, because a rollout that fixes it would then be blocked.
            for page in ["/livez", "/readyz"] { #expect(try pages.get(page).0 == 200) }
            // The lag is unknown, because new records may have arrived.
            try pages.await("/metrics") { !$0.1.contains("lag_records{") }
            broker.unfreeze()
            try pages.awaitMended("kafka")
            try pages.await("/metrics", says: #"apns_worker_lag_records{role="requests"} 0"#)
            try scene.produce(30, "--plain")
            try scene.finish(worker)
        }
    }

    /// A stop completes, whatever the brokers do.
    @Suite(.ownBroker)
    struct StoppingTests {
        /// The worker cannot finish its stop, because its last commit is not answered. Or it waits for a silent broker
        /// before its loop runs.
        @Test(
            .needs(.worker, .broker, .python),
            arguments: [("draining", SIGTERM), ("draining", SIGINT), ("starting", SIGTERM)])
        func `A second signal ends the process at once`(state: String, signal: Int32) throws {
            let (scene, broker) = try Scene.protected("impatient", isStopped: true)
            // The drain takes longer than the test.
            scene.configuration.more = "drain: {shutdown: 10m}"
            defer { broker.unfreeze() }
            let worker: ChildProcess
            if state == "draining" {
                worker = try scene.startWorkerWithPages(untilFine: true).0
                try scene.produce(100, "--plain")
                try scene.settle(worker)
                broker.freeze()
                worker.signal(SIGTERM)
                try worker.waitFor("stopping: draining")
            } else {
                broker.freeze()
                worker = try scene.startWorkerWithPages().0
                worker.signal(SIGINT)
            }
            #expect(worker.ended == nil)
            // The signal is repeated, because two pending signals of the same kind count as one.
            try eventually("its end") {
                worker.signal(signal)
                return worker.ended != nil
            }
            #expect(try worker.wait() == .exited(128 + signal), "\(worker.text.suffix(4_000))")
        }
    }
}

extension Scene {
    /// Returns a scene whose worker is the Kafka user `User:worker`, and a broker that can revoke its rights.
    ///
    /// - Parameter isStopped: whether the test stops or freezes the broker, which must then not be the shared one.
    static func protected(_ label: String, isStopped: Bool = false) throws -> (Scene, KafkaBroker) {
        let shared = KafkaBroker.shared.flatMap { isStopped || $0.protectedServers == nil ? nil : $0 }
        let broker = try shared ?? KafkaBroker.expendable.get()
        let scene = try Scene(label, partitions: 2, on: broker)
        scene.configuration.servers = broker.protectedServers ?? ""
        scene.configuration.kafka = "librdkafka: \(KafkaBroker.workerPropertiesText)"
        scene.configuration.more = "drain: {shutdown: 5s}"
        return (scene, broker)
    }
}

extension Pages {
    /// Waits until `/status` reports a problem of the subject with these words, and the metrics and the log report it
    /// too.
    func awaitProblem(_ subject: String, _ words: String...) throws {
        try self.await("/status") { answer in
            guard let problem = Self.problems(in: answer.1).first(where: { $0.subject == subject }) else {
                return false
            }
            return words.allSatisfy { (problem.text + " " + problem.advice).contains($0) }
        }
        try self.await("/metrics", says: "\napns_worker_degraded 1\n", ",subject=\"\(subject)\"} ")
        func said() -> Int {
            worker.text.split(separator: "\n").count { $0.contains("degraded") && $0.contains(subject) }
        }
        // The log reaches the test later than the page.
        try eventually("a log line about \(subject)", of: worker) { said() > 0 }
        #expect(said() <= 4, "logged \(said()) times:\n\(worker.text.suffix(4_000))")
    }

    /// Waits until the subject has no problem and the log reports its end.
    func awaitMended(_ subject: String) throws {
        try self.await("/status") { answer in !Self.problems(in: answer.1).contains { $0.subject == subject } }
        try eventually("the end of \(subject)", of: worker) {
            worker.text.split(separator: "\n").contains {
                $0.contains("problem resolved") && $0.contains(subject)
            }
        }
    }
}
