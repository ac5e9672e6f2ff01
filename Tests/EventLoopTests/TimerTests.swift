import Bytes
@testable import EventLoop
import Testing

@Suite struct TimersTests {
    @Test func `A timer that fired or was cancelled is not armed`() {
        var timers = Timers()
        var fired = 0
        let first = LoopTimer { fired += 1 }
        timers.arm(first, deadlineNs: 1)
        drain(&timers, now: 1)
        let second = LoopTimer { fired += 10 }
        timers.arm(second, deadlineNs: 2)
        for timer in [first, second, second] { timers.disarm(timer) }
        #expect(timers.nextDeadlineNs == nil)
        drain(&timers, now: 5)
        #expect(fired == 1)
    }

    @Test func `A timer armed while timers fire waits for the next turn`() {
        var timers = Timers()
        let mark = timers.nextSequence
        timers.arm(LoopTimer {}, deadlineNs: 0)
        let bodies = [mark, mark + 1].map { timers.popDue(nowNs: 10, armedBefore: $0) }
        #expect(bodies.map { $0 != nil } == [false, true])
    }

    @Test(arguments: 0..<50 as Range<UInt64>) func `Timers fire in the order of a sorted list`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var timers = Timers()
        var model: [(deadline: Int64, order: Int, timer: LoopTimer)] = []
        var fired: [Int] = []
        var expected: [Int] = []
        for step in 0..<400 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5:
                let deadline = Int64.random(in: 0..<1000, using: &random)
                let timer = LoopTimer { fired.append(step) }
                timers.arm(timer, deadlineNs: deadline)
                model.append((deadline, step, timer))
            case 5..<7 where !model.isEmpty:
                let victim = model.remove(at: Int.random(in: model.indices, using: &random))
                timers.disarm(victim.timer)
            default:
                let now = Int64.random(in: 0..<1000, using: &random)
                drain(&timers, now: now)
                let due = model.filter { $0.deadline <= now }
                expected += due.sorted { ($0.deadline, $0.order) < ($1.deadline, $1.order) }.map(\.order)
                model.removeAll { $0.deadline <= now }
            }
            #expect(timers.nextDeadlineNs == model.map(\.deadline).min())
        }
        #expect(fired == expected, "seed \(seed)")
    }

    private func drain(_ timers: inout Timers, now: Int64) {
        while let body = timers.popDue(nowNs: now, armedBefore: .max) { body() }
    }
}

@Suite struct LoopTimerTests {
    @Test func `Timers fire in order and never early`() throws {
        let loop = try Loop()
        var fired: [Int] = []
        let start = LoopTime.read().monotonicNs
        var firedNs: Int64 = 0
        loop.schedule(afterNs: 20_000_000) {
            fired.append(2)
            firedNs = LoopTime.read().monotonicNs
            loop.stop()
        }
        loop.schedule(afterNs: 5_000_000) { fired.append(1) }
        loop.run()
        #expect(fired == [1, 2])
        #expect(firedNs - start >= 20_000_000)
    }

    @Test func `Timers become due by the loop's clock`() throws {
        var now = LoopTime(monotonicNs: 1_000, wallMs: 7)
        let loop = try Loop { now }
        #expect(loop.now == now && loop.timers.nextDeadlineNs == nil)
        var fired = 0
        loop.schedule(afterNs: 3_600_000_000_000) { fired += 1 }
        #expect(loop.timers.nextDeadlineNs == 3_600_000_001_000)
        now.monotonicNs = 3_600_000_000_999
        loop.runOnce()
        #expect(fired == 0 && loop.now == now)
        now.monotonicNs += 1
        #expect(loop.clock() == now && loop.now != now)
        loop.runOnce()
        #expect(fired == 1 && loop.now == now && loop.timers.nextDeadlineNs == nil)
    }

    @Test func `A timer with zero delay fires in the next turn, not in the current one`() throws {
        let loop = try Loop()
        var fired = 0
        loop.schedule(afterNs: 0) {
            fired += 1
            loop.schedule(afterNs: 0) { fired += 1 }
        }
        loop.runOnce()
        #expect(fired == 1)
        loop.runOnce()
        #expect(fired == 2)
    }

    @Test func `An alarm can be moved, cleared and set again`() throws {
        let loop = try Loop()
        var rings = 0
        let alarm = Alarm(loop: loop) { rings += 1 }
        alarm.set(afterNs: 3_600_000_000_000)
        alarm.set(afterNs: 0)
        loop.runOnce(timeoutNs: 1_000_000_000)
        #expect(rings == 1)
        #expect(loop.timers.nextDeadlineNs == nil)
        alarm.set(afterNs: 0)
        #expect(loop.timers.nextDeadlineNs != nil)
        alarm.clear()
        loop.runOnce()
        #expect(rings == 1)
        alarm.set(atNs: loop.now.monotonicNs)
        loop.runOnce(timeoutNs: 1_000_000_000)
        #expect(rings == 2)
    }

    @Test func `A released alarm does not fire`() throws {
        let loop = try Loop()
        var rings = 0
        var alarm: Alarm? = Alarm(loop: loop) { rings += 1 }
        alarm?.set(afterNs: 0)
        alarm = nil
        loop.runOnce()
        #expect(rings == 0)
    }
}
