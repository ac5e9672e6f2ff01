import Foundation
import TestSupport
import Testing

extension EndToEnd {
    @Suite struct DeliveryTests {
        /// The records have both forms, fan-outs (up to 10,000 in a long run), and each of Apple's 32 reasons. 1 % are
        /// malformed.
        @Test(.needs(.worker, .broker, .python))
        func `Every record ends in one result for each notification or one dead letter`() throws {
            let scene = try Scene("delivery")
            let simulator = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.produce(Scene.records, "--prefixes", scene.prefixes())
            try scene.finish(worker)
            try scene.audit("--simulator", simulator.control)

            // The audit itself is tested: it must detect one withheld result.
            try scene.tryBooks("audit", ["--simulator", simulator.control, "--withhold", "77"])
                .expect(1, "FOUND 1 x LOST: no result")
        }

        /// Correct books are altered, one fault at a time.
        @Test(.needs(.python))
        func `The audits detect each kind of fault`() throws {
            try ChildProcess.run(Tool.python.path(), [Scene.book("books.py"), "selftest"]).expect(0)
        }

        /// Some requests make the server close, cut or reset its connections, or not answer. All are sent again, and
        /// those that may have been accepted twice are marked as in doubt.
        @Test(.needs(.worker, .broker, .python))
        func `Lost connections lose no notification`() throws {
            let scene = try Scene("faults")
            let simulator = try scene.startSimulator()
            scene.configuration.more = "delivery: {response_timeout: 2s}"
            let worker = try scene.startWorker()
            try scene.produce(max(600, Scene.records / 20), "--prefixes", scene.prefixes(), "--faults", "--calm")
            try scene.finish(worker)
            try scene.audit("--simulator", simulator.control, "--doubtful")
        }

        /// The worker is stopped or killed midway, and another one takes over.
        @Test(.needs(.worker, .broker, .python), arguments: ["killed", "stopped"])
        func `No notification is lost when the worker ends midway`(_ how: String) throws {
            let scene = try Scene(how)
            let simulator = try scene.startSimulator()
            let records = Scene.records / 2
            try scene.produce(records, "--prefixes", scene.prefixes(), "--calm")
            let first = try scene.startWorker()
            try scene.awaitResults(records / 3)
            if how == "stopped" { try scene.stop(first) } else { try first.killNow() }
            try scene.finish(scene.startWorker())
            // After an orderly stop nothing is sent twice.
            try scene.audit("--simulator", simulator.control, how == "stopped" ? "--restarted" : "--crashed")
        }
    }

    /// Connections to the simulated APNs accept all bytes and answer nothing, while Kafka holds more records than the
    /// worker may keep in memory. Set `APNS_WORKER_E2E_RECORDS=1000000` for the full size.
    @Suite struct BlackholeTests {
        /// The limit of resident memory in kilobytes, whatever the backlog: 70 MB (<doc:WhatItCosts>) and a tenth.
        static let residentLimit = 77 * 1024

        @Test(.needs(.worker, .broker, .python))
        func `A worker whose network swallows all data stays in its group and within its memory limit`() throws {
            let scene = try Scene("blackhole")
            // The latency is high enough that thousands of requests are in flight when the network fails.
            let simulator = try scene.startSimulator("--latency", "1s")
            try scene.produce(Scene.records, "--plain")
            let worker = try scene.startWorker()
            try simulator.awaitRequests(Scene.records / 20)
            try simulator.set("fault=blackhole@1")
            // Requests on connections that still work are accepted. Then nothing is accepted for longer than the
            // session timeout of 6 s.
            var seen = -1
            var since = Date()
            try eventually("7 s without an accepted notification", of: worker) {
                let accepted = try simulator.totals().accepted
                if accepted != seen { (seen, since) = (accepted, Date()) }
                return since.timeIntervalSinceNow < -7
            }
            #expect(seen < Scene.records)
            #expect(worker.ended == nil)

            try simulator.set("fault=&latency=0")
            try scene.settle(worker)
            let most = try worker.peakKilobytes
            #expect(most <= Self.residentLimit, "\(most) kB")
            try scene.stop(worker)
            let left = worker.text.components(separatedBy: "stopping:")[0]
            #expect(!left.contains("partitions revoked") && !left.contains("partitions lost"), "\(left.suffix(4_000))")
            try scene.audit("--simulator", simulator.control, "--doubtful")
        }
    }
}
