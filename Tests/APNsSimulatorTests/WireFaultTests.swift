import EventLoop
import HTTP2
import Network
import Testing

@testable import APNsSimulator

/// What goes wrong with streams and connections, by token prefix, seen by a client.
@Suite(.timeLimit(.minutes(5)))
struct WireFaultTests {
    @Test func noAnswerAndTheConnectionGoesOn() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1, token: token("fa17f001"))
        try provider.push(2)
        #expect(provider.run { provider.responses[2] != nil })
        try provider.ping()
        #expect(provider.run { provider.pongs == 1 })
        #expect(provider.responses[1] == nil && provider.ended.isEmpty)
        let totals = simulator.books.totals
        #expect(totals.unanswered == 1 && totals.accepted == 2)
        #expect(simulator.books.counts(ofToken: token("fa17f001")) == (1, 0))
    }

    @Test func streamsAreResetOrRefused() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1, token: token("fa17f002"))
        try provider.push(2, token: token("fa17f003"))
        try provider.push(3)
        #expect(provider.run { provider.responses[3] != nil && provider.ended.count == 2 })
        #expect(provider.ended == [1: .internalError, 2: .refusedStream])
        let totals = simulator.books.totals
        #expect(totals.unanswered == 1 && totals.notProcessed == 1)
    }

    @Test(arguments: [("fa17f010", [""]), ("fa17f011", [#"{"reason":"Shutdown"}"#]), ("fa17f012", ["", ""])])
    func gracefulGoAways(prefix: String, data: [String]) throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1)
        try provider.push(2, token: token(prefix))
        #expect(provider.run { provider.end != nil })
        #expect(provider.responses[1]?.status == 200 && provider.responses[2]?.status == 200)
        #expect(provider.goAways.map(\.data) == data)
        #expect(provider.goAways.last?.last == provider.sent[2])
        if data.count == 2 { #expect(provider.goAways[0].last == .max) }
        #expect(provider.end == .closedByPeer)
        #expect(simulator.books.totals.goAways == 1)
    }

    @Test func lateAnswersStillComeAfterAGracefulGoAway() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1, token: token("fa17d020"))
        try provider.push(2, token: token("fa17f010"))
        #expect(provider.run { provider.end != nil })
        #expect(provider.order.suffix(2) == [2, 1])
        #expect(provider.responses[1]?.status == 200)
    }

    @Test func whatIsAboveTheLastStreamIsNotProcessed() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1, token: token("fa17d010"))
        try provider.push(2, token: token("fa17f013"))
        try provider.push(3)
        #expect(provider.run { provider.end != nil })
        #expect(provider.responses[1]?.status == 200)
        #expect(provider.ended == [2: .refusedStream, 3: .refusedStream])
        #expect(provider.goAways.map(\.last) == [provider.sent[1]!])
        let totals = simulator.books.totals
        #expect(totals.accepted == 2 && totals.requests == 2 && totals.notProcessed >= 1)
        #expect(simulator.books.counts(ofToken: plainToken).accepted == 0)
    }

    @Test func anImmediateGoAwayLeavesAnswersOutstanding() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1, token: token("fa17d500"))
        try provider.push(2, token: token("fa17f014"))
        #expect(provider.run { provider.end != nil })
        #expect(provider.responses.count == 1 && provider.goAways.map(\.last) == [provider.sent[2]!])
    }

    @Test func aGoAwayOfTheWrongEnvironment() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1, token: token("fa17f015"))
        #expect(provider.run { provider.end != nil })
        #expect(provider.goAways.map(\.last) == [0])
        #expect(provider.goAways.map(\.data) == [#"{"reason":"BadCertificateEnvironment"}"#])
        #expect(provider.ended == [1: .refusedStream])
    }

    @Test(arguments: [("fa17f020", false, false), ("fa17f021", false, true), ("fa17f022", true, true)])
    func cuts(prefix: String, isAnswered: Bool, isAccepted: Bool) throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1)
        try provider.push(2, token: token(prefix))
        #expect(provider.run { provider.end != nil })
        #expect(provider.end == (prefix == "fa17f022" ? .closedByPeer : .lost))
        #expect(provider.responses[1]?.status == 200, "what was answered before is seen")
        #expect((provider.responses[2]?.status == 200) == isAnswered)
        #expect(simulator.books.counts(ofToken: token(prefix)).accepted == (isAccepted ? 1 : 0))
        #expect(simulator.books.totals.cuts == 1)
    }

    @Test func aTCPReset() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1, token: token("fa17f023"))
        #expect(provider.run { provider.end != nil })
        #expect(provider.end == .lost)
    }

    @Test func aBlackholeTakesEverythingAndSaysNothing() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1, token: token("fa17f030"))
        try provider.push(2)
        try provider.ping()
        let other = try simulator.provider()
        #expect(other.responses.count == 1, "other connections go on")
        #expect(!provider.run(forMs: 200) { provider.pongs > 0 || provider.responses.count > 1 || provider.end != nil })
    }

    @Test func aStalledWindowHoldsBodiesUp() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1, token: token("fa17f031"))
        #expect(provider.run { provider.responses[1]?.status == 200 })
        let payload = "{\"a\":\"" + String(repeating: "x", count: 4000) + "\"}"
        for user in 2...40 as ClosedRange<UInt32> { try provider.push(user, payload: payload) }
        #expect(provider.run { provider.responses.count == 18 })
        #expect(!provider.run(forMs: 200) { provider.waiting.isEmpty })
        #expect(provider.responses.count == 18)
        try provider.ping()
        #expect(provider.run { provider.pongs == 1 })
    }

    @Test func streamsFallToOneAndRiseAgain() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1, token: token("fa17f040"))
        #expect(provider.run { provider.session.allowedStreams == 1 })
        #expect(provider.responses[1]?.status == 200)
        try provider.push(2)
        #expect(provider.run { provider.session.allowedStreams == 1000 })
    }

    @Test func streamsChangeWhileAConnectionIsOpen() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        for streams in [5, 1, 0, 700] as [UInt32] {
            simulator.switches.streams = streams
            #expect(provider.run { provider.session.allowedStreams == Int(streams) })
        }
    }

    @Test func streamsChangeWhileRequestsAreInFlight() throws {
        var options = SimulatorOptions()
        options.latency = .fixed(ns: 500_000_000)
        let simulator = try Simulator(options)
        let provider = try simulator.provider()
        for user in 1...40 as ClosedRange<UInt32> { try provider.push(user) }
        try provider.push(41, token: token("fa171005"))
        #expect(provider.run { provider.session.allowedStreams == 5 })
        #expect(provider.responses.count == 2, "the others are on their way")
        #expect(try !provider.push(42), "40 are more than five")
        #expect(provider.run { provider.responses.count == 42 })
        #expect(provider.ended.isEmpty && provider.end == nil)
        #expect(try provider.push(43))
    }

    @Test func faultsCombine() throws {
        var options = SimulatorOptions()
        options.latency = .fixed(ns: 30_000_000)
        options.faults = try ["split-frames@2", "TooManyRequests@5", "late-~10ms@3"].map { try FaultRule(text: $0) }
        let simulator = try Simulator(options)
        let provider = try simulator.provider()
        simulator.switches.befallAll(.outOfOrder)
        for user in 1...29 as ClosedRange<UInt32> { try provider.push(user, token: token("00", Int(user))) }
        try provider.push(30, token: token("fa174101"))
        #expect(provider.run { provider.responses.count == 31 })
        let statuses = provider.responses.values.map(\.status)
        // The 5th, 15th and 25th of all; at every other fifth another rule stands first.
        #expect(statuses.count { $0 == 429 } == 3 && statuses.count { $0 == 410 } == 1)
        #expect(simulator.switches.rules.map(\.text) == ["split-frames@2", "TooManyRequests@5", "late-~10ms@3"])
    }

    @Test func aBlackholeCanBeCut() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        simulator.switches.befallAll(.blackhole)
        simulator.switches.befallAll(.goAway(.graceful))
        simulator.switches.befallAll(.cut(.reset))
        #expect(provider.run { provider.end != nil })
        #expect(provider.end == .lost && provider.goAways.isEmpty)
    }

    @Test func garbageBreaksTheClientsSession() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1, token: token("fa17f050"))
        #expect(provider.run { provider.session.isFinished || provider.brokenBy != nil })
    }

    @Test func framesInPiecesAreStillFrames() throws {
        let simulator = try Simulator()
        let provider = try simulator.provider()
        try provider.push(1, token: token("fa17f051"))
        for user in 2...50 as ClosedRange<UInt32> { try provider.push(user, token: token("fa174101")) }
        #expect(provider.run { provider.responses.count == 51 })
        #expect((2...50).allSatisfy { provider.responses[$0]?.body.hasPrefix(#"{"reason":"Unregistered""#) == true })
    }

    @Test func rulesByCountOverAConnection() throws {
        var options = SimulatorOptions()
        options.faults = [try FaultRule(text: "TooManyRequests@10")]
        let simulator = try Simulator(options)
        let provider = try simulator.provider()
        for user in 1...99 as ClosedRange<UInt32> { try provider.push(user) }
        #expect(provider.run { provider.responses.count == 100 })
        #expect(provider.responses.values.count { $0.status == 429 } == 10)
    }

    @Test func rulesByTimeBefallEveryConnection() throws {
        var options = SimulatorOptions()
        options.faults = [try FaultRule(text: "goaway@300ms")]
        let simulator = try Simulator(options)
        let provider = try Provider(simulator, authorization: simulator.bearer())
        #expect(provider.run { provider.end != nil })
        #expect(provider.end == .closedByPeer && provider.goAways.count == 1)
    }

    @Test func switchesBefallConnectionsAtOnce() throws {
        let simulator = try Simulator()
        let one = try simulator.provider()
        let two = try simulator.provider()
        #expect(simulator.switches.befallAll(.cut(.before)) == 2)
        #expect(one.run { one.end != nil } && two.run { two.end != nil })
        #expect(one.end == .lost && two.end == .lost)
        #expect(one.run { simulator.books.totals.openConnections == 0 })
    }
}

extension Provider {
    /// Turns for so long at most; says whether it came true.
    func run(forMs limitMs: Int64, until isSo: () -> Bool) -> Bool {
        let deadline = LoopTime.read().monotonicNs + limitMs * 1_000_000
        while LoopTime.read().monotonicNs < deadline {
            if isSo() { return true }
            loop.runOnce(timeoutNs: 10_000_000)
        }
        return isSo()
    }
}
