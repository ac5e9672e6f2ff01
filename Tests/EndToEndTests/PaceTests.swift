import Foundation
import TestSupport
import Testing

extension EndToEnd.Deliveries {
    /// Nobody is kept waiting by somebody else: a topic with little to send by one with a campaign, an app by one that
    /// cannot be reached. Times are from a record to its answer, by the results alone. They are of no use on a machine
    /// that does other things too, so the limits are wide; `APNS_WORKER_E2E_PACE=1000000` runs the full size.
    @Suite(.serialized) struct PaceTests {
        /// Records of the backlog; a tenth of them a second, at most 5,000, go to ten apps.
        static let backlog =
            Int(ProcessInfo.processInfo.environment["APNS_WORKER_E2E_PACE"] ?? "") ?? 10_000

        struct Times: Decodable {
            var name: String
            var count: Int
            var p50: Int?
            var p99: Int?
            var max: Int?
        }

        @Test(
            .needs(.worker, .broker, .python), .timeLimit(.minutes(10)), arguments: backlog < 500_000 ? [10] : [10, 1])
        func aBacklogKeepsNoOtherTopicWaiting(weight: Int) throws {
            let scene = try Scene("backlog")
            // The server's pace is what is scarce: all of the backlog takes five seconds, at full size fifty.
            let streams = max(10, min(100, Self.backlog / 2_000))
            let simulator = try scene.startSimulator("--latency", "20ms", "--streams", "\(streams)")
            let backlog = scene.configuration.requests
            let urgent = "\(scene.name).urgent"
            try scene.create(urgent)
            try scene.produce(Self.backlog, "--plain")
            scene.configuration.requestTopics = "\(backlog), {name: \(urgent), weight: \(weight)}"
            let worker = try scene.startWorker()
            try scene.books("seen", "--simulator", simulator.control, "--at-least", "\(Self.backlog / 50)")
            // A hundred a second while the backlog lasts: all that it sends is in competition.
            try scene.books(
                "produce", "--topic", urgent, "--apps", "1", "--count", "\(Self.backlog < 500_000 ? 400 : 3_000)",
                "--rate", "100", "--book", scene.file("urgent.jsonl"), "--seed", "9")
            scene.configuration.requests = urgent
            try scene.settle(worker)
            scene.configuration.requests = backlog
            try scene.settle(worker)
            try scene.stop(worker)
            let other = try #require(
                try measure(scene, "--by", "topic", "--while-topic", backlog, "--skip-ms", "1000")
                    .first { $0.name == urgent })
            let waiting = try #require(
                try measure(scene, "--by", "topic").first { $0.name == backlog }?.p50)
            #expect(other.count > 100)
            #expect(waiting > 1_000, "there was no backlog")
            // At weight 1 as well: its half of the streams is more than it needs.
            let limit = Self.backlog < 500_000 ? max(500, waiting / 3) : 500
            #expect(try #require(other.p99) <= limit, "\(other), of the backlog half waited \(waiting) ms")
            try simulator.process.stop()
        }

        /// Where half of what the server takes is too little for a topic, its weight decides.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func theWeightDecidesWhoWaits() throws {
            let heavy = try scarce(weight: 10)
            let equal = try scarce(weight: 1)
            print("p99 of 100/s where 160/s are taken: \(heavy) ms at weight 10, \(equal) ms at weight 1")
            #expect(heavy * 2 < equal)
        }

        /// The p99 in ms of a topic with 100/s beside a backlog, at a server that takes 160/s.
        private func scarce(weight: Int) throws -> Int {
            let scene = try Scene("scarce")
            let simulator = try scene.startSimulator("--latency", "100ms", "--streams", "4")
            let backlog = scene.configuration.requests
            let urgent = "\(scene.name).urgent"
            try scene.create(urgent)
            try scene.produce(3_000, "--plain")
            scene.configuration.requestTopics = "\(backlog), {name: \(urgent), weight: \(weight)}"
            let worker = try scene.startWorker()
            try scene.books("seen", "--simulator", simulator.control, "--at-least", "200")
            try scene.books(
                "produce", "--topic", urgent, "--apps", "1", "--count", "500", "--rate", "100", "--book",
                scene.file("urgent.jsonl"), "--seed", "9")
            scene.configuration.requests = urgent
            try scene.settle(worker)
            scene.configuration.requests = backlog
            // What is left of the backlog does not matter.
            try worker.killNow()
            let times = try measure(scene, "--by", "topic").first { $0.name == urgent }
            try simulator.process.stop()
            return try #require(times?.p99)
        }

        /// One of ten apps has a server that takes connections and never answers; the others' times against those of a
        /// worker beside it of whose apps all ten are well: what else the machine does, it does to both.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(10)))
        func anAppThatCannotConnectHoldsUpNoOther() async throws {
            async let allWell = paced(isOneSilent: false)
            async let oneSilent = paced(isOneSilent: true)
            let well = try await allWell
            let others = try await oneSilent.filter { $0.name != "app9" }
            #expect(others.count == 9)
            for times in others {
                let before = try #require(well.first { $0.name == times.name })
                #expect(times.count > before.count / 2, "\(times.name)")
                let limit = max(200, 2 * (before.p99 ?? 0))
                #expect(try #require(times.p99) <= limit, "\(times) against \(before)")
            }
        }

        private func paced(isOneSilent: Bool) throws -> [Times] {
            let rate = min(5_000, Self.backlog / 10)
            let seconds = Self.backlog < 500_000 ? 7 : 60
            let scene = try Scene("apps")
            let simulator = try scene.startSimulator("--latency", "5ms")
            var silent: ChildProcess?
            defer { withExtendedLifetime(silent) {} }
            var port: Int?
            if isOneSilent {
                port = KafkaBroker.freePorts(1)[0]
                silent = try ChildProcess(Tool.python.path(), [Scene.program, "silent", "--port", "\(port!)"])
                try silent!.waitFor("listening", seconds: 20)
            }
            // What is held comes round as often as the shortest tier says: as rarely as by default.
            let tier = "\(scene.name).tier.30s"
            try scene.create(tier)
            scene.configuration.retries = "tiers: {30s: \(tier)}, max_attempts: 2"
            let configuration = scene.configuration
            scene.configuration.apps = (1...9)
                .map { configuration.app(named: "app\($0)", port: $0 == 9 ? port : nil) }.joined(separator: "\n")
            let worker = try scene.startWorker()
            try worker.waitFor("partitions assigned group=\(scene.configuration.group) ", seconds: 60)
            try scene.produce(rate * seconds, "--apps", "10", "--rate", "\(rate)")
            // Of the silent one's none can be sent: they wait in the shortest tier, again and again.
            try scene.awaitResults(rate * seconds * (isOneSilent ? 9 : 10) / 10)
            try scene.stop(worker)
            let times = try measure(scene, "--by", "app", "--skip-ms", "2000")
            try simulator.process.stop()
            return times
        }

        private func measure(_ scene: Scene, _ more: String...) throws -> [Times] {
            let text = try scene.books("measure", ["--results", scene.configuration.results] + more)
            return try text.split(separator: "\n").filter { $0.contains("\"name\"") }
                .map { try JSONDecoder().decode(Times.self, from: Data($0.utf8)) }
        }
    }
}
