import Testing

@testable import Worker

/// When feedback is read, and what waits of it.
@Suite struct FeedbackValueTests {
    private static let second: Int64 = 1_000_000_000

    // MARK: The plan

    private func plan(_ intervals: [Int: Int64]) -> FeedbackPlan {
        var plan = FeedbackPlan()
        plan.set(intervals, nowNs: 0)
        return plan
    }

    @Test func theFirstReadIsSoonAndTheNextAnIntervalLater() {
        var plan = plan([3: 100 * Self.second])
        #expect(plan.nextNs == FeedbackPlan.firstNs && plan.due(nowNs: FeedbackPlan.firstNs - 1) == nil)
        #expect(plan.due(nowNs: FeedbackPlan.firstNs) == 3)
        plan.began(3, nowNs: FeedbackPlan.firstNs)
        #expect(plan.nextNs == nil && plan.due(nowNs: .max) == nil, "one at a time")
        plan.ended(3, isComplete: true, nowNs: 40 * Self.second)
        #expect(plan.nextNs == FeedbackPlan.firstNs + 100 * Self.second, "from beginning to beginning")
    }

    @Test func oneThatFailedIsTriedAgainInAMinuteAtTheLatest() {
        var plan = plan([0: 3_600 * Self.second, 1: Self.second])
        for app in [0, 1] {
            plan.began(app, nowNs: 10 * Self.second)
            plan.ended(app, isComplete: false, nowNs: 20 * Self.second)
        }
        #expect(plan.due(nowNs: 21 * Self.second) == 1)
        plan.began(1, nowNs: 21 * Self.second)
        #expect(plan.nextNs == 80 * Self.second)
    }

    @Test func whatKafkaKeepsFromBeginningIsPutOff() {
        var plan = plan([0: 3_600 * Self.second])
        plan.postponed(0, nowNs: 2 * Self.second)
        #expect(plan.nextNs == 7 * Self.second)
    }

    @Test func anotherIntervalCountsFromTheLastRead() {
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

    // MARK: The queue

    /// More than is given back at once, taken while more comes.
    @Test func whatGoesInComesOutInItsOrder() {
        var queue = FeedbackQueue()
        var last: UInt64 = 0
        var next: UInt64 = 0
        func token(_ number: UInt64) -> [UInt8] {
            [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: Int(number % 100) + 1)
        }
        func add(_ count: Int) {
            for _ in 0..<count {
                token(last).withUnsafeBytes {
                    queue.append(FeedbackQueue.Item(read: last, seconds: UInt32(truncatingIfNeeded: last), token: $0))
                }
                last += 1
            }
        }
        func take(_ count: Int) {
            for _ in 0..<count {
                let isTaken = queue.takeFirst { item in
                    #expect(item.read == next && item.seconds == UInt32(truncatingIfNeeded: next))
                    return Array(item.token) == token(next)
                }
                #expect(isTaken)
                next += 1
            }
        }
        for _ in 0..<10 {
            add(8_000)
            take(7_000)
        }
        #expect(queue.count == 10_000 && !queue.takeFirst { _ in false } && queue.count == 10_000)
        take(10_000)
        #expect(queue.count == 0 && queue.byteCount == 0 && !queue.takeFirst { _ in true })
    }
}
