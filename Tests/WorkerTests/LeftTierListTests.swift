import Testing

@testable import Worker

struct LeftTierListTests {
    private static let minute: Int64 = 60_000_000_000

    private func tier(_ topic: String, _ records: Int64 = 1) -> LeftTiers.Tier {
        LeftTiers.Tier(topic: topic, records: records)
    }

    @Test func `A left tier is read from when it is found until it has been empty for a while`() {
        var list = LeftTierList()
        let first = list.take(found: [tier("a"), tier("b")], existing: ["a", "b", "other"], nowNs: 0)
        #expect(first.begun.map(\.topic) == ["a", "b"] && first.ended.isEmpty)
        #expect(list.topics == ["a", "b"])
        let again = list.take(found: [tier("b")], existing: ["a", "b"], nowNs: Self.minute)
        #expect(again.begun.isEmpty && again.ended.isEmpty, "it may be written to once more")
        // So it is, and the time begins anew.
        _ = list.take(found: [tier("a"), tier("b")], existing: ["a", "b"], nowNs: 2 * Self.minute)
        let later = 3 * Self.minute + LeftTierList.keptNs
        #expect(list.take(found: [tier("b")], existing: ["a", "b"], nowNs: 3 * Self.minute).ended.isEmpty)
        #expect(list.take(found: [tier("b")], existing: ["a", "b"], nowNs: later - 1).ended.isEmpty)
        #expect(list.take(found: [tier("b")], existing: ["a", "b"], nowNs: later).ended == ["a"])
        #expect(list.topics == ["b"])
        #expect(
            list.take(found: [tier("a"), tier("b")], existing: ["a", "b"], nowNs: later).begun.map(\.topic) == ["a"])
    }

    @Test func `A left tier that is gone is read no more`() {
        var list = LeftTierList()
        _ = list.take(found: [tier("a"), tier("b")], existing: ["a", "b"], nowNs: 0)
        #expect(list.take(found: [tier("b")], existing: ["b"], nowNs: 1).ended == ["a"])
        #expect(list.topics == ["b"])
    }
}
