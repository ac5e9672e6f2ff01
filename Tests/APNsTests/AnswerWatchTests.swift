import HTTP2
import Testing

@testable import APNs

@Suite struct AnswerWatchTests {
    private static func seconds(_ seconds: Double) -> Int64 { Int64(seconds * 1e9) }

    private static func watch() -> AnswerWatch { AnswerWatch(limitNs: seconds(9)) }

    @Test func `Silence is found at its limit and the first answer ends it`() {
        var watch = Self.watch()
        watch.update(isAsked: false, nowNs: Self.seconds(99))
        #expect(watch.deadlineNs == .max)
        watch.update(isAsked: true, nowNs: Self.seconds(100))
        #expect(watch.deadlineNs == Self.seconds(109))
        watch.update(isAsked: true, nowNs: Self.seconds(109) - 1)
        #expect(!watch.isUnanswering)
        watch.update(isAsked: true, nowNs: Self.seconds(109))
        #expect(watch.isUnanswering && watch.endCode == nil && watch.deadlineNs == .max)
        watch.answered()
        watch.update(isAsked: true, nowNs: Self.seconds(110))
        #expect(!watch.isUnanswering && watch.deadlineNs == Self.seconds(119))
    }

    @Test func `Idleness is never found`() {
        var watch = Self.watch()
        for second in stride(from: 0.0, to: 4_000, by: 7) {
            watch.update(isAsked: false, nowNs: Self.seconds(second))
            #expect(!watch.isUnanswering && watch.deadlineNs == .max)
        }
        // One at a time, each lost after a second and never tried again: each begins anew.
        for second in stride(from: 4_000.0, to: 5_000, by: 7) {
            watch.update(isAsked: true, nowNs: Self.seconds(second))
            watch.update(isAsked: false, nowNs: Self.seconds(second + 1))
            #expect(!watch.isUnanswering)
        }
    }

    /// One after the other, and always some in flight.
    @Test(arguments: [true, false])
    func `Answers that are eight seconds late are answers`(isAlwaysAsked: Bool) {
        var watch = Self.watch()
        for second in stride(from: 0.0, to: 800, by: 8) {
            watch.update(isAsked: true, nowNs: Self.seconds(second))
            watch.update(isAsked: true, nowNs: Self.seconds(second + 7.9))
            #expect(!watch.isUnanswering)
            watch.answered()
            watch.update(isAsked: isAlwaysAsked, nowNs: Self.seconds(second + 7.95))
            #expect(!watch.isUnanswering)
        }
    }

    @Test func `What is tried again without an answer is one wait`() {
        var watch = Self.watch()
        for second in stride(from: 0.0, to: 9, by: 3) {
            watch.update(isAsked: true, nowNs: Self.seconds(second))
            watch.update(isAsked: false, nowNs: Self.seconds(second + 2))
            #expect(!watch.isUnanswering)
        }
        watch.update(isAsked: true, nowNs: Self.seconds(9))
        #expect(watch.isUnanswering)
        // Nothing is asked any more: it is not known whether it would answer.
        watch.update(isAsked: false, nowNs: Self.seconds(10))
        #expect(watch.isUnanswering && watch.deadlineNs == Self.seconds(15))
        watch.update(isAsked: false, nowNs: Self.seconds(15))
        #expect(!watch.isUnanswering && watch.deadlineNs == .max)
    }

    /// Their notifications are in a tier by then.
    @Test func `Three ended streams are found though nothing is in flight`() {
        var watch = Self.watch()
        watch.update(isAsked: true, nowNs: Self.seconds(100))
        for _ in 0..<2 { watch.ended(.cancel, nowNs: Self.seconds(100)) }
        watch.update(isAsked: false, nowNs: Self.seconds(101))
        #expect(watch.deadlineNs == .max && watch.endCode == nil)
        watch.ended(.internalError, nowNs: Self.seconds(103))
        watch.ended(.cancel, nowNs: Self.seconds(104))
        watch.update(isAsked: false, nowNs: Self.seconds(104))
        #expect(!watch.isUnanswering && watch.deadlineNs == Self.seconds(109))
        watch.update(isAsked: false, nowNs: Self.seconds(109))
        #expect(watch.isUnanswering && watch.endCode == .internalError)
        watch.update(isAsked: false, nowNs: Self.seconds(1_000))
        #expect(watch.isUnanswering)
        watch.update(isAsked: true, nowNs: Self.seconds(1_001))
        watch.answered()
        watch.update(isAsked: false, nowNs: Self.seconds(1_001))
        #expect(!watch.isUnanswering && watch.endCode == nil)
    }

    @Test func `Ended streams are forgotten in the end`() {
        var watch = Self.watch()
        watch.update(isAsked: true, nowNs: Self.seconds(0))
        for _ in 0..<3 { watch.ended(.cancel, nowNs: Self.seconds(0)) }
        watch.update(isAsked: false, nowNs: Self.seconds(1))
        watch.update(isAsked: false, nowNs: Self.seconds(9))
        #expect(watch.isUnanswering && watch.deadlineNs == Self.seconds(1_201))
        watch.update(isAsked: false, nowNs: Self.seconds(1_201))
        #expect(!watch.isUnanswering && watch.deadlineNs == .max)
    }

    @Test func `Ends between answers are not found`() {
        var watch = Self.watch()
        for second in 0..<100 {
            watch.update(isAsked: true, nowNs: Self.seconds(Double(second)))
            for _ in 0..<5 { watch.ended(.refusedStream, nowNs: Self.seconds(Double(second))) }
            if second % 8 == 7 { watch.answered() }
            #expect(!watch.isUnanswering)
        }
    }
}
