import Testing

@testable import Delivery

@Suite("Reach")
struct ReachTests {
    @Test("Nothing is allowed before a commit is acknowledged; then what it named")
    func firstCommit() {
        var reach = Reach(minimum: 500)
        #expect(!reach.allows(0))
        #expect(reach.isShort(from: 0))
        #expect(reach.next(from: 100) == 600)
        #expect(!reach.allows(100))
        reach.acknowledge(600)
        #expect(reach.allows(599))
        #expect(!reach.allows(600))
        #expect(!reach.isShort(from: 100))
    }

    @Test("It is short when less than half of the margin is left")
    func half() {
        var reach = Reach(minimum: 500)
        reach.acknowledge(reach.next(from: 0))
        reach.advance(to: 249)
        #expect(!reach.isShort(from: 0))
        reach.advance(to: 250)
        #expect(reach.isShort(from: 0))
    }

    @Test("It keeps ahead by four commits' worth, and falls back slowly")
    func pace() {
        var reach = Reach(minimum: 500)
        reach.acknowledge(reach.next(from: 0))
        reach.advance(to: 299)
        #expect(reach.next(from: 0) == 300 + 1_200)
        reach.acknowledge(1_500)
        reach.advance(to: 1_299)
        #expect(reach.next(from: 0) == 1_300 + 4_000)
        reach.acknowledge(5_300)
        // Nothing is handed out any more: what was promised stays, and the margin shrinks.
        for _ in 0..<100 { #expect(reach.next(from: 1_300) == 5_300) }
        #expect(reach.margin == 500)
    }

    @Test("A gap in the offsets does not stretch it without limit")
    func gap() {
        var reach = Reach(minimum: 500)
        reach.acknowledge(reach.next(from: 0))
        reach.advance(to: 50_000_000)
        #expect(!reach.allows(50_000_000))
        #expect(reach.isShort(from: 0))
        #expect(reach.next(from: 0) == 50_000_001 + Reach.maximum)
    }
}
