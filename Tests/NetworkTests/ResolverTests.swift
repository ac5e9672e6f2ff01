import EventLoop
import Foundation
import Testing

@testable import Network

/// Names that hang hold up no others. What is looked up is a function of the test's.
@Suite(.serialized) struct ResolverTests {
    /// Lets lookups of names that begin with `slow` wait until `open`; counts them all.
    private final class Gate: @unchecked Sendable {
        private let condition = NSCondition()
        private var isOpen = false
        private var isShut = false
        private var asked: [String: Int] = [:]
        private var inside = 0
        private var most = 0

        func lookUp(_ host: String) -> Resolver.Lookup {
            condition.lock()
            defer { condition.unlock() }
            asked[host, default: 0] += 1
            inside += 1
            most = max(most, inside)
            // A deadline, so that a test that fails ends.
            let deadline = Date(timeIntervalSinceNow: 20)
            while host.hasPrefix("slow") || isShut, !isOpen, condition.wait(until: deadline) {}
            inside -= 1
            if isShut { return .unknown("no name server answers") }
            return host.hasPrefix("no")
                ? .nothing("there is none") : .found([SocketAddress(literal: "127.0.0.9", port: 0)!])
        }

        /// From now on no name is answered.
        func shut() {
            condition.lock()
            isShut = true
            isOpen = false
            condition.unlock()
        }

        func open() {
            condition.lock()
            isOpen = true
            condition.broadcast()
            condition.unlock()
        }

        var counts: [String: Int] {
            condition.lock()
            defer { condition.unlock() }
            return asked
        }
        var mostAtOnce: Int {
            condition.lock()
            defer { condition.unlock() }
            return most
        }
    }

    private final class Scene {
        let gate = Gate()
        let loop: Loop
        let resolver: Resolver
        let answers = Guarded<[String: [Resolver.Answer]]>([:])

        init() throws {
            loop = try Loop()
            resolver = try Resolver(lookUp: { [gate] in gate.lookUp($0) })
        }

        deinit {
            gate.open()
            resolver.stop()
        }

        func ask(_ host: String, port: UInt16 = 443) {
            resolver.resolve(host: host, port: port, loop: loop) { [answers] answer in
                answers.withLock { $0[host, default: []].append(answer) }
            }
        }

        func answer(_ host: String) -> [Resolver.Answer] { answers.withLock { $0[host] ?? [] } }

        func run(seconds: Double = 10, until condition: () -> Bool) -> Bool {
            let deadline = Date(timeIntervalSinceNow: seconds)
            while !condition() {
                if Date() > deadline { return false }
                loop.runOnce(timeoutNs: 5_000_000)
            }
            return true
        }
    }

    @Test func aNameThatHangsHoldsUpNoOther() throws {
        let scene = try Scene()
        scene.ask("slow.example")
        for number in 0..<50 { scene.ask("quick\(number).example") }
        #expect(scene.run { (0..<50).allSatisfy { scene.answer("quick\($0).example").count == 1 } })
        #expect(scene.answer("slow.example").isEmpty)
        #expect(scene.gate.counts.values.allSatisfy { $0 == 1 })
    }

    @Test func aNameIsLookedUpOnceHoweverManyWaitForIt() throws {
        let scene = try Scene()
        for _ in 0..<100 { scene.ask("slow.example", port: 5) }
        scene.loop.runOnce(timeoutNs: 10_000_000)
        scene.gate.open()
        #expect(scene.run { scene.answer("slow.example").count == 100 })
        #expect(scene.gate.counts == ["slow.example": 1])
        let addresses = try scene.answer("slow.example")[0].get()
        #expect(addresses == [SocketAddress(literal: "127.0.0.9", port: 5)!])
    }

    /// More names than threads: they wait their turn, and get it.
    @Test func namesBeyondTheThreadsWaitTheirTurn() throws {
        let scene = try Scene()
        for number in 0..<(Resolver.threadLimit + 5) { scene.ask("slow\(number).example") }
        #expect(scene.run { scene.gate.counts.count == Resolver.unansweredLimit })
        scene.ask("quick.example")
        scene.loop.runOnce(timeoutNs: 50_000_000)
        #expect(scene.answer("quick.example").isEmpty)
        scene.gate.open()
        #expect(scene.run { scene.answers.withLock { $0.count } == Resolver.threadLimit + 6 })
        #expect(scene.gate.mostAtOnce <= Resolver.threadLimit)
    }

    /// However many names hang, one that was answered before is looked up at once.
    @Test func namesThatHangHoldUpNoneThatWasAnswered() throws {
        let scene = try Scene()
        scene.ask("quick.example")
        #expect(scene.run { scene.answer("quick.example").count == 1 })
        for number in 0..<200 { scene.ask("slow\(number).example") }
        #expect(scene.run { scene.gate.counts.count == Resolver.unansweredLimit + 1 })
        for round in 2..<10 {
            scene.ask("quick.example")
            #expect(scene.run { scene.answer("quick.example").count == round })
        }
    }

    /// Those that hung once leave some threads for new ones.
    @Test func namesThatHungLeaveThreadsForNewOnes() throws {
        let scene = try Scene()
        for number in 0..<Resolver.unansweredLimit { scene.ask("slow\(number).example") }
        let hung = LoopTime.read().monotonicNs + Resolver.slowNs
        while LoopTime.read().monotonicNs < hung { scene.loop.runOnce(timeoutNs: 100_000_000) }
        scene.gate.open()
        #expect(scene.run { scene.answers.withLock { $0.count } == Resolver.unansweredLimit })
        scene.gate.shut()
        let before = scene.gate.counts
        for number in 0..<Resolver.unansweredLimit { scene.ask("slow\(number).example") }
        #expect(scene.run { scene.gate.counts.count { $0.value > before[$0.key, default: 0] } == Resolver.slowLimit })
        scene.ask("new.example")
        #expect(scene.run { scene.gate.counts["new.example"] == 1 })
    }

    /// Name servers that fall silent take nothing away that was known; a name that is gone is gone.
    @Test func theLastAddressesStandWhereNameServersAreSilent() throws {
        let scene = try Scene()
        scene.ask("quick.example")
        scene.ask("none.example")
        #expect(scene.run { scene.answer("quick.example").count == 1 && scene.answer("none.example").count == 1 })
        #expect(throws: ChannelEnd.self) { try scene.answer("none.example")[0].get() }
        scene.gate.shut()
        scene.ask("quick.example", port: 7)
        #expect(scene.run { scene.gate.counts["quick.example"] == 2 })
        let hung = LoopTime.read().monotonicNs + Resolver.slowNs
        while LoopTime.read().monotonicNs < hung { scene.loop.runOnce(timeoutNs: 100_000_000) }
        scene.gate.open()
        #expect(scene.run { scene.answer("quick.example").count == 2 })
        let last = [SocketAddress(literal: "127.0.0.9", port: 7)!]
        #expect(try scene.answer("quick.example")[1].get() == last)
        // Slow the last time: now it is not waited for.
        scene.gate.shut()
        scene.ask("quick.example", port: 7)
        #expect(scene.run(seconds: 2) { scene.answer("quick.example").count == 3 })
        #expect(try scene.answer("quick.example")[2].get() == last)
        #expect(scene.run { scene.gate.counts["quick.example"] == 3 })
        scene.ask("new.example")
        scene.gate.open()
        #expect(scene.run { scene.answer("new.example").count == 1 })
        #expect(throws: ChannelEnd.self) { try scene.answer("new.example")[0].get() }
    }

    /// When all of them hang, whoever comes is told at once what is wrong.
    @Test func namesBeyondThreadsThatHangFailAtOnce() throws {
        let scene = try Scene()
        // Answered before, they may take all threads.
        for number in 0..<Resolver.threadLimit { scene.ask("quick\(number).example") }
        #expect(scene.run { scene.answers.withLock { $0.count } == Resolver.threadLimit })
        scene.gate.shut()
        for number in 0..<Resolver.threadLimit { scene.ask("quick\(number).example") }
        #expect(scene.run { scene.gate.mostAtOnce == Resolver.threadLimit })
        let hung = LoopTime.read().monotonicNs + Resolver.hungNs
        while LoopTime.read().monotonicNs < hung { scene.loop.runOnce(timeoutNs: 100_000_000) }
        scene.ask("quick.example")
        #expect(scene.run { scene.answer("quick.example").count == 1 })
        guard case .failure(let end)? = scene.answer("quick.example").first else {
            Issue.record("it was looked up")
            return
        }
        #expect(end.kind == .unresolved && end.text.contains("32 other names") && end.text.contains("quick.example"))
    }

    @Test func tooManyNamesAndTooManyWaitersFailAtOnce() throws {
        let scene = try Scene()
        for number in 0..<(Resolver.unansweredLimit + Resolver.queueLimit) { scene.ask("slow\(number).example") }
        scene.ask("last.example")
        #expect(scene.run { scene.answer("last.example").count == 1 })
        #expect(throws: ChannelEnd.self) { try scene.answer("last.example")[0].get() }
        let left = Resolver.waiterLimit - Resolver.unansweredLimit - Resolver.queueLimit
        for _ in 0...left { scene.ask("slow0.example") }
        #expect(scene.run { scene.answer("slow0.example").count == 1 })
        #expect(throws: ChannelEnd.self) { try scene.answer("slow0.example")[0].get() }
    }

    /// The deadline of a dial includes its lookup.
    @Test func aDialOfANameThatHangsEndsInTime() throws {
        let scene = try Scene()
        let dialer = Dialer(loop: scene.loop, resolver: scene.resolver)
        var ends: [String: ChannelEnd] = [:]
        for host in ["slow.example", "quick.example"] {
            dialer.dial(DialTarget(host: host, port: 1), timeoutNs: 300_000_000) { result in
                if case .failure(let end) = result { ends[host] = end }
            }
        }
        #expect(scene.run { ends.count == 2 })
        #expect(ends["slow.example"]?.kind == .unresolved)
        #expect(ends["slow.example"]?.text.contains("in time") == true)
        #expect(ends["quick.example"]?.kind == .unreachable)
    }
}
