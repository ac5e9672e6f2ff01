@testable import APNs
import Bytes
import Delivery
import EventLoop
import HTTP2
import Network
import Testing

@Suite struct QuarantinePlanTests {
    static let wait = Quarantine.Action.wake(afterNs: -1)

    /// Events and what must follow, waits without their length.
    static let traces: [(what: String, trace: [(Quarantine.Event, [Quarantine.Action])], failures: Int)] = [
        (
            "it is dialled when a suspect waits, and again only when it died",
            [
                (.due, []), (.wanted, [.dial(0)]), (.wanted, []), (.opened, []), (.wanted, []), (.answered, []),
                (.closed, [wait]), (.wanted, []), (.due, []), (.wanted, [.dial(1)]), (.opened, []),
            ], 1
        ),
        (
            "a dial that fails gives back who waits, and a handshake starts no backoff over",
            [
                (.wanted, [.dial(0)]), (.closed, [.giveBack, wait]), (.wanted, []), (.due, []),
                (.wanted, [.dial(1)]), (.opened, []), (.closed, [wait]),
            ], 2
        ),
        (
            "it goes when it is unused",
            [
                (.wanted, [.dial(0)]), (.opened, []), (.answered, []), (.idle, [.forget, .drain]), (.wanted, []),
                (.closed, []), (.wanted, [.dial(1)]),
            ], 0
        ),
        (
            "a GOAWAY has a successor when the old one is gone",
            [
                (.wanted, [.dial(0)]), (.opened, []), (.retired(isFault: false), [.drain]), (.wanted, []),
                (.closed, []), (.wanted, [.dial(1)]), (.opened, []), (.retired(isFault: true), [.drain]),
                (.closed, [wait]), (.due, []), (.wanted, [.dial(2)]),
            ], 1
        ),
        (
            "an answer starts the backoff over",
            [
                (.wanted, [.dial(0)]), (.closed, [.giveBack, wait]), (.due, []), (.wanted, [.dial(1)]), (.opened, []),
                (.answered, []),
            ], 0
        ),
        (
            "a new credential starts the backoff over",
            [
                (.wanted, [.dial(0)]), (.closed, [.giveBack, wait]), (.due, []), (.wanted, [.dial(1)]), (.opened, []),
                (.replace, [.drain]),
            ], 0
        ),
        (
            "it is replaced and closed",
            [
                (.wanted, [.dial(0)]), (.opened, []), (.replace, [.drain]), (.closed, []), (.wanted, [.dial(1)]),
                (.opened, []), (.close, [.drain]), (.closed, []), (.wanted, []), (.replace, []),
            ], 0
        ),
    ]

    @Test(arguments: traces.indices)
    func `Events lead to what each trace says`(index: Int) {
        let (what, trace, failures) = Self.traces[index]
        var plan = Quarantine()
        var random = SplitMix64(seed: 1)
        for (event, expected) in trace {
            let actions = plan.handle(event, using: &random).map { if case .wake = $0 { Self.wait } else { $0 } }
            #expect(actions == expected, "\(what): after \(event)")
        }
        #expect(plan.failures == failures, "\(what)")
    }
}

/// Suspects go over a connection of their own.
@Suite(.serialized) struct QuarantineTests {
    /// The peer that suspects came over.
    private func isSuspect(_ request: Arrived) -> Bool { UInt32(request.token, radix: 16)! >= 10_000 }

    @Test func `The quarantine connection takes one suspect, then twice as many with each answer`() throws {
        let world = try World.connected { world in
            world.server.hold()
            let hold = world.server.onRequest
            world.server.onRequest = { if $0.number == 0 { $0.respond($1.stream) } else { hold($0, $1) } }
        }
        #expect(world.server.peers.count == 1, "no suspect, no quarantine")
        world.sendSuspects(10_000..<10_020)
        for width in [1, 2, 4, 8] {
            world.run("\(width) at once") { world.server.held.count == width }
            world.runFor(seconds: 0.02)
            #expect(world.server.held.count == width)
            world.server.release(1)
        }
        // The others are not held up meanwhile, and have all the room.
        world.send(0..<UInt32(world.capacity))
        world.run("the others") { world.server.peers[0].arrived.count == world.capacity }
        #expect(world.server.peers.count == 2)
        #expect(world.server.peers[1].arrived.allSatisfy(isSuspect))
        world.run("all suspects") {
            world.server.release()
            return world.completions.count == 20 + world.capacity
        }
    }

    /// The one under which it dies kills others once at most: after that each goes alone.
    @Test func `Suspects under which the quarantine connection died go alone`() throws {
        let world = try World()
        let poison: UInt32 = 10_006
        world.server.onRequest = { [loop = world.loop] peer, request in
            // With it on the connection nobody is answered any more, and then all are lost.
            func isPoisoned() -> Bool { peer.arrived.contains { $0.token == World.token(poison) } }
            if request.token == World.token(poison) {
                _ = loop.schedule(afterNs: 20_000_000) { peer.channel.reset() }
            } else {
                _ = loop.schedule(afterNs: 2_000_000) { if !isPoisoned() { peer.respond(request.stream) } }
            }
        }
        try world.connect()
        world.sendSuspects(10_000..<10_040)
        var deaths: [UInt32: Int] = [:]
        var poisonTries = 0
        world.run("all but the poison", seconds: 20) {
            for completion in world.completions where completion.kind == .inDoubt {
                #expect(completion.connectionDied && !completion.connectionWasSilent)
                deaths[completion.id.slot.number, default: 0] += 1
                world.forgetCompletion(completion.id.slot.number)
                if completion.id.slot.number == poison { poisonTries += 1 }
                if completion.id.slot.number != poison || poisonTries < 3 {
                    world.sendSuspects([completion.id.slot.number])
                }
            }
            return world.completions.count { $0.status == 200 } == 39 && poisonTries == 3
        }
        #expect(deaths[poison] == 3)
        #expect(deaths.count > 1)
        for (slot, count) in deaths where slot != poison { #expect(count == 1, "\(slot)") }
    }

    @Test func `Notifications on ordinary connections go on while the quarantine connection dies`() throws {
        let world = try World()
        world.server.onRequest = { peer, request in
            if isSuspect(request) { peer.channel.reset() } else { peer.respond(request.stream) }
        }
        try world.connect()
        var next: UInt32 = 0
        var deaths = 0
        world.sendSuspects([10_000])
        world.run("five deaths") {
            world.send(next..<(next + 1))
            next += 1
            if world.completionOf[10_000] != nil {
                deaths += 1
                world.forgetCompletion(10_000)
                if deaths < 5 { world.sendSuspects([10_000]) }
            }
            return deaths == 5 || next == 10_000
        }
        world.run("all answered") { world.completions.count == Int(next) }
        #expect(deaths == 5)
        #expect(world.completions.allSatisfy { $0.status == 200 })
        #expect(!world.capacities.contains(0))
        #expect(world.server.peers.count { !$0.arrived.contains(where: isSuspect) } == 1)
    }

    @Test func `The quarantine connection closes after idleness and is dialled again`() throws {
        let world = try World.connected { $0.configuration.quarantineIdleNs = 50_000_000 }
        world.sendSuspects([10_000])
        world.run("completion") { world.completions.count == 1 }
        #expect(world.connections.open == 2 && world.connections.dialing == 0)
        world.run("closed") { world.connections.open + world.connections.draining == 1 }
        #expect(world.server.peers[1].isClosed)
        #expect(!world.server.peers[0].isClosed)
        world.sendSuspects([10_001])
        world.run("completion") { world.completions.count == 2 }
        #expect(world.server.peers.count == 3)
    }

    @Test func `Suspects that cannot be sent come back`() throws {
        let world = try World.connected()
        world.server.stopListening()
        world.sendSuspects([10_000, 10_001])
        world.run("given back") { world.completions.count == 2 }
        #expect(world.completions.allSatisfy { $0.kind == .notProcessed && $0.sentAtMs == 0 })
        // While it waits to be dialled again they can be recalled, and are given back at the end.
        world.sendSuspects([10_002])
        world.sendSuspects([10_003])
        world.recall([10_002])
        world.run("recalled") { world.completionOf[10_002]?.kind == .notProcessed }
        world.close()
        #expect(world.completionOf[10_003]?.kind == .notProcessed)
    }

    @Test func `Closing waits for the answers of suspects`() throws {
        let world = try World.connected { $0.server.hold() }
        world.sendSuspects([10_000])
        world.run("there") { world.server.held.count == 1 }
        world.transport.handle(.close)
        world.runFor(seconds: 0.05)
        #expect(!world.isClosed)
        world.server.release()
        world.run("closed") { world.isClosed }
        #expect(world.completionOf[10_000]?.status == 200)
    }
}
