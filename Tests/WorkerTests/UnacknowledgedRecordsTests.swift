import Kafka
import Testing

@testable import Worker

/// How long records wait for their acknowledgement, without a producer.
struct UnacknowledgedRecordsTests {
    private static let second: Int64 = 1_000_000_000

    @Test func `A record that waits shows after ten seconds, and no more once it is reported`() {
        var records = UnacknowledgedRecords(topics: 2)
        records.handedOver(7, topic: 1, nowNs: 5)
        #expect(records.overdueSinceNs(topic: 1, nowNs: 5 + UnacknowledgedRecords.namedNs - 1) == nil)
        #expect(records.overdueSinceNs(topic: 1, nowNs: 5 + UnacknowledgedRecords.namedNs) == 5)
        #expect(records.overdueSinceNs(topic: 0, nowNs: 5 + UnacknowledgedRecords.namedNs) == nil)
        records.reported(7, topic: 1, nowNs: 20 * Self.second)
        #expect(records.overdueSinceNs(topic: 1, nowNs: 60 * Self.second) == nil)
        // Idle for a while, it has not been waiting since then.
        records.handedOver(8, topic: 1, nowNs: 60 * Self.second)
        #expect(records.overdueSinceNs(topic: 1, nowNs: 61 * Self.second) == nil)
    }

    /// Of eight partitions the last takes nothing; records are reported after 20 ms, 100 of them in a second.
    @Test func `A partition that takes nothing is found among others that go on`() throws {
        var records = UnacknowledgedRecords(topics: 1)
        let stepNs = Self.second / 100
        var foundNs: Int64?
        for step in 0..<3_000 as Range<Int64> {
            let nowNs = step * stepNs
            // Neither order nor pace makes the followed ones miss it.
            records.handedOver(UInt64(step), topic: 0, nowNs: nowNs)
            if step >= 2, partition(of: step - 2) != 7 { records.reported(UInt64(step - 2), topic: 0, nowNs: nowNs) }
            if foundNs == nil, records.overdueSinceNs(topic: 0, nowNs: nowNs) != nil { foundNs = nowNs }
        }
        #expect(try #require(foundNs) < 12 * Self.second)
    }

    private func partition(of step: Int64) -> Int64 { Int64((UInt64(step) &* 0x9E37_79B9_7F4A_7C15) >> 61) }

    @Test func `One that was handed over beside the followed one shows when nothing more is reported`() {
        var records = UnacknowledgedRecords(topics: 1)
        records.handedOver(1, topic: 0, nowNs: 0)
        records.handedOver(2, topic: 0, nowNs: 0)
        records.reported(1, topic: 0, nowNs: Self.second)
        #expect(records.overdueSinceNs(topic: 0, nowNs: 10 * Self.second) == nil)
        #expect(records.overdueSinceNs(topic: 0, nowNs: 11 * Self.second) == Self.second)
        records.reported(2, topic: 0, nowNs: 12 * Self.second)
        #expect(records.overdueSinceNs(topic: 0, nowNs: 30 * Self.second) == nil)
    }
}
