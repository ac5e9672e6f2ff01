@testable import APNs
import Delivery
import EventLoop
import HTTP2
import Testing

/// Tests of the quarantine connection for suspects.
@Suite(.serialized) struct QuarantineTests {
    @Test func `The quarantine connection takes one suspect, then twice as many after each answer`() throws {
        let world = try World.connected { world in
            world.server.hold()
            let hold = world.server.onRequest
            world.server.onRequest = { if $0.number == 0 { $0.respond($1.stream) } else { hold($0, $1) } }
        }
        #expect(world.server.peers.count == 1, "There must be no quarantine connection without a suspect")
        world.sendSuspects(10_000..<10_020)
        for width in [1, 2, 4, 8] {
            world.run("\(width) at once") { world.server.held.count == width }
            world.runFor(seconds: 0.02)
            #expect(world.server.held.count == width)
            world.server.release(1)
        }
        // Other requests are not delayed meanwhile, and have the full capacity.
        world.send(0..<UInt32(world.capacity))
        world.run("other requests") { world.server.peers[0].arrived.count == world.capacity }
        #expect(world.server.peers.count == 2)
        // The numbers of suspects are 10,000 and above.
        #expect(world.server.peers[1].arrived.allSatisfy { UInt32($0.token, radix: 16)! >= 10_000 })
        world.run("all suspects") {
            world.server.release()
            return world.completions.count == 20 + world.capacity
        }
    }

    /// The culprit affects other suspects at most once. After that, each is sent alone.
    @Test func `Suspects that were on a lost quarantine connection are sent alone`() throws {
        let world = try World()
        let poison: UInt32 = 10_006
        world.server.onRequest = { [loop = world.loop] peer, request in
            // While the culprit is on the connection, no request is answered. Then the connection is lost.
            func isPoisoned() -> Bool { peer.arrived.contains { $0.token == World.token(poison) } }
            if request.token == World.token(poison) {
                loop.schedule(afterNs: 20_000_000) { peer.channel.reset() }
            } else {
                loop.schedule(afterNs: 2_000_000) { if !isPoisoned() { peer.respond(request.stream) } }
            }
        }
        try world.connect()
        world.sendSuspects(10_000..<10_040)
        world.send(0..<10)
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
            return world.completions.count { $0.status == 200 } == 49 && poisonTries == 3
        }
        #expect(deaths[poison] == 3)
        #expect(deaths.count > 1)
        for (slot, count) in deaths where slot != poison { #expect(count == 1 && slot >= 10_000, "\(slot)") }
        #expect(!world.capacities.contains(0), "Ordinary connections must keep their capacity")
    }

    @Test func `The quarantine connection closes when it is idle and is dialed again`() throws {
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
}
