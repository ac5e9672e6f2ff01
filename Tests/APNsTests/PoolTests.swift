import Bytes
import Foundation
import Testing

@testable import APNs

private let second: Int64 = 1_000_000_000

/// What the pool does after each event, written as text: `EVENT > ACTION, ACTION`. `left` is a GOAWAY or its like,
/// `failed` a faulty end that retires a connection.
@Suite struct PoolPlanTests {
    struct Trace: Sendable {
        var name: String
        var minimum: Int
        var maximum: Int
        var steps: [String]
        /// How many connections are live and how many failures are counted at the end.
        var live: Int?
        var failures = 0
    }

    static let traces = [
        Trace(
            name: "the minimum is dialled one after the other", minimum: 2, maximum: 4,
            steps: ["due > dial 0", "opened 0 > dial 1", "opened 1"], live: 2),
        Trace(
            name: "a failure waits, a handshake resets nothing, and a response starts over", minimum: 1, maximum: 1,
            steps: [
                "due > dial 0", "closed 0 > wait", "due > dial 1", "opened 1", "closed 1 > wait", "due > dial 2",
                "is 2 failures", "opened 2", "answered 2",
            ]),
        Trace(
            name: "a replacement dials at once, whatever failed before and whatever is there", minimum: 1, maximum: 4,
            steps: [
                "due > dial 0", "closed 0 > wait", "replace 2 2 > dial 1", "opened 1 > dial 2",
                "replace 1 1 > drain 1, drain 2, dial 3", "due", "closed 2", "opened 3", "closed 1", "close > drain 3",
                "replace 1 1", "closed 3 > finished",
            ]),
        Trace(
            name: "what is answered again after another one failed may sleep, and speaks for no other", minimum: 0,
            maximum: 2,
            steps: [
                "wanted > dial 0", "opened 0", "answered 0", "crowded > dial 1", "opened 1", "wentOn 0",
                "closed 1 > wait", "idle 0", "is awake", "wentOn 0", "is 1 failures", "idle 0 > drain 0", "due",
                "closed 0", "is asleep",
            ]),
        Trace(
            name: "a pool of no minimum sleeps until one is wanted, and tries what failed until it answers", minimum: 0,
            maximum: 4,
            steps: [
                "due", "saturated", "is asleep", "wanted > dial 0", "wanted", "closed 0 > wait", "is awake",
                "due > dial 1", "opened 1", "idle 1", "answered 1", "idle 1 > drain 1", "closed 1", "is asleep",
                "wanted > dial 2", "opened 2", "answered 2", "left 2 > drain 2", "closed 2", "is asleep",
                "wanted > dial 3", "opened 3", "answered 3", "failed 3 > drain 3, wait", "closed 3", "due > dial 4",
                "replace 0 1 > drain 4, dial 5", "close > drain 5", "is awake",
            ]),
        Trace(
            name: "a pool of no minimum that has failed takes nothing, so it does not sleep", minimum: 0, maximum: 2,
            steps: [
                "due", "wanted > dial 0", "opened 0", "answered 0", "saturated > dial 1", "opened 1", "closed 1 > wait",
                "left 0 > drain 0", "closed 0", "due > dial 2",
            ], failures: 1),
        Trace(
            name: "a GOAWAY dials the successor at once, and what follows of the old one changes nothing", minimum: 1,
            maximum: 4,
            steps: [
                "due > dial 0", "opened 0", "answered 0", "left 0 > drain 0, dial 1", "left 0", "opened 1", "closed 0",
            ], live: 1),
        Trace(
            name: "an aged connection goes once its successor is ready", minimum: 2, maximum: 4,
            steps: [
                "due > dial 0", "opened 0 > dial 1", "opened 1", "answered 0", "answered 1", "aged 0 > dial 2",
                "aged 1",
                "closed 2 > wait", "due > dial 3", "opened 3 > drain 0, dial 4", "opened 4 > drain 1", "closed 0",
                "closed 1",
            ], live: 2, failures: 1),
        Trace(
            name: "an end without an answer waits", minimum: 1, maximum: 4,
            steps: ["due > dial 0", "opened 0", "left 0 > drain 0, wait", "closed 0", "due > dial 1"], failures: 1),
        Trace(
            name: "a faulty end waits", minimum: 1, maximum: 4,
            steps: [
                "due > dial 0", "opened 0", "answered 0", "failed 0 > drain 0, wait", "closed 0", "due > dial 1",
            ], failures: 1),
        Trace(
            name: "many lost at once are one failure", minimum: 3, maximum: 3,
            steps: [
                "due > dial 0", "opened 0 > dial 1", "opened 1 > dial 2", "opened 2", "answered 0", "closed 0 > wait",
                "closed 1", "closed 2", "due > dial 3", "opened 3 > dial 4", "opened 4 > dial 5",
            ], failures: 1),
        Trace(
            name: "a pool grows by one when it is saturated and all have answered", minimum: 1, maximum: 3,
            steps: [
                "due > dial 0", "opened 0", "saturated", "answered 0", "saturated > dial 1", "saturated", "opened 1",
                "saturated", "answered 1", "saturated > dial 2", "opened 2", "answered 2", "saturated",
            ], live: 3),
        Trace(
            name: "a dial for one more that fails, as behind a proxy that lets one through, delays no successor",
            minimum: 1, maximum: 3,
            steps: [
                "due > dial 0", "opened 0", "answered 0", "saturated > dial 1", "closed 1 > wait", "saturated", "due",
                "saturated > dial 2", "closed 2 > wait", "left 0 > drain 0, dial 3", "closed 0", "closed 3 > wait",
                "saturated", "due > dial 4",
            ], failures: 1),
        Trace(
            name: "a pool does not grow while a successor is waited for", minimum: 2, maximum: 4,
            steps: [
                "due > dial 0", "opened 0 > dial 1", "opened 1", "answered 0", "answered 1", "closed 1 > wait",
                "saturated", "due > dial 2", "opened 2",
            ], live: 2, failures: 1),
        Trace(
            name: "a replacement has as many connections as before", minimum: 1, maximum: 3,
            steps: [
                "due > dial 0", "opened 0", "answered 0", "saturated > dial 1", "opened 1",
                "replace 1 3 > drain 0, drain 1, dial 2", "opened 2 > dial 3", "opened 3",
            ], live: 2),
        Trace(
            name: "a pool shrinks to the minimum after idleness", minimum: 1, maximum: 3,
            steps: [
                "due > dial 0", "opened 0", "answered 0", "saturated > dial 1", "opened 1", "idle 1 > drain 1",
                "idle 0",
                "closed 1",
            ], live: 1),
        Trace(
            name: "a pool closes when its last connection is gone", minimum: 2, maximum: 3,
            steps: [
                "due > dial 0", "opened 0 > dial 1", "close > drain 0, drain 1", "close", "closed 1", "due",
                "closed 0 > finished",
            ]),
        Trace(
            name: "a pool without connections closes at once", minimum: 1, maximum: 1,
            steps: ["due > dial 0", "closed 0 > wait", "close > finished", "due"], failures: 1),
    ]

    @Test(arguments: traces)
    func `Events lead to what each trace says`(trace: Trace) throws {
        var plan = PoolPlan(minimum: trace.minimum, maximum: trace.maximum)
        var random = SplitMix64(seed: 1)
        for step in trace.steps {
            let sides = step.components(separatedBy: " > ")
            let words = sides[0].split(separator: " ")
            if words[0] == "is" {
                switch words[1] {
                case "asleep": #expect(plan.isAsleep && plan.isOnDemand, "\(trace.name)")
                case "awake": #expect(!plan.isAsleep && !plan.isOnDemand, "\(trace.name)")
                default: #expect(plan.failures == Int(words[1]), "\(trace.name)")
                }
                continue
            }
            let actions = plan.handle(try #require(Self.event(words)), using: &random).map(Self.text)
            #expect(actions == sides.dropFirst().flatMap { $0.components(separatedBy: ", ") }, "\(trace.name): \(step)")
        }
        if let live = trace.live { #expect(plan.live == live, "\(trace.name)") }
        #expect(plan.failures == trace.failures, "\(trace.name)")
    }

    private static func event(_ words: [Substring]) -> PoolPlan.Event? {
        let numbers = words.dropFirst().compactMap { Int($0) } + [0, 0]
        return switch words[0] {
        case "wanted": .wanted
        case "opened": .opened(numbers[0])
        case "answered": .answered(numbers[0])
        case "wentOn": .wentOn(numbers[0])
        case "left": .retired(numbers[0], isFault: false)
        case "failed": .retired(numbers[0], isFault: true)
        case "closed": .closed(numbers[0])
        case "saturated": .saturated
        case "crowded": .crowded
        case "idle": .idle(numbers[0])
        case "aged": .aged(numbers[0])
        case "due": .due
        case "replace": .replace(minimum: numbers[0], maximum: numbers[1])
        case "close": .close
        default: nil
        }
    }

    /// Waits without their jitter: any of a second or more.
    private static func text(_ action: PoolPlan.Action) -> String {
        switch action {
        case .dial(let id): "dial \(id)"
        case .drain(let id): "drain \(id)"
        case .wake(let afterNs): afterNs >= second ? "wait" : "too short a wait"
        case .finished: "finished"
        }
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
