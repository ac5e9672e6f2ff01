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
        world.server.hold(firstPeers: 2)
        try world.connect()
        world.run("both") { world.capacity >= 8 }
        world.send(0..<8)
        world.run("eight") { world.server.held.count == 8 }
        // One refusal is enough; the others are of connections that are not the newest any more.
        world.server.release(.max, 400, Self.refusal)
        world.run("refused") { world.completions.count == 8 }
        #expect(world.completions.allSatisfy { $0.reason == .topicDisallowed && $0.carriedOlderToken })
        #expect(!world.capacities.contains(0), "\(world.capacities)")
        for number in 0..<8 as Range<UInt32> { world.forgetCompletion(number) }
        world.complete(0..<8)
        #expect(world.completions.allSatisfy { $0.status == 200 })
        world.run("the old ones go") { world.server.peers[0].isClosed && world.server.peers[1].isClosed }
        #expect(world.server.peers.count == 4)
    }
}
