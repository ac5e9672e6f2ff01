import Foundation
import TestSupport
import Testing

extension EndToEnd.Troubles {
    /// A network that swallows everything: connections to Apple take all bytes and answer nothing, new ones too, while
    /// Kafka holds more than the worker may have in memory. At full size: `APNS_WORKER_E2E_RECORDS=1000000`.
    @Suite(.serialized) struct BlackholeTests {
        /// What the worker's resident memory may be, whatever waits, in kilobytes: 64 MB (<doc:WhatItCosts>) and a
        /// tenth.
        static let residentLimit = 70 * 1024
        /// How long nothing is answered, in seconds: more than twice the session timeout of 6 s, and long enough for a
        /// connection to be given up and for its successor to be swallowed too.
        static let darkness = 15.0

        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(10)))
        func theWorkerStaysInItsGroupAndInItsMemory() throws {
            let scene = try Scene("blackhole")
            // Slow enough for thousands to be on their way when it gets dark.
            let simulator = try scene.startSimulator("--latency", "1s")
            try scene.produce(Scene.records, "--plain")
            let worker = try scene.startWorker()
            let group = try Group(scene)
            try scene.books("seen", "--simulator", simulator.control, "--at-least", "\(min(2_000, Scene.records / 20))")
            try scene.books("faults", "--simulator", simulator.control, "fault=blackhole@1")
            let members = try group.members()
            #expect(members.count == 1)
            let seen = try scene.accepted(simulator)

            var most = 0
            let light = Date(timeIntervalSinceNow: Self.darkness)
            while Date() < light {
                most = max(most, try worker.residentKilobytes())
                #expect(try group.members() == members, "it left its group:\n\(worker.text.suffix(4_000))")
                usleep(200_000)
            }
            // What was on its way to a connection that had not been swallowed yet, at most.
            let meanwhile = try scene.accepted(simulator) - seen
            #expect(meanwhile < 8_000, "that was no darkness: \(meanwhile) accepted")
            #expect(worker.ended == nil)
            #expect(!worker.text.contains("partitions revoked") && !worker.text.contains("partitions lost"))

            let lifted = Date()
            try scene.books("faults", "--simulator", simulator.control, "fault=&latency=0")
            try scene.settle(worker)
            let settled = Date().timeIntervalSince(lifted)
            let after = try worker.residentKilobytes()
            #expect(try group.members() == members)
            try scene.stop(worker)
            try scene.audit("--simulator", simulator.control, "--doubtful")
            print(
                "\(Scene.records) records, dark for \(Int(Self.darkness)) s: at most \(most) kB resident, settled "
                    + "\(String(format: "%.1f", settled)) s after the light, \(after) kB then")
            #expect(most <= Self.residentLimit, "\(most) kB")
            try simulator.process.stop()
        }

        /// The worker's consumer group, as the broker has it.
        private final class Group {
            private let process: ChildProcess
            private var asked = 0

            init(_ scene: Scene) throws {
                let program = URL(fileURLWithPath: Scene.program).deletingLastPathComponent()
                    .appending(path: "members.py").path
                process = try ChildProcess(
                    Tool.python.path(), [program, scene.servers, scene.configuration.group])
            }

            /// Member ids; throws unless the group is stable.
            func members() throws -> [String] {
                struct Answer: Decodable {
                    var state: String
                    var members: [String]
                }
                asked += 1
                process.write("\n")
                let deadline = Date(timeIntervalSinceNow: 15)
                while true {
                    let lines = process.text.split(separator: "\n", omittingEmptySubsequences: true)
                    if lines.count >= asked, process.text.last == "\n" {
                        let answer = try JSONDecoder().decode(Answer.self, from: Data(lines[asked - 1].utf8))
                        guard answer.state == "Stable" else { throw Unexpected("the group is \(answer.state)") }
                        return answer.members
                    }
                    guard Date() < deadline, process.ended == nil else {
                        throw Unexpected("members.py: \(process.text)")
                    }
                    usleep(10_000)
                }
            }
        }
    }
}

extension Scene {
    /// How many notifications the server accepted.
    func accepted(_ simulator: RunningSimulator) throws -> Int {
        let ended = try Self.run(
            Tool.curl.path(), ["-s", "-m", "10", "\(simulator.control)/totals"], within: 15)
        struct Totals: Decodable { var accepted: Int }
        return try JSONDecoder().decode(Totals.self, from: Data(ended.text.utf8)).accepted
    }
}
