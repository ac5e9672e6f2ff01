import Testing

@testable import Delivery

struct SendHorizonTests {
    @Test func `Nothing may be sent before a commit is acknowledged, and then only records below its horizon`() {
        var horizon = Partition.SendHorizon(minimum: 500)
        #expect(!horizon.allows(0))
        #expect(horizon.isShort(from: 0))
        #expect(horizon.next(from: 100) == 600)
        horizon.sent(naming: 600)
        #expect(!horizon.allows(100))
        horizon.acknowledge(600)
        #expect(horizon.allows(599))
        #expect(!horizon.allows(600))
        #expect(!horizon.isShort(from: 100))
    }

    @Test func `The horizon is too low when less than half of the margin is left`() {
        var horizon = Partition.SendHorizon(minimum: 500)
        horizon.acknowledge(horizon.next(from: 0))
        horizon.advance(to: 249)
        #expect(!horizon.isShort(from: 0))
        horizon.advance(to: 250)
        #expect(horizon.isShort(from: 0))
    }

    @Test func `The horizon stays ahead by the sends of three commits, and decreases slowly`() {
        var horizon = Partition.SendHorizon(minimum: 500)
        horizon.acknowledge(horizon.next(from: 0))
        horizon.advance(to: 299)
        #expect(horizon.next(from: 0) == 300 + 900)
        horizon.acknowledge(1_200)
        horizon.advance(to: 1_299)
        #expect(horizon.next(from: 0) == 1_300 + 3_000)
        horizon.acknowledge(4_300)
        // Nothing more is handed out, so the margin shrinks. Offsets above a smaller horizon are no longer allowed once
        // it is sent.
        for _ in 0..<100 { horizon.sent(naming: horizon.next(from: 1_300)) }
        #expect(horizon.margin == 500)
        #expect(horizon.next(from: 1_300) == 1_800)
        expect(horizon.allows(1_799), is: true)
        expect(horizon.allows(1_800), is: false)
    }

    @Test func `A gap in the offsets raises the horizon only up to a limit`() {
        var horizon = Partition.SendHorizon(minimum: 500)
        horizon.acknowledge(horizon.next(from: 0))
        horizon.advance(to: 50_000_000)
        #expect(!horizon.allows(50_000_000))
        #expect(horizon.isShort(from: 0))
        #expect(horizon.next(from: 0) == 50_000_001 + Partition.SendHorizon.maximum)
    }

    @Test func `With many notifications per record the horizon is fewer records ahead`() {
        var horizon = Partition.SendHorizon(minimum: 500)
        for _ in 0..<100 { horizon.received(count: 100) }
        #expect(horizon.next(from: 0) == 5)
        for _ in 0..<100 { horizon.received(count: 10_000) }
        #expect(horizon.next(from: 0) == 1)
        for _ in 0..<1_000 { horizon.received(count: 1) }
        #expect(horizon.next(from: 0) == 500)
    }
}
