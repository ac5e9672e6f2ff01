import Foundation
import TestSupport
import Testing

extension EndToEnd.Records {
    /// What a producer can write: no record stops the worker, kills it, or makes it write or hold much more than was
    /// read.
    @Suite(.serialized) struct RecordLimitsTests {
        /// What the worker may hold at its worst, in MiB; a debug build with idle connections has some 60.
        private static let residentLimit = 512
        /// How often an envelope names one device, whose notifications go one after the other.
        private static let repeats = Long.isWanted ? 10_000 : 1_500

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(10)))
        func aGoodRecordBehindAnyOtherHasItsResultSoon() throws {
            let scene = try Scene("limits", partitions: 1)
            let simulator = try scene.startSimulator()
            scene.configuration.more = "delivery: {max_age: 24h}"
            let worker = try scene.startWorker()
            try worker.waitFor("partitions assigned", seconds: 60)

            let script = URL(fileURLWithPath: Scene.program).deletingLastPathComponent().appending(path: "limits.py")
            let ended = try Scene.run(
                Tool.python.path(),
                [
                    script.path, "--servers", scene.servers, "--requests", scene.configuration.requests, "--retries",
                    scene.configuration.retry, "--results", scene.configuration.results, "--within", "30",
                    "--repeats", "\(Self.repeats)",
                ], within: 540)
            print(ended.text)
            #expect(worker.ended == nil, "the worker ended: \(worker.text.suffix(4_000))")
            guard ended.ending == .exited(0) else {
                throw Unexpected("\(ended.text)\nthe worker said:\n\(worker.text.suffix(4_000))")
            }
            let resident = try worker.largestResidentKilobytes() / 1_024
            print("largest resident memory: \(resident) MiB")
            #expect(resident < Self.residentLimit)
            try scene.settle(worker)
            try scene.stop(worker)
            try simulator.process.stop()
        }
    }
}
