import Foundation
import Glibc
import TestSeeds
import Testing

@testable import Delivery

/// The seed decides which faults are possible (`SimulatedFaults`) and everything that happens.
struct SimulationTests {
    /// `SIMULATION_SEEDS=20000` runs that many seeds in sequence. `SIMULATION_SEEDS=4711..4712` repeats one seed.
    static let asked = Seeds.asked(by: "SIMULATION_SEEDS")

    /// The processor time of the worlds in a normal test run.
    static let budgetNs: UInt64 = 50_000_000_000

    private static var threadTimeNs: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    @Test(.enabled(if: SimulationTests.asked == nil, "SIMULATION_SEEDS selects other seeds"))
    func `The delivery guarantees hold under every fault, in as many worlds as fit into the budget`() {
        let startNs = Self.threadTimeNs
        var seed: UInt64 = 0
        repeat {
            run(seed)
            seed += 1
        } while Self.threadTimeNs - startNs < Self.budgetNs
        print("simulation: \(seed) seeds")
    }

    @Test(.enabled(if: SimulationTests.asked != nil, "SIMULATION_SEEDS selects the seeds"))
    func `The delivery guarantees hold for each given seed`() throws {
        Seeds.run(try #require(Self.asked), of: "simulation", piece: 5_000) { run($0) }
    }

    /// This test runs on demand only, because rare events need thousands of worlds.
    @Test(.enabled(if: (SimulationTests.asked?.count ?? 0) >= 1_000, "SIMULATION_SEEDS selects at least 1000 seeds"))
    func `Every kind of simulated event occurs in some world`() throws {
        var happened: [String: Int] = [:]
        var limited = 0
        // Some events are rare, so the test runs until all have occurred.
        for seed in 5_000..<8_000 as Range<UInt64> {
            let missing = SimulatedWorld.kinds.filter { happened[$0] == nil }
            guard limited == 0 || !missing.isEmpty else { break }
            if seed > 5_000, seed % 200 == 0 {
                print("simulation: \(seed - 5_000) worlds, events that have not occurred: \(missing)")
            }
            let world = SimulatedWorld(seed: seed)
            #expect(throws: Never.self, "seed \(seed)") { try world.run(steps: 100) }
            happened.merge(world.happened) { $0 + $1 }
            limited += world.allApps.count { $0.rateLimit > 0 }
        }
        for kind in SimulatedWorld.kinds { #expect(happened[kind, default: 0] > 0, "\(kind): \(happened)") }
        #expect(limited > 0)
    }

    @discardableResult
    private func run(_ seed: UInt64) -> Bool {
        let world = SimulatedWorld(seed: seed)
        do {
            try world.run(steps: 100)
            return true
        } catch {
            Issue.record("seed \(seed), \(world.faults.name): \(error)")
            return false
        }
    }
}
