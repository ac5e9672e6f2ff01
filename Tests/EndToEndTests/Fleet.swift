import Foundation
import TestSupport

/// Workers of one group over one topic: half of the notifications come one by one, the other half in twenty large
/// envelopes. The server is slow until everybody came and went, so that envelopes are on their way for some ten
/// seconds.
final class Fleet {
    /// How many notifications; the full size is 400,000, whose envelopes have 10,000 tokens.
    static let notifications = Int(ProcessInfo.processInfo.environment["APNS_WORKER_E2E_FLEET"] ?? "") ?? 12_000
    private static let envelopes = 20

    let scene: Scene
    let simulator: RunningSimulator
    private var members: [String: ChildProcess] = [:]
    private let started = Date()

    init(_ label: String) throws {
        scene = try Scene(label)
        // Of the four connections that a worker has.
        let streams = max(4, min(200, Self.notifications / 1_000))
        simulator = try scene.startSimulator("--latency", "200ms", "--streams", "\(streams)")
        try scene.produce(
            Self.notifications / 2 + Self.envelopes, "--plain", "--envelopes", "\(Self.envelopes)",
            "--envelope-tokens", "\(Self.notifications / 2 / Self.envelopes)")
    }

    /// Starts a worker, and returns it when it has partitions.
    ///
    /// - Parameters:
    ///   - name: of its own; one that left may come back under its name.
    ///   - share: of the notifications, that the server must have seen before.
    ///   - kafka: keys of the section `kafka`.
    @discardableResult
    func join(
        _ name: String, after share: Double = 0, kafka: String = "", environment: [String: String] = [:]
    ) throws -> ChildProcess {
        try scene.books(
            "seen", "--simulator", simulator.control, "--at-least", "\(Int(share * Double(Self.notifications)))")
        // A member notices at its next heartbeat that another one came.
        let keys = ["consumer: {heartbeat.interval.ms: 300}", kafka].filter { !$0.isEmpty }.joined(separator: ", ")
        let worker = try scene.startWorker(named: name, kafka: keys, environment: environment)
        members[name] = worker
        try worker.waitFor("partitions assigned group=\(scene.configuration.group) ", seconds: 60)
        return worker
    }

    /// Signals a worker in the middle of one of its envelopes, and waits for its end.
    func end(_ name: String, by signal: String = "TERM") throws {
        guard let worker = members.removeValue(forKey: name) else { throw Unexpected("no member \(name)") }
        let owned = partitions(of: name, worker)
        let ended = try scene.tryBooks(
            "midway",
            [
                "--topic", scene.configuration.requests, "--results", scene.configuration.results, "--book",
                scene.file("book.jsonl"), "--pid", "\(worker.processID)", "--signal", signal, "--partitions",
            ] + owned.map(String.init))
        print(ended.text)
        guard ended.ending == .exited(0) else {
            throw Unexpected("\(ended.text)\n\(name) has \(owned), and said:\n\(worker.text.suffix(4_000))")
        }
        let ending = try worker.wait(seconds: 60)
        guard ending == (signal == "TERM" ? .exited(0) : .signalled(SIGKILL)) else {
            throw Unexpected("\(name) ended with \(ending):\n\(worker.text.suffix(4_000))")
        }
    }

    /// Waits for a worker that ends by itself, with an error; returns what it said.
    func failed(_ name: String) throws -> String {
        guard let worker = members.removeValue(forKey: name) else { throw Unexpected("no member \(name)") }
        let ending = try worker.wait(seconds: 60)
        guard ending == .exited(1) else {
            throw Unexpected("\(name) ended with \(ending):\n\(worker.text.suffix(4_000))")
        }
        return worker.text
    }

    /// Whoever was told last that a partition is his reads it.
    private func partitions(of name: String, _ worker: ChildProcess) -> [Int] {
        var told: [(time: Substring, name: String, partitions: [Int])] = []
        for (member, process) in members.merging([name: worker], uniquingKeysWith: { $1 }) {
            for line in process.text.split(separator: "\n") {
                guard line.contains("partitions assigned group=\(scene.configuration.group) "),
                    let list = line.firstRange(of: "partitions=")
                else { continue }
                let partitions = line[list.upperBound...].split(separator: ",")
                    .compactMap { $0.split(separator: "/").last.flatMap { Int($0) } }
                told.append((line.prefix { $0 != " " }, member, partitions))
            }
        }
        var owners: [Int: String] = [:]
        for line in told.sorted(by: { $0.time < $1.time }) {
            for partition in line.partitions { owners[partition] = line.name }
        }
        return owners.filter { $0.value == name }.keys.sorted()
    }

    /// Waits until everything is committed, stops whoever is left, and compares the books.
    func finish(_ more: String...) throws {
        guard let anyone = members.values.first else { throw Unexpected("nobody is left") }
        try scene.books("faults", "--simulator", simulator.control, "latency=10ms")
        try scene.settle(anyone)
        for worker in members.values { try scene.stop(worker) }
        let seconds = Date().timeIntervalSince(started)
        try scene.audit(["--simulator", simulator.control] + more)
        print("\(Self.notifications) notifications, settled \(String(format: "%.1f", seconds)) s after the start")
        try simulator.process.stop()
    }
}
