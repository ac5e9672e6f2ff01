import Foundation
import TestSupport
import Testing

extension EndToEnd.Refusals {
    /// A server that takes streams away and gives them back while notifications flow: SETTINGS_MAX_CONCURRENT_STREAMS
    /// goes from 1,000 to 1 and back, again and again. What is on its way above a new limit is refused, and sent again
    /// unprocessed.
    @Suite(.serialized) struct StreamsTests {
        /// Records a second, and how often the streams go.
        static let rate = Long.isWanted ? 5_000 : 1_000
        static let rounds = Long.isWanted ? 10 : 3

        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(4)))
        func streamsThatGoAndComeBackStallNothing() throws {
            let scene = try Scene("streams")
            // With one stream each, the connections take some 40 a second at most: what comes in waits.
            let simulator = try scene.startSimulator("--latency", "100ms")
            scene.configuration.admin = "127.0.0.1:0"
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try worker.waitFor("partitions assigned group=\(scene.configuration.group) ", seconds: 60)
            let load = try ChildProcess(
                Tool.python.path(),
                [
                    Scene.program, "produce", "--servers", scene.servers, "--topic", scene.configuration.requests,
                    "--count", "\(Self.rate * (4 * Self.rounds + 2))", "--rate", "\(Self.rate)", "--plain", "--book",
                    scene.file("book.jsonl"),
                ])
            try scene.books("seen", "--simulator", simulator.control, "--at-least", "\(Self.rate / 2)")
            var times: [Int] = []
            for _ in 0..<Self.rounds {
                guard load.ended == nil else {
                    throw Unexpected("the load ended before its rounds: \(load.text.suffix(500))")
                }
                try setStreams(1, at: simulator)
                Thread.sleep(forTimeInterval: 1)
                let before = try scene.accepted(simulator)
                Thread.sleep(forTimeInterval: 0.5)
                let meanwhile = try scene.accepted(simulator) - before
                #expect(meanwhile > 0, "nothing was accepted with one stream")
                #expect(meanwhile < Self.rate / 4, "the streams did not go: \(meanwhile) in half a second")
                try setStreams(1_000, at: simulator)
                // More than one stream would take in the time: as many as came in a second.
                let back = Date()
                let seen = try scene.accepted(simulator)
                while try scene.accepted(simulator) < seen + Self.rate {
                    guard -back.timeIntervalSinceNow < 10 else {
                        throw Unexpected(
                            "stalled: \(try scene.accepted(simulator) - seen)\n\(try pages.get("/status").1)\n"
                                + "\(try pages.get("/metrics").1)\n\(worker.text.suffix(8_000))")
                    }
                    usleep(20_000)
                }
                times.append(Int(-back.timeIntervalSinceNow * 1_000))
                Thread.sleep(forTimeInterval: 0.5)
            }
            print("\(Self.rate)/s: \(Self.rate) accepted within \(times) ms after the streams were back")
            #expect(try load.wait(seconds: 120) == .exited(0), "\(load.text.suffix(500))")
            try scene.settle(worker)
            #expect(!worker.text.contains("disconnected"), "\(worker.text.suffix(4_000))")
            try scene.stop(worker)
            // Nothing is in doubt, and nothing was sent twice: what is refused was not processed.
            try scene.audit("--simulator", simulator.control)
            try simulator.process.stop()
        }

        private func setStreams(_ count: Int, at simulator: RunningSimulator) throws {
            let ended = try Scene.run(
                Tool.curl.path(), ["-s", "-m", "10", "-X", "POST", "\(simulator.control)/faults?streams=\(count)"])
            guard ended.text.contains("\"streams\":\(count)") else { throw Unexpected(ended.text) }
        }
    }
}
