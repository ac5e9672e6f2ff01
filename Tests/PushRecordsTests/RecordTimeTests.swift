import Testing

@testable import PushRecords

@Suite struct RecordTimeTests {
    /// Numbers at which arithmetic or checks change.
    static let boundaries: [Int64] = [
        .min, .min + 1, .min + 400, -253_402_300_799_999, -1, 0, 1, 1_790_000_000_000, RecordTime.latestMs - 1,
        RecordTime.latestMs, RecordTime.latestMs + 1, 1 << 48, 1 << 62, .max - 1, .max,
    ]

    @Test(arguments: boundaries)
    func `A timestamp is known if it is within the bounds`(_ ms: Int64) {
        let checked = RecordTime.checked(ms)
        #expect(checked == (ms >= 1 && ms <= RecordTime.latestMs ? ms : RecordTime.unknown))
    }

    @Test(arguments: boundaries, boundaries)
    func `Sums and ages of any numbers stay within the bounds`(_ ms: Int64, _ other: Int64) {
        let sum = RecordTime.adding(other, to: ms)
        #expect(sum >= 0 && sum <= RecordTime.latestMs)
        #expect((sum == RecordTime.unknown) == (RecordTime.checked(ms) == RecordTime.unknown))
        let age = RecordTime.age(of: ms, nowMs: other)
        #expect(age >= 0 && age <= RecordTime.latestMs)
    }

    @Test func `An unknown time has no age`() {
        #expect(RecordTime.age(of: -1, nowMs: 1_790_000_000_000) == 0)
        #expect(RecordTime.age(of: 0, nowMs: 1_790_000_000_000) == 0)
        #expect(RecordTime.age(of: 1_000, nowMs: 3_500) == 2_500)
        #expect(RecordTime.adding(500, to: 1_000) == 1_500)
    }

    @Test func `A scheduled notification has no age until its time`() {
        #expect(RecordTime.start(5_000, notBefore: 0) == 5_000)
        #expect(RecordTime.start(5_000, notBefore: 4) == 5_000)
        #expect(RecordTime.start(5_000, notBefore: 6) == 6_000)
        #expect(RecordTime.start(RecordTime.unknown, notBefore: 6) == RecordTime.unknown)
        #expect(RecordTime.start(RecordTime.latestMs, notBefore: .max) == RecordTime.latestMs)
        #expect(RecordTime.start(1, notBefore: .max) == 4_294_967_295_000)
    }
}
