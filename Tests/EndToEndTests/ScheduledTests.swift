import Foundation
import Kafka
import TestSupport
import Testing

extension EndToEnd {
    /// Tests of `push-not-before` with tiers of seconds. By the server's book, no notification is early, and none is
    /// lost.
    @Suite struct ScheduledTests {
        /// The period over which the notifications are spread.
        private static let seconds = Int(ProcessInfo.processInfo.environment["APNS_WORKER_E2E_SCHEDULED"] ?? "") ?? 12
        private static let records = 300

        @Test(.needs(.worker, .broker, .python), arguments: ["come and go", "are killed"])
        func `No notification is early or lost when workers`(_ how: String) throws {
            let scene = try Scene("scheduled")
            let tiers = ["\(scene.name).retry.3s", "\(scene.name).retry.8s"]
            for tier in tiers { try scene.create(tier) }
            scene.configuration.retries =
                "tiers: {1s: \(scene.configuration.retry), 3s: \(tiers[0]), 8s: \(tiers[1])}, max_attempts: 1"
            let simulator = try scene.startSimulator()
            try scene.produce(Self.records, "--scheduled", "\(Self.seconds)")
            let watch = try startWatch(scene, simulator)
            let first = try scene.startWorker()
            if how == "are killed" {
                // The worker is killed while it moves records to the tiers.
                try scene.await(tiers[0], holds: 20)
                try first.killNow()
                let second = try scene.startWorker()
                try scene.awaitResults(Self.records)
                try second.killNow()
            } else {
                try scene.awaitResults(Self.records / 4)
                let second = try scene.startWorker(named: "second")
                try scene.awaitResults(Self.records / 2)
                try scene.stop(first)
                try scene.awaitResults(Self.records)
                try scene.stop(second)
            }
            let last = try scene.startWorker()
            try scene.finish(last, retryTopics: tiers)
            #expect(try watch.wait(seconds: 600) == .exited(0), "\(watch.text)")
            try scene.audit("--simulator", simulator.control, how == "are killed" ? "--crashed" : "--restarted")
        }

        /// Starts a program that ends with 0 when the simulator has received each notification, and none early.
        private func startWatch(_ scene: Scene, _ simulator: RunningSimulator) throws -> ChildProcess {
            try scene.startBook(
                "books.py", ["watch", "--simulator", simulator.control, "--book", scene.file("book.jsonl")])
        }

        /// Each group skips the retry records of the other one. Otherwise every stay in the tier would double them.
        @Test(.needs(.worker, .broker, .kcat))
        func `Two groups with the same retry topic each send a scheduled notification once`() throws {
            let scene = try Scene("sharing", partitions: 1)
            let simulator = try scene.startSimulator()
            let (first, firstPages) = try scene.startWorkerWithPages(untilFine: true)
            var groups = [scene.configuration.group, "\(scene.name).other"]
            scene.configuration.group = groups[1]
            let (second, secondPages) = try scene.startWorkerWithPages(untilFine: true, named: "other")
            let seconds = 6
            let at = Int(Date().timeIntervalSince1970) + seconds
            try scene.send(to: deviceTokens(1), headers: ["push-not-before=\(at)"])
            let problem = #""kind":"retry_topic_shared","subject":"topic \#(scene.configuration.retry)""#
            for pages in [firstPages, secondPages] { try pages.await("/status", says: problem) }
            for worker in [second, first] {
                scene.configuration.group = groups.removeLast()
                try scene.finish(worker)
            }
            #expect(try scene.resultObjects().map { $0["outcome"] as? String } == ["accepted", "accepted"])
            #expect(try simulator.totals().requests == 2)
            // Each group writes a record when it reads the request, and after each stay of a second.
            let written = try scene.records(of: scene.configuration.retry, "%o").count
            #expect((2...2 * (seconds + 1)).contains(written), "\(written)")
        }

        /// Another member of the retry group answers a rebalance late. The worker's own retry records must not look as
        /// if an earlier worker had sent them.
        @Test(.needs(.worker, .broker, .python))
        func `Requests are read once the retry group has its partitions`() throws {
            let scene = try Scene("late")
            let tier = "\(scene.name).retry.3s"
            try scene.create(tier)
            scene.configuration.retries = "tiers: {1s: \(scene.configuration.retry), 3s: \(tier)}, max_attempts: 1"
            let simulator = try scene.startSimulator()
            let member = try Consumer(
                ConsumerSettings(
                    cluster: ClusterSettings(bootstrapServers: scene.servers), role: .retries,
                    groupID: scene.configuration.group))
            try member.subscribe(to: [tier])
            var isAssigned = false
            func serve(until isDone: () -> Bool) -> Bool {
                member.serve(timeoutMs: 100) { event in
                    switch event {
                    case .assigned(let partitions):
                        isAssigned = true
                        _ = try? member.assign(partitions.map { ($0, nil) })
                    case .revoked: try? member.unassign()
                    default: break
                    }
                }
                return isDone()
            }
            try #require(waitUntil(everyMs: 0) { serve { isAssigned } })
            try scene.produce(20, "--scheduled", "6")
            let watch = try startWatch(scene, simulator)
            let worker = try scene.startWorker()
            try worker.waitFor("partitions assigned group=\(scene.configuration.group) ")
            try member.startClosing()
            try #require(waitUntil(everyMs: 0) { serve { member.isClosed } })
            try scene.awaitResults(20, of: worker)
            try scene.finish(worker, retryTopics: [tier])
            #expect(try watch.wait(seconds: 600) == .exited(0), "\(watch.text)")
            try scene.audit("--simulator", simulator.control)
        }
    }

    /// The worker's clock is wrong. The clocks of the producer and of the broker are right.
    @Suite struct ClockTests {
        /// Requests that were produced before the start, twice under a clock that is two days ahead.
        @Test(.needs(.worker, .broker, .kcat, .clang))
        func `Nothing expires by a clock that is ahead, before and after a restart`() throws {
            let scene = try Scene("clockahead", partitions: 1)
            try scene.send(to: deviceTokens(3))
            for _ in 1...2 {
                let (worker, pages) = try start(scene, shiftedBy: 172_800)
                try expectProblem(on: pages, "48 hours ahead", none: "expired")
                try scene.stop(worker)
            }
            try expectAllAccepted(scene)
        }

        @Test(.needs(.worker, .broker, .kcat, .clang))
        func `Scheduled requests are valid under a clock that is ten days behind`() throws {
            let scene = try Scene("clockbehind", partitions: 1)
            let (worker, pages) = try start(scene, shiftedBy: -864_000)
            let later = "push-not-before=\(Int(Date().timeIntervalSince1970) + 2)"
            try scene.send(to: deviceTokens(3), headers: ["apns-topic=com.example.shop", later])
            try pages.await("/metrics") { Pages.sum("apns_worker_held_total", #"cause="scheduled""#, in: $0.1) >= 3 }
            try expectProblem(on: pages, "240 hours behind", none: "invalid")
            try scene.stop(worker)
            try expectAllAccepted(scene)
        }

        private func start(_ scene: Scene, shiftedBy seconds: Int) throws -> (ChildProcess, Pages) {
            scene.configuration.admin = "127.0.0.1:0"
            scene.configuration.more = "drain: {shutdown: 1s}"
            let worker = try scene.startWorker(
                environment: ["LD_PRELOAD": scene.compile("clock.c"), "CLOCK_SHIFT_S": "\(seconds)"])
            return (worker, try Pages(of: worker))
        }

        /// Expects that the worker reports the difference, and that no notification has this outcome.
        private func expectProblem(on pages: Pages, _ difference: String, none outcome: String) throws {
            try pages.awaitProblem("machine", "this machine's clock is \(difference)")
            let metrics = try pages.get("/metrics").1
            #expect(Pages.sum("apns_worker_notifications_total", "outcome=\"\(outcome)\"", in: metrics) == 0)
        }

        /// Expects that a worker with the right clock accepts the scene's three notifications.
        private func expectAllAccepted(_ scene: Scene) throws {
            let worker = try scene.startWorker()
            try scene.awaitResults(3, of: worker)
            try scene.finish(worker)
            #expect(try scene.resultObjects().allSatisfy { $0["outcome"] as? String == "accepted" })
        }
    }
}
