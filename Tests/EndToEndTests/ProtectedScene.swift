import Foundation
import Kafka
import TestSupport
import Testing

/// A scene whose worker is `User:worker` at the broker that can take its rights away.
final class ProtectedScene {
    let broker: KafkaBroker
    let scene: Scene
    /// Drains for so long at most when it stops, in seconds.
    static let drain = 5

    init(_ label: String, partitions: Int = 2) throws {
        broker = try KafkaBroker.expendable.get()
        scene = try Scene(label, partitions: partitions, on: broker)
        scene.configuration.servers = broker.protectedServers ?? ""
        scene.configuration.kafka = "librdkafka: \(KafkaBroker.workerPropertiesText)"
        scene.configuration.admin = "127.0.0.1:0"
        scene.configuration.more = "drain: {shutdown: \(Self.drain)s}"
    }

    /// Starts the worker and waits until it is ready and fine.
    func startFine() throws -> (ChildProcess, Pages) {
        let worker = try scene.startWorker()
        let pages = try Pages(of: worker)
        try pages.await("/readyz", within: 60) { $0 == (200, "ready\n") }
        try pages.await("/status") { $0.1.contains(#""health":"fine""#) }
        return (worker, pages)
    }

    /// Waits until `/status` names a problem of the subject with these words; prints how long that took.
    func awaitProblem(_ subject: String, _ words: [String], _ worker: ChildProcess, _ pages: Pages) throws {
        let start = Date()
        try pages.await("/status", within: 60) { answer in
            guard let problem = Self.problems(in: answer.1).first(where: { $0.subject == subject }) else {
                return false
            }
            return words.allSatisfy { (problem.text + " " + problem.advice).contains($0) }
        }
        let seconds = Date().timeIntervalSince(start)
        print("\(subject): named after \(String(format: "%.1f", seconds)) s")
        let metrics = try pages.get("/metrics").1
        #expect(metrics.contains("\napns_worker_degraded 1\n"))
        #expect(metrics.contains("\napns_worker_problems{subject=\"\(subject)\"} "))
        let said = worker.text.split(separator: "\n").filter { $0.contains("degraded") && $0.contains(subject) }
        #expect((1...4).contains(said.count), "said \(said.count) times:\n\(worker.text.suffix(4_000))")
    }

    /// Waits until nothing is wrong with the subject any more, and the log says so.
    func awaitMended(_ subject: String, _ worker: ChildProcess, _ pages: Pages) throws {
        try pages.await("/status", within: 90) { answer in
            !Self.problems(in: answer.1).contains { $0.subject == subject }
        }
        try worker.waitFor("no longer degraded by this", seconds: 5)
        let line = worker.text.split(separator: "\n").last { $0.contains("no longer degraded by this") }
        #expect(line?.contains(subject) == true, "\(line ?? "")")
    }

    struct Named: Decodable {
        var subject: String
        var text: String
        var advice: String
    }

    private static func problems(in status: String) -> [Named] {
        struct Status: Decodable { var problems: [Named] }
        return (try? JSONDecoder().decode(Status.self, from: Data(status.utf8)))?.problems ?? []
    }
}
