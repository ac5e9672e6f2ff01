import Kafka
import Testing

@testable import Worker

/// When a producer that reports nothing is named, and made anew.
struct ProducerHealthTests {
    private static let second: Int64 = 1_000_000_000

    @Test func `What is owed for ten seconds is named, and what is reported is not`() {
        var health = ProducerHealth()
        health.look(reports: 0, outstanding: 0, nowNs: 0)
        #expect(health.silence(nowNs: 100 * Self.second) == nil)
        health.look(reports: 0, outstanding: 1, nowNs: 100 * Self.second)
        #expect(health.silence(nowNs: 110 * Self.second - 1) == nil)
        #expect(health.silence(nowNs: 110 * Self.second)?.code == .timedOut)
        #expect(health.silence(nowNs: 110 * Self.second)?.sinceNs == 100 * Self.second)
        // One of two was reported: it counts from there.
        health.look(reports: 1, outstanding: 1, nowNs: 111 * Self.second)
        #expect(health.silence(nowNs: 112 * Self.second) == nil)
        #expect(health.silence(nowNs: 121 * Self.second)?.sinceNs == 111 * Self.second)
        health.look(reports: 1, outstanding: 0, nowNs: 122 * Self.second)
        #expect(health.silence(nowNs: 1_000 * Self.second) == nil)
    }

    @Test func `A producer that lacks a thread is made anew after half a minute`() {
        for sendsSingly in [false, true] {
            var health = ProducerHealth()
            health.look(reports: 0, outstanding: 1, nowNs: 0)
            health.note(KafkaError(.noResources))
            #expect(health.silence(nowNs: 10 * Self.second)?.code == .noResources)
            #expect(!health.isStuck(sendsSingly: sendsSingly, nowNs: 30 * Self.second - 1))
            #expect(health.isStuck(sendsSingly: sendsSingly, nowNs: 30 * Self.second))
        }
    }

    /// A broker that is away for minutes explains that of a producer; one that sends each record alone costs little.
    @Test func `For a silence that nothing explains only the one that sends each record alone is made anew`() {
        var health = ProducerHealth()
        health.note(KafkaError(.allBrokersDown))
        health.look(reports: 0, outstanding: 1, nowNs: 0)
        #expect(!health.isStuck(sendsSingly: false, nowNs: 10_000 * Self.second))
        #expect(!health.isStuck(sendsSingly: true, nowNs: 120 * Self.second - 1))
        #expect(health.isStuck(sendsSingly: true, nowNs: 120 * Self.second))
    }

    @Test func `One that cannot be made is tried again after a growing pause`() {
        var health = ProducerHealth()
        var tries: [Int64] = []
        func turn(_ second: Int64, succeeds: Bool = false) {
            health.renew(nowNs: second * Self.second) {
                tries.append(second)
                return succeeds
            }
        }
        turn(0)
        #expect(tries.isEmpty)
        health.noteFatal()
        for second in 0..<100 as Range<Int64> { turn(second) }
        #expect(tries == [0, 1, 3, 7, 15, 31, 61, 91])
        #expect(!health.isStuck(sendsSingly: true, nowNs: .max), "it is on its way")
        turn(200, succeeds: true)
        turn(300)
        #expect(tries.last == 200)
    }
}
