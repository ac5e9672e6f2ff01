import HTTP2
import Network
import Testing

@testable import APNsSimulator

/// The effect of stream and connection faults on a client.
@Suite(.timeLimit(.minutes(5)))
struct WireFaultTests {
    @Test func `Delayed answers are sent after a graceful GOAWAY`() throws {
        let (_, provider) = try Simulator.connected()
        try provider.push(1, token: token("fa17d020"))
        try provider.push(2, token: token("fa17f010"))
        #expect(provider.run { provider.end != nil })
        #expect(provider.order.suffix(2) == [2, 1])
        #expect(provider.responses[1]?.status == 200)
    }

    @Test func `The stream limit can change while a connection is open`() throws {
        let (simulator, provider) = try Simulator.connected()
        for streams in [5, 1, 0, 700] as [UInt32] {
            simulator.switches.with { $0.streams = streams }
            #expect(provider.run { provider.session.allowedStreams == Int(streams) })
        }
    }

    @Test func `The stream limit can fall below the number of requests in flight`() throws {
        let (simulator, provider) = try Simulator.connected()
        simulator.switches.with { $0.service.options.latency = .fixed(ns: 5_000_000_000) }
        for user in 1...40 as ClosedRange<UInt32> { try provider.push(user) }
        try provider.push(41, token: token("fa171005"))
        #expect(provider.run { provider.session.allowedStreams == 5 })
        #expect(provider.responses.count == 2, "The other requests must still be in flight")
        #expect(try !provider.push(42), "The 40 open streams exceed the new limit of five")
        #expect(provider.run { provider.responses.count == 42 })
        #expect(provider.ended.isEmpty && provider.end == nil)
        #expect(try provider.push(43))
    }

    @Test func `Several faults can be active at the same time`() throws {
        let (simulator, provider) = try Simulator.connected {
            $0.latency = .fixed(ns: 30_000_000)
            $0.faults = try ["split-frames@2", "TooManyRequests@5", "late-~10ms@3"].map { try FaultRule(text: $0) }
        }
        simulator.switches.with { $0.inject(.outOfOrder) }
        for user in 1...29 as ClosedRange<UInt32> { try provider.push(user, token: token("00", Int(user))) }
        try provider.push(30, token: token("fa174101"))
        #expect(provider.run { provider.responses.count == 31 })
        let statuses = provider.responses.values.map(\.status)
        // The rule applies to the 5th, 15th and 25th request. At the 10th, 20th and 30th, an earlier rule applies.
        #expect(statuses.count { $0 == 429 } == 3 && statuses.count { $0 == 410 } == 1)
        let rules = simulator.switches.with { $0.rules.map(\.text) }
        #expect(rules == ["split-frames@2", "TooManyRequests@5", "late-~10ms@3"])
    }

    @Test func `Connections with a blackhole fault can still be cut`() throws {
        let (simulator, provider) = try Simulator.connected()
        let other = try simulator.provider()
        for fault in [.blackhole, .goAway(.graceful()), .cut(.reset)] as [Fault] {
            #expect(simulator.switches.with { $0.inject(fault) } == 2)
        }
        for one in [provider, other] {
            #expect(one.run { one.end != nil })
            #expect(one.end == .failed && one.goAways.isEmpty)
        }
        #expect(other.run { simulator.books.totals.openConnections == 0 })
    }

    @Test func `A rule with an interval applies to every connection`() throws {
        let simulator = try Simulator.with { $0.faults = [try FaultRule(text: "goaway@300ms")] }
        let provider = try Provider(simulator, authorization: simulator.bearer())
        #expect(provider.run { provider.end != nil })
        #expect(provider.end == .closedByPeer && provider.goAways.count == 1)
    }
}
