import Bytes
import EventLoop

/// The shared state of a world's parts: the seed's random numbers, the first violated rule, and the events.
final class WorldChronicle {
    var random: SplitMix64
    /// The first violated rule as text. Later violations may be its consequences.
    private(set) var broken: String?
    private(set) var happened: [String: Int] = [:]
    /// Whether events are printed.
    let isTraced: Bool
    /// The current time, for traces and messages.
    var nowNs: Int64 = 0

    init(seed: UInt64, isTraced: Bool) {
        random = SplitMix64(seed: seed &* 0x9E37_79B9_7F4A_7C15 ^ 0x1234_5678_9ABC_DEF0)
        self.isTraced = isTraced
    }

    private var seconds: String {
        let ms = (nowNs - TestClock.start.monotonicNs) / 10_000
        return "\(ms / 100).\(ms % 100) ms"
    }

    func broke(_ rule: @autoclosure () -> String) {
        guard broken == nil else { return }
        broken = "at \(seconds): \(rule())"
        trace("BROKEN \(rule())")
    }

    func check(_ holds: Bool, _ rule: @autoclosure () -> String) { if !holds { broke(rule()) } }

    /// Records an event. `kind` is one of `TransportWorld.kinds`.
    func note(_ kind: String) {
        happened[kind, default: 0] += 1
        trace(kind)
    }

    func trace(_ text: @autoclosure () -> String) { if isTraced { print("\(seconds)  \(text())") } }

    // MARK: Random numbers

    func chance(_ percent: Int) -> Bool { percent > 0 && random.chance(percent) }
    func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }
    func ms(_ range: ClosedRange<Int>) -> Int64 { Int64(number(range)) * 1_000_000 }
    func pick<T>(_ choices: [T]) -> T { choices[random.below(choices.count)] }
}
