import Delivery
import EventLoop
import Foundation
import HTTP2
import Network
import PushRecords
import Testing

@testable import APNs

/// What a GOAWAY says is acted on, for every reason there is.
@Suite(.serialized) struct GoAwayTests {
    /// Apple's words that lay the blame on the credential.
    static let ofCredential: Set<ReasonCode> = [
        .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .invalidProviderToken,
        .missingProviderToken, .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken, .topicMismatch,
    ]

    @Test(arguments: ReasonCode.allCases)
    func `Every reason has its meaning`(reason: ReasonCode) {
        let meaning = GoAwayMeaning(reason)
        switch reason {
        case .none, .other: #expect(meaning == .unsaid)
        case .shutdown, .idleTimeout: #expect(meaning == .leaves)
        default: #expect(meaning == (Self.ofCredential.contains(reason) ? .credentialRefused : .other))
        }
        // And the table of answers agrees on whose fault it is.
        let verdict = VerdictTable().row(reason: reason, text: nil, status: 0).verdict
        #expect((meaning == .credentialRefused) == (verdict == .credentialFault))
    }

    /// The first connection answers a request, lives longer than a moment, and leaves with this reason.
    @Test(arguments: ReasonCode.allCases.filter { $0 != .other })
    func `The credential is told before anything is sent again`(reason: ReasonCode) throws {
        let world = try World()
        world.server.onRequest = { peer, request in
            guard peer.number == 0, request.stream > 1 else { return peer.respond(request.stream) }
            guard request.stream == 5 else { return }
            let data = reason.text.map { #"{"reason":"\#($0)"}"# } ?? ""
            try? peer.session.goAway(lastStreamID: 1, .noError, Array(data.utf8))
        }
        try world.connect()
        world.complete(0..<1)
        world.complete(1..<3)
        for number in 1..<3 as Range<UInt32> {
            #expect(world.completionOf[number]?.kind == .notProcessed)
            #expect(world.completionOf[number]?.unprocessed == .refusedByPeer)
        }
        #expect(world.refusals == (Self.ofCredential.contains(reason) ? [reason] : []))
        world.run("a successor") { world.server.peers.count == 2 }
    }

    /// Whether the successor is dialled at once: the back-off is far longer than the test.
    @Test(arguments: ["Shutdown", "IdleTimeout", "BadCertificate", "TooManyRequests"], [true, false])
    func `Only who leaves in order is replaced at once`(reason: String, isAnswer: Bool) throws {
        let world = try World()
        world.configuration.backOff.firstNs = 3_600_000_000_000
        world.configuration.backOff.lastNs = 3_600_000_000_000
        world.server.onRequest = { peer, request in
            guard peer.number == 0, request.stream > 1 else { return peer.respond(request.stream) }
            let data = #"{"reason":"\#(reason)"}"#
            if isAnswer {
                peer.respond(request.stream, 503, data)
            } else {
                try? peer.session.goAway(lastStreamID: 1, .noError, Array(data.utf8))
            }
        }
        try world.connect()
        world.complete(0..<1)
        world.complete(1..<2)
        let leaves = reason == "Shutdown" || reason == "IdleTimeout"
        if leaves {
            world.run("a successor") { world.server.peers.count == 2 && world.capacity > 0 }
        } else {
            world.runFor(seconds: 0.1)
            #expect(world.server.peers.count == 1)
        }
    }

    /// Nobody is answered: each one in turn says that it shuts down.
    @Test(arguments: [true, false])
    func `Who shuts down without an answer is not replaced at once`(isAnswer: Bool) throws {
        let world = try World()
        world.configuration.backOff.firstNs = 3_600_000_000_000
        world.configuration.backOff.lastNs = 3_600_000_000_000
        world.server.onRequest = { peer, request in
            if isAnswer {
                peer.respond(request.stream, 503, #"{"reason":"Shutdown"}"#)
            } else {
                try? peer.session.goAway(lastStreamID: 0, .noError, Array(#"{"reason":"Shutdown"}"#.utf8))
            }
        }
        try world.connect()
        world.complete(0..<1)
        world.runFor(seconds: 0.1)
        #expect(world.server.peers.count == 1)
    }

    /// A credential that was replaced meanwhile: what the old connection says is old.
    @Test func `An old connection says nothing about the new credential`() throws {
        let world = try World()
        world.server.onRequest = { peer, request in if peer.number > 0 { peer.respond(request.stream) } }
        try world.connect()
        world.send(0..<1)
        world.run("asked") { world.server.arrived == 1 }
        world.transport.replace(configuration: world.configuration, token: try World.providerToken(keyID: "NEWKEY1234"))
        world.run("the new one") { world.server.peers.count == 2 && world.capacity > 0 }
        try world.server.peers[0].session.goAway(
            lastStreamID: 0, .noError, Array(#"{"reason":"BadCertificate"}"#.utf8))
        world.server.peers[0].flush()
        world.run("given back") { world.completions.count == 1 }
        #expect(world.refusals.isEmpty)
    }

    // MARK: Out of reach

    enum Ending: CaseIterable {
        case goAwayAtOnce, refusesEveryStream, closedAfterSettings, answersShutdown
    }

    @Test(arguments: Ending.allCases)
    func `An app whose connections answer nothing is out of reach`(ending: Ending) throws {
        let world = try World()
        var isGood = false
        world.server.onRequest = { peer, request in
            if isGood { return peer.respond(request.stream) }
            switch ending {
            case .goAwayAtOnce: try? peer.session.goAway(lastStreamID: 0, .noError, Array("why".utf8))
            case .refusesEveryStream: try? peer.session.reset(stream: request.stream, .refusedStream)
            case .closedAfterSettings: peer.channel.reset()
            case .answersShutdown: peer.respond(request.stream, 503, #"{"reason":"Shutdown"}"#)
            }
        }
        try world.start()
        var next: UInt32 = 0
        var mostAtOnce = 0
        func turn() {
            let outstanding = Int(next) - world.completions.count
            let room = min(100, world.capacity) - outstanding
            if room > 0, world.capacity > 0 {
                world.send(next..<(next + UInt32(room)))
                next += UInt32(room)
            }
            if world.reachable.last == false { mostAtOnce = max(mostAtOnce, Int(next) - world.completions.count) }
        }
        world.run("out of reach") {
            turn()
            return world.reachable.last == false
        }
        #expect(world.reachable == [true, false])
        mostAtOnce = 0
        world.run("told why") {
            turn()
            return world.notes.contains {
                if case .connectFailed(_, let reason, _) = $0 {
                    reason.contains("3 connections in a row")
                } else {
                    false
                }
            }
        }
        let peers = world.server.peers.count
        world.run("tried again") {
            turn()
            return world.server.peers.count >= peers + 2
        }
        #expect(world.reachable == [true, false], "connecting alone shows nothing")
        #expect(mostAtOnce <= 1, "one request at a time")
        isGood = true
        world.run("in reach") {
            turn()
            return world.reachable.last == true && world.capacity > 100
        }
        #expect(world.reachable == [true, false, true])
    }

    /// One way to the host is dead and another good, as it was before: what is answered on that shows that the host is
    /// of use.
    @Test func `One that goes on is the hosts word while others end`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(1)] }
        world.configuration.minimumConnections = 2
        world.server.onRequest = { peer, request in
            if peer.number == 0 { peer.respond(request.stream) } else { peer.channel.cut() }
        }
        try world.connect()
        var next: UInt32 = 0
        world.run("others ended") {
            // One on each.
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

    /// Answers between them: streams that are refused are about their requests.
    @Test func `Refused streams among answers leave the connection alone`() throws {
        let world = try World()
        world.server.onRequest = { peer, request in
            if request.stream == 1 || request.stream == 201 {
                peer.respond(request.stream)
            } else {
                try? peer.session.reset(stream: request.stream, .refusedStream)
            }
        }
        try world.connect()
        world.complete(0..<1)
        world.complete(1..<101)
        #expect(world.completions.count { $0.unprocessed == .refusedByPeer } == 99)
        #expect(world.server.peers.count == 1 && world.reachable == [true])
    }

    /// Not handed over, or recalled: that is no refusal.
    @Test func `What waited here was not refused`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(1)] }
        world.configuration.maximumConnections = 1
        world.server.onRequest = { _, _ in }
        try world.connect()
        world.send(0..<3)
        world.run("one on the connection") { world.server.arrived == 1 }
        world.transport.handle(.recall([NotificationID(slot: NotificationSlot(1), generation: 3)]))
        world.run("recalled") { world.completions.count == 1 }
        world.transport.handle(.close)
        world.run("given back") { world.completions.count == 2 }
        #expect(world.completions.allSatisfy { $0.kind == .notProcessed && $0.unprocessed == .neverSent })
        world.server.peers[0].respond(1)
        world.run("closed") { world.isClosed }
    }
}
