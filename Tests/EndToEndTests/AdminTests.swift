import Foundation
import TestSupport
import Testing

extension EndToEnd.Starts {
    /// The worker seen from outside: its pages over whole runs.
    @Suite(.serialized) struct AdminTests {
        /// Every metric against the topics and the server, after a run whose books agree.
        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(5)))
        func metricsAgreeWithTheBooks() throws {
            let scene = try Scene("metrics")
            let simulator = try scene.startSimulator()
            scene.configuration.admin = "127.0.0.1:0"
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try scene.produce(20_000, "--prefixes", scene.prefixes(), "--calm")
            try scene.settle(worker)
            try scene.audit("--simulator", simulator.control)
            try scene.books(
                "metrics", "--metrics", pages.address, "--topic", scene.configuration.requests, "--results",
                scene.configuration.results, "--dead-letters", scene.configuration.deadLetters, "--retry-topics",
                scene.configuration.retry, "--simulator", simulator.control)
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(2)))
        func readyOnceTheGroupWasJoined() throws {
            // Nobody answers yet: alive, and not ready.
            let scene = try Scene("ready", partitions: 1)
            _ = try scene.startSimulator()
            let servers = scene.configuration.servers
            let port = KafkaBroker.freePorts(1)[0]
            scene.configuration.admin = "127.0.0.1:0"
            scene.configuration.servers = "127.0.0.1:\(port)"
            let early = try scene.startWorker()
            let earlyPages = try Pages(of: early)
            #expect(try earlyPages.get("/livez") == (200, "alive\n"))
            try earlyPages.await("/readyz") { $0.0 == 503 && $0.1.contains("127.0.0.1:\(port)") }
            #expect(try earlyPages.get("/status").1.contains(#""health":"starting""#))
            #expect(try early.stop(seconds: 20) == .exited(0))

            // One has the only partition, the other none: both are ready.
            scene.configuration.servers = servers
            let first = try scene.startWorker()
            let firstPages = try Pages(of: first)
            try firstPages.await("/readyz") { $0 == (200, "ready\n") }
            let other = try Scene(sharingTopicsOf: scene)
            let second = try other.startWorker()
            let secondPages = try Pages(of: second)
            try secondPages.await("/readyz") { $0 == (200, "ready\n") }
            try secondPages.await("/status") { second in
                let pages = [second.1, (try? firstPages.get("/status").1) ?? ""]
                let counts = pages.map { $0.components(separatedBy: #""role":"requests""#).count - 1 }
                return counts.sorted() == [0, 1]
            }
            #expect(try firstPages.get("/readyz").0 == 200)
            #expect(try secondPages.get("/readyz").0 == 200)
            try scene.stop(second)
            try scene.stop(first)
        }

        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(2)))
        func degradedAndReadyWithACredentialThatAppleRefuses() throws {
            let scene = try Scene("refused", partitions: 1)
            _ = try scene.startSimulator()
            try scene.makeSigningKey("other.p8")
            scene.configuration.keyFile = "other.p8"
            scene.configuration.admin = "127.0.0.1:0"
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try pages.await("/status") { $0.1.contains(#""health":"fine""#) }
            try scene.produce(10, "--plain")
            try pages.await("/status") {
                $0.1.contains(#""health":"degraded""#) && $0.1.contains(#""subject":"app shop""#)
                    && $0.1.contains("InvalidProviderToken")
            }
            #expect(try pages.get("/readyz") == (200, "ready\n"))
            try scene.stop(worker)
        }
    }
}

/// The admin pages of a running worker.
struct Pages {
    let address: String
    private let worker: ChildProcess

    /// Waits until the worker said where they are.
    init(of worker: ChildProcess) throws {
        try worker.waitFor("admin pages", seconds: 20)
        guard let match = worker.text.firstMatch(of: /admin pages address=(\S+)/) else {
            throw Unexpected("no address of the admin pages:\n\(worker.text)")
        }
        address = "http://\(match.1)"
        self.worker = worker
    }

    /// Status and text of a page.
    func get(_ path: String) throws -> (Int, String) {
        let ended = try Scene.run(
            Tool.curl.path(), ["-s", "-m", "5", "-w", "\n%{http_code}", address + path], within: 10)
        guard let end = ended.text.lastIndex(of: "\n"), let status = Int(ended.text[end...].dropFirst()) else {
            throw Unexpected("\(address)\(path): \(ended.ending) \(ended.text)")
        }
        return (status, String(ended.text[..<end]))
    }

    /// Asks again and again until a page is as it should be; throws with what it said last.
    func await(_ path: String, within seconds: Double = 30, _ isAsItShouldBe: ((Int, String)) -> Bool) throws {
        let deadline = Date(timeIntervalSinceNow: seconds)
        var last = try get(path)
        while !isAsItShouldBe(last) {
            guard Date() < deadline, worker.ended == nil else {
                throw Unexpected("\(path) said \(last.0): \(last.1)\nthe worker:\n\(worker.text.suffix(4_000))")
            }
            usleep(200_000)
            last = try get(path)
        }
    }
}
