import Foundation
import Testing

@testable import Delivery

/// A seed decides everything: what may go wrong (`SimulatedFaults`), and what does.
@Suite("Simulation")
struct SimulationTests {
    /// `SIMULATION_SEEDS=20000` runs so many, one after the other; `SIMULATION_SEEDS=4711..4712` runs one again.
    static let asked: Range<UInt64>? = {
        guard let text = ProcessInfo.processInfo.environment["SIMULATION_SEEDS"] else { return nil }
        let numbers = text.components(separatedBy: "..").compactMap { UInt64($0) }
        switch numbers.count {
        case 1: return 0..<numbers[0]
        case 2 where numbers[0] <= numbers[1]: return numbers[0]..<numbers[1]
        default: return nil
        }
    }()

    /// `SIMULATION_ONLY=binary`: only worlds with a transport of the binary protocol.
    static let isBinaryOnly = ProcessInfo.processInfo.environment["SIMULATION_ONLY"] == "binary"

    static let piece: UInt64 = 50

    @Test(
        "The promise, under every fault",
        .enabled(if: SimulationTests.asked == nil, "SIMULATION_SEEDS asks for others"),
        arguments: (0..<8).map { $0 * piece })
    func promise(from first: UInt64) {
        for seed in first..<first + Self.piece { run(seed) }
    }

    @Test(
        "The promise, seed by seed", .enabled(if: SimulationTests.asked != nil, "SIMULATION_SEEDS says how many"))
    func manySeeds() throws {
        let seeds = try #require(Self.asked)
        let start = ContinuousClock.now
        var failures = 0
        for (count, seed) in seeds.enumerated() {
            if !run(seed) { failures += 1 }
            let done = count + 1
            guard done % 5_000 == 0 || done == seeds.count else { continue }
            let seconds = max(1, Int((ContinuousClock.now - start).components.seconds))
            print("simulation: \(done) of \(seeds.count) seeds, \(failures) failed, \(done / seconds) a second")
        }
    }

    @Test("It comes to everything that it is to test")
    func coverage() throws {
        var happened: [String: Int] = [:]
        var limited = 0
        // Some of it is rare: until everything was there.
        for seed in 5_000..<8_000 as Range<UInt64> {
            guard limited == 0 || SimulatedWorld.kinds.contains(where: { happened[$0] == nil }) else { break }
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
        if Self.isBinaryOnly, world.binaryNames.isEmpty { return true }
        do {
            try world.run(steps: 100)
            return true
        } catch {
            Issue.record("seed \(seed), \(world.faults.name): \(error)")
            return false
        }
    }
}
