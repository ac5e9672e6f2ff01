import Testing

@testable import Delivery

@Suite("Simulation")
struct SimulationTests {
    /// A failing seed replays with `SIMULATION_SEED`-free code: put it into `arguments`.
    @Test("The promise, under every fault", arguments: 0..<200)
    func faults(_ seed: UInt64) throws {
        try run(seed, SimulatedWorld.Faults())
    }

    @Test("Without a fault nothing is sent twice: rebalances, stops, GOAWAYs only", arguments: 1_000..<1_100)
    func calm(_ seed: UInt64) throws {
        try run(seed, SimulatedWorld.Faults(doubts: false, crashes: false, losses: false, refusedCommits: true))
    }

    private func run(_ seed: UInt64, _ faults: SimulatedWorld.Faults) throws {
        let world = SimulatedWorld(seed: seed, faults: faults)
        do {
            try world.run(steps: 150)
        } catch {
            Issue.record("seed \(seed): \(error)")
        }
    }
}
