import Foundation
import TestSupport
import Testing

extension EndToEnd.Records {
    /// Records without a value whose keys are as large as a record may be.
    @Suite(.serialized) struct TombstoneTests {
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func largeTombstonesStayInBoundsAndHoldUpNothing() throws {
            let scene = try Scene("tombstones", partitions: 4)
            let simulator = try scene.startSimulator()
            // A megabyte each, which no lz4 makes smaller; the dead-letter topic takes no more than the default.
            try scene.change("tombstones", scene.configuration.requests, "120", "1000000", within: 240)
            try scene.change("requests", scene.configuration.requests, "4", "33")
            let worker = try scene.startWorker()
            let results = try scene.await(scene.configuration.results, holds: 4, within: 90, of: worker)
            let letters = try scene.await(scene.configuration.deadLetters, holds: 120, within: 90, of: worker)
            let resident = try worker.residentKilobytes()
            let before = try worker.processorSeconds()
            usleep(4_000_000)
            let idle = try worker.processorSeconds() - before
            print(
                "4 results \(results) s after the start, 120 dead letters \(letters) s later, \(resident) kB resident, "
                    + "\(idle) s of a core in 4 idle seconds")
            #expect(resident < 160_000)
            #expect(idle < 0.4)
            try scene.settle(worker)
            try scene.stop(worker)
            try simulator.process.stop()
        }
    }
}
