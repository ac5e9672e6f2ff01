import Foundation
import Testing

/// Whole transports under hosts that behave as a seed has it (`TransportWorld`). A seed decides everything.
///
/// `TRANSPORT_SEEDS=20000` runs so many, one after the other; `TRANSPORT_SEEDS=4711..4712` runs one again, and
/// `TRANSPORT_TRACE=1` prints what happens in it.
@Suite("Transport worlds")
struct TransportWorldTests {
    private static let environment = ProcessInfo.processInfo.environment
    static let asked: Range<UInt64>? = {
        guard let text = environment["TRANSPORT_SEEDS"] else { return nil }
        let numbers = text.components(separatedBy: "..").compactMap { UInt64($0) }
        switch numbers.count {
        case 1: return 0..<numbers[0]
        case 2 where numbers[0] <= numbers[1]: return numbers[0]..<numbers[1]
        default: return nil
        }
    }()
    private static let isTraced = environment["TRANSPORT_TRACE"] != nil

    static let piece: UInt64 = 25

    @Test(
        "A transport keeps its rules, whatever its host does",
        .enabled(if: TransportWorldTests.asked == nil, "TRANSPORT_SEEDS asks for others"),
        arguments: (0..<8).map { $0 * piece })
    func rules(from first: UInt64) {
        for seed in first..<first + Self.piece { run(seed) }
    }

    @Test("The same, seed by seed", .enabled(if: TransportWorldTests.asked != nil, "TRANSPORT_SEEDS says how many"))
    func manySeeds() throws {
        let seeds = try #require(Self.asked)
        let start = ContinuousClock.now
        var failures = 0
        for (count, seed) in seeds.enumerated() {
            if !run(seed) { failures += 1 }
            let done = count + 1
            guard done % 1_000 == 0 || done == seeds.count else { continue }
            let seconds = max(1, Int((ContinuousClock.now - start).components.seconds))
            print("transport worlds: \(done) of \(seeds.count) seeds, \(failures) failed, \(done / seconds) a second")
        }
    }

    @Test("It comes to everything that it is to test")
    func coverage() throws {
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
