import Delivery
import HTTP2
import Network
import PushRecords
import TLS
import Testing

@testable import APNs

/// Tests of a replaced credential, host or trust while requests are in flight.
@Suite(.serialized) struct ReplacementTests {
    @Test func `Old connections finish their requests, and new requests go to new connections`() throws {
        let world = try World.connected { $0.server.hold(firstPeers: 1) }
        world.send(0..<3)
        world.run("three on the first connection") { world.server.held.count == 3 }
        try world.replace(keyID: "OTHERKEY12")
        world.complete(3..<6, status: 200)
        #expect(world.server.peers.count == 2 && world.server.peers[1].arrived.count == 3)
        #expect(world.completions.allSatisfy { !$0.carriedOlderToken })
        // The header of a provider token names its key.
        let keys = world.server.peers.map { Set($0.arrived.map { $0.headers["authorization"]?.prefix { $0 != "." } }) }
        #expect(keys[0].isDisjoint(with: keys[1]))
        #expect(!world.server.peers[0].isClosed)
        #expect(!world.capacities.contains(0), "\(world.capacities)")
        world.server.release(.max, 403, #"{"reason":"InvalidProviderToken"}"#)
        world.run("answers on the old connection") { world.completions.count == 6 }
        #expect(world.completions[3...].allSatisfy { $0.status == 403 && $0.carriedOlderToken })
        world.run("old connection closed") { world.server.peers[0].isClosed }
        world.complete(6..<7, status: 200)
        #expect(world.server.peers.count == 2)
    }

    @Test func `Waiting requests are sent over the next connection`() throws {
        let world = try World.connected(streams: 2, connections: 1...1) { $0.server.hold() }
        world.send(0..<7)
        world.run("two on the connection") { world.server.held.count == 2 }
        try world.replace()
        world.run("two on the next") { world.server.held.count == 4 }
        world.run("all completions") {
            world.server.release()
            return world.completions.count == 7
        }
        #expect(world.completions.allSatisfy { $0.status == 200 })
        #expect(world.server.peers.map(\.arrived.count) == [2, 5])
    }

    @Test func `If connecting fails, waiting requests are returned`() throws {
        let world = try World(over: .tls) { $0.options.settings = [.maxConcurrentStreams(2)] }
        world.configuration.connections.maximum = 1
        world.server.hold()
        try world.connect()
        world.send(0..<5)
        world.run("two on the connection") { world.server.held.count == 2 }
        let stranger = try CertificateAuthority(commonName: "someone else")
        var wrong = world.configuration
        wrong.connections.tls = try ClientContext(trust: .pem(stranger.certificatePEM))
        world.transport.replace(configuration: wrong, token: try World.providerToken())
        world.run("requests returned") { world.completions.count == 3 }
        #expect(world.completions.allSatisfy { $0.kind == .notProcessed })
        #expect(world.capacity == 0)
        #expect(world.reachable == [true, false])
        // The old connection still delivers its answers.
        world.server.release()
        world.run("other completions") { world.completions.count == 5 }
        #expect(world.completionOf[0]?.status == 200 && world.completionOf[1]?.status == 200)
        world.close()
    }

    @Test func `A token can be replaced by a certificate`() throws {
        let world = try World.connected()
        world.transport.replace(configuration: world.configuration, token: nil)
        world.complete(0..<1, status: 200)
        #expect(world.server.peers[1].arrived[0].headers["authorization"] == nil)
    }

    /// With TLS 1.3, the client's handshake is complete before the server checks the client certificate.
    @Test func `A valid certificate replaces a refused one`() throws {
        let trust = Trust.pem(ScriptedServer.authority.certificatePEM)
        let world = try World(over: .tls, clientCertificates: .required(trust))
        func context(_ issued: CertificateAuthority.Issued?) throws -> ClientContext {
            try ClientContext(trust: trust, identity: try issued?.identity())
        }
        let expired = try ScriptedServer.authority.issueClient(bundleID: "com.example.shop", validForDays: -1)
        world.configuration.connections.tls = try context(expired)
        try world.start(hasToken: false)
        world.run("refusal reported") { !world.refusals.isEmpty && !world.notes.isEmpty }
        #expect(
            world.noted("credentialFault", "refuses the client certificate", "certificate expired"), "\(world.notes)")
        let renewed = try ScriptedServer.authority.issueClient(bundleID: "com.example.shop")
        world.configuration.connections.tls = try context(renewed)
        world.transport.replace(configuration: world.configuration, token: nil)
        world.run("connected") { world.capacity > 0 }
        world.complete(0..<1, status: 200)
        // The host was always reachable.
        #expect(world.reachable == [true] && Set(world.refusals) == [.badCertificate])
        world.close()
    }

    @Test func `Two apps with the same key send the same token`() throws {
        let world = try World.connected()
        let token = try World.providerToken()
        world.transport.replace(configuration: world.configuration, token: token)
        let other = APNsTransport(
            app: AppIndex(1), configuration: world.configuration, token: token, loop: world.loop,
            dialer: world.dialer, emit: { _ in })
        world.run("both connected") { world.server.peers.count == 3 }
        world.complete(0..<1)
        other.handle(.send([world.request(1)]))
        world.run("both apps") { world.server.peers[1].arrived.count + world.server.peers[2].arrived.count == 2 }
        let sent = world.server.peers[1...].flatMap(\.arrived).compactMap { $0.headers["authorization"] }
        #expect(sent.count == 2 && Set(sent).count == 1)
        #expect(world.notes(of: "providerTokenRenewed") <= 1)
        other.handle(.close)
    }

    /// APNs accepts a new bundle id only on new connections.
    @Test func `A topic that old connections refuse is sent over new ones`() throws {
        let world = try World.connected(streams: 4, connections: 2...2) {
            $0.configuration.topicAgeNs = 0
            $0.server.hold(firstPeers: 2)
        }
        world.run("both connections") { world.capacity >= 8 }
        world.send(0..<8)
        world.run("eight requests arrived") { world.server.held.count == 8 }
        // One refusal is enough. The others are from connections that are already being replaced.
        world.server.release(.max, 400, #"{"reason":"TopicDisallowed"}"#)
        world.run("refusal reported") { world.completions.count == 8 }
        #expect(world.completions.allSatisfy { $0.reason == .topicDisallowed && $0.carriedOlderToken })
        #expect(!world.capacities.contains(0), "\(world.capacities)")
        for number in 0..<8 as Range<UInt32> { world.forgetCompletion(number) }
        world.complete(0..<8)
        #expect(world.completions.allSatisfy { $0.status == 200 })
        world.run("old connections closed") { world.server.peers[0].isClosed && world.server.peers[1].isClosed }
        #expect(world.server.peers.count == 4)
    }
}
