import Foundation
import TestSupport
import Testing

extension EndToEnd.Records {
    /// `push-not-before` over a real broker, with tiers of seconds: none is early by the server's book, and none is
    /// lost.
    @Suite(.serialized) struct ScheduledTests {
        /// Over how many seconds they are spread.
        private static let seconds = Int(ProcessInfo.processInfo.environment["APNS_WORKER_E2E_SCHEDULED"] ?? "") ?? 20
        private static let records = 500

        private func prepare(_ label: String) throws -> (scene: Scene, tiers: [String]) {
            let scene = try Scene(label, partitions: 4)
            let tiers = ["\(scene.name).retry.4s", "\(scene.name).retry.15s"]
            try scene.create(tiers)
            scene.configuration.retries =
                "tiers: {1s: \(scene.configuration.retry), 4s: \(tiers[0]), 15s: \(tiers[1])}, max_attempts: 1"
            return (scene, tiers)
        }

        private func watch(_ scene: Scene, _ simulator: RunningSimulator) throws -> ChildProcess {
            try ChildProcess(
                Tool.python.path(),
                [
                    Scene.program, "watch", "--simulator", simulator.control, "--book", scene.file("book.jsonl"),
                    "--timeout", "\(Self.seconds + 60)",
                ])
        }

        /// - Parameter slackMs: what the machine may take for what is due, beyond the shortest tier's second.
        private func finish(_ scene: Scene, _ watch: ChildProcess, slackMs: Int) throws {
            let ending = try watch.wait(seconds: Double(Self.seconds) + 90)
            #expect(ending == .exited(0), "\(watch.text)")
            print(watch.text)
            try scene.books(
                "punctual", "--topic", scene.configuration.requests, "--results", scene.configuration.results,
                "--book", scene.file("book.jsonl"), "--late-ms", "\(1_000 + slackMs)")
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func noneIsEarlyLostOrSentTwiceWhenWorkersComeAndGo() throws {
            let (scene, tiers) = try prepare("scheduled")
            let simulator = try scene.startSimulator()
            let first = try scene.startWorker()
            try scene.produce(Self.records, "--scheduled", "\(Self.seconds)")
            let watch = try watch(scene, simulator)
            try scene.awaitResults(Self.records / 4)
            let second = try scene.startWorker(named: "second")
            try scene.awaitResults(Self.records / 2)
            try scene.stop(first)
            try scene.awaitResults(Self.records)
            try scene.stop(second)
            let third = try scene.startWorker()
            try scene.settle(third, retryTopics: tiers)
            try scene.stop(third)
            try finish(scene, watch, slackMs: 15_000)
            try scene.audit("--simulator", simulator.control, "--restarted")
            try simulator.process.stop()
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func noneIsEarlyOrLostWhenAWorkerIsKilled() throws {
            let (scene, tiers) = try prepare("scheduledkill")
            let simulator = try scene.startSimulator()
            try scene.produce(Self.records, "--scheduled", "\(Self.seconds)")
            let watch = try watch(scene, simulator)
            let first = try scene.startWorker()
            // While it moves them to the tiers.
            try scene.books("count", "--topic", tiers[0], "--at-least", "20", "--timeout", "60")
            try first.killNow()
            let second = try scene.startWorker()
            try scene.awaitResults(Self.records)
            try second.killNow()
            let worker = try scene.startWorker()
            try scene.settle(worker, retryTopics: tiers)
            try scene.stop(worker)
            // Each time the group has to find out that its member is gone.
            try finish(scene, watch, slackMs: 40_000)
            try scene.audit("--simulator", simulator.control, "--crashed")
            try simulator.process.stop()
        }
    }
}
