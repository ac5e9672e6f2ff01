import EventLoop
import Foundation
import TestSupport
import Testing

@testable import Network

/// Name resolution with a lookup function of the test.
@Suite struct ResolverTests {
    /// A resolver and a loop. Lookups of names that begin with `slow` block until `open`.
    private final class Scene {
        let loop = try! Loop()
        let resolver: Resolver
        private let gate = DispatchGroup()
        private var isOpen = false
        let isSilent = Guarded(false)
        let lookups = Guarded<[String: Int]>([:])
        let answers = Guarded<[String: [Resolver.Answer]]>([:])

        init() {
            gate.enter()
            resolver = Resolver { [gate, isSilent, lookups] host in
                lookups.withLock { $0[host, default: 0] += 1 }
                if host.hasPrefix("slow") { gate.wait() }
                if isSilent.withLock({ $0 }) { return .unknown("no name server answers") }
                return host.hasPrefix("no")
                    ? .nothing("there is none") : .found([SocketAddress(literal: "127.0.0.9", port: 0)!])
            }
        }

        deinit { open() }

        func open() {
            if !isOpen { gate.leave() }
            isOpen = true
        }

        func ask(_ host: String, port: UInt16 = 443) {
            resolver.resolve(host: host, port: port, loop: loop) { [answers] answer in
                answers.withLock { $0[host, default: []].append(answer) }
            }
        }

        func answer(_ host: String) -> [Resolver.Answer] { answers.withLock { $0[host] ?? [] } }

        func run(until condition: () -> Bool) -> Bool {
            waitUntil(everyMs: 0) {
                loop.runOnce(timeoutNs: 5_000_000)
                return condition()
            }
        }
    }

    @Test func `A slow lookup delays no other name and is shared by all its callers`() throws {
        let scene = Scene()
        for _ in 0..<100 { scene.ask("slow.example", port: 5) }
        for number in 0..<50 { scene.ask("quick\(number).example") }
        #expect(scene.run { (0..<50).allSatisfy { scene.answer("quick\($0).example").count == 1 } })
        #expect(scene.answer("slow.example").isEmpty)
        scene.open()
        #expect(scene.run { scene.answer("slow.example").count == 100 })
        #expect(scene.lookups.withLock { $0["slow.example"] } == 1)
        #expect(try scene.answer("slow.example")[0].get() == [SocketAddress(literal: "127.0.0.9", port: 5)!])
    }

    @Test func `If no name server answers, the last addresses of a name are used`() throws {
        let scene = Scene()
        for host in ["known.example", "none.example"] {
            scene.ask(host)
            #expect(scene.run { scene.answer(host).count == 1 })
        }
        #expect(throws: ChannelEnd.self) { try scene.answer("none.example")[0].get() }
        scene.isSilent.withLock { $0 = true }
        for host in ["known.example", "new.example"] { scene.ask(host, port: 7) }
        #expect(scene.run { scene.answer("known.example").count == 2 && scene.answer("new.example").count == 1 })
        #expect(try scene.answer("known.example")[1].get() == [SocketAddress(literal: "127.0.0.9", port: 7)!])
        #expect(throws: ChannelEnd.self) { try scene.answer("new.example")[0].get() }
    }

    @Test func `The timeout of a dial includes the name lookup`() throws {
        let scene = Scene()
        let dialer = Dialer(loop: scene.loop, resolver: scene.resolver)
        var ends: [String: ChannelEnd] = [:]
        for host in ["slow.example", "quick.example"] {
            dialer.dial(DialTarget(host: host, port: 1), timeoutNs: 300_000_000) { result in
                if case .failure(let end) = result { ends[host] = end }
            }
        }
        #expect(scene.run { ends.count == 2 })
        #expect(ends["slow.example"]?.kind == .failed)
        #expect(ends["slow.example"]?.text.contains("timed out") == true)
        #expect(ends["quick.example"]?.kind == .failed)
    }
}
