import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// Connections to the simulated APNs accept all bytes and answer nothing, while Kafka holds more records than the
    /// worker may keep in memory. Set `APNS_WORKER_E2E_RECORDS=1000000` for the full size.
    @Suite struct BlackholeTests {
        /// The limit of resident memory in kilobytes, whatever the backlog: 64 MB (<doc:WhatItCosts>) and a tenth.
        static let residentLimit = 70 * 1024

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
