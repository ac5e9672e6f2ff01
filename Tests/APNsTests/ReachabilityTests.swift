@testable import APNs
import Bytes
import Testing

@Suite struct ReachabilityTests {
    private static let mute = Reachability.End(wasAnswered: false, wasAsked: true, lifeNs: 40_000_000_000)
    private static let brief = Reachability.End(wasAnswered: false, wasAsked: false, lifeNs: 1_000_000)
    private static let idle = Reachability.End(wasAnswered: false, wasAsked: false, lifeNs: 30_000_000_000)
    private static let good = Reachability.End(wasAnswered: true, wasAsked: true, lifeNs: 1_000_000)

    @Test func `A dial that fails is told at once and a connection ends it`() {
        var machine = Reachability()
        #expect(machine.isReachable == nil)
        machine.failed(isAnotherReady: true)
        #expect(machine.isReachable == nil)
        machine.failed(isAnotherReady: false)
        #expect(machine.isReachable == false)
        machine.connected()
        #expect(machine.isReachable == true && !machine.isOnProbation)
    }

    @Test(arguments: [mute, brief])
    func `Three connections without an answer and only an answer ends it`(end: Reachability.End) {
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
        #expect(machine.isReachable == false, "connecting shows nothing")
        machine.ended(end)
        machine.answered()
        #expect(machine.isReachable == true && !machine.isOnProbation)
        machine.ended(end)
        #expect(machine.isReachable == true)
    }

    @Test func `Idleness is no fault`() {
        var machine = Reachability()
        machine.connected()
        for _ in 0..<10 { machine.ended(Self.idle) }
        #expect(machine.isReachable == true && machine.endsInRow == 0)
    }

    @Test func `Connections that answered are not counted`() {
        var machine = Reachability()
        machine.connected()
        for _ in 0..<10 { machine.ended(Self.good) }
        #expect(machine.isReachable == true)
        for _ in 0..<2 {
            machine.ended(Self.mute)
            machine.ended(Self.mute)
            machine.answered()
        }
        #expect(machine.isReachable == true && machine.endsInRow == 0)
    }

    @Test func `No streams are no reach until there are some`() {
        var machine = Reachability()
        machine.connected()
        machine.allow(streams: false)
        #expect(machine.isReachable == false && !machine.isOnProbation)
        // What was sent before is answered; another connection has none either.
        machine.answered()
        machine.connected()
        #expect(machine.isReachable == false)
        machine.replaced()
        #expect(machine.isReachable == false, "as long as no new connection shows more")
        machine.allow(streams: true)
        #expect(machine.isReachable == true)
    }

    @Test func `Streams do not make up for answers`() {
        var machine = Reachability()
        for _ in 0..<3 { machine.ended(Self.mute) }
        machine.allow(streams: false)
        machine.allow(streams: true)
        #expect(machine.isReachable == false && machine.isOnProbation)
    }

    @Test func `Another credential begins anew`() {
        var machine = Reachability()
        for _ in 0..<3 { machine.ended(Self.mute) }
        machine.replaced()
        #expect(!machine.isOnProbation)
        machine.connected()
        #expect(machine.isReachable == true)
    }
}

/// Ten simulated minutes with a host that takes connections and answers nothing: how often it is dialled.
@Suite struct RedialTests {
    enum Ending: CaseIterable {
        case goAwayAtOnce, shutdownAtOnce, refusesStreams, closedAfterSettings, cutAfterTLS
    }

    @Test(arguments: Ending.allCases, [1, 4])
    func `Connections that answer nothing are redialled ever more slowly`(ending: Ending, minimum: Int) {
        for seed in 0..<20 {
            var random = SplitMix64(seed: UInt64(seed))
            var plan = PoolPlan(minimum: minimum, maximum: 4)
            var nowNs: Int64 = 0
            var dueNs = Int64.max
            var dials: [Int64] = []
            var events: [PoolPlan.Event] = [.start]
            while nowNs < 600_000_000_000 {
                while !events.isEmpty {
                    for action in plan.handle(events.removeFirst(), using: &random) {
                        switch action {
                        case .dial(let id, _):
                            dials.append(nowNs)
                            switch ending {
                            case .goAwayAtOnce: events += [.opened(id), .retired(id, isFault: true), .closed(id)]
                            case .shutdownAtOnce: events += [.opened(id), .retired(id, isFault: false), .closed(id)]
                            case .refusesStreams: events += [.opened(id), .saturated, .retired(id, isFault: true)]
                            case .closedAfterSettings: events += [.opened(id), .closed(id)]
                            case .cutAfterTLS: events.append(.closed(id))
                            }
                        case .wake(let afterNs): dueNs = nowNs + afterNs
                        case .drain, .finished: break
                        }
                    }
                    if dials.count > 1_000 { break }
                }
                guard dueNs < .max else { break }
                nowNs = dueNs
                dueNs = .max
                events.append(.due)
            }
            // 1, 2, 4, ... 60 s with jitter: 6 waits within the first minute, some 10 in the other nine.
            #expect(dials.count <= 20 * minimum, "\(dials.count) dials")
            #expect(dials.count >= 10)
            #expect(dials.count { $0 < 60_000_000_000 } <= 9 * minimum)
        }
    }

    /// With the quarantine connection, too.
    @Test(arguments: [true, false], [true, false])
    func `Suspects are redialled more slowly`(isClosedWhileOpen: Bool, doesHostAnswer: Bool) {
        for seed in 0..<20 {
            var random = SplitMix64(seed: UInt64(seed))
            var quarantine = Quarantine()
            quarantine.doesHostAnswer = doesHostAnswer
            var nowNs: Int64 = 0
            var dials = 0
            while nowNs < 600_000_000_000, dials < 1_000 {
                var dueNs: Int64?
                var events: [Quarantine.Event] =
                    [.wanted, .opened] + (isClosedWhileOpen ? [] : [.retired(isFault: true)]) + [.closed, .wanted]
                while !events.isEmpty {
                    for action in quarantine.handle(events.removeFirst(), using: &random) {
                        switch action {
                        case .dial: dials += 1
                        case .wake(let afterNs): dueNs = nowNs + afterNs
                        case .drain, .giveBack, .forget: break
                        }
                    }
                }
                guard let dueNs else { break }
                nowNs = dueNs
                _ = quarantine.handle(.due, using: &random)
            }
            // Ever more slowly, or once in four seconds: what ends the connection is on it.
            #expect(doesHostAnswer ? dials >= 150 && dials <= 155 : dials >= 10 && dials <= 20, "\(dials)")
        }
    }
}
