@testable import Delivery
import PushRecords
import Testing

struct EnvironmentGuardTests {
    static func after(_ answers: [(bad: Bool, count: Int)], isProven: Bool) -> (EnvironmentGuard, [String]) {
        var watch = EnvironmentGuard(isOff: false)
        var changes: [String] = []
        if isProven { watch.answered(isBad: false, isProof: true) }
        for (isBad, count) in answers {
            for _ in 0..<count {
                let wasTripped = watch.isTripped
                watch.answered(isBad: isBad, isProof: false)
                if watch.isTripped != wasTripped { changes.append(wasTripped ? "released" : "tripped") }
            }
        }
        return (watch, changes)
    }

    @Test func `At most 20 requests are in flight until one token was good`() {
        var watch = EnvironmentGuard(isOff: false)
        #expect(watch.limit(of: 1_000) == 20)
        #expect(watch.limit(of: 3) == 3)
        watch.answered(isBad: true, isProof: false)
        #expect(watch.limit(of: 1_000) == 20)
        watch.answered(isBad: false, isProof: true)
        #expect(watch.limit(of: 1_000) == 1_000)
    }

    @Test(
        arguments: [
            ([(true, 19)], false, false), ([(true, 20)], false, true), ([(false, 1), (true, 19)], false, false),
            ([(true, 500)], true, false), ([(true, 501)], true, true), ([(false, 5_000), (true, 500)], true, false),
            ([(false, 5_000), (true, 501)], true, true), ([(true, 300), (false, 800), (true, 300)], true, false),
            ([(true, 400), (false, 400), (true, 400)], true, true),
        ] as [([(Bool, Int)], Bool, Bool)])
    func `The guard trips if all of the first 20 or over half of the last 1,000 tokens are bad`(
        _ answers: [(Bool, Int)], _ isProven: Bool, _ isTripped: Bool
    ) {
        let (watch, _) = Self.after(answers.map { (bad: $0.0, count: $0.1) }, isProven: isProven)
        #expect(watch.isTripped == isTripped)
        if isTripped, isProven { #expect(watch.limit(of: 1_000) == 100) }
        if isTripped { #expect(watch.limit(of: 5) == 1) }
    }

    @Test func `The guard is released when under half of the last 100 tokens are bad, and then counts from zero`() {
        let (half, changes) = Self.after([(true, 501), (false, 50)], isProven: true)
        #expect(half.isTripped)
        #expect(changes == ["tripped"])
        let (less, more) = Self.after([(true, 501), (false, 51), (true, 500)], isProven: true)
        #expect(!less.isTripped)
        #expect(more == ["tripped", "released"])
        #expect(Self.after([(true, 501), (false, 51), (true, 501)], isProven: true).0.isTripped)
    }
}

struct ThrottleTests {
    /// Simulates rounds of answers with all requests in flight each time.
    static func run(_ throttle: inout Throttle, rounds: Int, capacity: Int, failuresIn1000: Int) {
        for _ in 0..<rounds {
            let inFlight = min(throttle.limit, capacity)
            for answer in 0..<inFlight {
                throttle.answered(
                    isFailure: answer * failuresIn1000 / 1_000 != (answer + 1) * failuresIn1000 / 1_000,
                    outstanding: inFlight, capacity: capacity)
            }
        }
    }

    @Test func `The limit is halved in each round in which all fail, down to one`() {
        var throttle = Throttle()
        var limits: [Int] = []
        for _ in 0..<12 {
            Self.run(&throttle, rounds: 1, capacity: 1_000, failuresIn1000: 1_000)
            limits.append(throttle.limit)
        }
        #expect(limits == [500, 250, 125, 62, 31, 15, 7, 3, 1, 1, 1, 1])
    }

    @Test func `The limit grows by a sixty-fourth in each round without a failure, until it has no effect`() {
        var throttle = Throttle()
        Self.run(&throttle, rounds: 10, capacity: 1_000, failuresIn1000: 1_000)
        #expect(throttle.limit == 1)
        Self.run(&throttle, rounds: 4, capacity: 1_000, failuresIn1000: 0)
        #expect(throttle.limit == 1 + 4 * 15)
        Self.run(&throttle, rounds: 62, capacity: 1_000, failuresIn1000: 0)
        #expect(throttle.limit == 991)
        Self.run(&throttle, rounds: 1, capacity: 1_000, failuresIn1000: 0)
        #expect(throttle.limit == .max)
    }

    @Test func `A healthy app is never limited by single failures`() {
        var throttle = Throttle()
        Self.run(&throttle, rounds: 50, capacity: 1_000, failuresIn1000: 10)
        #expect(throttle.limit == .max)
        for answer in 0..<1_000 {
            throttle.answered(isFailure: answer % 100 == 0, outstanding: 1, capacity: 1_000)
            #expect(throttle.limit > 900)
        }
    }

    @Test(arguments: [(1, 1_000, 100, 950), (16, 2, 1_000, 1)])
    func `A failure rate of a tenth reduces the limit by a twentieth, and a small limit decreases further`(
        rounds: Int, capacity: Int, failuresIn1000: Int, limit: Int
    ) {
        var throttle = Throttle()
        Self.run(&throttle, rounds: rounds, capacity: capacity, failuresIn1000: failuresIn1000)
        #expect(throttle.limit == limit)
    }
}

struct RateLimitTests {
    @Test(arguments: [1, 3, 7, 10, 100, 1_000, 33_333, 250_000], [1, 4, 50, 333] as [Int64])
    func `Over ten seconds the rate is exact, however often it is checked`(_ perSecond: Int, _ everyMs: Int64) {
        var limit = RateLimit(perSecond: perSecond)
        var sent = 0
        var nowNs: Int64 = 5
        while nowNs < 10_000_000_000 {
            let count = limit.allowance(nowNs)
            limit.take(count, nowNs)
            sent += count
            #expect(limit.allowance(nowNs) == 0)
            nowNs += everyMs * 1_000_000
        }
        // An allowance that was not used within the burst is lost.
        let burst = perSecond / 20 + 1
        #expect(sent <= perSecond * 10 + burst)
        if everyMs <= 50 { #expect(sent >= perSecond * 10 - burst - perSecond * 10 / 1_000) }
    }

    @Test func `The rate is checked again when the next send is allowed, but not before a minimum pause`() {
        var slow = RateLimit(perSecond: 2)
        slow.take(1, 0)
        #expect(slow.dueNs(0) == 450_000_000)
        #expect(slow.allowance(450_000_000 - 1) == 0)
        #expect(slow.allowance(450_000_000) == 1)
        var fast = RateLimit(perSecond: 100_000)
        fast.take(fast.allowance(0), 0)
        #expect(fast.dueNs(0) == RateLimit.pauseNs)
        #expect(fast.allowance(fast.dueNs(0)) == 500)
    }

    @Test func `Without a rate there is no limit`() { #expect(RateLimit(perSecond: 0).allowance(0) == .max) }
}

struct MachineThrottleTests {
    static func guarded(_ policy: AppRoute.GuardPolicy) -> Rig {
        let (rig, partition) = Rig.ready(
            apps: [ReloadTests.changed(Rig.app) { $0.guardPolicy = policy }], capacity: 100)
        rig.receive(partition, (0..<60).map { "d\($0)" })
        return rig
    }

    @Test
    func `If the first 20 tokens are bad, the guard reports it and allows a tenth until enough tokens are good`() {
        let rig = Self.guarded(.warn)
        #expect(rig.send().count == 20)
        for device in 0..<20 { rig.answer("d\(device)", 400, .badDeviceToken) }
        #expect(rig.machine.takeEvents() == [.guardTripped(AppIndex(0), held: false)])
        expect(rig.machine.appStatuses[0].isGuardTripped, is: true)
        expect(rig.machine.appStatuses[0].concurrency, is: 10)
        #expect(rig.send().count == 10)
        #expect(rig.settle().map(\.outcome) == Array(repeating: .rejected, count: 20))
        for device in 20..<30 { rig.answer("d\(device)") }
        expect(rig.machine.appStatuses[0].concurrency, is: 10)
        rig.send()
        for device in 30..<40 { rig.answer("d\(device)", 410, .unregistered, atMs: 1) }
        rig.send()
        rig.answer("d40")
        #expect(rig.machine.takeEvents() == [.guardReleased(AppIndex(0))])
        expect(rig.machine.appStatuses[0].concurrency, is: 100)
        #expect(rig.send().count == 10)
    }

    @Test func `With environment_guard: hold a tripped guard sends notifications to the tiers`() {
        let rig = Self.guarded(.hold)
        rig.send()
        for device in 0..<20 { rig.answer("d\(device)", 400, .badDeviceToken) }
        rig.send()
        rig.answer("d20", 400, .deviceTokenNotForTopic)
        let kinds = rig.answer("d21", 400, .badTopic).settle().map(\.target)
        #expect(kinds == Array(repeating: .results, count: 20) + [.retry(tier: 0), .retry(tier: 0)])
    }

    @Test func `With environment_guard: off no app is limited or reported`() {
        let rig = Self.guarded(.off)
        #expect(rig.send().count == 60)
        for device in 0..<60 { rig.answer("d\(device)", 400, .badDeviceToken) }
        #expect(rig.machine.takeEvents() == [])
        expect(rig.machine.appStatuses[0].concurrency, is: 100)
    }

    @Test func `A 5xx or a lost connection slows the app down, but 410, 429 and GOAWAY do not`() {
        for ending in ["503", "lost", "410", "429", "back"] {
            let (rig, partition) = Rig.ready(capacity: 20)
            rig.receive(partition, (0..<20).map { "d\($0)" })
            rig.send()
            for device in 0..<20 {
                switch ending {
                case "503": rig.answer("d\(device)", 503, .serviceUnavailable)
                case "lost": rig.doubt("d\(device)")
                case "410": rig.answer("d\(device)", 410, .unregistered, atMs: 1)
                case "429": rig.answer("d\(device)", 429, .tooManyRequests)
                default: rig.giveBack("d\(device)")
                }
            }
            let isSlower = ending == "503" || ending == "lost"
            expect(rig.machine.appStatuses[0].concurrency, is: isSlower ? 10 : 20)
        }
    }

    @Test func `The loss of the only connection does not make the capacity count as zero`() {
        let (rig, partition) = Rig.ready(capacity: 20)
        rig.receive(partition, (0..<20).map { "d\($0)" })
        rig.send()
        rig.machine.setCapacity(AppIndex(0), requests: 0, now: rig.now)
        for device in 0..<20 { rig.doubt("d\(device)") }
        rig.machine.setCapacity(AppIndex(0), requests: 20, now: rig.now)
        #expect(rig.send().count == 10)
    }

    @Test func `rate_limit limits the sends per second, sets a deadline, and can be changed by a reload`() {
        let (rig, partition) = Rig.ready(apps: [ReloadTests.changed(Rig.app) { $0.rateLimit = 100 }])
        rig.receive(partition, (0..<200).map { "d\($0)" })
        #expect(rig.send().count == 6)
        expect(rig.machine.nextDeadlineNs ?? .max <= rig.now.ns + 10_000_000, is: true)
        #expect(rig.wait(ms: 10).send().count == 1)
        _ = rig.machine.replaceApps([Rig.app], now: rig.now)
        #expect(rig.send().count == 193)
    }

    @Test func `After TooManyRequests only the next notification of the device waits a second`() {
        let (rig, partition) = Rig.ready()
        #expect(rig.offer(partition, 0, "a", "a", "b", "c") == ["a", "b", "c"])
        rig.answer("a", 429, .tooManyRequests)
        rig.answer("b", 429, .tooManyRequests)
        rig.answer("c", 503, .shutdown)
        for (offset, device) in ["a", "b", "c", "d"].enumerated() {
            rig.receive(partition, Int64(offset) + 4, device)
        }
        #expect(rig.send() == ["b", "c", "d"], "no notification was queued behind b when it was answered")
        expect(rig.machine.nextDeadlineNs, is: rig.now.ns + 1_000_000_000)
        #expect(rig.wait(ms: 999).send() == [])
        #expect(rig.wait(ms: 1).send() == ["a"])
        #expect(rig.answer("a").send() == ["a"])
        rig.finish("a", "b", "c", "d")
        #expect(rig.isEmpty)
    }

    @Test func `A 429 about provider tokens slows no device down`() {
        let (rig, partition) = Rig.ready()
        rig.offer(partition, 0, "a", "a")
        #expect(rig.answer("a", 429, .tooManyProviderTokenUpdates).send() == ["a"])
        #expect(rig.answer("a").send() == ["a"])
    }
}
