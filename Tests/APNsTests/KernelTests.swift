import Delivery
import EventLoop
import HTTP2
import Network
import PushRecords
import Testing

@testable import APNs

/// Tests of how a connection handles the bytes that the kernel accepted. In memory, a test can set this number exactly.
@Suite(.serialized) struct KernelTests {
    /// Returns a world whose server never answers, and the client's channel.
    private func silentWorld(prepare: (ScriptedServer) -> Void = { _ in }) throws -> (World, MemoryChannel) {
        let world = try World(prepare: prepare)
        world.configuration.connections.maximum = 1
        world.server.onRequest = { _, _ in }
        try world.connect()
        return (world, try #require(world.channels.first))
    }

    /// Hands requests over one by one, while the kernel accepts no bytes.
    ///
    /// - Returns: the position after each request in the output.
    private func send(_ numbers: Range<UInt32>, _ world: World, _ channel: MemoryChannel) -> [Int64] {
        channel.kernelRoom = 0
        return numbers.map { number in
            world.send(number..<(number + 1))
            world.runFor(seconds: 0.001)
            return channel.sentBytes
        }
    }

    /// The connection is lost when the kernel has accepted some requests completely, or all but the last byte of the
    /// last one.
    @Test(arguments: 0...3, [0, 1])
    func `Only requests that the kernel accepted completely are in doubt`(whole: Int, missing: Int) throws {
        let (world, channel) = try silentWorld()
        let begin = channel.sentBytes
        let ends = send(0..<4, world, channel)
        #expect(channel.writtenBytes == begin)
        channel.kernelRoom = Int(ends[whole] - begin) - missing
        world.run("written") { channel.writtenBytes == ends[whole] - Int64(missing) }
        world.server.peers[0].channel.reset()
        world.run("all completions") { world.completions.count == 4 }
        for number in 0..<4 {
            let completion = try #require(world.completionOf[UInt32(number)])
            if number < whole + 1 - missing {
                #expect(completion.kind == .inDoubt && completion.connectionDied && !completion.connectionWasSilent)
            } else {
                #expect(completion.kind == .notProcessed && completion.unprocessed == .neverSent)
            }
        }
        world.run("connected again") { world.capacity > 0 }
    }

    @Test func `The response timeout starts when the kernel accepts the request`() throws {
        let world = try World.connected { $0.configuration.keepalive.silentNs = 100_000_000_000 }
        world.run("settled") { world.server.peers[0].isReady }
        world.server.peers[0].isDeaf = true
        let channel = world.channels[0]
        _ = send(0..<1, world, channel)
        world.runFor(seconds: 40)
        #expect(world.completions.isEmpty && channel.writtenBytes < channel.sentBytes)
        channel.kernelRoom = .max
        world.run("written") { channel.writtenBytes == channel.sentBytes }
        let beganNs = world.loop.now.monotonicNs
        world.run("notifications in doubt", seconds: 40) { world.completions.count == 1 }
        let tookNs = world.loop.now.monotonicNs - beganNs
        // The connection checks ten times a second whether the kernel has accepted bytes.
        #expect(29_990_000_000...30_110_000_000 ~= tookNs, "\(tookNs)")
        #expect(world.completions.first?.kind == .inDoubt)
        world.server.onRequest = { $0.respond($1.stream) }
    }

    /// nghttp2 writes the end of a body when the output has space, long after the peer's window allowed it.
    @Test func `A request whose body has just been sent completely is in doubt`() throws {
        let (world, channel) = try silentWorld {
            $0.options.settings = [.maxConcurrentStreams(1_000), .initialWindowSize(4_096)]
            $0.options.connectionWindow = 1 << 21
        }
        world.run("settled") { world.server.peers[0].isReady }
        channel.kernelRoom = 0
        // The first request waits for its stream's window. The others fill the channel and the session.
        world.send(0..<1, bodyBytes: 5_000)
        world.send(1..<200, bodyBytes: 4_000)
        world.runFor(seconds: 0.001)
        let peer = world.server.peers[0]
        try peer.session.changeSettings([.initialWindowSize(65_535)])
        peer.flush()
        world.runFor(seconds: 0.001)
        // The peer is silent from now on, so only the leaving bytes cause events.
        peer.isDeaf = true
        channel.kernelRoom = .max
        world.runFor(seconds: 0.01)
        #expect(channel.writtenBytes == channel.sentBytes && channel.sentBytes > 800_000)
        peer.channel.reset()
        world.run("all completions") { world.completions.count == 200 }
        #expect(world.completions.allSatisfy { $0.kind == .inDoubt && $0.connectionDied })
    }

    /// The output is larger than the session's and channel's buffers. The rest waits in the transport.
    @Test func `Output waits for the kernel and is sent once`() throws {
        let (world, channel) = try silentWorld {
            $0.options.settings = [.maxConcurrentStreams(1_000), .initialWindowSize(65_535)]
            $0.options.connectionWindow = 1 << 23
            $0.onRequest = { _, _ in }
        }
        world.run("settled") { world.server.peers[0].isReady }
        channel.kernelRoom = 0
        world.server.onRequest = { $0.respond($1.stream) }
        world.send(0..<500, bodyBytes: 4_000)
        world.runFor(seconds: 0.1)
        #expect(channel.sentBytes - channel.writtenBytes == Int64(ChannelOptions().outputLimit))
        // The kernel accepts pieces that end at any byte.
        var piece = 1
        world.run("all answered", seconds: 60) {
            if channel.kernelRoom == 0 {
                channel.kernelRoom = piece
                piece = piece * 5 % 70_001
            }
            return world.completions.count == 500
        }
        #expect(world.completions.allSatisfy { $0.status == 200 })
        #expect(world.server.arrived == 500 && Set(world.server.peers[0].arrived.map(\.token)).count == 500)
    }

    /// The stream is free again, and the rest of the body is not sent.
    @Test func `An answer before the body is complete ends the request`() throws {
        let (world, _) = try silentWorld {
            $0.options.settings = [.maxConcurrentStreams(1), .initialWindowSize(100)]
            $0.options.canStall = true
        }
        try world.server.peers[0].session.setStalled(true)
        world.server.onBytes = { $0.respond($0.session.lastStreamID, 413, #"{"reason":"PayloadTooLarge"}"#) }
        world.complete(0..<3, bodyBytes: 4_000)
        #expect(world.completions.allSatisfy { $0.status == 413 && $0.reason == .payloadTooLarge })
        #expect(world.server.arrived == 0 && world.server.peers.count == 1)
    }
}
