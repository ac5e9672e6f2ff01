@testable import APNs
import Bytes
import Testing

extension Reachability {
    fileprivate mutating func ended(_ end: ReachabilityTests.End) {
        ended(wasAnswered: end.wasAnswered, wasAsked: end.wasAsked, lifeNs: end.lifeNs)
    }
}

@Suite struct ReachabilityTests {
    typealias End = (wasAnswered: Bool, wasAsked: Bool, lifeNs: Int64)

    private static let mute: End = (false, true, 40_000_000_000)
    private static let brief: End = (false, false, 1_000_000)
    private static let idle: End = (false, false, 30_000_000_000)
    private static let good: End = (true, true, 1_000_000)

    @Test(arguments: [mute, brief])
    func `Three connections without an answer make a host unreachable until it answers`(end: End) {
        var machine = Reachability()
        for _ in 0..<2 {
            machine.connected()
            machine.ended(end)
            #expect(machine.isReachable == true && !machine.isOnProbation)
        }
        machine.connected()
        machine.ended(end)
        #expect(machine.isReachable == false && machine.isOnProbation)
        machine.connected()
        #expect(machine.isReachable == false, "A connection alone must not make the host reachable")
        machine.ended(end)
        machine.answered()
        #expect(machine.isReachable == true && !machine.isOnProbation)
        machine.ended(end)
        #expect(machine.isReachable == true)
    }

    @Test(arguments: [idle, good])
    func `Idle or answered connections do not count as unanswered`(end: End) {
        var machine = Reachability()
        machine.connected()
        for _ in 0..<10 { machine.ended(end) }
        #expect(machine.isReachable == true && machine.endsInRow == 0)
    }

    @Test func `An unreachable host stays unreachable until it answers, even if it allows streams`() {
        var machine = Reachability()
        for _ in 0..<3 { machine.ended(Self.mute) }
        machine.allowsNoStream = true
        machine.allowsNoStream = false
        #expect(machine.isReachable == false && machine.isOnProbation)
    }

    @Test func `A new credential resets the count of unanswered connections`() {
        var machine = Reachability()
        for _ in 0..<3 { machine.ended(Self.mute) }
        machine.replaced()
        #expect(!machine.isOnProbation)
        machine.connected()
        #expect(machine.isReachable == true)
    }
}

/// Simulates ten minutes in which each quarantine connection is lost, and counts the dials.
@Suite struct RedialTests {
    @Test(arguments: [true, false], [true, false])
    func `The quarantine connection is redialed with growing pauses unless the host answers others`(
        isClosedWhileOpen: Bool, doesHostAnswer: Bool
    ) {
        var random = SplitMix64(seed: 1)
        var plan = PoolPlan(minimum: 0, maximum: 1, isOfQuarantine: true)
        if doesHostAnswer { plan.longestWaitNs = 4_000_000_000 }
        var nowNs: Int64 = 0
        var dials = 0
        while nowNs < 600_000_000_000, dials < 1_000 {
            let retired: [PoolPlan.Event] = isClosedWhileOpen ? [] : [.retired(dials, isFault: true)]
            let actions = ([.due, .wanted, .opened(dials)] + retired + [.closed(dials)]).flatMap { event in
                plan.handle(event, using: &random)
            }
            for action in actions {
                if case .dial = action { dials += 1 }
                if case .wake(let afterNs) = action { nowNs += afterNs }
            }
        }
        // If the host answers other connections, the suspect is the cause, and one dial is made every four seconds.
        #expect(doesHostAnswer ? 150...155 ~= dials : 10...20 ~= dials, "\(dials)")
    }
}
