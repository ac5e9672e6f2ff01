import Delivery
import HTTP2
import Network
import PushRecords
import Testing

@testable import APNs

/// Tests of the reaction to each reason in a GOAWAY.
@Suite(.serialized) struct GoAwayTests {
    /// Apple's reasons for a problem with the credential.
    static let ofCredential: Set<ReasonCode> = [
        .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .invalidProviderToken,
        .missingProviderToken, .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken, .topicMismatch,
    ]

    @Test(arguments: ReasonCode.allCases)
    func `Every reason is classified as orderly end, credential fault or other end`(reason: ReasonCode) {
        #expect(reason.refusesConnections == Self.ofCredential.contains(reason))
        #expect(reason.isOrderlyEnd(.internalError) == [.shutdown, .idleTimeout].contains(reason))
        #expect(reason.isOrderlyEnd(.noError) == [.none, .other, .shutdown, .idleTimeout].contains(reason))
        // The verdict table must classify the same reasons as faults of the credential.
        let verdict = VerdictTable().row(reason: reason, text: nil, status: 0).verdict
        #expect(reason.refusesConnections == (verdict == .credentialFault))
    }

    /// The first connection answers a request, stays open for a while, and closes with this reason.
    @Test(arguments: ReasonCode.allCases.filter { $0 != .other })
    func `A refused credential is reported before anything is sent again`(reason: ReasonCode) throws {
        let world = try World.connected {
            $0.server.onRequest = { peer, request in
                guard peer.number == 0, request.stream > 1 else { return peer.respond(request.stream) }
                if request.stream == 5 { peer.goAway(1, reason.text?.description) }
            }
        }
        world.complete(0..<3)
        #expect(world.completions[1...].allSatisfy { $0.unprocessed != .neverSent && $0.kind == .notProcessed })
        #expect(world.refusals == (Self.ofCredential.contains(reason) ? [reason] : []))
        world.run("a successor") { world.server.peers.count == 2 }
    }

    /// The test shows whether the next connection is dialed at once, because the backoff is far longer than the test.
    @Test(
        arguments: [
            ("Shutdown", true), ("IdleTimeout", true), ("BadCertificate", true), ("TooManyRequests", true),
            ("Shutdown", false),
        ], [true, false])
    func `Only a connection that has answered and ends in order is replaced at once`(
        _ end: (reason: String, isAfterAnswer: Bool), isAnswer: Bool
    ) throws {
        let world = try World.connected { world in
            world.configuration.connections.backOff.firstNs = 3_600_000_000_000
            world.configuration.connections.backOff.lastNs = 3_600_000_000_000
            world.server.onRequest = { peer, request in
                let isLast = peer.number == 0 && (request.stream > 1 || !end.isAfterAnswer)
                if !isLast { return peer.respond(request.stream) }
                if isAnswer { return peer.respond(request.stream, 503, #"{"reason":"\#(end.reason)"}"#) }
                peer.goAway(request.stream - 2, end.reason)
            }
        }
        world.complete(0..<1)
        if end.isAfterAnswer { world.complete(1..<2) }
        world.runFor(seconds: 0.1)
        let leaves = end.isAfterAnswer && ["Shutdown", "IdleTimeout"].contains(end.reason)
        #expect(world.server.peers.count == (leaves ? 2 : 1))
    }

    /// nginx ends a connection in order after a number of requests (`keepalive_requests`). The backoff is far longer
    /// than the test. A request is refused at most once.
    @Test func `A server that rotates connections is used again at once`() throws {
        let world = try World.connected(streams: 100, connections: 1...1) { world in
            world.configuration.connections.backOff.firstNs = 3_600_000_000_000
            world.configuration.connections.backOff.lastNs = 3_600_000_000_000
            world.server.onRequest = { peer, request in
                guard request.stream <= 99 else { return }
                peer.respond(request.stream)
                if request.stream == 99 { peer.goAway(99) }
            }
        }
        var next: UInt32 = 0
        var refusals: [UInt32: Int] = [:]
        world.run("all answered") {
            for completion in world.completions where completion.kind == .notProcessed {
                let number = completion.id.slot.number
                if completion.unprocessed == .refusedByPeer { refusals[number, default: 0] += 1 }
                world.forgetCompletion(number)
                world.send(number..<number + 1)
            }
            world.fill(&next, below: 1_000)
            return world.completions.count == 1_000
        }
        #expect(world.completions.allSatisfy { $0.status == 200 })
        #expect(refusals.values.allSatisfy { $0 == 1 } && refusals.count < world.server.peers.count)
        #expect(world.reachable == [true] && !world.capacities.contains(0))
    }

    @Test func `Errors on an old connection do not affect the new credential`() throws {
        let world = try World.connected { $0.server.hold(firstPeers: 1) }
        world.send(0..<1)
        world.run("requests arrived") { world.server.arrived == 1 }
        try world.replace(keyID: "NEWKEY1234")
        world.run("new connection ready") { world.server.peers.count == 2 && world.capacity > 0 }
        world.server.peers[0].goAway(0, "BadCertificate")
        world.run("requests returned") { world.completions.count == 1 }
        #expect(world.refusals.isEmpty)
    }

    // MARK: Unreachable hosts

    enum Ending: CaseIterable {
        case goAwayAtOnce, refusesEveryStream, closedAfterSettings, answersShutdown
    }

    @Test(arguments: Ending.allCases)
    func `An app whose connections do not answer is unreachable`(ending: Ending) throws {
        let world = try World()
        var isGood = false
        world.server.onRequest = { peer, request in
            if isGood { return peer.respond(request.stream) }
            switch ending {
            case .goAwayAtOnce: peer.goAway(0)
            case .refusesEveryStream: try? peer.session.reset(stream: request.stream, .refusedStream)
            case .closedAfterSettings: peer.channel.reset()
            case .answersShutdown: peer.respond(request.stream, 503, #"{"reason":"Shutdown"}"#)
            }
        }
        try world.start()
        var next: UInt32 = 0
        var mostAtOnce = 0
        func run(_ what: String, until isSo: () -> Bool) {
            world.run(what) {
                world.fill(&next)
                if world.reachable.last == false { mostAtOnce = max(mostAtOnce, Int(next) - world.completions.count) }
                return isSo()
            }
        }
        run("unreachable") { world.reachable.last == false }
        #expect(world.reachable == [true, false])
        mostAtOnce = 0
        run("reason reported") { world.noted("connectFailed", "3 consecutive connections") }
        let peers = world.server.peers.count
        run("redialled") { world.server.peers.count >= peers + 2 }
        #expect(world.reachable == [true, false], "A connection alone must not make the host reachable")
        #expect(mostAtOnce <= 1, "The transport must send one request at a time")
        isGood = true
        run("reachable") { world.reachable.last == true && world.capacity > 100 }
        #expect(world.reachable == [true, false, true])
    }

    /// One address of the host is dead and another one works. Answers over the working one show that the host works.
    @Test func `A host is reachable while one of its connections answers, even if others end`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(1)] }
        world.configuration.connections.minimum = 2
        world.server.onRequest = { peer, request in
            if peer.number == 0 { peer.respond(request.stream) } else { peer.channel.cut() }
        }
        try world.connect()
        var next: UInt32 = 0
        world.run("five connections ended") {
            // One request is on each connection.
            if world.connections.open == 2, world.completions.count == next {
                world.send(next..<next + 2)
                next += 2
            }
            return world.notes.count { if case .disconnected(_, _, unanswered: 1) = $0 { true } else { false } } == 5
        }
        world.send(next..<next + 1)
        world.run("answered") { world.completionOf[next]?.status == 200 }
        #expect(world.server.peers.count { !$0.isClosed } >= 1 && !world.server.peers[0].isClosed)
        #expect(world.reachable == [true])
    }

    /// Answers arrive between the refusals, so the refusals concern only their requests.
    @Test func `Refused streams between answers do not affect the connection`() throws {
        let world = try World.connected {
            $0.server.onRequest = { peer, request in
                if [1, 201].contains(request.stream) { return peer.respond(request.stream) }
                try? peer.session.reset(stream: request.stream, .refusedStream)
            }
        }
        world.complete(0..<1)
        world.complete(1..<101)
        #expect(world.completions.count { $0.unprocessed == .refusedByPeer } == 99)
        #expect(world.server.peers.count == 1 && world.reachable == [true])
    }
}
