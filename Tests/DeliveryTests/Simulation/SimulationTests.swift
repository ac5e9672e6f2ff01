import Foundation
import Testing

@testable import Delivery

@Suite("Simulation")
struct SimulationTests {
    /// `SIMULATION_SEEDS=20000` runs so many instead; `SIMULATION_SEEDS=4711..4712` runs one again.
    static func seeds(_ standard: Range<UInt64>) -> Range<UInt64> {
        guard let text = ProcessInfo.processInfo.environment["SIMULATION_SEEDS"] else { return standard }
        let numbers = text.components(separatedBy: "..").compactMap { UInt64($0) }
        switch numbers.count {
        case 1: return 0..<numbers[0]
        case 2 where numbers[0] <= numbers[1]: return numbers[0]..<numbers[1]
        default: return standard
        }
    }

    @Test("The promise, under every fault", arguments: seeds(0..<200))
    func faults(_ seed: UInt64) {
        run(seed, SimulatedWorld.Faults())
    }

    @Test("Without a fault nothing is sent twice: rebalances, stops, GOAWAYs only", arguments: seeds(1_000..<1_100))
    func noFaults(_ seed: UInt64) {
        run(seed, SimulatedWorld.Faults(doubts: false, crashes: false, losses: false, refusedCommits: true))
    }

    @Test("It comes to everything that it is to test")
    func coverage() throws {
        var happened: [String: Int] = [:]
        var limited = 0
        for seed in 5_000..<5_060 as Range<UInt64> {
            let world = SimulatedWorld(seed: seed)
            try world.run(steps: 100)
            happened.merge(world.happened) { $0 + $1 }
            limited += world.allApps.count { $0.rateLimit > 0 }
        }
        let kinds =
            HeldCause.allCases.map { "held: \($0)" }
            + [
                "credential circuit", "topic circuit", "connection circuit", "guard tripped", "GOAWAY",
                "another GOAWAY",
                "silent connection", "lost connection", "suspect",
            ]
        for kind in kinds { #expect(happened[kind, default: 0] > 0, "\(kind): \(happened)") }
        #expect(limited > 0)
    }

    private func run(_ seed: UInt64, _ faults: SimulatedWorld.Faults) {
        let world = SimulatedWorld(seed: seed, faults: faults)
        do {
            try world.run(steps: 100)
        } catch {
            Issue.record("seed \(seed): \(error)")
        }
    }
}
