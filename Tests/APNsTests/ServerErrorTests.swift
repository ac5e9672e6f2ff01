import Delivery
import Testing

@testable import APNs

/// Tests of connections that answer only 500 and 503.
@Suite(.serialized) struct ServerErrorTests {
    private func errs(_ peer: ServerPeer, _ stream: Int32) {
        peer.respond(stream, 503, #"{"reason":"ServiceUnavailable"}"#)
    }

    /// The connection is last in the order, which keeps requests off it even before it is replaced.
    @Test func `A connection with server errors is replaced, and the other one stays`() throws {
        let world = try World.connected(streams: 4, connections: 2...2) { world in
            world.configuration.errorSpanNs = 1_000_000_000
            world.server.onRequest = { if $0.number == 0 { self.errs($0, $1.stream) } else { $0.respond($1.stream) } }
        }
        world.run("both connections") { world.capacity >= 8 }
        // The requests go to the first connection one at a time, until it has returned five errors.
        for number in 0..<12 as Range<UInt32> { world.complete(number..<(number + 1), status: number < 5 ? 503 : 200) }
        #expect(world.server.peers.map(\.arrived.count) == [5, 7])
        #expect(!world.noted("replacing"), "The time span of the errors is too short")
        world.runFor(seconds: 1)
        world.complete(12..<13, status: 200)
        world.run("replaced") { world.server.peers.count == 3 && world.server.peers[0].isClosed }
        #expect(!world.server.peers[1].isClosed)
        #expect(world.noted("replacing", "last 5 answers were server errors (5xx, or without a reason), while other "))
    }

    @Test func `A connection with one valid answer in five is not replaced`() throws {
        let world = try World.connected { world in
            world.configuration.errorSpanNs = 0
            world.server.onRequest = { peer, request in
                if !peer.arrived.count.isMultiple(of: 5) { return self.errs(peer, request.stream) }
                peer.respond(request.stream, 400, #"{"reason":"BadDeviceToken"}"#)
            }
        }
        for number in 0..<30 as Range<UInt32> { world.complete(number..<(number + 1)) }
        #expect(world.server.peers.count == 1)
    }
}
