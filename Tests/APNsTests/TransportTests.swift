import Delivery
import EventLoop
import Foundation
import HTTP2
import Network
import PushRecords
import TLS
import Testing

@testable import APNs

@Suite(.serialized) struct TransportTests {
    @Test(arguments: Wire.allCases)
    func `A notification and its answer`(wire: Wire) throws {
        let world = try World.connected(over: wire)
        // What the server allows, and what waits here for the next stream.
        #expect(world.connections.streams == 1_000 && world.capacity == 1_000 + 125)
        var request = world.request(1)
        request.headers.collapseID = world.bytes("score")
        request.headers.expiration = 1_790_000_000
        request.headers.pushType = .background
        request.headers.priority = 5
        request.headers.apnsID = NotificationUUID(high: 0x0123_4567_89ab_8def, low: 0x8123_4567_89ab_cdef)
        let before = world.loop.readClock().wallMs
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
        #expect(completion.sentAtMs >= before - 20 && completion.sentAtMs <= world.loop.readClock().wallMs)
        #expect(!completion.carriedOlderToken && !completion.connectionDied)
        world.close()
    }

    @Test func `A broadcast`() throws {
        let world = try World.connected()
        var request = world.request(1)
        request.isBroadcast = true
        request.token = world.bytes("dHN0LXNyY2gtY2hubA==")
        request.headers.topic = world.bytes("com.example.shop")
        request.headers.pushType = .liveactivity
        request.headers.expiration = 0
        request.headers.apnsID = NotificationUUID(high: 1, low: 2)
        world.transport.handle(.send([request]))
        world.run("completion") { !world.completions.isEmpty }
        let headers = world.server.peers[0].arrived[0].headers
        #expect(headers[":path"] == "/4/broadcasts/apps/com.example.shop")
        #expect(headers["apns-channel-id"] == "dHN0LXNyY2gtY2hubA==")
        #expect(headers["apns-request-id"] == "00000000-0000-0001-0000-000000000002")
        #expect(headers["apns-expiration"] == "0" && headers["apns-priority"] == "10")
        #expect(headers["apns-topic"] == nil && headers["apns-id"] == nil)
    }

    /// A broadcast's id is `apns-request-id`, also where Apple makes it.
    @Test func `The ID that Apple made of a broadcast`() throws {
        let world = try World()
        world.server.onRequest = { peer, request in
            peer.respond(
                request.stream, 200,
                headers: [
                    ("apns-id", "00000000-0000-0000-0000-00000000000f"),
                    ("apns-request-id", "EABEAE54-14A8-11E5-B60B-1697F925EC7B"),
                ])
        }
        try world.connect()
        var request = world.request(1)
        request.isBroadcast = true
        request.token = world.bytes("dHN0LXNyY2gtY2hubA==")
        request.headers.pushType = .liveactivity
        request.headers.priority = 5
        request.headers.apnsID = .none
        world.transport.handle(.send([request]))
        world.run("completion") { !world.completions.isEmpty }
        #expect(world.server.peers[0].arrived[0].headers["apns-request-id"] == nil)
        #expect(world.server.peers[0].arrived[0].headers["apns-priority"] == "5")
        #expect(
            world.completions[0].apnsID == NotificationUUID(high: 0xeabe_ae54_14a8_11e5, low: 0xb60b_1697_f925_ec7b))
    }

    @Test func `With a certificate there is no token`() throws {
        let world = try World()
        try world.start(hasToken: false)
        world.run("capacity") { world.capacity > 0 }
        world.send(0..<1)
        world.run("completion") { !world.completions.isEmpty }
        #expect(world.server.peers[0].arrived[0].headers["authorization"] == nil)
    }

    @Test func `Answers of every kind`() throws {
        let world = try World()
        world.server.onRequest = { peer, request in
            switch UInt32(request.token, radix: 16)! {
            case 0: peer.respond(request.stream, 410, #"{"reason":"Unregistered","timestamp":1700000000123}"#)
            case 1: peer.respond(request.stream, 400, #"{"reason":"BadDeviceToken"}"#)
            case 2: peer.respond(request.stream, 418, #"{"reason":"TeaTime"}"#)
            case 3: peer.respond(request.stream, 500, "<html>oops</html>")
            case 4: peer.respond(request.stream, 200, headers: [("apns-id", "EABEAE54-14A8-11E5-B60B-1697F925EC7B")])
            case 5: peer.respond(request.stream, 200, headers: [("apns-unique-id", "unique"), ("apns-id", "odd")])
            case 6: peer.respond(request.stream, 404)
            default: peer.respond(request.stream, 403, #"{"reason":"InvalidProviderToken"}"#)
            }
        }
        try world.connect()
        world.complete(0..<8)
        let completion = world.completionOf
        #expect(completion[0]?.status == 410 && completion[0]?.reason == .unregistered)
        #expect(completion[0]?.unregisteredAtMs == 1_700_000_000_123)
        #expect(completion[1]?.status == 400 && completion[1]?.reason == .badDeviceToken)
        #expect(completion[2]?.status == 418 && completion[2]?.reason == .other)
        #expect(world.reasonText[2] == "TeaTime")
        #expect(completion[3]?.status == 500 && completion[3]?.reason == ReasonCode.none)
        #expect(completion[4]?.apnsID == NotificationUUID(high: 0xeabe_ae54_14a8_11e5, low: 0xb60b_1697_f925_ec7b))
        #expect(world.uniqueID[5] == "unique" && completion[5]?.apnsID == NotificationUUID.none)
        #expect(completion[6]?.status == 404 && completion[6]?.reason == ReasonCode.none)
        #expect(completion[7]?.reason == .invalidProviderToken)
        #expect(completion.values.allSatisfy { $0.kind == .answered })
    }

    @Test func `Many over one connection`() throws {
        let world = try World.connected(over: .tls)
        var next: UInt32 = 0
        let total: UInt32 = 20_000
        world.run("all completions", seconds: 60) {
            world.fill(&next, below: total, bodyBytes: 200)
            return world.completions.count == Int(total)
        }
        #expect(world.completions.allSatisfy { $0.kind == .answered && $0.status == 200 })
        #expect(world.server.arrived == Int(total))
        #expect(Set(world.server.peers.flatMap { $0.arrived.map(\.path) }).count == Int(total))
        world.close()
    }

    @Test func `Settings are heeded down to one and back`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(1)] }
        var open = 0
        var mostOpen = 0
        var answer: [(ServerPeer, Int32)] = []
        world.server.onRequest = { peer, request in
            open += 1
            mostOpen = max(mostOpen, open)
            answer.append((peer, request.stream))
        }
        world.configuration.maximumConnections = 1
        try world.connect()
        #expect(world.capacity == 1)
        // More than may be unanswered: they wait here, and do not get lost.
        world.send(0..<20)
        world.runFor(seconds: 0.05)
        #expect(mostOpen == 1)
        func answerOne() {
            let (peer, stream) = answer.removeFirst()
            open -= 1
            peer.respond(stream)
        }
        answerOne()
        try world.server.peers[0].session.changeSettings([.maxConcurrentStreams(4)])
        world.server.peers[0].flush()
        world.run("capacity 4") { world.capacity == 4 && world.connections.streams == 4 }
        world.run("four open") { open == 4 }
        world.runFor(seconds: 0.03)
        #expect(mostOpen == 4)
        try world.server.peers[0].session.changeSettings([.maxConcurrentStreams(1)])
        world.server.peers[0].flush()
        world.run("capacity 1") { world.capacity == 1 }
        mostOpen = 0
        while open > 0 { answerOne() }
        world.run("the rest") {
            if !answer.isEmpty { answerOne() }
            return world.completions.count == 20
        }
        #expect(mostOpen == 1)
        #expect(world.capacities == [1, 4, 1])
    }

    /// What waits comes back, what is on a connection is answered.
    @Test func `No streams are no reach`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(0)] }
        var answer: [(ServerPeer, Int32)] = []
        world.server.onRequest = { answer.append(($0, $1.stream)) }
        world.configuration.minimumConnections = 2
        world.configuration.maximumConnections = 2
        func allow(_ streams: UInt32, on peer: Int) throws {
            try world.server.peers[peer].session.changeSettings([.maxConcurrentStreams(streams)])
            world.server.peers[peer].flush()
        }
        func isStreamless(_ note: TransportNote) -> Bool { if case .noStreams = note { true } else { false } }
        try world.start()
        world.run("out of reach") { world.reachable == [false] }
        world.run("two connections") { world.server.peers.count { $0.isReady } == 2 }
        #expect(world.capacities.isEmpty && world.notes.count(where: isStreamless) == 1)
        world.send(0..<1)
        world.run("given back") { world.completionOf[0]?.kind == .notProcessed }

        // One connection that allows some is enough.
        try allow(2, on: 1)
        world.run("in reach") { world.reachable == [false, true] && world.capacity == 2 }
        world.send(1..<3)
        world.run("on it") { answer.count == 2 }
        world.send(3..<4)
        try allow(0, on: 1)
        world.run("out of reach again") { world.reachable == [false, true, false] && world.capacity == 0 }
        world.run("given back") { world.completionOf[3]?.kind == .notProcessed }
        while let (peer, stream) = answer.popLast() { peer.respond(stream) }
        world.run("answered") { world.completionOf[1]?.kind == .answered && world.completionOf[2]?.kind == .answered }
        #expect(world.notes.count(where: isStreamless) == 2)

        // The quarantine connection allows none.
        world.sendSuspects([10_000])
        world.run("given back") { world.completionOf[10_000]?.kind == .notProcessed }
        #expect(world.reachable == [false, true, false])
        try allow(1, on: 0)
        world.run("in reach") { world.reachable == [false, true, false, true] }
    }

    @Test(arguments: Wire.allCases)
    func `Go away above and below`(wire: Wire) throws {
        let world = try World(over: wire)
        world.server.onRequest = { peer, request in
            guard peer.number == 0 else { return peer.respond(request.stream) }
            // Streams 1, 3, 5, 7, 9: the first two are processed, and answered after the GOAWAY.
            guard request.stream == 9 else { return }
            try? peer.session.shutdownNotice()
            try? peer.session.goAway(lastStreamID: 3, .noError, Array(#"{"reason":"Shutdown"}"#.utf8))
            peer.respond(3)
            peer.respond(1)
        }
        try world.connect()
        world.complete(0..<5)
        for number in 0..<2 as Range<UInt32> { #expect(world.completionOf[number]?.status == 200) }
        for number in 2..<5 as Range<UInt32> { #expect(world.completionOf[number]?.kind == .notProcessed) }
        #expect(
            world.notes.contains { if case .peerCloses(_, "GOAWAY NO_ERROR Shutdown", 3) = $0 { true } else { false } })
        world.run("successor") { world.capacity > 0 && world.server.peers.count == 2 }
        world.run("the old one is closed") { world.server.peers[0].isClosed }
        world.send(10..<12)
        world.run("completions") { world.completions.count == 7 }
        #expect(world.completionOf[11]?.status == 200)
        world.close()
    }

    @Test(arguments: Wire.allCases)
    func `Resets`(wire: Wire) throws {
        let world = try World(over: wire)
        world.server.onRequest = { peer, request in
            try? peer.session.reset(
                stream: request.stream, request.stream == 1 ? .refusedStream : .internalError)
        }
        try world.connect()
        world.complete(0..<2)
        #expect(world.completionOf[0]?.kind == .notProcessed)
        #expect(world.completionOf[1]?.kind == .inDoubt)
        #expect(world.completionOf[1]?.connectionDied == false)
        world.close()
    }

    @Test(arguments: [true, false], Wire.allCases)
    func `A lost connection`(isReset: Bool, wire: Wire) throws {
        let world = try World(over: wire)
        world.server.onRequest = { peer, request in
            if peer.number > 0 { return peer.respond(request.stream) }
            if request.stream == 1 { peer.respond(request.stream) }
            if request.stream == 5 { if isReset { peer.channel.reset() } else { peer.channel.cut() } }
        }
        try world.connect()
        world.complete(0..<3)
        #expect(world.completionOf[1]?.kind == .inDoubt && world.completionOf[2]?.kind == .inDoubt)
        #expect(world.completionOf[1]?.connectionDied == true)
        #expect(world.capacities.contains(0))
        #expect(
            world.notes.contains { if case .disconnected(_, _, let unanswered) = $0 { unanswered >= 2 } else { false } }
        )
        world.run("connected again") { world.capacity > 0 }
        #expect(world.server.peers.count == 2)
        world.complete(5..<6)
        #expect(world.completionOf[5]?.status == 200)
        world.close()
    }

    @Test func `No response in time`() throws {
        let world = try World()
        world.configuration.responseTimeoutNs = 400_000_000
        world.server.onRequest = { peer, request in if request.stream != 3 { peer.respond(request.stream) } }
        try world.connect()
        world.send(0..<3)
        let began = world.loop.now.monotonicNs
        world.run("completions") { world.completions.count == 3 }
        #expect(world.loop.now.monotonicNs - began >= 400_000_000)
        #expect(world.completionOf[1]?.kind == .inDoubt)
        #expect(world.completionOf[1]?.connectionDied == false)
        world.run("cancelled") { world.server.peers[0].cancelled == [3] }
        // A late answer finds nobody.
        world.server.peers[0].respond(3)
        world.complete(3..<4)
    }

    /// PINGs are answered, requests are not.
    @Test func `A connection that answers nobody is given up`() throws {
        let world = try World()
        world.configuration.responseTimeoutNs = 100_000_000
        world.server.onRequest = { peer, request in if peer.number > 0 { peer.respond(request.stream) } }
        try world.connect()
        world.complete(0..<3)
        #expect(world.completions.allSatisfy { $0.kind == .inDoubt && $0.connectionDied && $0.connectionWasSilent })
        #expect(
            world.notes.contains {
                if case .disconnected(_, let reason, 3) = $0 { reason.contains("nothing was answered") } else { false }
            })
        world.run("connected again") { world.capacity > 0 && world.server.peers.count == 2 }
        world.complete(3..<4, status: 200)
    }

    @Test func `Recall`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(2)] }
        world.configuration.maximumConnections = 1
        world.server.onRequest = { _, _ in }
        try world.connect()
        world.send(0..<6)
        world.run("two on the connection") { world.server.arrived == 2 }
        world.transport.handle(.recall([1, 3, 5].map { NotificationID(slot: NotificationSlot($0), generation: 3) }))
        world.run("recalled") { world.completions.count == 2 }
        // 1 is on the connection: it stays.
        #expect(world.completionOf[3]?.kind == .notProcessed && world.completionOf[5]?.kind == .notProcessed)
        for stream in [1, 3] as [Int32] { world.server.peers[0].respond(stream) }
        world.server.onRequest = { $0.respond($1.stream) }
        world.run("the rest") { world.completions.count == 6 }
        #expect(world.completions.filter { $0.kind == .answered }.count == 4)
    }

    @Test(arguments: Wire.allCases)
    func `Close finishes what is on connections`(wire: Wire) throws {
        let world = try World(over: wire) { $0.options.settings = [.maxConcurrentStreams(2)] }
        world.configuration.maximumConnections = 1
        world.server.onRequest = { _, _ in }
        try world.connect()
        world.send(0..<5)
        world.run("two on the connection") { world.server.arrived == 2 }
        world.transport.handle(.close)
        world.run("given back") { world.completions.count == 3 }
        #expect(world.completions.allSatisfy { $0.kind == .notProcessed })
        world.runFor(seconds: 0.05)
        #expect(!world.isClosed)
        world.transport.handle(.send([world.request(9)]))
        world.run("given back") { world.completionOf[9]?.kind == .notProcessed }
        for stream in [1, 3] as [Int32] { world.server.peers[0].respond(stream) }
        world.run("closed") { world.isClosed }
        #expect(world.completionOf[0]?.status == 200 && world.completionOf[1]?.status == 200)
        #expect(world.server.peers.count == 1)
    }

    @Test func `A server that cannot be trusted`() throws {
        let world = try World(over: .tls)
        let other = try CertificateAuthority(commonName: "someone else")
        world.configuration.tls = try ClientContext(ClientOptions(trust: .pem(other.certificatePEM)))
        try world.start()
        world.run("failed twice") {
            world.failedDials >= 2
        }
        guard case .connectFailed(let host, let reason, let retryInMs) = world.notes[0] else {
            Issue.record("\(world.notes)")
            return
        }
        #expect(host == "127.0.0.1")
        #expect(reason.contains("127.0.0.1"))
        #expect(retryInMs >= 20 && retryInMs <= 40)
        #expect(world.capacities.isEmpty)
        // Nothing is connected: whatever is handed over comes back at once.
        world.complete(0..<2)
        #expect(world.completions.allSatisfy { $0.kind == .notProcessed && $0.sentAtMs == 0 })
        world.close()
    }

    @Test func `A server that speaks no HTTP2`() throws {
        let world = try World()
        world.server.greeting = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
        try world.start()
        world.run("failed") { world.failedDials > 0 }
        #expect(world.capacities.isEmpty)
    }

    @Test func `Garbage from an open connection`() throws {
        let world = try World()
        world.server.onRequest = { peer, request in
            guard request.stream == 3 else { return }
            // DATA on stream 0 is a protocol error.
            peer.session.appendRaw([0, 0, 1, 0, 0, 0, 0, 0, 0, 1])
        }
        try world.connect()
        world.complete(0..<2)
        #expect(world.completions.allSatisfy { $0.kind == .inDoubt && $0.connectionDied })
        world.run("connected again") { world.capacity > 0 && world.server.peers.count == 2 }
    }

    @Test(arguments: ["UnrelatedKeyIdInToken", "TooManyProviderTokenUpdates", "Shutdown", "IdleTimeout"])
    func `Answers that ask for a new connection`(reason: String) throws {
        let world = try World()
        world.server.onRequest = { peer, request in
            if peer.number == 0 {
                peer.respond(request.stream, 403, #"{"reason":"\#(reason)"}"#)
            } else {
                peer.respond(request.stream)
            }
        }
        try world.connect()
        world.complete(0..<1)
        world.run("redialled") { world.server.peers.count == 2 && world.capacity > 0 }
        world.complete(1..<2)
        #expect(world.completionOf[1]?.status == 200)
        #expect(world.server.peers[1].arrived.count == 1)
    }

    @Test func `An expired token that is young is not renewed`() throws {
        let world = try World()
        world.server.onRequest = { $0.respond($1.stream, 403, #"{"reason":"ExpiredProviderToken"}"#) }
        try world.connect()
        world.complete(0..<2)
        #expect(world.completions.allSatisfy { $0.reason == .expiredProviderToken && !$0.carriedOlderToken })
        let tokens = Set(world.server.peers[0].arrived.map { $0.headers["authorization"] })
        #expect(tokens.count == 1)
        let issuedMs = world.notes.compactMap { note -> Int64? in
            if case .providerTokenRenewed(_, let issuedMs) = note { issuedMs } else { nil }
        }
        #expect(issuedMs.count == 1)
        // It is of the grid, not of when it was made.
        #expect(issuedMs.first.map { $0 % 2_400_000 } == 0)
    }

    /// So what was refused goes again at once, and no circuit opens for it.
    @Test func `An expired token that is old is renewed before its answer is told of`() throws {
        let world = try World()
        world.server.onRequest = { $0.respond($1.stream, 403, #"{"reason":"ExpiredProviderToken"}"#) }
        try world.connect()
        world.complete(0..<1)
        world.runFor(seconds: 1_260)
        world.complete(1..<3)
        #expect(world.completions.map(\.carriedOlderToken) == [false, true, true])
        world.complete(3..<4)
        #expect(world.completionOf[3]?.carriedOlderToken == false)
        let tokens = world.server.peers.flatMap(\.arrived).map { $0.headers["authorization"] }
        #expect(tokens[1] == tokens[0] && tokens[2] == tokens[0] && tokens[3] != tokens[0])
    }

    @Test func `A connection retires at its last stream ID`() throws {
        let world = try World()
        world.configuration.retirementStreamID = 101
        world.configuration.backOff.firstNs = 1_000_000
        try world.connect()
        var next: UInt32 = 0
        world.run("all completions") {
            if world.capacity > 0, Int(next) == world.completions.count, next < 300 {
                world.send(next..<(next + 30))
                next += 30
            }
            return world.completions.count == 300
        }
        // What waited when the last one retired came back unprocessed; nothing was lost, nothing in doubt.
        #expect(world.completions.allSatisfy { $0.kind != .inDoubt })
        #expect(world.server.peers.count >= 5)
        #expect(world.server.peers.allSatisfy { $0.arrived.count <= 50 })
        let answered = world.completions.filter { $0.kind == .answered }.count
        #expect(answered == world.server.arrived)
        #expect(answered >= 200)
    }

    @Test func `Grows when all streams are taken`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(8)] }
        world.configuration.maximumConnections = 3
        world.server.onRequest = { [loop = world.loop] peer, request in
            _ = loop.schedule(afterNs: 30_000_000) { peer.respond(request.stream) }
        }
        try world.connect()
        var next: UInt32 = 0
        world.run("three connections") {
            world.fill(&next)
            return world.server.peers.count == 3 && world.capacity >= 24
        }
        world.runFor(seconds: 0.3)
        #expect(world.server.peers.count == 3)
    }

    @Test func `Shrinks after idleness`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(4)] }
        world.configuration.maximumConnections = 2
        world.configuration.idleConnectionNs = 100_000_000
        world.server.onRequest = { [loop = world.loop] peer, request in
            _ = loop.schedule(afterNs: 30_000_000) { peer.respond(request.stream) }
        }
        try world.connect()
        var next: UInt32 = 0
        world.run("two connections") {
            world.fill(&next)
            return world.capacity == 8 + 1
        }
        world.run("one connection") { world.capacity == 4 }
        #expect(world.server.peers.count == 2)
        #expect(world.completions.allSatisfy { $0.status == 200 })
    }

    @Test func `The peers window is counted`() throws {
        let world = try World { $0.options.canStall = true }
        world.configuration.maximumConnections = 1
        try world.connect()
        try world.server.peers[0].session.setStalled(true)
        // Sixteen bodies of 4,000 bytes fit into 65,535.
        world.send(0..<40, bodyBytes: 4_000)
        world.run("sixteen answers") { world.completions.count == 16 }
        world.runFor(seconds: 0.05)
        // One more is handed over when nothing else is unanswered; its body waits.
        #expect(world.completions.count == 16)
        world.transport.handle(.recall((0..<40).map { NotificationID(slot: NotificationSlot($0), generation: 3) }))
        world.run("the others were waiting here") { world.completions.count == 39 }
        #expect(world.completions.count { $0.kind == .notProcessed } == 23)
        try world.server.peers[0].session.setStalled(false)
        world.server.peers[0].flush()
        world.run("the last") { world.completions.count == 40 }
        #expect(world.completions.count { $0.status == 200 } == 17)
    }

    @Test func `A body that never gets out is not in doubt`() throws {
        let world = try World { $0.options.settings = [.initialWindowSize(100), .maxConcurrentStreams(10)] }
        world.server.options.canStall = true
        world.configuration.responseTimeoutNs = 50_000_000
        try world.connect()
        try world.server.peers[0].session.setStalled(true)
        world.complete(0..<1, bodyBytes: 4_000)
        #expect(world.completions[0].kind == .notProcessed)
        // It answered nobody meanwhile: another connection may do better.
        world.run("given up") { world.server.peers[0].isClosed && world.server.peers.count == 2 }
    }

    @Test func `A peer that falls silent is dead`() throws {
        let world = try World()
        world.configuration.keepalive.silentNs = 40_000_000
        world.configuration.keepalive.deadNs = 40_000_000
        world.server.onRequest = { peer, request in
            if peer.number == 0 { peer.isDeaf = true } else { peer.respond(request.stream) }
        }
        try world.connect()
        world.complete(0..<1)
        #expect(world.completions[0].kind == .inDoubt && world.completions[0].connectionDied)
        #expect(world.completions[0].connectionWasSilent, "which is not the notification's fault")
        #expect(
            world.notes.contains {
                if case .disconnected(_, let reason, 1) = $0 { reason.contains("PING") } else { false }
            })
        world.run("connected again") { world.capacity > 0 }
    }

    /// A box on the way that drops what one notification says, and the rest of its connection with it.
    @Test(arguments: [false, true])
    func `Silence counts as a death while another connection lives`(isSuspect: Bool) throws {
        let world = try World()
        world.configuration.minimumConnections = 2
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
            // Nothing else is asked meanwhile: the other one shows its life by a PING's answer.
            #expect(world.completionOf[10_000]?.connectionWasSilent == false)
            world.forgetCompletion(10_000)
        }
    }

    @Test func `Where nothing lives silence is nobodys fault`() throws {
        let world = try World()
        world.configuration.minimumConnections = 2
        world.configuration.keepalive.silentNs = 40_000_000
        world.configuration.keepalive.deadNs = 40_000_000
        world.server.onRequest = { _, _ in for peer in world.server.peers { peer.isDeaf = true } }
        try world.connect()
        world.run("two connections") { world.server.peers.count { $0.isReady } == 2 }
        world.complete(0..<4)
        #expect(world.completions.allSatisfy { $0.kind == .inDoubt && $0.connectionWasSilent })
        world.server.onRequest = { $0.respond($1.stream) }
    }

    @Test func `A connection that answers nobody while another does counts`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(1)] }
        world.configuration.minimumConnections = 2
        world.configuration.maximumConnections = 2
        world.configuration.responseTimeoutNs = 200_000_000
        // Silent on the one that got the first; PINGs are answered.
        var silent: Int?
        world.server.onRequest = { peer, request in
            if silent == nil { silent = peer.number }
            if peer.number != silent { peer.respond(request.stream) }
        }
        try world.connect()
        world.run("two connections") { world.server.peers.count { $0.isReady } == 2 }
        world.send(0..<1)
        world.run("there") { silent != nil }
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

    /// A try that nobody answers counts, lest it be made again without end.
    @Test func `A peer that answers pings only is not silent`() throws {
        let world = try World()
        world.configuration.keepalive.silentNs = 20_000_000
        world.configuration.keepalive.deadNs = 500_000_000
        world.configuration.responseTimeoutNs = 400_000_000
        world.server.onRequest = { _, _ in }
        try world.connect()
        world.complete(0..<1)
        #expect(world.completions[0].kind == .inDoubt && world.completions[0].connectionDied)
        #expect(!world.completions[0].connectionWasSilent)
    }

    @Test func `A peer that answers pings lives`() throws {
        let world = try World()
        world.configuration.keepalive.silentNs = 20_000_000
        // Long enough for a machine that is busy elsewhere, short enough to run out within the second below.
        world.configuration.keepalive.deadNs = 500_000_000
        var held: [(ServerPeer, Int32)] = []
        world.server.onRequest = { held.append(($0, $1.stream)) }
        try world.connect()
        world.send(0..<1)
        world.runFor(seconds: 1)
        #expect(world.completions.isEmpty && world.server.peers.count == 1)
        held[0].0.respond(held[0].1)
        world.run("completion") { world.completions.count == 1 }
    }

    @Test func `An unreachable host`() throws {
        let world = try World(over: .tls)
        world.server.stopListening()
        try world.start()
        world.run("failed twice") { world.failedDials >= 2 }
        guard case .connectFailed(_, let reason, _) = world.notes[0] else { return }
        #expect(reason.contains("127.0.0.1") && reason.contains("refused"))
        world.close()
    }
}
