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

    @Test func `Dials the minimum one after the other`() {
        var plan = PoolPlan(minimum: 2, maximum: 4)
        plan.run([
            (.start, [.dial(0, firstAddress: 0)]), (.opened(0), [.dial(1, firstAddress: 1)]), (.opened(1), []),
        ])
        #expect(plan.live == 2)
    }

    @Test func `A failure waits and only a response starts over`() {
        var plan = PoolPlan(minimum: 1, maximum: 1)
        plan.run([
            (.start, [.dial(0, firstAddress: 0)]), (.closed(0), [Self.wait]), (.due, [.dial(1, firstAddress: 1)]),
            // A handshake resets nothing.
            (.opened(1), []), (.closed(1), [Self.wait]), (.due, [.dial(2, firstAddress: 2)]),
        ])
        #expect(plan.failures == 2)
        plan.run([(.opened(2), []), (.answered(2), [])])
        #expect(plan.failures == 0)
    }

    @Test func `A replacement dials at once whatever failed before`() {
        var plan = PoolPlan(minimum: 1, maximum: 4)
        plan.run([
            (.start, [.dial(0, firstAddress: 0)]), (.closed(0), [Self.wait]),
            (.replace(minimum: 2, maximum: 2), [.dial(1, firstAddress: 1)]),
            // One is ready and one under way: both are of yesterday.
            (.opened(1), [.dial(2, firstAddress: 2)]),
            (.replace(minimum: 1, maximum: 1), [.drain(1), .drain(2), .dial(3, firstAddress: 3)]),
            (.due, []), (.closed(2), []), (.opened(3), []), (.closed(1), []),
            (.close, [.drain(3)]), (.replace(minimum: 1, maximum: 1), []), (.closed(3), [.finished]),
        ])
        #expect(plan.failures == 0)
    }

    /// Another one failed, and the one that goes on being answered shows that the host is of use.
    @Test func `What is answered again after a failure may sleep`() {
        var plan = PoolPlan(minimum: 0, maximum: 2)
        plan.run([
            (.wanted, [.dial(0, firstAddress: 0)]), (.opened(0), []), (.answered(0), []),
            (.crowded, [.dial(1, firstAddress: 1)]), (.opened(1), []), (.wentOn(0), []), (.closed(1), [Self.wait]),
            (.idle(0), []),
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
        plan.run([(.start, []), (.saturated, [])])
        #expect(plan.isAsleep && plan.isOnDemand)
        plan.run([(.wanted, [.dial(0, firstAddress: 0)]), (.wanted, []), (.closed(0), [Self.wait])])
        // What failed is tried until it answers, wanted or not.
        #expect(!plan.isAsleep && !plan.isOnDemand)
        plan.run([(.due, [.dial(1, firstAddress: 1)]), (.opened(1), []), (.idle(1), [])])
        plan.run([(.answered(1), []), (.idle(1), [.drain(1)]), (.closed(1), [])])
        #expect(plan.isAsleep && plan.isOnDemand)
        plan.run([
            (.wanted, [.dial(2, firstAddress: 2)]), (.opened(2), []), (.answered(2), []),
            (.retired(2, isFault: false), [.drain(2)]), (.closed(2), []),
        ])
        #expect(plan.isAsleep)
        plan.run([
            (.wanted, [.dial(3, firstAddress: 3)]), (.opened(3), []), (.answered(3), []),
            (.retired(3, isFault: true), [.drain(3), Self.wait]), (.closed(3), []),
            (.due, [.dial(4, firstAddress: 4)]),
            (.replace(minimum: 0, maximum: 1), [.drain(4), .dial(5, firstAddress: 5)]),
            (.close, [.drain(5)]),
        ])
        #expect(!plan.isAsleep && !plan.isOnDemand)
    }

    /// Nobody would want one of a pool that takes nothing, and it would never be dialled again.
    @Test func `A pool of no minimum that has failed does not sleep`() {
        var plan = PoolPlan(minimum: 0, maximum: 2)
        plan.run([
            (.start, []), (.wanted, [.dial(0, firstAddress: 0)]), (.opened(0), []), (.answered(0), []),
            (.saturated, [.dial(1, firstAddress: 1)]), (.opened(1), []), (.closed(1), [Self.wait]),
            (.retired(0, isFault: false), [.drain(0)]), (.closed(0), []), (.due, [.dial(2, firstAddress: 2)]),
        ])
        var random = SplitMix64(seed: 7)
        for _ in 0..<2_000 {
            var plan = PoolPlan(minimum: 0, maximum: 3)
            _ = plan.handle(.start, using: &random)
            var last = -1
            func apply(_ event: PoolPlan.Event) -> [PoolPlan.Action] {
                let actions = plan.handle(event, using: &random)
                for case .dial(let id, _) in actions { last = id }
                return actions
            }
            for _ in 0..<40 {
                let id = last < 0 ? 0 : Int.random(in: max(0, last - 2)...last, using: &random)
                switch Int.random(in: 0..<8, using: &random) {
                case 0: if plan.isAsleep { _ = apply(.wanted) }
                case 1: _ = apply(.opened(id))
                case 2: _ = apply(.answered(id))
                case 3: _ = apply(.retired(id, isFault: Bool.random(using: &random)))
                case 4: _ = apply(.closed(id))
                case 5: _ = apply(.saturated)
                case 6: _ = apply(.idle(id))
                default: _ = apply(.due)
                }
            }
            // Whatever it has is closed, and its wait over: it dials, or somebody may want it.
            for id in 0...max(0, last) { _ = apply(.closed(id)) }
            let dialled = apply(.due)
            #expect(!dialled.isEmpty || plan.live > 0 || plan.isAsleep && plan.isOnDemand)
        }
    }

    @Test func `Go away dials the successor at once`() {
        var plan = PoolPlan(minimum: 1, maximum: 4)
        plan.run([
            (.start, [.dial(0, firstAddress: 0)]), (.opened(0), []), (.answered(0), []),
            (.retired(0, isFault: false), [.drain(0), .dial(1, firstAddress: 1)]),
            // A second GOAWAY, and the end of the old one, change nothing.
            (.retired(0, isFault: false), []), (.opened(1), []), (.closed(0), []),
        ])
        #expect(plan.live == 1)
    }

    @Test(arguments: [true, false])
    func `A faulty end waits`(isAnswered: Bool) {
        var plan = PoolPlan(minimum: 1, maximum: 4)
        plan.run([(.start, [.dial(0, firstAddress: 0)]), (.opened(0), [])])
        if isAnswered { plan.run([(.answered(0), [])]) }
        plan.run([
            (.retired(0, isFault: isAnswered), [.drain(0), Self.wait]), (.closed(0), []),
            (.due, [.dial(1, firstAddress: 1)]),
        ])
    }

    @Test func `Many lost at once are one failure`() {
        var plan = PoolPlan(minimum: 3, maximum: 3)
        plan.run([
            (.start, [.dial(0, firstAddress: 0)]), (.opened(0), [.dial(1, firstAddress: 1)]),
            (.opened(1), [.dial(2, firstAddress: 2)]), (.opened(2), []), (.answered(0), []),
            (.closed(0), [Self.wait]),
            (.closed(1), []), (.closed(2), []), (.due, [.dial(3, firstAddress: 3)]),
            (.opened(3), [.dial(4, firstAddress: 4)]), (.opened(4), [.dial(5, firstAddress: 5)]),
        ])
        #expect(plan.failures == 1)
    }

    @Test func `Grows by one when saturated and all have answered`() {
        var plan = PoolPlan(minimum: 1, maximum: 3)
        plan.run([
            (.start, [.dial(0, firstAddress: 0)]), (.opened(0), []),
            // One stream until the first token was seen: no reason to grow yet.
            (.saturated, []), (.answered(0), []), (.saturated, [.dial(1, firstAddress: 1)]), (.saturated, []),
            (.opened(1), []), (.saturated, []), (.answered(1), []), (.saturated, [.dial(2, firstAddress: 2)]),
            (.opened(2), []), (.answered(2), []), (.saturated, []),
        ])
        #expect(plan.live == 3)
    }

    /// A proxy lets one connection through, say: it is replaced at once all the same when it ends.
    @Test func `A dial for one more that fails delays no successor`() {
        var plan = PoolPlan(minimum: 1, maximum: 3)
        plan.run([
            (.start, [.dial(0, firstAddress: 0)]), (.opened(0), []), (.answered(0), []),
            (.saturated, [.dial(1, firstAddress: 1)]), (.closed(1), [Self.wait]), (.saturated, []), (.due, []),
            (.saturated, [.dial(2, firstAddress: 2)]), (.closed(2), [Self.wait]),
            (.retired(0, isFault: false), [.drain(0), .dial(3, firstAddress: 3)]), (.closed(0), []),
            (.closed(3), [Self.wait]), (.saturated, []), (.due, [.dial(4, firstAddress: 4)]),
        ])
        #expect(plan.failures == 1)
    }

    /// A connection was lost, and its successor is waited for: streams are few for that reason.
    @Test func `Does not grow while a successor is waited for`() {
        var plan = PoolPlan(minimum: 2, maximum: 4)
        plan.run([
            (.start, [.dial(0, firstAddress: 0)]), (.opened(0), [.dial(1, firstAddress: 1)]), (.opened(1), []),
            (.answered(0), []), (.answered(1), []), (.closed(1), [Self.wait]), (.saturated, []),
            (.due, [.dial(2, firstAddress: 2)]), (.opened(2), []),
        ])
        #expect(plan.live == 2)
    }

    /// What was grown for is still there with another credential.
    @Test func `A replacement has as many connections as before`() {
        var plan = PoolPlan(minimum: 1, maximum: 3)
        plan.run([
            (.start, [.dial(0, firstAddress: 0)]), (.opened(0), []), (.answered(0), []),
            (.saturated, [.dial(1, firstAddress: 1)]), (.opened(1), []),
            (.replace(minimum: 1, maximum: 3), [.drain(0), .drain(1), .dial(2, firstAddress: 2)]),
            (.opened(2), [.dial(3, firstAddress: 3)]), (.opened(3), []),
        ])
        #expect(plan.live == 2)
    }

    @Test func `Shrinks to the minimum after idleness`() {
        var plan = PoolPlan(minimum: 1, maximum: 3)
        plan.run([
            (.start, [.dial(0, firstAddress: 0)]), (.opened(0), []), (.answered(0), []),
            (.saturated, [.dial(1, firstAddress: 1)]), (.opened(1), []), (.idle(1), [.drain(1)]), (.idle(0), []),
            (.closed(1), []),
        ])
        #expect(plan.live == 1)
    }

    @Test func `Closes when the last is gone`() {
        var plan = PoolPlan(minimum: 2, maximum: 3)
        plan.run([
            (.start, [.dial(0, firstAddress: 0)]), (.opened(0), [.dial(1, firstAddress: 1)]),
            (.close, [.drain(0), .drain(1)]), (.close, []), (.closed(1), []), (.due, []), (.closed(0), [.finished]),
        ])
    }

    @Test func `Closes at once with nothing there`() {
        var plan = PoolPlan(minimum: 1, maximum: 1)
        plan.run([(.start, [.dial(0, firstAddress: 0)]), (.closed(0), [Self.wait]), (.close, [.finished]), (.due, [])])
    }

    /// Never two dials at once, never more than the maximum of live connections, ids never twice.
    @Test(arguments: 0..<200)
    func `Holds its limits`(seed: Int) {
        var random = SplitMix64(seed: UInt64(seed))
        var plan = PoolPlan(minimum: 1 + seed % 3, maximum: 3 + seed % 3)
        // Arrays, because the order of a set differs from process to process, and a seed is to mean one history.
        var dialing: [Int] = []
        var open: [Int] = []
        var seen: Set<Int> = []
        // While a wait lasts, no dial brings more than this: none after a lost connection; after a dial for one more
        // that failed, what there was without it.
        var mostWhileWaiting = Int.max
        var failures = 0
        var event = PoolPlan.Event.start
        for _ in 0..<300 {
            for action in plan.handle(event, using: &random) {
                switch action {
                case .dial(let id, _):
                    #expect(seen.insert(id).inserted)
                    #expect(plan.live <= mostWhileWaiting, "dialled while it was to wait")
                    dialing.append(id)
                case .drain(let id): #expect(open.contains(id) || dialing.contains(id))
                case .wake(let afterNs):
                    #expect(afterNs >= second && afterNs <= 60 * second)
                    mostWhileWaiting = plan.failures > failures ? 0 : plan.live
                case .finished: break
                }
            }
            failures = plan.failures
            #expect(dialing.count <= 1)
            #expect(plan.live <= 3 + seed % 3)
            let anyOpen = open.randomElement(using: &random)
            switch Int.random(in: 0..<9, using: &random) {
            case 0, 1:
                if let id = dialing.popLast() {
                    open.append(id)
                    event = .opened(id)
                }
            case 2:
                if let id = dialing.popLast() { event = .closed(id) }
            case 3: if let anyOpen { event = .answered(anyOpen) }
            case 4: if let anyOpen { event = .retired(anyOpen, isFault: Bool.random(using: &random)) }
            case 5:
                if let anyOpen {
                    open.removeAll { $0 == anyOpen }
                    event = .closed(anyOpen)
                }
            case 6: event = .saturated
            case 7: if let anyOpen { event = .idle(anyOpen) }
            default:
                mostWhileWaiting = .max
                event = .due
            }
        }
    }
}

@Suite struct BackOffTests {
    @Test func `Doubles from one second to sixty`() {
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

    @Test func `Spreads`() {
        var random = SplitMix64(seed: 3)
        var waits: Set<Int64> = []
        for _ in 0..<20 {
            var backOff = BackOff()
            _ = backOff.failed(using: &random)
            waits.insert(backOff.failed(using: &random))
        }
        #expect(waits.count > 15)
    }
}

@Suite struct KeepaliveTests {
    @Test func `Pings after a minute of idleness`() {
        var keepalive = Keepalive(nowNs: 0)
        #expect(keepalive.check(nowNs: 60 * second - 1) == .nothing)
        #expect(keepalive.check(nowNs: 60 * second) == .ping)
        keepalive.heard(nowNs: 61 * second)
        #expect(keepalive.nextDeadlineNs == 121 * second)
    }

    @Test func `Pings after five seconds of silence with something unanswered`() {
        var keepalive = Keepalive(nowNs: 0)
        keepalive.waits(for: 1, nowNs: 20 * second)
        keepalive.waits(for: 2, nowNs: 22 * second)
        #expect(keepalive.check(nowNs: 24 * second) == .nothing)
        #expect(keepalive.check(nowNs: 25 * second) == .ping)
        #expect(keepalive.check(nowNs: 34 * second) == .nothing)
        #expect(keepalive.check(nowNs: 35 * second) == .dead(pingedNs: 25 * second))
    }

    @Test func `Whatever comes shows life`() {
        var keepalive = Keepalive(nowNs: 0)
        keepalive.waits(for: 1, nowNs: 0)
        #expect(keepalive.check(nowNs: 5 * second + 1) == .ping)
        keepalive.heard(nowNs: 14 * second)
        #expect(keepalive.check(nowNs: 18 * second) == .nothing)
        #expect(keepalive.check(nowNs: 19 * second) == .ping)
    }

    @Test func `Nothing unanswered is idle`() {
        var keepalive = Keepalive(nowNs: 0)
        keepalive.waits(for: 1, nowNs: 0)
        keepalive.heard(nowNs: second)
        keepalive.waits(for: 0, nowNs: second)
        #expect(keepalive.nextDeadlineNs == 61 * second)
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

    @Test func `Waiting with all streams taken`() {
        #expect(Self.run(every: 10, busy: 1) { _ in true } == [10, 20, 30, 40])
    }

    /// Answers come in one turn, the core's next requests in another shortly after.
    @Test func `A short while without is no relief`() {
        var saturation = Saturation()
        var said = 0
        for round in 0..<10 as Range<Int64> {
            let began = 1 + round * 30 * Self.ms
            if saturation.turned(isFull: false, beganNs: began, endedNs: began + Self.ms / 10) { said += 1 }
            if saturation.turned(isFull: true, beganNs: began + Self.ms, endedNs: began + Self.ms) { said += 1 }
        }
        #expect(said == 2)
    }

    @Test func `A busy thread needs no more connections`() {
        #expect(Self.run(every: 10, busy: 9) { _ in true }.isEmpty)
    }

    /// A period begins where the one before it ended, however long that one's last turn was.
    @Test func `A long turn is no part of the next period`() {
        var saturation = Saturation()
        let said = [(0, 100), (160, 161), (202, 203)].map { began, ended in
            saturation.turned(isFull: true, beganNs: 1 + began * Self.ms, endedNs: 1 + ended * Self.ms)
        }
        #expect(said == [false, false, true])
    }

    @Test func `Streams to spare`() {
        #expect(Self.run(every: 10, busy: 1) { $0 % 3 == 0 }.isEmpty)
    }
}
