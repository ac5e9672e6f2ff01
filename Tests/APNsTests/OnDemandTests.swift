@testable import APNs
import Delivery
import HTTP2
import TLS
import Testing

/// Tests of `connections.min: 0`: a connection is dialed when there is a request to send.
@Suite(.serialized) struct OnDemandTests {
    private func world(over wire: Wire = .memory) throws -> World {
        let world = try World(over: wire)
        world.configuration.connections.minimum = 0
        return world
    }

    @Test(arguments: Wire.allCases)
    func `The first request dials, and an unused connection closes`(wire: Wire) throws {
        let world = try world(over: wire)
        world.configuration.connections.idleNs = 100_000_000
        world.server.onRequest = { $0.respond($1.stream) }
        try world.start()
        world.run("capacity without a connection") { world.capacity == 128 }
        #expect(world.server.peers.isEmpty)
        world.complete(0..<100)
        #expect(world.completions.allSatisfy { $0.status == 200 })
        #expect(world.server.peers.count == 1)
        world.run("idle connection closed") { world.capacity == 128 }
        world.complete(100..<101, status: 200)
        #expect(world.server.peers.count == 2)
        // The app always had capacity and was always reachable.
        #expect(!world.capacities.contains(0))
        #expect(world.reachable == [true])
        world.close()
    }

    @Test func `An untrusted server is dialed until it is trusted, and gets no request`() throws {
        let world = try world(over: .tls)
        let right = world.configuration
        let stranger = try CertificateAuthority(commonName: "someone else")
        world.configuration.connections.tls = try ClientContext(trust: .pem(stranger.certificatePEM))
        try world.start()
        world.run("capacity") { world.capacity == 128 }
        world.complete(0..<3)
        #expect(world.completions.allSatisfy { $0.kind == .notProcessed && $0.unprocessed == .neverSent })
        #expect(world.completions.allSatisfy { $0.sentAtMs == 0 } && world.reachable == [false])
        world.run("redialled without waiting requests") { world.notes(of: "connectFailed") >= 3 }
        guard case .connectFailed("127.0.0.1", let reason, 20...40) = world.notes[1] else {
            Issue.record("\(world.notes)")
            return
        }
        #expect(reason.contains("127.0.0.1") && world.capacity == 0)
        world.server.onRequest = { $0.respond($1.stream) }
        world.transport.replace(configuration: right, token: try World.providerToken())
        world.run("connected") { world.reachable == [false, true] }
        world.complete(3..<4, status: 200)
        world.close()
    }

    /// Unanswered requests on a draining connection do not reduce the capacity of the next one.
    @Test(arguments: [0, 1]) func `While one connection drains the next one is used`(minimum: Int) throws {
        let world = try World()
        world.configuration.connections.minimum = minimum
        world.configuration.connections.maximum = 1
        world.server.hold(firstPeers: 1)
        try world.connect()
        world.send(0..<1)
        world.run("first request arrived") { world.server.held.count == 1 }
        world.server.release(1)
        world.run("answered") { world.completions.count == 1 }
        world.send(1..<301)
        world.run("requests arrived") { world.server.held.count == 300 }
        let before = world.capacity
        world.server.peers[0].goAway(Int32.max)
        world.run("capacity for more requests") { world.capacity > 300 && world.capacity != before }
        world.send(301..<311)
        world.run("answers on the next connection") { world.completions.count == 11 }
        world.server.release()
        world.run("other completions") { world.completions.count == 311 }
        #expect(world.completions.allSatisfy { $0.status == 200 })
    }
}
