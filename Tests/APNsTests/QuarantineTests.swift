@testable import APNs
import Bytes
import Delivery
import EventLoop
import HTTP2
import Network
import Testing

@Suite struct QuarantinePlanTests {
    static func run(_ plan: inout Quarantine, _ trace: [(Quarantine.Event, [Quarantine.Action])]) {
        var random = SplitMix64(seed: 1)
        for (event, expected) in trace {
            let actions = plan.handle(event, using: &random).map { action in
                if case .wake = action { Quarantine.Action.wake(afterNs: -1) } else { action }
            }
            #expect(actions == expected, "after \(event)")
        }
    }

    static let wait = Quarantine.Action.wake(afterNs: -1)

    @Test func `Is dialled when a suspect waits and again only when it died`() {
        var plan = Quarantine()
        Self.run(
            &plan,
            [
                (.due, []), (.wanted, [.dial(0)]), (.wanted, []), (.opened, []), (.wanted, []), (.answered, []),
                (.closed, [Self.wait]), (.wanted, []), (.due, []), (.wanted, [.dial(1)]), (.opened, []),
            ])
    }

    @Test func `A dial that fails gives back who waits`() {
        var plan = Quarantine()
        Self.run(
            &plan,
            [
                (.wanted, [.dial(0)]), (.closed, [.giveBack, Self.wait]), (.wanted, []), (.due, []),
                (.wanted, [.dial(1)]), (.opened, []), (.closed, [Self.wait]),
            ])
        // A handshake starts nothing over.
        #expect(plan.failures == 2)
    }

    @Test func `Goes when it is unused`() {
        var plan = Quarantine()
        Self.run(
            &plan,
            [
                (.wanted, [.dial(0)]), (.opened, []), (.answered, []), (.idle, [.forget, .drain]), (.wanted, []),
                (.closed, []), (.wanted, [.dial(1)]),
            ])
    }

    @Test func `A go away has a successor when the old one is gone`() {
        var plan = Quarantine()
        Self.run(
            &plan,
            [
                (.wanted, [.dial(0)]), (.opened, []), (.retired(isFault: false), [.drain]), (.wanted, []),
                (.closed, []), (.wanted, [.dial(1)]), (.opened, []), (.retired(isFault: true), [.drain]),
                (.closed, [Self.wait]), (.due, []), (.wanted, [.dial(2)]),
            ])
    }

    @Test func `An answer and a new credential start the back off over`() {
        for event in [Quarantine.Event.answered, .replace] {
            var plan = Quarantine()
            Self.run(
                &plan,
                [
                    (.wanted, [.dial(0)]), (.closed, [.giveBack, Self.wait]), (.due, []), (.wanted, [.dial(1)]),
                    (.opened, []),
                ])
            #expect(plan.failures == 1)
            Self.run(&plan, [(event, event == .replace ? [.drain] : [])])
            #expect(plan.failures == 0)
        }
    }

    @Test func `Replaced and closed`() {
        var plan = Quarantine()
        Self.run(
            &plan,
            [
                (.wanted, [.dial(0)]), (.opened, []), (.replace, [.drain]), (.closed, []), (.wanted, [.dial(1)]),
                (.opened, []), (.close, [.drain]), (.closed, []), (.wanted, []), (.replace, []),
            ])
    }
}

/// Suspects go over a connection of their own.
@Suite(.serialized) struct QuarantineTests {
    /// The peer that suspects came over.
    private func isSuspect(_ request: Arrived) -> Bool { UInt32(request.token, radix: 16)! >= 10_000 }

    @Test func `One then doubled with each answer`() throws {
        let world = try World()
        var held: [(ServerPeer, Int32)] = []
        world.server.onRequest = { peer, request in
            if peer.number == 0 { peer.respond(request.stream) } else { held.append((peer, request.stream)) }
        }
        try world.connect()
        #expect(world.server.peers.count == 1, "no suspect, no quarantine")
        world.sendSuspects(10_000..<10_020)
        for width in [1, 2, 4, 8] {
            world.run("\(width) at once") { held.count == width }
            world.runFor(seconds: 0.02)
            #expect(held.count == width)
            let (peer, stream) = held.removeFirst()
            peer.respond(stream)
        }
        // The others are not held up meanwhile, and have all the room.
        world.send(0..<UInt32(world.capacity))
        world.run("the others") { world.server.peers[0].arrived.count == world.capacity }
        #expect(world.server.peers.count == 2)
        #expect(world.server.peers[1].arrived.allSatisfy(isSuspect))
        world.run("all suspects") {
            for (peer, stream) in held { peer.respond(stream) }
            held = []
            return world.completions.count == 20 + world.capacity
        }
    }

    /// The one under which it dies kills others once at most: after that each goes alone.
    @Test func `Those it died under go alone`() throws {
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

    @Test func `Neighbours on ordinary connections go on while it dies`() throws {
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

    @Test func `Closes after idleness`() throws {
        let world = try World.connected { $0.configuration.quarantineIdleNs = 50_000_000 }
        world.sendSuspects([10_000])
        world.run("completion") { world.completions.count == 1 }
        #expect(world.connections.open == 2 && world.connections.dialing == 0)
        world.run("closed") { world.server.peers[1].isClosed }
        #expect(!world.server.peers[0].isClosed)
        world.run("told") { world.connections.open == 1 && world.connections.draining == 0 }
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
        world.transport.handle(.recall([NotificationID(slot: NotificationSlot(10_002), generation: 3)]))
        world.run("recalled") { world.completionOf[10_002]?.kind == .notProcessed }
        world.close()
        #expect(world.completionOf[10_003]?.kind == .notProcessed)
    }

    @Test func `Close finishes what is in quarantine`() throws {
        let world = try World()
        var held: [(ServerPeer, Int32)] = []
        world.server.onRequest = { held.append(($0, $1.stream)) }
        try world.connect()
        world.sendSuspects([10_000])
        world.run("there") { held.count == 1 }
        world.transport.handle(.close)
        world.runFor(seconds: 0.05)
        #expect(!world.isClosed)
        held[0].0.respond(held[0].1)
        world.run("closed") { world.isClosed }
        #expect(world.completionOf[10_000]?.status == 200)
    }
}
