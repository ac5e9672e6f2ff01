import Testing

@testable import Worker

@Suite struct FeedbackPlanTests {
    private static let second: Int64 = 1_000_000_000

    private func plan(_ intervals: [Int: Int64]) -> FeedbackPlan {
        var plan = FeedbackPlan()
        plan.set(intervals.mapValues { $0 * Self.second }, nowNs: 0)
        return plan
    }

    @Test func `The first read begins soon after the start, and the next one an interval later`() {
        var plan = plan([3: 100])
        #expect(plan.nextNs == FeedbackPlan.firstNs && plan.due(nowNs: FeedbackPlan.firstNs - 1) == nil)
        #expect(plan.due(nowNs: FeedbackPlan.firstNs) == 3)
        plan.began(3, nowNs: FeedbackPlan.firstNs)
        #expect(plan.nextNs == .max, "only one read runs at a time")
        plan.ended(3, isComplete: true, nowNs: 40 * Self.second)
        #expect(plan.nextNs == FeedbackPlan.firstNs + 100 * Self.second)
    }

    @Test func `A failed read is repeated after a minute, or after the interval if that is shorter`() {
        var plan = plan([0: 3_600, 1: 1])
        for app in [0, 1] {
            plan.began(app, nowNs: 10 * Self.second)
            plan.ended(app, isComplete: false, nowNs: 20 * Self.second)
        }
        #expect(plan.due(nowNs: 21 * Self.second) == 1)
        plan.began(1, nowNs: 21 * Self.second)
        #expect(plan.nextNs == 80 * Self.second)
    }

    @Test func `A read that cannot begin because of Kafka is retried after five seconds`() {
        var plan = plan([0: 3_600])
        #expect(plan.postpone(nowNs: 2 * Self.second) == [0])
        #expect(plan.nextNs == 7 * Self.second)
    }

    @Test func `An app's feedback is read soon after its interval changes, and never without an interval`() {
        var plan = plan([0: 3_600, 1: 0])
        #expect(plan.due(nowNs: .max - 1) == 0, "only the feedback command reads app 1")
        plan.began(0, nowNs: Self.second)
        plan.set([0: 60 * Self.second], nowNs: 2 * Self.second)
        #expect(plan.nextNs == .max, "app 0 is being read")
        plan.ended(0, isComplete: true, nowNs: 3 * Self.second)
        #expect(plan.nextNs == 61 * Self.second)
        plan.set([0: 50 * Self.second], nowNs: 30 * Self.second)
        #expect(plan.nextNs == 31 * Self.second)
        plan.set([0: 0], nowNs: 31 * Self.second)
        plan.ended(0, isComplete: true, nowNs: 32 * Self.second)
        #expect(plan.nextNs == .max)
    }
}
