import Foundation
import TestSupport
import Testing

extension EndToEnd.Starts {
    /// What a newcomer is told while something does not work yet.
    @Suite(.serialized) struct FirstMinutesTests {
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(2)))
        func topicsThatAreMissingAreOneLineOfTheLog() throws {
            let scene = try Scene("missing", partitions: 1)
            let simulator = try scene.startSimulator()
            let names = ["requests", "results", "unregistered", "dead-letters", "retry"].map {
                "\(scene.name).no.\($0)"
            }
            scene.configuration.requests = names[0]
            scene.configuration.results = names[1]
            scene.configuration.unregistered = names[2]
            scene.configuration.deadLetters = names[3]
            scene.configuration.retries = "tiers: {1s: \(names[4])}"
            let worker = try scene.startWorker()
            #expect(try worker.wait(seconds: 60) == .exited(78), "\(worker.text)")
            let lines = worker.text.split(separator: "\n").filter { $0.contains("do not exist") }
            #expect(lines.count == 1 && names.allSatisfy { lines[0].contains($0) }, "\(worker.text)")
            #expect(lines[0].contains("Z critical worker: cannot start reason="), "\(worker.text)")
            withExtendedLifetime(simulator) {}
        }

        /// The group keeps the place of a worker that was killed until its session is over.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(2)))
        func aSuccessorOfOneThatWasKilledSaysWhatItWaitsFor() throws {
            let scene = try Scene("successor", partitions: 1)
            let simulator = try scene.startSimulator()
            let first = try scene.startWorker()
            try first.waitFor("partitions assigned group=\(scene.configuration.group) ", seconds: 30)
            try first.killNow()
            let second = try scene.startWorker()
            try second.waitFor("partitions assigned group=\(scene.configuration.group) ", seconds: 30)
            let waits = second.text.split(separator: "\n").filter {
                $0.contains(
                    "waiting for partitions groups=\(scene.configuration.group),\(scene.configuration.group).retry ")
            }
            #expect(waits.count == 1 && waits[0].contains("until its session is over (6 s at most)"), "\(second.text)")
            try scene.stop(second)
            withExtendedLifetime(simulator) {}
        }

        /// Where APNs cannot be reached, a result does not come: `send` asks the worker why.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(2)))
        func sendSaysWhatKeepsItsWorkerFromSending() throws {
            let scene = try Scene("cutoff", partitions: 1)
            let simulator = try scene.startSimulator()
            let ports = KafkaBroker.freePorts(2)
            scene.configuration.port = ports[0]
            scene.configuration.admin = "127.0.0.1:\(ports[1])"
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try pages.await("/status") { $0.1.contains("cannot connect to localhost") }
            func send() throws -> String {
                let sent = try Scene.run(
                    Tool.worker.path(),
                    [
                        "send", "-c", scene.file("worker.yaml"), "-t", String(repeating: "0", count: 64), "-a", "Hi",
                        "--deadline", "2s",
                    ])
                #expect(sent.ending == .exited(1), "\(sent.text)")
                return sent.text
            }
            let text = try send()
            #expect(
                text.contains(
                    "apns-worker send: the worker at 127.0.0.1:\(ports[1]) says: app shop: cannot connect to localhost"),
                "\(text)")
            #expect(text.contains("look at the network, the proxy and the app's host"), "\(text)")
            try scene.stop(worker)
            let alone = try send()
            #expect(alone.contains("no worker answers at 127.0.0.1:\(ports[1]) (admin.listen)"), "\(alone)")
            withExtendedLifetime(simulator) {}
        }
    }
}
