import Foundation
import TestSeeds
import Testing

/// Runs complete transports with hosts whose behavior depends on a seed (`TransportWorld`). The seed decides
/// everything.
///
/// `TRANSPORT_SEEDS=20000` runs that many seeds in sequence. `TRANSPORT_SEEDS=4711..4712` repeats one seed, and
/// `TRANSPORT_TRACE=1` prints its events.
@Suite("Transport worlds")
struct TransportWorldTests {
    static let asked = Seeds.asked(by: "TRANSPORT_SEEDS")
    private static let isTraced = ProcessInfo.processInfo.environment["TRANSPORT_TRACE"] != nil

    static let piece: UInt64 = 25

    @Test(
        .enabled(if: TransportWorldTests.asked == nil, "TRANSPORT_SEEDS selects other seeds"),
        arguments: (0..<8).map { $0 * piece })
    func `A transport follows its rules, whatever its host does`(from first: UInt64) {
        for seed in first..<first + Self.piece { run(seed) }
    }

    @Test(.enabled(if: TransportWorldTests.asked != nil, "TRANSPORT_SEEDS is not set"))
    func `A transport follows its rules for each seed of TRANSPORT_SEEDS`() throws {
        Seeds.run(try #require(Self.asked), of: "transport worlds", piece: 1_000) { run($0) }
    }

    @Test func `Every kind of event occurs in some world`() throws {
        var happened: [String: Int] = [:]
        for seed in 100_000..<101_000 as Range<UInt64> {
            guard TransportWorld.kinds.contains(where: { happened[$0] == nil }) else { break }
            let world = try TransportWorld(seed: seed)
            #expect(throws: Never.self, "seed \(seed)") { try world.run() }
            happened.merge(world.chronicle.happened) { $0 + $1 }
        }
        for kind in TransportWorld.kinds { #expect(happened[kind, default: 0] > 0, "\(kind): \(happened)") }
    }

    @discardableResult
    private func run(_ seed: UInt64) -> Bool {
        do {
            let world = try TransportWorld(seed: seed, isTraced: Self.isTraced)
            do {
                try world.run()
                return true
            } catch {
                Issue.record("seed \(seed), \(world.isBinary ? "binary" : "HTTP/2"): \(error)")
            }
        } catch {
            Issue.record("seed \(seed): \(error)")
        }
        return false
    }
}
