import Bytes
import Testing

@testable import APNs

private let second: Int64 = 1_000_000_000

extension PoolPlan {
    /// Runs a trace: each event and what must follow.
    fileprivate mutating func run(
        _ trace: [(PoolPlan.Event, [PoolPlan.Action])], sourceLocation: SourceLocation = #_sourceLocation
    ) {
        var random = SplitMix64(seed: 1)
        for (event, expected) in trace {
            let actions = handle(event, using: &random).map(Self.plain)
            #expect(actions == expected, "after \(event)", sourceLocation: sourceLocation)
        }
    }

    /// Waits without their jitter: any from 1 s on is -1.
    private static func plain(_ action: Action) -> Action {
        if case .wake(let afterNs) = action, afterNs >= second { return .wake(afterNs: -1) }
        return action
    }
}

@Suite struct PoolPlanTests {
    static let wait = PoolPlan.Action.wake(afterNs: -1)

    @Test func `The minimum is dialled one after the other`() {
        var plan = PoolPlan(minimum: 2, maximum: 4)
        plan.run([(.due, [.dial(0)]), (.opened(0), [.dial(1)]), (.opened(1), [])])
        #expect(plan.live == 2)
    }

    @Test func `A failure waits and only a response starts over`() {
        var plan = PoolPlan(minimum: 1, maximum: 1)
        plan.run([
            (.due, [.dial(0)]), (.closed(0), [Self.wait]), (.due, [.dial(1)]),
            // A handshake resets nothing.
            (.opened(1), []), (.closed(1), [Self.wait]), (.due, [.dial(2)]),
        ])
        #expect(plan.failures == 2)
        plan.run([(.opened(2), []), (.answered(2), [])])
        #expect(plan.failures == 0)
    }

    @Test func `A replacement dials at once whatever failed before`() {
        var plan = PoolPlan(minimum: 1, maximum: 4)
        plan.run([
            (.due, [.dial(0)]), (.closed(0), [Self.wait]),
            (.replace(minimum: 2, maximum: 2), [.dial(1)]),
            // One is ready and one under way: both are of yesterday.
            (.opened(1), [.dial(2)]),
            (.replace(minimum: 1, maximum: 1), [.drain(1), .drain(2), .dial(3)]),
            (.due, []), (.closed(2), []), (.opened(3), []), (.closed(1), []),
            (.close, [.drain(3)]), (.replace(minimum: 1, maximum: 1), []), (.closed(3), [.finished]),
        ])
        #expect(plan.failures == 0)
    }

    /// Another one failed, and the one that goes on being answered shows that the host is of use.
    @Test func `What is answered again after a failure may sleep`() {
        var plan = PoolPlan(minimum: 0, maximum: 2)
        plan.run([
            (.wanted, [.dial(0)]), (.opened(0), []), (.answered(0), []), (.crowded, [.dial(1)]), (.opened(1), []),
            (.wentOn(0), []), (.closed(1), [Self.wait]), (.idle(0), []),
        ])
        #expect(!plan.isOnDemand)
        plan.run([(.wentOn(0), [])])
        // It speaks for no other: those are waited for ever longer.
        #expect(plan.failures == 1)
        plan.run([(.idle(0), [.drain(0)]), (.due, []), (.closed(0), [])])
        #expect(plan.isAsleep && plan.isOnDemand)
    }

    @Test func `A pool of no minimum sleeps until one is wanted`() {
        var plan = PoolPlan(minimum: 0, maximum: 4)
        plan.run([(.due, []), (.saturated, [])])
        #expect(plan.isAsleep && plan.isOnDemand)
        plan.run([(.wanted, [.dial(0)]), (.wanted, []), (.closed(0), [Self.wait])])
        // What failed is tried until it answers, wanted or not.
        #expect(!plan.isAsleep && !plan.isOnDemand)
        plan.run([(.due, [.dial(1)]), (.opened(1), []), (.idle(1), [])])
        plan.run([(.answered(1), []), (.idle(1), [.drain(1)]), (.closed(1), [])])
        #expect(plan.isAsleep && plan.isOnDemand)
        plan.run([
            (.wanted, [.dial(2)]), (.opened(2), []), (.answered(2), []), (.retired(2, isFault: false), [.drain(2)]),
            (.closed(2), []),
        ])
        #expect(plan.isAsleep)
        plan.run([
            (.wanted, [.dial(3)]), (.opened(3), []), (.answered(3), []),
            (.retired(3, isFault: true), [.drain(3), Self.wait]), (.closed(3), []), (.due, [.dial(4)]),
            (.replace(minimum: 0, maximum: 1), [.drain(4), .dial(5)]), (.close, [.drain(5)]),
        ])
        #expect(!plan.isAsleep && !plan.isOnDemand)
    }

    /// Nobody would want one of a pool that takes nothing, and it would never be dialled again.
    @Test func `A pool of no minimum that has failed does not sleep`() {
        var plan = PoolPlan(minimum: 0, maximum: 2)
        plan.run([
            (.due, []), (.wanted, [.dial(0)]), (.opened(0), []), (.answered(0), []), (.saturated, [.dial(1)]),
            (.opened(1), []), (.closed(1), [Self.wait]), (.retired(0, isFault: false), [.drain(0)]), (.closed(0), []),
            (.due, [.dial(2)]),
        ])
    }

    @Test func `A GOAWAY dials the successor at once`() {
        var plan = PoolPlan(minimum: 1, maximum: 4)
        plan.run([
            (.due, [.dial(0)]), (.opened(0), []), (.answered(0), []),
            (.retired(0, isFault: false), [.drain(0), .dial(1)]),
            // A second GOAWAY, and the end of the old one, change nothing.
            (.retired(0, isFault: false), []), (.opened(1), []), (.closed(0), []),
        ])
        #expect(plan.live == 1)
    }

    @Test func `An aged connection goes once its successor is ready`() {
        var plan = PoolPlan(minimum: 2, maximum: 4)
        plan.run([
            (.due, [.dial(0)]), (.opened(0), [.dial(1)]), (.opened(1), []), (.answered(0), []), (.answered(1), []),
            (.aged(0), [.dial(2)]), (.aged(1), []), (.closed(2), [Self.wait]), (.due, [.dial(3)]),
            (.opened(3), [.drain(0), .dial(4)]), (.opened(4), [.drain(1)]), (.closed(0), []), (.closed(1), []),
        ])
        #expect(plan.live == 2)
    }

    @Test(arguments: [true, false])
    func `A faulty end waits`(isAnswered: Bool) {
        var plan = PoolPlan(minimum: 1, maximum: 4)
        plan.run([(.due, [.dial(0)]), (.opened(0), [])])
        if isAnswered { plan.run([(.answered(0), [])]) }
        plan.run([(.retired(0, isFault: isAnswered), [.drain(0), Self.wait]), (.closed(0), []), (.due, [.dial(1)])])
    }

    @Test func `Many lost at once are one failure`() {
        var plan = PoolPlan(minimum: 3, maximum: 3)
        plan.run([
            (.due, [.dial(0)]), (.opened(0), [.dial(1)]), (.opened(1), [.dial(2)]), (.opened(2), []),
            (.answered(0), []), (.closed(0), [Self.wait]), (.closed(1), []), (.closed(2), []), (.due, [.dial(3)]),
            (.opened(3), [.dial(4)]), (.opened(4), [.dial(5)]),
        ])
        #expect(plan.failures == 1)
    }

    @Test func `A pool grows by one when it is saturated and all have answered`() {
        var plan = PoolPlan(minimum: 1, maximum: 3)
        plan.run([
            (.due, [.dial(0)]), (.opened(0), []),
            // One stream until the first token was seen: no reason to grow yet.
            (.saturated, []), (.answered(0), []), (.saturated, [.dial(1)]), (.saturated, []),
            (.opened(1), []), (.saturated, []), (.answered(1), []), (.saturated, [.dial(2)]),
            (.opened(2), []), (.answered(2), []), (.saturated, []),
        ])
        #expect(plan.live == 3)
    }

    /// A proxy lets one connection through, say: it is replaced at once all the same when it ends.
    @Test func `A dial for one more that fails delays no successor`() {
        var plan = PoolPlan(minimum: 1, maximum: 3)
        plan.run([
            (.due, [.dial(0)]), (.opened(0), []), (.answered(0), []), (.saturated, [.dial(1)]),
            (.closed(1), [Self.wait]), (.saturated, []), (.due, []), (.saturated, [.dial(2)]),
            (.closed(2), [Self.wait]), (.retired(0, isFault: false), [.drain(0), .dial(3)]), (.closed(0), []),
            (.closed(3), [Self.wait]), (.saturated, []), (.due, [.dial(4)]),
        ])
        #expect(plan.failures == 1)
    }

    /// A connection was lost, and its successor is waited for: streams are few for that reason.
    @Test func `A pool does not grow while a successor is waited for`() {
        var plan = PoolPlan(minimum: 2, maximum: 4)
        plan.run([
            (.due, [.dial(0)]), (.opened(0), [.dial(1)]), (.opened(1), []), (.answered(0), []), (.answered(1), []),
            (.closed(1), [Self.wait]), (.saturated, []), (.due, [.dial(2)]), (.opened(2), []),
        ])
        #expect(plan.live == 2)
    }

    /// What was grown for is still there with another credential.
    @Test func `A replacement has as many connections as before`() {
        var plan = PoolPlan(minimum: 1, maximum: 3)
        plan.run([
            (.due, [.dial(0)]), (.opened(0), []), (.answered(0), []), (.saturated, [.dial(1)]), (.opened(1), []),
            (.replace(minimum: 1, maximum: 3), [.drain(0), .drain(1), .dial(2)]), (.opened(2), [.dial(3)]),
            (.opened(3), []),
        ])
        #expect(plan.live == 2)
    }

    @Test func `A pool shrinks to the minimum after idleness`() {
        var plan = PoolPlan(minimum: 1, maximum: 3)
        plan.run([
            (.due, [.dial(0)]), (.opened(0), []), (.answered(0), []), (.saturated, [.dial(1)]), (.opened(1), []),
            (.idle(1), [.drain(1)]), (.idle(0), []), (.closed(1), []),
        ])
        #expect(plan.live == 1)
    }

    @Test func `A pool closes when its last connection is gone`() {
        var plan = PoolPlan(minimum: 2, maximum: 3)
        plan.run([
            (.due, [.dial(0)]), (.opened(0), [.dial(1)]), (.close, [.drain(0), .drain(1)]), (.close, []),
            (.closed(1), []), (.due, []), (.closed(0), [.finished]),
        ])
    }

    @Test func `A pool without connections closes at once`() {
        var plan = PoolPlan(minimum: 1, maximum: 1)
        plan.run([(.due, [.dial(0)]), (.closed(0), [Self.wait]), (.close, [.finished]), (.due, [])])
    }
}

@Suite struct BackOffTests {
    @Test func `The backoff doubles from one second to sixty`() {
        for seed in 0..<50 {
            var random = SplitMix64(seed: UInt64(seed))
            var backOff = BackOff()
            for step in 0..<12 {
                let base = min(60 * second, second << Int64(step))
                let waitNs = backOff.failed(using: &random)
                #expect(waitNs >= max(second, base / 4 * 3) && waitNs <= min(60 * second, base / 4 * 5))
            }
            backOff.succeeded()
            #expect(backOff.failed(using: &random) <= 2 * second)
        }
    }
}

@Suite struct SaturationTests {
    private static let ms: Int64 = 1_000_000

    /// Turns of `busy` ms every `every` ms, full after those that `isFull` names; the turns that said so.
    private static func run(every: Int64, busy: Int64, isFull: (Int64) -> Bool) -> [Int64] {
        var saturation = Saturation()
        return (0..<42).filter { turn in
            let began = 1 + turn * every * ms
            return saturation.turned(isFull: isFull(turn), beganNs: began, endedNs: began + busy * ms)
        }
    }

    /// Over half of the time must be spent waiting with every stream taken.
    @Test func `More connections help a thread that waits with all streams taken`() {
        #expect(Self.run(every: 10, busy: 1) { _ in true } == [10, 20, 30, 40])
        #expect(Self.run(every: 10, busy: 9) { _ in true }.isEmpty)
        #expect(Self.run(every: 10, busy: 1) { $0 % 3 == 0 }.isEmpty)
    }

    /// Answers come in one turn, the core's next requests in another shortly after.
    @Test func `A short while with free streams is no relief`() {
        var saturation = Saturation()
        var said = 0
        for round in 0..<10 as Range<Int64> {
            let began = 1 + round * 30 * Self.ms
            if saturation.turned(isFull: false, beganNs: began, endedNs: began + Self.ms / 10) { said += 1 }
            if saturation.turned(isFull: true, beganNs: began + Self.ms, endedNs: began + Self.ms) { said += 1 }
        }
        #expect(said == 2)
    }
}
