import Bytes
import Foundation
import Testing

@testable import APNs

private let second: Int64 = 1_000_000_000

/// The actions of a connection plan after each event, as text: `EVENT > ACTION, ACTION; EVENT; …`. `is` checks the
/// plan's state.
struct PlanTrace: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var steps: [String] = []

    /// Parses a table of trace names, each followed by its indented steps.
    static func table(_ rows: String) -> [Self] {
        var found: [Self] = []
        for line in rows.split(separator: "\n") {
            if line.hasPrefix(" ") {
                found[found.count - 1].steps += line.split(separator: ";").map {
                    $0.trimmingCharacters(in: .whitespaces)
                }
            } else {
                found.append(Self(testDescription: String(line)))
            }
        }
        return found
    }

    /// - Parameters:
    /// - handle: returns the actions after an event, as text.
    /// - isSo: whether the words after `is` are true.
    func check(_ handle: ([Substring]) throws -> [String], isSo: ([Substring]) -> Bool = { _ in false }) rethrows {
        for step in steps {
            let sides = step.components(separatedBy: " > ")
            let words = sides[0].split(separator: " ")
            if words[0] == "is" {
                #expect(isSo(words), "\(testDescription): \(step)")
            } else {
                let actions = try handle(words)
                let expected = sides.dropFirst().flatMap { $0.components(separatedBy: ", ") }
                #expect(actions == expected, "\(testDescription): \(step)")
            }
        }
    }

    /// Returns the text for a wait. Because of the jitter, all waits of a second or more have the same text.
    static func wait(_ ns: Int64) -> String { ns >= second ? "wait" : "too short a wait" }
}

/// `left` is an orderly end such as a GOAWAY, and `failed` one that is the connection's fault. A pool has
/// `MINIMUM-MAXIMUM` connections, or is the `quarantine`.
@Suite struct PoolPlanTests {
    static let traces = PlanTrace.table(
        """
        the minimum number of connections is dialled one after the other
            2-4; due > dial 0; opened 0 > dial 1; opened 1; is live 2; is failures 0
        the next dial waits after a failure, and only a response resets the backoff
            1-1; due > dial 0; closed 0 > wait; due > dial 1; opened 1; closed 1 > wait; due > dial 2
            is failures 2; opened 2; answered 2; is failures 0
        a replacement dials at once, whatever failed before
            1-4; due > dial 0; closed 0 > wait; replace 2 2 > dial 1; opened 1 > dial 2
            replace 1 1 > drain 1, drain 2, dial 3; due; closed 2; opened 3; closed 1; close > drain 3; replace 1 1
            closed 3; is finished; is failures 0
        a pool may sleep after a failure if another connection has answered
            0-2; wanted > dial 0; opened 0; answered 0; crowded > dial 1; opened 1; closed 1 > wait; is failures 1
            idle 0 > drain 0; due; closed 0; is asleep; is failures 0
        a pool without a minimum sleeps until a connection is wanted, and redials after a failure until one answers
            0-4; due; saturated; is asleep; wanted > dial 0; wanted; closed 0 > wait; is awake; due > dial 1; opened 1
            idle 1; answered 1; idle 1 > drain 1; closed 1; is asleep; wanted > dial 2; opened 2; answered 2
            left 2 > drain 2; closed 2; is asleep; wanted > dial 3; opened 3; answered 3; failed 3 > drain 3, wait
            closed 3; due > dial 4; replace 0 1 > drain 4, dial 5; close > drain 5; is awake; is failures 0
        a pool without a minimum does not sleep after a failure, because it has no capacity
            0-2; due; wanted > dial 0; opened 0; answered 0; saturated > dial 1; opened 1; closed 1 > wait
            left 0 > drain 0; closed 0; due > dial 2; is failures 1
        a pool that must prove its gateway has one connection, because no request can wake it
            0-2; wanted > dial 0; opened 0; answered 0; left 0 > drain 0; closed 0; is asleep; proof > dial 1
            opened 1; answered 1; left 1 > drain 1; closed 1; is asleep; wanted > dial 2; opened 2; answered 2
            proof; saturated; left 2 > drain 2, dial 3; is failures 0
        a GOAWAY dials the successor at once, and later events of the old connection change nothing
            1-4; due > dial 0; opened 0; answered 0; left 0 > drain 0, dial 1; left 0; opened 1; closed 0; is live 1
            is failures 0
        an aged connection drains once its successor is ready
            2-4; due > dial 0; opened 0 > dial 1; opened 1; answered 0; answered 1; aged 0 > dial 2; aged 1
            closed 2 > wait; due > dial 3; opened 3 > drain 0, dial 4; opened 4 > drain 1; closed 0; closed 1
            is live 2; is failures 1
        a pool without a minimum also dials the successor of an aged connection again after the backoff
            0-2; wanted > dial 0; opened 0; answered 0; crowded > dial 1; opened 1; closed 1 > wait; due > dial 2
            closed 2 > wait; aged 0 > dial 3; closed 3 > wait; wanted; left 0 > drain 0; closed 0; due > dial 4
            is failures 2
        the next dial waits after an end without an answer
            1-4; due > dial 0; opened 0; left 0 > drain 0, wait; closed 0; due > dial 1; is failures 1
        the next dial waits after an end by a fault
            1-4; due > dial 0; opened 0; answered 0; failed 0 > drain 0, wait; closed 0; due > dial 1; is failures 1
        connections that are lost at the same time count as one failure
            3-3; due > dial 0; opened 0 > dial 1; opened 1 > dial 2; opened 2; answered 0; closed 0 > wait; closed 1
            closed 2; due > dial 3; opened 3 > dial 4; opened 4 > dial 5; is failures 1
        a saturated pool grows by one connection when all have answered
            1-3; due > dial 0; opened 0; saturated; answered 0; saturated > dial 1; saturated; opened 1; saturated
            answered 1; saturated > dial 2; opened 2; answered 2; saturated; is live 3; is failures 0
        a failed dial for an additional connection does not delay a successor
            1-3; due > dial 0; opened 0; answered 0; saturated > dial 1; closed 1 > wait; saturated; due
            saturated > dial 2; closed 2 > wait; left 0 > drain 0, dial 3; closed 0; closed 3 > wait; saturated
            due > dial 4; is failures 1
        a pool does not grow while it waits for a successor
            2-4; due > dial 0; opened 0 > dial 1; opened 1; answered 0; answered 1; closed 1 > wait; saturated
            due > dial 2; opened 2; is live 2; is failures 1
        a replacement dials as many connections as before
            1-3; due > dial 0; opened 0; answered 0; saturated > dial 1; opened 1
            replace 1 3 > drain 0, drain 1, dial 2; opened 2 > dial 3; opened 3; is live 2; is failures 0
        an idle pool shrinks to the minimum
            1-3; due > dial 0; opened 0; answered 0; saturated > dial 1; opened 1; idle 1 > drain 1; idle 0; closed 1
            is live 1; is failures 0
        a pool is closed when its last connection is closed
            2-3; due > dial 0; opened 0 > dial 1; close > drain 0, drain 1; close; closed 1; due; is unfinished
            closed 0; is finished; is failures 0
        a pool without connections closes at once
            1-1; due > dial 0; closed 0 > wait; close; is finished; due; is failures 1
        the quarantine connection is dialled for a waiting suspect, and again only after it was lost
            quarantine; due; wanted > dial 0; wanted; opened 0; wanted; answered 0; closed 0 > wait; due
            wanted > dial 1; opened 1; is failures 1; closed 1 > wait; wanted; due > dial 2; opened 2; closed 2 > wait
            is failures 3
        an unused quarantine connection closes
            quarantine; wanted > dial 0; opened 0; answered 0; idle 0 > drain 0; closed 0; is asleep; wanted > dial 1
            is failures 0
        the quarantine connection gets a successor when a suspect waits
            quarantine; wanted > dial 0; opened 0; answered 0; left 0 > drain 0; closed 0; wanted > dial 1; opened 1
            failed 1 > drain 1, wait; closed 1; due; wanted > dial 2; is failures 1; opened 2; answered 2
            is failures 0; replace 0 1 > drain 2; closed 2; wanted > dial 3; close > drain 3; closed 3; wanted
            is finished
        """)

    @Test(arguments: traces)
    func `Every trace of events leads to its expected actions`(trace: PlanTrace) throws {
        let bounds = trace.steps[0].split(separator: "-").compactMap { Int($0) }
        var plan =
            bounds.isEmpty
            ? PoolPlan(minimum: 0, maximum: 1, isOfQuarantine: true)
            : PoolPlan(minimum: bounds[0], maximum: bounds[1])
        var random = SplitMix64(seed: 1)
        var events = trace
        events.steps.removeFirst()
        try events.check {
            try plan.handle(#require(Self.event($0)), using: &random).map(Self.text)
        } isSo: { words in
            switch words[1] {
            case "asleep": plan.isAsleep && plan.isOnDemand
            case "awake": !plan.isAsleep && !plan.isOnDemand
            case "finished": plan.isFinished
            case "unfinished": !plan.isFinished
            case "live": plan.live == Int(words[2])
            default: plan.failures == Int(words[2])
            }
        }
    }

    private static func event(_ words: [Substring]) -> PoolPlan.Event? {
        let numbers = words.dropFirst().compactMap { Int($0) } + [0, 0]
        return switch words[0] {
        case "wanted": .wanted
        case "opened": .opened(numbers[0])
        case "answered": .answered(numbers[0])
        case "left": .retired(numbers[0], isFault: false)
        case "failed": .retired(numbers[0], isFault: true)
        case "closed": .closed(numbers[0])
        case "saturated": .saturated
        case "crowded": .crowded
        case "proof": .mustProve
        case "idle": .idle(numbers[0])
        case "aged": .aged(numbers[0])
        case "due": .due
        case "replace": .replace(minimum: numbers[0], maximum: numbers[1])
        case "close": .close
        default: nil
        }
    }

    private static func text(_ action: PoolPlan.Action) -> String {
        switch action {
        case .dial(let id): "dial \(id)"
        case .drain(let id): "drain \(id)"
        case .wake(let afterNs): PlanTrace.wait(afterNs)
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

    /// Simulates turns of `busy` ms every `every` ms with all streams in use if `isFull`. Returns the times at which
    /// saturation was reported.
    private static func run(every: Int64, busy: Int64, isFull: (Int64) -> Bool) -> [Int64] {
        var saturation = Saturation()
        return (0..<42).filter { turn in
            let began = 1 + turn * every * ms
            return saturation.turned(isFull: isFull(turn), beganNs: began, endedNs: began + busy * ms)
        }
    }

    @Test func `A pool is saturated if its thread waits most of the time with all streams in use`() {
        #expect(Self.run(every: 10, busy: 1) { _ in true } == [10, 20, 30, 40])
        #expect(Self.run(every: 10, busy: 9) { _ in true }.isEmpty)
        #expect(Self.run(every: 10, busy: 1) { $0 % 3 == 0 }.isEmpty)
    }

    /// Answers arrive in one turn, and the core's next requests in another one shortly after.
    @Test func `A short time with free streams does not reset the saturation`() {
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
