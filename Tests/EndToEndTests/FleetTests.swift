import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// Workers of one group join late, and leave in the middle of large envelopes. The audit detects lost notifications
    /// and, by the server's count, duplicates.
    @Suite struct FleetTests {
        @Test(.needs(.worker, .broker, .python))
        func `No notification is lost when two workers join late and two leave`() throws {
            let fleet = try Fleet("three")
            try fleet.join("first")
            try fleet.join("second", after: 0.02)
            try fleet.join("third")
            try fleet.end("second")
            try fleet.end("first")
            try fleet.finish()
        }

        /// A static member that returns under its name has its partitions at once. The other member never stops.
        @Test(.needs(.worker, .broker, .python))
        func `A static member that returns keeps its partitions`() throws {
            let fleet = try Fleet("static")
            try fleet.join("first", kafka: "group_instance_id: first")
            let second = try fleet.join("second", after: 0.02, kafka: "group_instance_id: second")
            try fleet.end("first")
            try fleet.join("first", kafka: "group_instance_id: first")
            #expect(!second.text.contains("partitions revoked"), "\(second.text)")
            try fleet.finish()
        }

        /// The next owner repeats notifications that were in flight or settled since the last commit, and marks each as
        /// in doubt.
        @Test(.needs(.worker, .broker, .python))
        func `The successor of a killed member repeats the notifications in flight`() throws {
            let fleet = try Fleet("killed")
            try fleet.join("first", kafka: "group_instance_id: first")
            try fleet.end("first", by: "KILL")
            try fleet.join("first", kafka: "group_instance_id: first")
            try fleet.finish(afterCrash: true)
        }

        /// Two members have the same name by mistake, so the broker fences the first one permanently. Requests on its
        /// connections settle and have results. The other member repeats the notifications that the first one could not
        /// commit, marked as in doubt.
        @Test(.needs(.worker, .broker, .python))
        func `A fenced member lets its requests settle`() throws {
            let fleet = try Fleet("fenced")
            let first = try fleet.join("first", kafka: "group_instance_id: same")
            try fleet.join("second", after: 0.05, kafka: "group_instance_id: same")
            #expect(try first.wait() == .exited(1))
            #expect(first.text.contains("stopping after a fatal error"), "\(first.text)")
            #expect(first.text.contains("Static consumer fenced"), "\(first.text)")
            #expect(!first.text.contains("something does not end"), "\(first.text)")
            try fleet.finish(afterCrash: true)
        }

        /// This test uses a newer librdkafka, because with 2.0.2 a commit during such a rebalance can lose the
        /// assignment.
        @Test(.needs(.worker, .broker, .python), .long)
        func `Partitions move one by one with a newer client library`() throws {
            let newer = ["LD_LIBRARY_PATH": try NewerClientLibrary.folder()]
            let fleet = try Fleet("cooperative")
            try fleet.join("first", kafka: "assignment: cooperative", environment: newer)
            try fleet.join("second", after: 0.02, kafka: "assignment: cooperative", environment: newer)
            try fleet.end("first")
            try fleet.finish()
        }

        /// The program of an older version. `.ci/nightly rolling` builds the one of the last tag.
        private static let previous = ProcessInfo.processInfo.environment["APNS_WORKER_PREVIOUS"]

        /// The audit detects lost notifications and repeats that are not marked.
        @Test(.needs(.worker, .broker, .python), .enabled(if: previous != nil, "APNS_WORKER_PREVIOUS is not set"))
        func `Three workers of the previous version are replaced, and those of this version by the previous one`()
            throws
        {
            let fleet = try Fleet("rolling", size: 4)
            let names = ["first", "second", "third"]
            for name in names { try fleet.join(name, program: Self.previous) }
            for program in [nil, Self.previous] {
                for name in names {
                    try fleet.end(name)
                    try fleet.join(name, program: program)
                }
            }
            try fleet.finish()
        }
    }
}

/// Workers of one group with one topic. Half of the notifications are single records, and the other half are twenty
/// large envelopes. The server is slow until all workers have joined and left, so that envelopes are in flight for
/// about ten seconds.
final class Fleet {
    /// The number of notifications. The full size is 400,000 with envelopes of 10,000 tokens.
    static let notifications =
        Int(ProcessInfo.processInfo.environment["APNS_WORKER_E2E_FLEET"] ?? "") ?? (Long.isWanted ? 12_000 : 6_000)
    private static let envelopes = 20

    private let scene: Scene
    private let simulator: RunningSimulator
    private var members: [String: ChildProcess] = [:]

    /// - Parameter size: the factor by which there are more notifications and envelopes than usual.
    init(_ label: String, size: Int = 1) throws {
        scene = try Scene(label, partitions: 8)
        // The limit applies to each of a worker's four connections.
        let streams = max(4, min(200, Self.notifications / 1_000))
        simulator = try scene.startSimulator("--latency", "200ms", "--streams", "\(streams)")
        let envelopes = Self.envelopes * size
        try scene.produce(
            Self.notifications / 2 * size + envelopes, "--plain", "--envelopes", "\(envelopes)",
            "--envelope-tokens", "\(Self.notifications / 2 / Self.envelopes)")
    }

    /// Starts a worker, and returns it when it has partitions.
    ///
    /// - Parameters:
    /// - share: the fraction of the notifications that the server must have received before.
    /// - kafka: keys of the section `kafka`.
    @discardableResult
    func join(
        _ name: String, after share: Double = 0, kafka: String = "", environment: [String: String] = [:],
        program: String? = nil
    ) throws -> ChildProcess {
        try simulator.awaitRequests(Int(share * Double(Self.notifications)))
        // A member learns of another one by its next heartbeat.
        let keys = ["consumer: {heartbeat.interval.ms: 300}", kafka].filter { !$0.isEmpty }.joined(separator: ", ")
        scene.configuration.kafka = keys
        let worker = try scene.startWorker(named: name, environment: environment, program: program)
        members[name] = worker
        try worker.waitFor("partitions assigned group=\(scene.configuration.group) ")
        return worker
    }

    /// Signals a worker in the middle of one of its envelopes, and waits for its end.
    func end(_ name: String, by signal: String = "TERM") throws {
        guard let worker = members.removeValue(forKey: name) else { throw Unexpected("no member \(name)") }
        let owned = partitions(of: name, worker)
        try scene.books(
            "midway", ["--pid", "\(worker.processID)", "--signal", signal, "--partitions"] + owned.map(String.init))
        let ending = try worker.wait()
        guard ending == (signal == "TERM" ? .exited(0) : .signalled(SIGKILL)) else {
            throw Unexpected("\(name) ended with \(ending):\n\(worker.text.suffix(4_000))")
        }
    }

    /// Returns the partitions that were last assigned to this member.
    private func partitions(of name: String, _ worker: ChildProcess) -> [Int] {
        var assigned: [(time: Substring, name: String, partitions: [Int])] = []
        for (member, process) in members.merging([name: worker], uniquingKeysWith: { $1 }) {
            for line in process.text.split(separator: "\n") {
                guard line.contains("partitions assigned group=\(scene.configuration.group) "),
                    let list = line.firstRange(of: "partitions=")
                else { continue }
                let partitions = line[list.upperBound...].split(separator: ",")
                    .compactMap { $0.split(separator: "/").last.flatMap { Int($0) } }
                assigned.append((line.prefix { $0 != " " }, member, partitions))
            }
        }
        var owners: [Int: String] = [:]
        for line in assigned.sorted(by: { $0.time < $1.time }) {
            for partition in line.partitions { owners[partition] = line.name }
        }
        return owners.filter { $0.value == name }.keys.sorted()
    }

    /// Waits until everything is committed, stops the remaining workers, and compares the books.
    ///
    /// - Parameter afterCrash: whether a worker ended without its last commits.
    func finish(afterCrash: Bool = false) throws {
        let running = members.values.filter { $0.ended == nil }
        guard let one = running.first else { throw Unexpected("no worker is left") }
        try simulator.set("latency=10ms")
        try scene.settle(one)
        for worker in running { try scene.stop(worker) }
        // The send horizon of a partition is up to about 100 records ahead. These include the envelopes, which are
        // among the first records.
        let margin = scene.partitions * 100 + Self.notifications / 2
        let crash = ["--crashed", "--repeats-at-most", "\(Self.notifications / 8)", "--doubt-margin", "\(margin)"]
        try scene.books("audit", ["--simulator", simulator.control] + (afterCrash ? crash : []))
    }
}
