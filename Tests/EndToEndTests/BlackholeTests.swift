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

        @Test(.needs(.worker, .broker, .python))
        func `A worker whose network swallows everything stays in its group and in its memory`() throws {
            let scene = try Scene("blackhole")
            // Slow enough for thousands to be on their way when it gets dark.
            let simulator = try scene.startSimulator("--latency", "1s")
            try scene.produce(Scene.records, "--plain")
            let worker = try scene.startWorker()
            try simulator.awaitRequests(Scene.records / 20)
            try simulator.set("fault=blackhole@1")
            let seen = try simulator.totals().accepted
            // Longer than the session timeout of 6 s, and long enough for a connection to be given up.
            Thread.sleep(forTimeInterval: 12)
            // What was on its way to a connection that had not been swallowed yet, at most.
            let meanwhile = try simulator.totals().accepted - seen
            #expect(meanwhile < 8_000, "that was no darkness: \(meanwhile) accepted")
            #expect(worker.ended == nil)

            try simulator.set("fault=&latency=0")
            try scene.settle(worker)
            let most = try worker.largestResidentKilobytes()
            #expect(most <= Self.residentLimit, "\(most) kB")
            try scene.stop(worker)
            let left = worker.text.components(separatedBy: "stopping:")[0]
            #expect(!left.contains("partitions revoked") && !left.contains("partitions lost"), "\(left.suffix(4_000))")
            try scene.audit("--simulator", simulator.control, "--doubtful")
        }
    }
}
