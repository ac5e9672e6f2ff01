import Delivery
import EventLoop
import HTTP2
import PushRecords
import Testing

@testable import APNs

/// Tests with the default times, which simulated time makes fast.
@Suite(.serialized) struct ConnectionTimesTests {
    private func seconds(_ world: World, sinceNs: Int64) -> Double {
        Double(world.loop.now.monotonicNs - sinceNs) / 1e9
    }

    @Test func `A connection that is idle for a day stays open`() throws {
        let world = try World.connected()
        world.complete(0..<1)
        let before = world.channels[0].sentBytes
        world.runFor(seconds: 86_400)
        #expect(world.server.peers.count == 1 && !world.server.peers[0].isClosed)
        #expect(world.reachable == [true] && world.unanswered.isEmpty)
        // One PING of 17 bytes is sent each minute.
        let pings = (world.channels[0].sentBytes - before) / 17
        #expect(1_430...1_440 ~= pings, "\(pings)")
        world.complete(1..<2)
        #expect(world.completions.allSatisfy { $0.status == 200 })
    }

    /// Without requests, a PING is sent after a minute and waits ten seconds for its answer.
    @Test func `A dead idle connection is replaced`() throws {
        let world = try World.connected()
        let beganNs = world.loop.now.monotonicNs
        world.server.peers[0].isDeaf = true
        world.run("replaced", seconds: 100) { world.server.peers.count == 2 }
        #expect(70...71 ~= seconds(world, sinceNs: beganNs))
        #expect(world.noted("disconnected", "no answer to a PING", "unanswered: 0"))
    }

    /// With an unanswered request, a PING is sent after five seconds of silence and waits ten for its answer. Meanwhile
    /// the connection gets no requests.
    @Test func `A silent connection is closed within fifteen seconds`() throws {
        let world = try World.connected(connections: 1...1) {
            $0.server.onRequest = { peer, _ in peer.isDeaf = true }
        }
        let beganNs = world.loop.now.monotonicNs
        world.send(0..<1)
        world.runFor(seconds: 6)
        let sent = world.channels[0].sentBytes
        world.send(1..<2)
        world.runFor(seconds: 3)
        #expect(world.channels[0].sentBytes == sent, "A connection with an unanswered PING must get no requests")
        world.run("given up") { world.completionOf[0] != nil }
        #expect(15...15.2 ~= seconds(world, sinceNs: beganNs))
        #expect(world.completionOf[0]?.kind == .inDoubt && world.completionOf[0]?.connectionWasSilent == true)
        world.server.onRequest = { $0.respond($1.stream) }
        if world.completionOf[1]?.kind == .notProcessed { world.forgetCompletion(1) }
        world.run("capacity again") { world.capacity > 0 }
    }

    /// The host answers PINGs but no requests. It is reported after nine seconds, and the connection is closed after
    /// thirty.
    @Test func `A host that answers no request is reported, and its connection closed`() throws {
        let world = try World.connected(connections: 1...1) {
            $0.server.onRequest = { _, _ in }
        }
        let beganNs = world.loop.now.monotonicNs
        world.send(0..<1)
        world.run("unanswering host reported", seconds: 20) { !world.unanswered.isEmpty }
        #expect(9...9.1 ~= seconds(world, sinceNs: beganNs))
        #expect(world.completions.isEmpty)
        world.run("given up", seconds: 40) { world.completions.count == 1 }
        #expect(30...30.2 ~= seconds(world, sinceNs: beganNs))
        #expect(world.completions.first?.kind == .inDoubt && world.completions.first?.connectionWasSilent == false)
    }

    /// One of several requests is unanswered for thirty seconds. Its stream is cancelled, and the connection stays.
    @Test func `An unanswered request is cancelled`() throws {
        let world = try World.connected(connections: 1...1) {
            $0.server.onRequest = { peer, request in if request.stream != 1 { peer.respond(request.stream) } }
        }
        let beganNs = world.loop.now.monotonicNs
        world.send(0..<1)
        for number in 1..<8 as Range<UInt32> {
            world.runFor(seconds: 4)
            world.send(number..<(number + 1))
        }
        world.run("cancelled") { world.completionOf[0] != nil }
        #expect(30...30.1 ~= seconds(world, sinceNs: beganNs))
        #expect(world.completionOf[0]?.kind == .inDoubt && world.completionOf[0]?.connectionDied == false)
        world.run("stream cancelled") { world.server.peers[0].cancelled == [1] }
        world.server.peers[0].respond(1)
        world.runFor(seconds: 1)
        #expect(world.server.peers.count == 1 && world.completions.count == 8, "The late answer must be ignored")
    }

    /// With `connections.max_age`, the next connection is ready before the old one closes.
    @Test func `A connection is replaced at its age limit, and the app always has one`() throws {
        let world = try World.connected {
            $0.configuration.connections.maxAgeNs = 600_000_000_000
            $0.configuration.responseTimeoutNs = 3_600_000_000_000
        }
        world.complete(0..<1)
        world.server.hold(firstPeers: 1)
        world.send(1..<3)
        world.run("requests arrived") { world.server.held.count == 2 }
        world.run("renewed", seconds: 601) { world.server.peers.count == 2 && world.connections.draining == 1 }
        world.complete(3..<5, status: 200)
        #expect(world.server.peers.map(\.arrived.count) == [3, 2] && !world.server.peers[0].isClosed)
        world.server.release()
        world.run("old connection closed") { world.server.peers[0].isClosed }
        #expect(world.completions.allSatisfy { $0.status == 200 })
        #expect(!world.capacities.contains(0) && world.reachable == [true])
        // While no new connection can be opened, the old one stays.
        world.server.stopListening()
        world.runFor(seconds: 1_800)
        #expect(!world.server.peers[1].isClosed && world.notes(of: "connectFailed") > 3)
        world.complete(5..<6, status: 200)
    }

    @Test func `A token is renewed while its connection stays open`() throws {
        let world = try World.connected()
        world.complete(0..<1)
        world.runFor(seconds: 3_000)
        world.complete(1..<2)
        #expect(world.server.peers.count == 1)
        #expect(Set(world.server.peers[0].arrived.map { $0.headers["authorization"] }).count == 2)
        #expect(world.notes(of: "providerTokenRenewed") == 2)
        #expect(world.completions.allSatisfy { !$0.carriedOlderToken })
    }

    /// APNs accepts a new bundle id only on new connections. Connections older than a minute are replaced.
    @Test func `A refused topic replaces connections at most once in fifteen minutes`() throws {
        let world = try World.connected {
            $0.server.onRequest = { $0.respond($1.stream, 400, #"{"reason":"TopicDisallowed"}"#) }
        }
        var number: UInt32 = 0
        func refused() {
            world.complete(number..<(number + 1))
            number += 1
            world.runFor(seconds: 1)
        }
        world.runFor(seconds: 57)
        refused()
        #expect(world.server.peers.count == 1, "The connection is younger than a minute")
        world.runFor(seconds: 2)
        refused()
        #expect(world.server.peers.count == 2)
        for _ in 0..<14 {
            world.runFor(seconds: 60)
            refused()
        }
        #expect(world.server.peers.count == 2)
        world.runFor(seconds: 60)
        refused()
        #expect(world.server.peers.count == 3)
    }

    /// The server returns only errors for an hour. One connection is replaced after five seconds, then one every
    /// fifteen minutes.
    @Test func `Permanent server errors replace a connection four times an hour`() throws {
        let world = try World.connected(connections: 1...1) {
            $0.server.onRequest = { $0.respond($1.stream, 503) }
        }
        for number in 0..<3_600 as Range<UInt32> {
            world.run("capacity") { world.capacity > 0 }
            world.send(number..<(number + 1))
            world.runFor(seconds: 1)
            if number == 4 { #expect(world.server.peers.count == 1) }
            if number == 7 { #expect(world.server.peers.count == 2) }
        }
        #expect(world.server.peers.count == 5)
        #expect(world.completions.count == 3_600 && world.completions.allSatisfy { $0.status == 503 })
    }
}
