import Testing

@testable import Worker

/// When feedback is read.
@Suite struct FeedbackValueTests {
    private static let second: Int64 = 1_000_000_000

    private func plan(_ intervals: [Int: Int64]) -> FeedbackPlan {
        var plan = FeedbackPlan()
        plan.set(intervals, nowNs: 0)
        return plan
    }

    @Test func `The first read is soon and the next an interval later`() {
        var plan = plan([3: 100 * Self.second])
        #expect(plan.nextNs == FeedbackPlan.firstNs && plan.due(nowNs: FeedbackPlan.firstNs - 1) == nil)
        #expect(plan.due(nowNs: FeedbackPlan.firstNs) == 3)
        plan.began(3, nowNs: FeedbackPlan.firstNs)
        #expect(plan.nextNs == nil && plan.due(nowNs: .max) == nil, "one at a time")
        plan.ended(3, isComplete: true, nowNs: 40 * Self.second)
        #expect(plan.nextNs == FeedbackPlan.firstNs + 100 * Self.second, "from beginning to beginning")
    }

    @Test func `One that failed is tried again in a minute at the latest`() {
        var plan = plan([0: 3_600 * Self.second, 1: Self.second])
        for app in [0, 1] {
            plan.began(app, nowNs: 10 * Self.second)
            plan.ended(app, isComplete: false, nowNs: 20 * Self.second)
        }
        #expect(plan.due(nowNs: 21 * Self.second) == 1)
        plan.began(1, nowNs: 21 * Self.second)
        #expect(plan.nextNs == 80 * Self.second)
    }

    @Test func `What Kafka keeps from beginning is put off`() {
        var plan = plan([0: 3_600 * Self.second])
        plan.postponed(0, nowNs: 2 * Self.second)
        #expect(plan.nextNs == 7 * Self.second)
    }

    @Test func `Another interval counts from the last read`() {
        var plan = plan([0: 3_600 * Self.second, 1: 0])
        #expect(plan.due(nowNs: .max) == 0, "the other is for the command")
        plan.began(0, nowNs: Self.second)
        plan.ended(0, isComplete: true, nowNs: 2 * Self.second)
        plan.set([0: 60 * Self.second], nowNs: 30 * Self.second)
        #expect(plan.nextNs == 61 * Self.second)
        plan.set([0: 0], nowNs: 31 * Self.second)
        #expect(plan.nextNs == nil)
        plan.set([:], nowNs: 31 * Self.second)
        plan.ended(0, isComplete: true, nowNs: 32 * Self.second)
        #expect(plan.nextNs == nil, "it is gone")
    }
}
