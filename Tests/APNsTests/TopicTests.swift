import Delivery
import EventLoop
import HTTP2
import PushRecords
import Testing

@testable import APNs

/// TopicDisallowed: Apple knows a new bundle id on new connections only.
@Suite(.serialized) struct TopicTests {
    private static let refusal = #"{"reason":"TopicDisallowed"}"#

    @Test func `What old connections refuse goes over new ones`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(4)] }
        world.configuration.minimumConnections = 2
        world.configuration.maximumConnections = 2
        world.configuration.topicAgeNs = 0
        var held: [(ServerPeer, Int32)] = []
        world.server.onRequest = { peer, request in
            if peer.number < 2 { held.append((peer, request.stream)) } else { peer.respond(request.stream) }
        }
        try world.connect()
        world.run("both") { world.capacity >= 8 }
        world.send(0..<8)
        world.run("eight") { held.count == 8 }
        // One refusal is enough; the others are of connections that are not the newest any more.
        for (peer, stream) in held { peer.respond(stream, 400, Self.refusal) }
        world.run("refused") { world.completions.count == 8 }
        #expect(world.completions.allSatisfy { $0.reason == .topicDisallowed && $0.carriedOlderToken })
        #expect(!world.capacities.contains(0), "\(world.capacities)")
        for number in 0..<8 as Range<UInt32> { world.forgetCompletion(number) }
        world.complete(0..<8)
        #expect(world.completions.allSatisfy { $0.status == 200 })
        world.run("the old ones go") { world.server.peers[0].isClosed && world.server.peers[1].isClosed }
        #expect(world.server.peers.count == 4)
    }

    @Test func `A topic that stays refused asks for no more connections`() throws {
        let world = try World()
        world.configuration.topicAgeNs = 0
        world.server.onRequest = { $0.respond($1.stream, 400, Self.refusal) }
        try world.connect()
        world.complete(0..<1)
        #expect(world.completionOf[0]?.carriedOlderToken == true)
        for number in 1..<20 as Range<UInt32> {
            world.complete(number..<(number + 1))
            #expect(world.completionOf[number]?.carriedOlderToken == false)
        }
        #expect(world.server.peers.count == 2)
    }

    @Test func `Another pause later they are made anew once more`() throws {
        let world = try World()
        world.configuration.topicAgeNs = 0
        world.configuration.topicPauseNs = 0
        world.server.onRequest = { $0.respond($1.stream, 400, Self.refusal) }
        try world.connect()
        for number in 0..<3 as Range<UInt32> {
            world.complete(number..<(number + 1))
            #expect(world.completionOf[number]?.carriedOlderToken == true)
        }
        world.run("dialled") { world.server.peers.count == 4 }
    }

    /// What was true a minute ago is true now.
    @Test func `A young connection is believed`() throws {
        let world = try World()
        world.server.onRequest = { $0.respond($1.stream, 400, Self.refusal) }
        try world.connect()
        world.complete(0..<1)
        #expect(world.completionOf[0]?.carriedOlderToken == false)
        world.complete(1..<2)
        #expect(world.server.peers.count == 1)
    }
}
