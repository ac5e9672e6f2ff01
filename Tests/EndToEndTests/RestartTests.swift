import Foundation
import TestSupport
import Testing

extension EndToEnd.Deliveries {
    /// The worker ends midway, well or badly, and another takes over.
    @Suite(.serialized) struct RestartTests {
        private let records = max(100, Scene.records / 4)

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func nothingIsLostWhenTheWorkerIsKilled() throws {
            let scene = try Scene("killed")
            let simulator = try scene.startSimulator()
            try scene.produce(records, "--prefixes", scene.prefixes(), "--calm")
            var repeatable = 0
            for share in [0.2, 0.5] {
                let worker = try scene.startWorker()
                try scene.awaitResults(Int(share * Double(records)))
                try worker.killNow()
                repeatable += try scene.repeatable(simulator)
            }
            let worker = try scene.startWorker()
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit("--simulator", simulator.control, "--crashed", "--repeats-at-most", "\(repeatable)")
            try simulator.process.stop()
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func nothingIsLostOrSentTwiceWhenTheWorkerIsStopped() throws {
            let scene = try Scene("stopped")
            let simulator = try scene.startSimulator()
            try scene.produce(records, "--prefixes", scene.prefixes(), "--calm")
            for share in [0.2, 0.5] {
                let worker = try scene.startWorker()
                try scene.awaitResults(Int(share * Double(records)))
                try scene.stop(worker)
            }
            let worker = try scene.startWorker()
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit("--simulator", simulator.control, "--restarted")
            try simulator.process.stop()
        }
    }
}

extension Scene {
    /// Right after a kill: how many notifications the next worker may send again. What the server saw without a result
    /// in the topic, and what has one but is not settled by the committed offsets and their maps.
    func repeatable(_ simulator: RunningSimulator) throws -> Int {
        let text = try books(
            "repeatable", "--topic", configuration.requests, "--results", configuration.results, "--group",
            configuration.group, "--retry-topics", configuration.retry, "--simulator", simulator.control)
        guard let last = text.split(whereSeparator: \.isWhitespace).last, let number = Int(last) else {
            throw Unexpected("repeatable: \(text)")
        }
        return number
    }
}
