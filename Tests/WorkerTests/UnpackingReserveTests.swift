import Kafka
import Testing

@testable import Worker

@Suite struct UnpackingReserveTests {
    private static let second: Int64 = 1_000_000_000
    private static let first = TopicPartition("urgent", 0)
    private static let next = TopicPartition("urgent", 1)
    private static let other = TopicPartition("backlog", 0)

    private static func asks(
        _ reserve: inout UnpackingReserve, _ partition: TopicPartition, _ halves: Int64, isTopicEmpty: Bool = true
    ) -> Bool {
        reserve.grants(partition, isTopicEmpty: isTopicEmpty, nowNs: halves * second / 2)
    }

    @Test func oneOfEachTopicWithNothingUnpacked() {
        var reserve = UnpackingReserve()
        #expect(!Self.asks(&reserve, Self.other, 0, isTopicEmpty: false))
        #expect(Self.asks(&reserve, Self.first, 0))
        #expect(!Self.asks(&reserve, Self.next, 0), "one of the topic is enough")
        #expect(Self.asks(&reserve, Self.first, 1), "it is not there yet")
        reserve.unpacked(Self.first)
        #expect(!Self.asks(&reserve, Self.next, 1, isTopicEmpty: false), "it is not read yet")
        #expect(Self.asks(&reserve, Self.other, 1), "another topic has a reserve of its own")
    }

    @Test func partitionsTakeTurns() {
        var reserve = UnpackingReserve()
        var turns: [TopicPartition] = []
        // Both ask, always in this order, and what is let through is read at once.
        for half in 0..<10 {
            for partition in [Self.first, Self.next] where Self.asks(&reserve, partition, Int64(half)) {
                turns.append(partition)
                reserve.unpacked(partition)
            }
        }
        let mine = turns.count { $0 == Self.first }
        #expect(turns.count >= 9 && abs(2 * mine - turns.count) <= 1, "\(turns)")
    }

    /// Whoever does not come for what it was let have, or asks no more, keeps nobody waiting.
    @Test func aTurnEnds() {
        var reserve = UnpackingReserve()
        #expect(Self.asks(&reserve, Self.first, 0))
        for half: Int64 in 1..<10 {
            #expect(Self.asks(&reserve, Self.first, half))
            #expect(!Self.asks(&reserve, Self.next, half))
        }
        #expect(!Self.asks(&reserve, Self.first, 10), "the other one waits")
        #expect(Self.asks(&reserve, Self.next, 10))
        reserve.unpacked(Self.next)
        #expect(Self.asks(&reserve, Self.first, 11))
        reserve.forget(Self.first)
        #expect(Self.asks(&reserve, Self.next, 12))
        reserve.unpacked(Self.next)
        // The first one is gone: nobody is waited for.
        #expect(Self.asks(&reserve, Self.next, 13))
    }

    @Test func victimsAreRememberedForAWhile() {
        var reserve = UnpackingReserve()
        #expect(reserve.isEmpty)
        _ = Self.asks(&reserve, Self.first, 0)
        #expect(reserve.topics(nowNs: 10 * Self.second) == ["urgent"])
        #expect(reserve.topics(nowNs: 11 * Self.second) == [])
    }

    @Test func whoHoldsTheMemoryIsNamed() {
        var backlog = UnreadRecords()
        backlog.add(100_000, ofBytes: 1_000)
        var small = UnreadRecords()
        small.add(10, ofBytes: 100)
        let unread = ["backlog": backlog, "small": small]
        let faults = UnreadRecords.faults(unread, victims: ["urgent"])
        #expect(faults.map(\.subject) == ["topic backlog"])
        #expect(faults[0].text.contains("100000 records") && faults[0].text.contains("urgent"))
        #expect(UnreadRecords.faults(unread, victims: []) == [])
        #expect(UnreadRecords.faults([:], victims: ["urgent"]).map(\.subject) == ["kafka.unpack_memory"])
    }
}
