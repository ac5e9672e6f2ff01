import Delivery
import EventLoop
import HTTP2
import Network
import PushRecords
import Testing

@testable import APNs

@Suite(.serialized) struct TransportTests {
    @Test(arguments: Wire.allCases)
    func `A request has the notification's headers and body, and its answer completes it`(wire: Wire) throws {
        let world = try World.connected(over: wire)
        // The capacity is the server's stream limit plus requests that wait in the transport.
        #expect(world.connections.streams == 1_000 && world.capacity == 1_000 + 125)
        var request = world.request(1)
        request.headers.collapseID = world.bytes("score")
        request.headers.expiration = 1_790_000_000
        request.headers.pushType = .background
        request.headers.priority = 5
        request.headers.apnsID = NotificationUUID(high: 0x0123_4567_89ab_8def, low: 0x8123_4567_89ab_cdef)
        let before = world.loop.now.wallMs
        world.transport.handle(.send([request]))
        world.run("completion") { !world.completions.isEmpty }
        let arrived = try #require(world.server.peers[0].arrived.first)
        var headers = arrived.headers
        let authorization = headers.removeValue(forKey: "authorization")
        #expect(authorization?.hasPrefix("bearer ey") == true)
        #expect(
            headers == [
                ":method": "POST", ":scheme": "https", ":path": "/3/device/" + World.token(1),
                ":authority": "127.0.0.1:\(world.server.port)", "apns-topic": "com.example.shop",
                "apns-push-type": "background", "apns-priority": "5", "apns-expiration": "1790000000",
                "apns-id": "01234567-89ab-8def-8123-456789abcdef", "apns-collapse-id": "score",
            ])
        #expect(arrived.body.elementsEqual(request.payload))
        let completion = world.completions[0]
        #expect(completion.id == request.id)
        #expect(completion.kind == .answered)
        #expect(completion.status == 200)
        #expect(completion.reason == .none)
        #expect(completion.sentAtMs >= before && completion.sentAtMs <= world.loop.clock().wallMs)
        #expect(!completion.carriedOlderToken && !completion.connectionDied)
        world.close()
    }

    /// The id of a broadcast is `apns-request-id`, even if Apple creates it.
    @Test(arguments: [true, false])
    func `A broadcast goes to its channel with a request id`(hasID: Bool) throws {
        let world = try World.connected {
            $0.server.onRequest = { peer, request in
                peer.respond(
                    request.stream, 200,
                    headers: [
                        ("apns-id", "00000000-0000-0000-0000-00000000000f"),
                        ("apns-request-id", "EABEAE54-14A8-11E5-B60B-1697F925EC7B"),
                    ])
            }
        }
        var request = world.request(1)
        request.isBroadcast = true
        request.token = world.bytes("dHN0LXNyY2gtY2hubA==")
        request.headers.pushType = .liveactivity
        request.headers.expiration = 0
        request.headers.priority = hasID ? 0 : 5
        request.headers.apnsID = hasID ? NotificationUUID(high: 1, low: 2) : .none
        world.transport.handle(.send([request]))
        world.run("completion") { !world.completions.isEmpty }
        let headers = world.server.peers[0].arrived[0].headers
        #expect(headers[":path"] == "/4/broadcasts/apps/com.example.shop")
        #expect(headers["apns-channel-id"] == "dHN0LXNyY2gtY2hubA==")
        #expect(headers["apns-request-id"] == (hasID ? "00000000-0000-0001-0000-000000000002" : nil))
        #expect(headers["apns-expiration"] == "0" && headers["apns-priority"] == (hasID ? "10" : "5"))
        #expect(headers["apns-topic"] == nil && headers["apns-id"] == nil)
        let madeID = NotificationUUID(high: 0xeabe_ae54_14a8_11e5, low: 0xb60b_1697_f925_ec7b)
        #expect(hasID || world.completions[0].apnsID == madeID)
    }

    @Test func `Each answer becomes a completion with its status and reason`() throws {
        let answers: [(UInt16, String, ReasonCode)] = [
            (410, #"{"reason":"Unregistered","timestamp":1700000000123}"#, .unregistered),
            (400, #"{"reason":"BadDeviceToken"}"#, .badDeviceToken), (418, #"{"reason":"TeaTime"}"#, .other),
            (500, "<html>oops</html>", .none), (200, "", .none), (200, "", .none), (404, "", .none),
            (403, #"{"reason":"InvalidProviderToken"}"#, .invalidProviderToken),
            (410, #"{"timestamp":-1,"details":{"a":[1]},"reason":"Unregistered"}"#, .unregistered),
        ]
        let world = try World.connected {
            $0.server.onRequest = { peer, request in
                let number = Int(request.token, radix: 16)!
                let headers: [(StaticString, String)] =
                    switch number {
                    case 4: [("apns-id", "EABEAE54-14A8-11E5-B60B-1697F925EC7B")]
                    case 5: [("apns-unique-id", "unique"), ("apns-id", "odd")]
                    default: []
                    }
                peer.respond(request.stream, Int(answers[number].0), answers[number].1, headers: headers)
            }
        }
        world.complete(0..<9)
        let completion = world.completionOf
        for (number, answer) in answers.enumerated() {
            let found = completion[UInt32(number)]
            #expect(found?.kind == .answered && found?.status == answer.0 && found?.reason == answer.2, "\(answer)")
        }
        #expect(completion[0]?.unregisteredAtMs == 1_700_000_000_123)
        // If the timestamp cannot be used, the token counts as dead since the send.
        #expect(completion[8].map { $0.unregisteredAtMs == $0.sentAtMs && $0.sentAtMs > 0 } == true)
        #expect(world.reasonText[2] == "TeaTime")
        #expect(completion[4]?.apnsID == NotificationUUID(high: 0xeabe_ae54_14a8_11e5, low: 0xb60b_1697_f925_ec7b))
        #expect(world.uniqueID[5] == "unique" && completion[5]?.apnsID == NotificationUUID.none)
    }

    /// If the worker waited for the end of the stream, it would send an accepted notification again
    /// (github.com/sideshow/apns2/issues/20).
    @Test(arguments: [false, true])
    func `The headers of a 200 are the answer, even if the stream never ends or is reset`(isReset: Bool) throws {
        let world = try World.connected(streams: 2, connections: 1...1)
        world.server.onRequest = { peer, request in
            peer.respond(request.stream, isEnd: false)
            if isReset { try? peer.session.reset(stream: request.stream, .internalError) }
        }
        world.complete(0..<9, status: 200)
        #expect(world.completions.count == 9 && world.server.arrived == 9 && world.server.peers.count == 1)
    }

    @Test func `The received part of an answer counts if its stream is reset`() throws {
        let world = try World.connected()
        let bodies = [#"{"reason":"Unregistered","timestamp":1700000000123}"#, #"{"reason":"Unregistered","timest"#]
        world.server.onRequest = { peer, request in
            peer.respond(request.stream, 410, bodies[Int(request.token, radix: 16)!], isEnd: false)
            try? peer.session.reset(stream: request.stream, .cancel)
        }
        world.complete(0..<2, status: 410)
        #expect(world.completionOf[0]?.reason == .unregistered && world.completionOf[1]?.reason == ReasonCode.none)
        #expect(world.completionOf[0]?.unregisteredAtMs == 1_700_000_000_123)
        // A truncated body has no usable timestamp, so the token counts as dead since the send.
        #expect(world.completionOf[1].map { $0.unregisteredAtMs == $0.sentAtMs && $0.sentAtMs > 0 } == true)
    }

    @Test func `The capacity follows changed SETTINGS, down to one stream and back`() throws {
        let world = try World.connected(streams: 1, connections: 1...1) { $0.server.hold() }
        let server = world.server
        // These are more requests than may be unanswered, so some wait in the transport.
        world.send(0..<20)
        world.runFor(seconds: 0.05)
        #expect(server.held.count == 1)
        server.release(1)
        try server.peers[0].allow(streams: 4)
        world.run("four open") { server.held.count == 4 && world.capacity == 4 && world.connections.streams == 4 }
        world.runFor(seconds: 0.03)
        #expect(server.held.count == 4)
        try server.peers[0].allow(streams: 1)
        world.run("capacity 1") { world.capacity == 1 }
        server.release()
        world.run("other completions") {
            #expect(server.held.count <= 1)
            server.release()
            return world.completions.count == 20
        }
        #expect(world.capacities == [1, 4, 1])
    }

    /// Waiting requests are returned, and those on a connection are answered.
    @Test func `A host that allows no streams is unreachable`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(0)] }
        world.server.hold()
        world.configuration.connections.minimum = 2
        world.configuration.connections.maximum = 2
        func isStreamless(_ note: TransportNote) -> Bool { if case .noStreams = note { true } else { false } }
        try world.start()
        world.run("unreachable") { world.reachable == [false] }
        world.run("two connections") { world.server.peers.count { $0.isReady } == 2 }
        #expect(world.capacities.isEmpty && world.notes.count(where: isStreamless) == 1)
        world.send(0..<1)
        world.run("requests returned") { world.completionOf[0]?.kind == .notProcessed }

        // One connection that allows streams is enough.
        try world.server.peers[1].allow(streams: 2)
        world.run("reachable") { world.reachable == [false, true] && world.capacity == 2 }
        world.send(1..<3)
        world.run("requests arrived") { world.server.held.count == 2 }
        world.send(3..<4)
        try world.server.peers[1].allow(streams: 0)
        world.run("unreachable again") { world.reachable == [false, true, false] && world.capacity == 0 }
        world.run("requests returned") { world.completionOf[3]?.kind == .notProcessed }
        world.server.release()
        world.run("answered") { world.completionOf[1]?.kind == .answered && world.completionOf[2]?.kind == .answered }
        #expect(world.notes.count(where: isStreamless) == 2)

        // The quarantine connection allows no streams.
        world.sendSuspects([10_000])
        world.run("requests returned") { world.completionOf[10_000]?.kind == .notProcessed }
        #expect(world.reachable == [false, true, false])
        try world.server.peers[0].allow(streams: 1)
        world.run("reachable") { world.reachable == [false, true, false, true] }
    }

    @Test(arguments: Wire.allCases)
    func `A GOAWAY returns the streams above it, and the others are answered`(wire: Wire) throws {
        let world = try World.connected(over: wire) {
            $0.server.onRequest = { peer, request in
                guard peer.number == 0 else { return peer.respond(request.stream) }
                // Of streams 1, 3, 5, 7 and 9, the first two are processed, and answered after the GOAWAY.
                guard request.stream == 9 else { return }
                try? peer.session.shutdownNotice()
                peer.goAway(3, "Shutdown")
                peer.respond(3)
                peer.respond(1)
            }
        }
        world.complete(0..<5)
        #expect((0..<5).map { world.completionOf[$0]?.kind == .answered } == [true, true, false, false, false])
        #expect((2..<5).allSatisfy { world.completionOf[$0]?.kind == .notProcessed })
        #expect(world.noted("peerCloses", "GOAWAY NO_ERROR Shutdown", "unprocessed: 3"))
        #expect(world.notes.contains { if case .peerErrors(let goAways, _) = $0 { goAways[0] > 0 } else { false } })
        world.run("successor") { world.capacity > 0 && world.server.peers.count == 2 }
        world.run("old connection closed") { world.server.peers[0].isClosed }
        world.complete(10..<12, status: 200)
        world.close()
    }

    @Test(arguments: [true, false], Wire.allCases)
    func `A lost connection leaves its requests in doubt and is replaced`(isReset: Bool, wire: Wire) throws {
        let world = try World.connected(over: wire) {
            $0.server.onRequest = { peer, request in
                if peer.number > 0 || request.stream == 1 { return peer.respond(request.stream) }
                if request.stream == 5 { if isReset { peer.channel.reset() } else { peer.channel.cut() } }
            }
        }
        world.complete(0..<3)
        #expect((1..<3).allSatisfy { world.completionOf[$0]?.kind == .inDoubt })
        #expect(world.completionOf[1]?.connectionDied == true)
        #expect(world.capacities.contains(0) && world.noted("disconnected"))
        world.run("connected again") { world.capacity > 0 }
        #expect(world.server.peers.count == 2)
        world.complete(5..<6, status: 200)
        world.close()
    }

    @Test func `A recall returns the requests that are not on a connection yet`() throws {
        let world = try World.connected(streams: 2, connections: 1...1) { $0.server.hold() }
        world.send(0..<6)
        world.run("two on the connection") { world.server.arrived == 2 }
        world.recall([1, 3, 5])
        world.run("recalled") { world.completions.count == 2 }
        #expect(world.completions.allSatisfy { $0.kind == .notProcessed && $0.unprocessed == .neverSent })
        #expect(Set(world.completionOf.keys) == [3, 5])
        world.run("other completions") {
            world.server.release()
            return world.completions.count == 6
        }
        #expect(world.completions.count { $0.kind == .answered } == 4)
    }

    @Test(arguments: Wire.allCases)
    func `Close waits for the requests on connections`(wire: Wire) throws {
        let world = try World(over: wire) { $0.options.settings = [.maxConcurrentStreams(2)] }
        world.configuration.connections.maximum = 1
        world.server.onRequest = { _, _ in }
        try world.connect()
        world.send(0..<5)
        world.sendSuspects([7])
        world.run("two on the connection, and the suspect") { world.server.arrived == 3 }
        world.transport.handle(.close)
        world.run("requests returned") { world.completions.count == 3 }
        #expect(world.completions.allSatisfy { $0.kind == .notProcessed })
        world.runFor(seconds: 0.05)
        #expect(!world.isClosed)
        world.transport.handle(.send([world.request(9)]))
        world.run("requests returned") { world.completionOf[9]?.kind == .notProcessed }
        for stream in [1, 3] as [Int32] { world.server.peers[0].respond(stream) }
        world.run("only the suspect in flight") { world.completions.count == 6 }
        #expect(!world.isClosed)
        world.server.peers[1].respond(1)
        world.run("closed") { world.isClosed }
        #expect([0, 1, 7].allSatisfy { world.completionOf[$0]?.status == 200 })
        #expect(world.server.peers.count == 2)
    }

    @Test(arguments: ["UnrelatedKeyIdInToken", "TooManyProviderTokenUpdates", "Shutdown", "IdleTimeout"])
    func `An answer that requires a new connection causes one`(reason: String) throws {
        let world = try World.connected {
            $0.server.onRequest = { peer, request in
                let isFirst = peer.number == 0
                peer.respond(request.stream, isFirst ? 403 : 200, isFirst ? #"{"reason":"\#(reason)"}"# : "")
            }
        }
        world.complete(0..<1, status: 403)
        world.run("redialled") { world.server.peers.count == 2 && world.capacity > 0 }
        world.complete(1..<2, status: 200)
        #expect(world.server.peers[1].arrived.count == 1)
    }

    /// The refused requests can therefore be sent again at once, and no circuit breaker opens.
    @Test func `An expired token is renewed before its answer is reported, unless it is young`() throws {
        let world = try World.connected {
            $0.server.onRequest = { $0.respond($1.stream, 403, #"{"reason":"ExpiredProviderToken"}"#) }
        }
        world.complete(0..<1)
        #expect(world.completions[0].reason == .expiredProviderToken && world.notes(of: "providerTokenRenewed") == 1)
        world.runFor(seconds: 1_260)
        world.complete(1..<3)
        #expect(world.completions.map(\.carriedOlderToken) == [false, true, true])
        world.complete(3..<4)
        #expect(world.completionOf[3]?.carriedOlderToken == false)
        let tokens = world.server.peers.flatMap(\.arrived).map { $0.headers["authorization"] }
        #expect(tokens[1] == tokens[0] && tokens[2] == tokens[0] && tokens[3] != tokens[0])
    }

    @Test func `A pool grows while all streams are in use, and shrinks when idle`() throws {
        let world = try World.connected(streams: 8, connections: 1...3) { world in
            world.configuration.connections.idleNs = 1_000_000_000
            world.server.onRequest = { [loop = world.loop] peer, request in
                loop.schedule(afterNs: 30_000_000) { peer.respond(request.stream) }
            }
        }
        var next: UInt32 = 0
        world.run("three connections") {
            world.fill(&next)
            return world.capacity == 24 + 3
        }
        world.run("one connection") { world.capacity == 8 + 1 }
        #expect(world.server.peers.count == 3)
        #expect(world.completions.allSatisfy { $0.status == 200 })
    }

    @Test func `The peer's flow-control window is respected`() throws {
        let world = try World { $0.options.canStall = true }
        world.configuration.connections.maximum = 1
        try world.connect()
        try world.server.peers[0].session.setStalled(true)
        // Sixteen bodies of 4,000 bytes fit into 65,535 bytes.
        world.send(0..<40, bodyBytes: 4_000)
        world.run("sixteen answers") { world.completions.count == 16 }
        world.runFor(seconds: 0.05)
        // One more request is handed over when nothing else is unanswered. Its body waits.
        #expect(world.completions.count == 16)
        world.recall((0..<40))
        world.run("waiting requests returned") { world.completions.count == 39 }
        #expect(world.completions.count { $0.kind == .notProcessed } == 23)
        try world.server.peers[0].session.setStalled(false)
        world.server.peers[0].flush()
        world.run("last completion") { world.completions.count == 40 }
        #expect(world.completions.count { $0.status == 200 } == 17)
    }

    @Test func `A request whose body was never sent completely is not in doubt`() throws {
        let world = try World { $0.options.settings = [.initialWindowSize(100), .maxConcurrentStreams(10)] }
        world.server.options.canStall = true
        world.configuration.responseTimeoutNs = 50_000_000
        try world.connect()
        try world.server.peers[0].session.setStalled(true)
        world.complete(0..<1, bodyBytes: 4_000)
        #expect(world.completions[0].kind == .notProcessed)
        // The connection answered no request meanwhile, so the transport replaces it.
        world.run("given up") { world.server.peers[0].isClosed && world.server.peers.count == 2 }
    }

    /// A middlebox drops one notification's data and the rest of its connection.
    @Test(arguments: [false, true])
    func `Silence counts as a lost connection while another connection is alive`(isSuspect: Bool) throws {
        let world = try World()
        world.configuration.connections.minimum = 2
        world.configuration.keepalive.silentNs = 40_000_000
        world.configuration.keepalive.deadNs = 200_000_000
        let poison = World.token(10_000)
        world.server.onRequest = { peer, request in
            if request.token == poison { peer.isDeaf = true } else { peer.respond(request.stream) }
        }
        try world.connect()
        for _ in 0..<(isSuspect ? 2 : 3) {
            world.run("both ready") { world.server.peers.count { $0.isReady && !$0.isDeaf && !$0.isClosed } >= 2 }
            if isSuspect { world.sendSuspects([10_000]) } else { world.send(10_000..<10_001) }
            world.run("completion") { world.completionOf[10_000] != nil }
            #expect(world.completionOf[10_000]?.kind == .inDoubt && world.completionOf[10_000]?.connectionDied == true)
            // No other request is sent meanwhile. The other connection is shown to be alive by its answer to a PING.
            #expect(world.completionOf[10_000]?.connectionWasSilent == false)
            world.forgetCompletion(10_000)
        }
    }

    @Test func `If no connection is alive, silence counts against no notification`() throws {
        let world = try World()
        world.configuration.connections.minimum = 2
        world.configuration.keepalive.silentNs = 40_000_000
        world.configuration.keepalive.deadNs = 40_000_000
        world.server.onRequest = { _, _ in for peer in world.server.peers { peer.isDeaf = true } }
        try world.connect()
        world.run("two connections") { world.server.peers.count { $0.isReady } == 2 }
        world.complete(0..<4)
        #expect(world.completions.allSatisfy { $0.kind == .inDoubt && $0.connectionWasSilent })
        world.server.onRequest = { $0.respond($1.stream) }
    }

    @Test func `A connection without answers counts against its requests if another one answers`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(1)] }
        world.configuration.connections.minimum = 2
        world.configuration.connections.maximum = 2
        world.configuration.responseTimeoutNs = 200_000_000
        // The connection with the first request is silent, but answers PINGs.
        var silent: Int?
        world.server.onRequest = { peer, request in
            if silent == nil { silent = peer.number }
            if peer.number != silent { peer.respond(request.stream) }
        }
        try world.connect()
        world.run("two connections") { world.server.peers.count { $0.isReady } == 2 }
        world.send(0..<1)
        world.run("request arrived") { silent != nil }
        var next: UInt32 = 1
        world.run("completion") {
            if world.completions.count == Int(next) - 1 {
                world.send(next..<(next + 1))
                next += 1
            }
            return world.completionOf[0] != nil
        }
        #expect(world.completionOf[0]?.kind == .inDoubt && world.completionOf[0]?.connectionDied == true)
        #expect(world.completionOf[0]?.connectionWasSilent == false)
    }
}
