import Delivery
import Testing

@testable import APNs

/// A gateway whose kernel accepts bytes that its program never reads. Only an answer shows that it works.
struct BinaryProofTests {
    /// The number of bytes in the send buffer that the gateway does not acknowledge.
    private static let unread = 1_000_000

    /// Returns a world whose gateway read nothing of forty notifications and is unreachable.
    private func unread(_ prepare: (GatewayWorld) -> Void = { _ in }) throws -> GatewayWorld {
        let world = try GatewayWorld()
        prepare(world)
        world.gateway.onDial = { $0.unacknowledgedBytes = Self.unread }
        world.connect()
        world.send(0..<40)
        world.run("unreachable", seconds: 16) { world.reachable.last == false }
        #expect(world.capacity == 0)
        #expect(world.completions.count >= 40)
        #expect(world.completions.allSatisfy { !$0.isPresumed })
        #expect(world.completions.contains { $0.kind == .inDoubt && $0.connectionWasSilent && !$0.connectionDied })
        // The kernel of new connections acknowledges everything.
        world.gateway.onDial = { _ in }
        return world
    }

    /// Only fences are sent over the connections to such a gateway, one connection at a time.
    @Test func `A gateway that does not read is unreachable until it answers`() throws {
        let world = try unread { $0.sendsAgain = true }
        let before = world.gateway.peers.count
        world.runFor(seconds: 120)
        #expect(world.reachable == [true, false] && world.capacity == 0)
        let asked = world.gateway.peers[before...]
        // Each connection waited five seconds for an answer.
        #expect((20...24).contains(asked.count))
        #expect(asked.allSatisfy { $0.frames.count == 1 && $0.frames[0].isFence })
        #expect(world.gateway.peers.count { !$0.isClosed } == 1)
        world.gateway.answersFences = true
        world.run("reachable again", seconds: 10) { world.reachable == [true, false, true] && world.capacity > 0 }
        // The limit starts small.
        #expect(world.capacity == BinaryAdmission.leastAfterEnd)
        world.run("all completions", seconds: 10) { world.completionOf.count == 40 }
        #expect(world.completionOf.values.allSatisfy { $0.status == 200 })
    }

    /// The only connection drains because of a recall, so the pool sleeps when the gateway turns out not to read.
    /// Without capacity no request arrives that would wake the pool.
    @Test func `A pool without a minimum of connections dials until the gateway answers`() throws {
        let world = try GatewayWorld.connected { $0.configuration.connections.minimum = 0 }
        world.complete(0..<1)
        world.gateway.channels[0].unacknowledgedBytes = Self.unread
        world.send(1..<20)
        world.run("frames arrived") { world.gateway.frames.count == 20 }
        world.recall([7])
        world.run("unreachable", seconds: 20) { world.reachable.last == false }
        #expect(world.capacity == 0)
        world.runFor(seconds: 60)
        #expect(world.gateway.peers.count > 5 && world.reachable == [true, false])
        world.gateway.answersFences = true
        world.run("reachable again", seconds: 10) { world.reachable == [true, false, true] && world.capacity > 0 }
        world.complete(20..<30)
    }

    /// The gateway's kernel accepted twenty notifications that its program never read. The possible loss is reported.
    @Test func `Notifications that silence accepted from a gateway that does not read are reported`() throws {
        let world = try GatewayWorld.connected()
        world.complete(0..<20)
        #expect(world.completions.allSatisfy { $0.isPresumed })
        world.gateway.channels[0].unacknowledgedBytes = Self.unread
        world.send(20..<40)
        world.run("given up", seconds: 20) { world.reachable.last == false }
        #expect(world.noted("presumedUnread", "lostAtMost: 20"))
    }

    /// The gateway discards what follows the frame that it rejects, also if its answer does not arrive completely.
    @Test(arguments: [true, false])
    func `From the first byte of an answer on, nothing is presumed accepted`(isCompleted: Bool) throws {
        let world = try GatewayWorld.connected()
        world.complete(0..<20)
        world.send(20..<40)
        let peer = world.gateway.peers[0]
        world.run("the frames") { peer.frames.count == 40 }
        peer.say([8, 7, 0])
        world.runFor(seconds: 3)
        #expect(world.completions.count == 20)
        if isCompleted {
            peer.say([0, 0] + [UInt8(truncatingIfNeeded: peer.frames[30].identifier)])
            world.run("the answer") { world.completions.count == 40 }
            #expect(world.completions[20..<30].allSatisfy { $0.status == 200 && !$0.isPresumed })
        } else {
            world.run("given up", seconds: 10) { world.completions.count == 40 }
            #expect(world.completions[20...].allSatisfy { $0.kind == .inDoubt })
            #expect(world.noted("presumedUnread", "lostAtMost: 20"))
        }
    }

    /// One path to the gateway is dead and the others work. The fences show this at once, and nothing on them is in
    /// doubt.
    @Test func `If the gateway does not read one connection, the others must prove that it reads them`() throws {
        let world = try GatewayWorld()
        world.configuration.connections.minimum = 3
        world.configuration.window.notifications = 60
        world.gateway.answersFences = true
        world.start()
        world.run("connections") { world.gateway.peers.count == 3 && world.capacity == 60 }
        world.gateway.channels[0].unacknowledgedBytes = Self.unread
        world.send(0..<20)
        world.run("frames on the first connection") { world.gateway.peers[0].frames.count == 20 }
        var next: UInt32 = 20
        while world.reachable != [true, false, true], next < 500 {
            world.send(next..<next + 2)
            next += 2
            world.runFor(seconds: 0.1)
        }
        #expect(world.reachable == [true, false, true])
        let doubted = world.completions.filter { $0.kind == .inDoubt }
        #expect(doubted.map(\.id.slot.number) == Array(0..<20))
        #expect(world.gateway.peers[1...2].allSatisfy { $0.frames.last?.isFence == true })
        world.run("all completions", seconds: 10) { world.completionOf.count == Int(next) }
    }

    /// On a connection with a fence the answer decides. Without an answer a notification is in doubt, even if it was
    /// acknowledged.
    @Test func `Silence accepts nothing on a connection with a fence`() throws {
        let world = try GatewayWorld()
        world.configuration.connections.minimum = 2
        world.configuration.window.notifications = 40
        world.start()
        world.run("connections") { world.gateway.peers.count == 2 && world.capacity == 40 }
        world.gateway.channels[0].unacknowledgedBytes = Self.unread
        world.send(0..<20)
        world.run("frames on the first connection") { world.gateway.peers[0].frames.count == 20 }
        world.runFor(seconds: 14)
        world.send(20..<25)
        world.run("frames on the second connection") { world.gateway.peers[1].frames.count == 5 }
        world.run("notifications in doubt", seconds: 10) { world.completions.count == 25 }
        #expect(world.completions.allSatisfy { $0.kind == .inDoubt && $0.connectionWasSilent })
        #expect(world.reachable == [true, false])
    }

    /// With format `simple`, a gateway closes where others answer. Closing a connection before it has read the fence is
    /// not such an answer.
    @Test(arguments: [true, false])
    func `A close counts as the answer to a fence only in the format without identifiers`(isSimple: Bool) throws {
        let world = try unread { if isSimple { $0.configuration.format = .simple } }
        if !isSimple { world.gateway.onFrame = { peer, _ in peer.channel.close() } }
        world.runFor(seconds: 30)
        #expect(world.reachable == [true, false])
        guard isSimple else { return }
        world.gateway.onFrame = { peer, frame in if frame.isFence { peer.channel.close() } }
        world.run("reachable again", seconds: 10) { world.reachable == [true, false, true] && world.capacity > 0 }
    }

    /// A gateway that does not refuse a fence cannot prove that it reads. Silence accepts its requests.
    @Test func `A gateway that accepts a token of zeros gets one request at a time`() throws {
        let world = try unread {
            $0.configuration.answersFence = false
            $0.sendsAgain = true
        }
        world.run("one request accepted by silence", seconds: 10) { world.reachable.last == true }
        #expect(world.completions.count { $0.isPresumed } == 1)
        #expect(world.gateway.frames.count == world.gateway.peers.flatMap(\.frames).count)
    }

    @Test func `A new credential does not replace the proof that the gateway reads`() throws {
        let world = try unread()
        let before = world.gateway.peers.count
        world.transport.replace(configuration: world.configuration)
        world.runFor(seconds: 4)
        #expect(world.reachable == [true, false] && world.capacity == 0)
        #expect(world.gateway.peers[before...].allSatisfy { $0.frames.allSatisfy { $0.isFence } })
        world.gateway.answersFences = true
        world.run("reachable again", seconds: 10) { world.reachable == [true, false, true] && world.capacity > 0 }
    }

    @Test func `A stop does not wait for a proof`() throws {
        let world = try unread()
        let before = world.gateway.peers.count
        world.run("requests arrived", seconds: 10) {
            world.gateway.peers.count > before && world.gateway.peers[before].frames.count == 1
        }
        let sinceNs = world.nowNs
        world.close()
        #expect(world.nowNs - sinceNs < 100_000_000)
    }

    /// Suspects have a separate connection, but the transport sends them only after the proof too.
    @Test func `Suspects are returned while a proof is awaited`() throws {
        let world = try unread()
        world.sendSuspects([77])
        world.run("suspect returned", seconds: 1) { world.completionOf[77]?.kind == .notProcessed }
    }
}
