import Delivery
import EventLoop
import HTTP2
import Network
import TLS
import Testing

@testable import APNs

/// Another credential, host or trust while notifications are on their way.
@Suite(.serialized) struct ReplacementTests {
    private func keyIDs(_ peer: ServerPeer) -> Set<String> {
        Set(
            peer.arrived.map { request in
                let token = request.headers["authorization"] ?? ""
                // The header of the JWT: {"alg":"ES256","kid":"…"}.
                let header = token.dropFirst("bearer ".count).prefix { $0 != "." }
                return header.isEmpty ? "none" : String(header)
            })
    }

    @Test func `Old connections finish and new requests go to new ones`() throws {
        let world = try World()
        var held: [(ServerPeer, Int32)] = []
        world.server.onRequest = { peer, request in
            if peer.number == 0 { held.append((peer, request.stream)) } else { peer.respond(request.stream) }
        }
        try world.connect()
        world.send(0..<3)
        world.run("three on the first connection") { held.count == 3 }
        world.transport.replace(configuration: world.configuration, token: try World.providerToken(keyID: "OTHERKEY12"))
        world.send(3..<6)
        world.run("three answers") { world.completions.count == 3 }
        #expect(world.server.peers.count == 2)
        #expect(world.server.peers[1].arrived.count == 3)
        #expect(world.completions.allSatisfy { $0.status == 200 && !$0.carriedOlderToken })
        #expect(keyIDs(world.server.peers[0]).isDisjoint(with: keyIDs(world.server.peers[1])))
        #expect(!world.server.peers[0].isClosed)
        #expect(!world.capacities.contains(0), "\(world.capacities)")
        for (peer, stream) in held { peer.respond(stream, 403, #"{"reason":"InvalidProviderToken"}"#) }
        world.run("the old answers") { world.completions.count == 6 }
        for number in 0..<3 as Range<UInt32> {
            #expect(world.completionOf[number]?.status == 403)
            #expect(world.completionOf[number]?.carriedOlderToken == true)
        }
        world.run("the old connection goes") { world.server.peers[0].isClosed }
        world.complete(6..<7, status: 200)
        #expect(world.server.peers.count == 2)
    }

    @Test func `What waits is kept`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(2)] }
        world.configuration.maximumConnections = 1
        var held: [(ServerPeer, Int32)] = []
        world.server.onRequest = { held.append(($0, $1.stream)) }
        try world.connect()
        world.send(0..<7)
        world.run("two on the connection") { held.count == 2 }
        world.transport.replace(configuration: world.configuration, token: try World.providerToken())
        world.run("two on the next") { held.count == 4 }
        world.server.onRequest = { $0.respond($1.stream) }
        for (peer, stream) in held { peer.respond(stream) }
        world.run("all answers") { world.completions.count == 7 }
        #expect(world.completions.allSatisfy { $0.status == 200 })
        #expect(world.server.peers.map(\.arrived.count) == [2, 5])
    }

    @Test func `An empty pool is made anew at once`() throws {
        let world = try World(over: .tls)
        let right = world.configuration
        let stranger = try CertificateAuthority(commonName: "someone else")
        world.configuration.tls = try ClientContext(ClientOptions(trust: .pem(stranger.certificatePEM)))
        world.configuration.backOff.firstNs = 60_000_000_000
        world.configuration.backOff.lastNs = 60_000_000_000
        try world.start()
        world.run("refused") { world.reachable == [false] }
        world.transport.replace(configuration: right, token: try World.providerToken())
        world.run("connected") { world.capacity > 0 }
        #expect(world.reachable == [false, true])
        world.complete(0..<1, status: 200)
        world.close()
    }

    @Test func `What cannot connect gives back what waits`() throws {
        let world = try World(over: .tls) { $0.options.settings = [.maxConcurrentStreams(2)] }
        world.configuration.maximumConnections = 1
        var held: [(ServerPeer, Int32)] = []
        world.server.onRequest = { held.append(($0, $1.stream)) }
        try world.connect()
        world.send(0..<5)
        world.run("two on the connection") { held.count == 2 }
        let stranger = try CertificateAuthority(commonName: "someone else")
        var wrong = world.configuration
        wrong.tls = try ClientContext(ClientOptions(trust: .pem(stranger.certificatePEM)))
        world.transport.replace(configuration: wrong, token: try World.providerToken())
        world.run("given back") { world.completions.count == 3 }
        #expect(world.completions.allSatisfy { $0.kind == .notProcessed })
        #expect(world.capacity == 0)
        #expect(world.reachable == [true, false])
        // The old connection still gives its answers.
        for (peer, stream) in held { peer.respond(stream) }
        world.run("the rest") { world.completions.count == 5 }
        #expect(world.completionOf[0]?.status == 200 && world.completionOf[1]?.status == 200)
        world.close()
    }

    @Test func `One replacement after another`() throws {
        let world = try World()
        world.server.onRequest = { [loop = world.loop] peer, request in
            _ = loop.schedule(afterNs: 3_000_000) { peer.respond(request.stream) }
        }
        try world.connect()
        var next: UInt32 = 0
        world.run("2,000 answers", seconds: 30) {
            let room = world.capacity - (Int(next) - world.completions.count)
            if room > 0, next < 2_000 {
                world.send(next..<min(2_000, next + UInt32(min(room, 20))))
                next = min(2_000, next + UInt32(min(room, 20)))
                if next % 200 == 0 {
                    world.transport.replace(
                        configuration: world.configuration,
                        token: try! World.providerToken(keyID: "KEY\(1_000_000 + next)"))
                }
            }
            return world.completions.count == 2_000
        }
        // Each once, none in doubt, none given back.
        #expect(world.completions.allSatisfy { $0.status == 200 })
        #expect(world.server.arrived == 2_000)
        #expect(world.server.peers.allSatisfy { keyIDs($0).count <= 1 })
    }

    @Test func `From a token to a certificate`() throws {
        let world = try World.connected()
        world.transport.replace(configuration: world.configuration, token: nil)
        world.complete(0..<1, status: 200)
        #expect(world.server.peers[1].arrived[0].headers["authorization"] == nil)
    }

    /// With TLS 1.3 our side of the handshake is over before the server looks at our certificate.
    @Test func `A refused certificate is replaced by a good one`() throws {
        let trust = Trust.pem(ScriptedServer.authority.certificatePEM)
        let world = try World(over: .tls, clientCertificates: .required(trust))
        func context(_ issued: CertificateAuthority.Issued?) throws -> ClientContext {
            try ClientContext(ClientOptions(trust: trust, identity: try issued?.identity()))
        }
        let expired = try ScriptedServer.authority.issueClient(bundleID: "com.example.shop", validForDays: -1)
        world.configuration.tls = try context(expired)
        try world.start(hasToken: false)
        world.run("refused") { world.reachable == [false] }
        guard case .connectFailed(_, let reason, _) = world.notes.first else {
            Issue.record("\(world.notes)")
            return
        }
        #expect(reason.contains("certificate expired"), "\(reason)")
        world.configuration.tls = try context(
            ScriptedServer.authority.issueClient(bundleID: "com.example.shop"))
        world.transport.replace(configuration: world.configuration, token: nil)
        world.complete(0..<1, status: 200)
        #expect(world.reachable == [false, true])
        world.close()
    }

    @Test func `Two apps of one key send one token`() throws {
        let world = try World.connected()
        let token = try World.providerToken()
        world.transport.replace(configuration: world.configuration, token: token)
        let other = APNsTransport(
            app: AppIndex(1), configuration: world.configuration, token: token, loop: world.loop,
            dialer: world.dialer, emit: { _ in })
        world.run("both connected") { world.server.peers.count == 3 }
        world.complete(0..<1)
        other.handle(.send([world.request(1)]))
        world.run("the other") { world.server.peers[1].arrived.count + world.server.peers[2].arrived.count == 2 }
        let sent = world.server.peers[1...].flatMap(\.arrived).compactMap { $0.headers["authorization"] }
        #expect(sent.count == 2 && Set(sent).count == 1)
        #expect(world.notes.count { if case .providerTokenRenewed = $0 { true } else { false } } <= 1)
        other.handle(.close)
    }
}
