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

    @Test func `A name that hangs holds up no other`() throws {
        let scene = try Scene()
        scene.ask("slow.example")
        for number in 0..<50 { scene.ask("quick\(number).example") }
        #expect(scene.run { (0..<50).allSatisfy { scene.answer("quick\($0).example").count == 1 } })
        #expect(scene.answer("slow.example").isEmpty)
        #expect(scene.gate.counts.values.allSatisfy { $0 == 1 })
    }

    @Test func `A name is looked up once however many wait for it`() throws {
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
    @Test func `Names beyond the threads wait their turn`() throws {
        let scene = try Scene()
        for number in 0..<(Resolver.threadLimit + 5) { scene.ask("slow\(number).example") }
        #expect(scene.run { scene.gate.counts.count == Resolver.threadLimit })
        scene.ask("quick.example")
        scene.loop.runOnce(timeoutNs: 50_000_000)
        #expect(scene.answer("quick.example").isEmpty)
        scene.gate.open()
        #expect(scene.run { scene.answers.withLock { $0.count } == Resolver.threadLimit + 6 })
        #expect(scene.gate.mostAtOnce <= Resolver.threadLimit)
    }

    /// Name servers that fall silent take nothing away that was known; a name that is gone is gone.
    @Test func `The last addresses stand where name servers are silent`() throws {
        let scene = try Scene()
        scene.ask("quick.example")
        scene.ask("none.example")
        #expect(scene.run { scene.answer("quick.example").count == 1 && scene.answer("none.example").count == 1 })
        #expect(throws: ChannelEnd.self) { try scene.answer("none.example")[0].get() }
        scene.gate.shut()
        scene.ask("quick.example", port: 7)
        #expect(scene.run { scene.gate.counts["quick.example"] == 2 })
        scene.gate.open()
        #expect(scene.run { scene.answer("quick.example").count == 2 })
        let last = [SocketAddress(literal: "127.0.0.9", port: 7)!]
        #expect(try scene.answer("quick.example")[1].get() == last)
        scene.gate.shut()
        scene.ask("new.example")
        scene.gate.open()
        #expect(scene.run { scene.answer("new.example").count == 1 })
        #expect(throws: ChannelEnd.self) { try scene.answer("new.example")[0].get() }
    }

    @Test func `whoever comes when too many wait fails at once`() throws {
        let scene = try Scene()
        for _ in 0...Resolver.waiterLimit { scene.ask("slow.example") }
        #expect(scene.run { scene.answer("slow.example").count == 1 })
        #expect(throws: ChannelEnd.self) { try scene.answer("slow.example")[0].get() }
    }

    /// The deadline of a dial includes its lookup.
    @Test func `A dial of a name that hangs ends in time`() throws {
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
