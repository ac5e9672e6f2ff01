import Foundation
import Glibc
import TestSeeds
import Testing

@testable import Delivery

/// A seed decides everything: what may go wrong (`SimulatedFaults`), and what does.
struct SimulationTests {
    /// `SIMULATION_SEEDS=20000` runs so many, one after the other; `SIMULATION_SEEDS=4711..4712` runs one again.
    static let asked = Seeds.asked(by: "SIMULATION_SEEDS")

    /// Processor time that every run of the tests gives to worlds.
    static let budgetNs: UInt64 = 50_000_000_000

    private static var threadTimeNs: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    @Test(.enabled(if: SimulationTests.asked == nil, "SIMULATION_SEEDS asks for others"))
    func `The promise holds under every fault, in as many worlds as fit into the budget`() {
        let startNs = Self.threadTimeNs
        var seed: UInt64 = 0
        repeat {
            run(seed)
            seed += 1
        } while Self.threadTimeNs - startNs < Self.budgetNs
        print("simulation: \(seed) seeds")
    }

    @Test(.enabled(if: SimulationTests.asked != nil, "SIMULATION_SEEDS says how many"))
    func `The promise holds for each given seed`() throws {
        Seeds.run(try #require(Self.asked), of: "simulation", piece: 5_000) { run($0) }
    }

    /// On demand only: what is rare needs thousands of worlds.
    @Test(.enabled(if: (SimulationTests.asked?.count ?? 0) >= 1_000, "SIMULATION_SEEDS asks for a thousand or more"))
    func `Every kind of event occurs`() throws {
        var happened: [String: Int] = [:]
        var limited = 0
        // Some of it is rare: until everything was there.
        for seed in 5_000..<8_000 as Range<UInt64> {
            let missing = SimulatedWorld.kinds.filter { happened[$0] == nil }
            guard limited == 0 || !missing.isEmpty else { break }
            if seed > 5_000, seed % 200 == 0 { print("simulation: \(seed - 5_000) worlds, and still not: \(missing)") }
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
