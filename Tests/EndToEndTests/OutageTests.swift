import Foundation
import Kafka
import TestSupport
import Testing

extension EndToEnd.Outages {
    /// The broker is away for longer than the session lasts, under load.
    @Suite(.serialized) struct OutageTests {
        @Test(.needs(.worker, .broker, .python), .ownBroker, .timeLimit(.minutes(8)), arguments: ["frozen", "stopped"])
        func anOutageCostsNothingButTime(_ kind: String) throws {
            let broker = try KafkaBroker.expendable.get()
            let scene = try Scene("outage", on: broker)
            let simulator = try scene.startSimulator("--latency", "50ms")
            let worker = try scene.startWorker()
            let load = try ChildProcess(
                Tool.python.path(),
                [
                    Scene.program, "produce", "--servers", scene.servers, "--topic", scene.configuration.requests,
                    "--count", "45000", "--rate", "3000", "--plain", "--book", scene.file("book.jsonl"),
                ])
            // A broker that just started may say of a topic that it has no leader yet.
            for _ in 0..<20 {
                do {
                    try scene.awaitResults(3_000)
                    break
                } catch { usleep(500_000) }
            }
            defer { broker.unfreeze() }
            if kind == "frozen" { broker.freeze() } else { try broker.stop(kill: false) }
            // Longer than the session of 6 s.
            usleep(10_000_000)
            let back = Date()
            if kind == "frozen" { broker.unfreeze() } else { try broker.start() }
            #expect(try load.wait(seconds: 200) == .exited(0), "\(load.text.suffix(500))")
            try scene.settle(worker)
            print("settled \(Date().timeIntervalSince(back)) s after the broker was back")
            try scene.stop(worker)
            let text = worker.text
            let lost = text.components(separatedBy: "partitions lost").count - 1
            let resumed = text.components(separatedBy: "a lost partition came back").count - 1
            print("sessions lost \(lost), partitions resumed \(resumed)")
            #expect(resumed > 0)
            // Marks are no fault: nobody can tell what an owner between would have sent. A second request is one.
            try scene.audit("--simulator", simulator.control, "--lapsed")
            try simulator.process.stop()
        }
    }
}
