import Delivery
import EventLoop
import HTTP2
import Network
import PushRecords
import Testing

@testable import APNs

/// What a connection makes of what the kernel took, to the byte: in memory, where a test says how much that is.
@Suite(.serialized) struct KernelTests {
    /// A world whose server answers nobody, and its client's end.
    private func silentWorld(prepare: (ScriptedServer) -> Void = { _ in }) throws -> (World, MemoryChannel) {
        let world = try World(prepare: prepare)
        world.configuration.maximumConnections = 1
        world.server.onRequest = { _, _ in }
        try world.connect()
        return (world, try #require(world.channels.first))
    }

    /// Hands requests over one by one, while the kernel takes nothing.
    ///
    /// - Returns: where the output of each ends.
    private func send(_ numbers: Range<UInt32>, _ world: World, _ channel: MemoryChannel) -> [Int64] {
        channel.kernelRoom = 0
        return numbers.map { number in
            world.send(number..<(number + 1))
            world.runFor(seconds: 0.001)
            return channel.sentBytes
        }
    }

    /// The connection dies when the kernel has all of some requests, or all but a byte of the last of them.
    @Test(arguments: 0...3, [0, 1])
    func `Only what the kernel has whole is in doubt`(whole: Int, missing: Int) throws {
        let (world, channel) = try silentWorld()
        let begin = channel.sentBytes
        let ends = send(0..<4, world, channel)
        #expect(channel.writtenBytes == begin)
        channel.kernelRoom = Int(ends[whole] - begin) - missing
        world.run("written") { channel.writtenBytes == ends[whole] - Int64(missing) }
        world.server.peers[0].channel.reset()
        world.run("all") { world.completions.count == 4 }
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

    /// The time for an answer begins when the kernel has END_STREAM, however long that took, and nothing else happens.
    @Test func `The time for an answer begins with the kernel`() throws {
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
        world.run("in doubt", seconds: 40) { world.completions.count == 1 }
        let tookNs = world.loop.now.monotonicNs - beganNs
        // Whether the kernel took something is looked at ten times a second.
        #expect(29_990_000_000...30_110_000_000 ~= tookNs, "\(tookNs)")
        #expect(world.completions.first?.kind == .inDoubt)
        world.server.onRequest = { $0.respond($1.stream) }
    }

    /// nghttp2 writes the end of a body when there is room for output, long after the peer let it.
    @Test func `A body whose end just left is in doubt`() throws {
        let (world, channel) = try silentWorld {
            $0.options.settings = [.maxConcurrentStreams(1_000), .initialWindowSize(4_096)]
            $0.options.connectionWindow = 1 << 21
        }
        world.run("settled") { world.server.peers[0].isReady }
        channel.kernelRoom = 0
        // The first waits for its stream's window; the others fill the channel and the session.
        world.send(0..<1, bodyBytes: 5_000)
        world.send(1..<200, bodyBytes: 4_000)
        world.runFor(seconds: 0.001)
        let peer = world.server.peers[0]
        try peer.session.changeSettings([.initialWindowSize(65_535)])
        peer.flush()
        world.runFor(seconds: 0.001)
        // It says nothing any more: what leaves now is all that happens.
        peer.isDeaf = true
        channel.kernelRoom = .max
        world.runFor(seconds: 0.01)
        #expect(channel.writtenBytes == channel.sentBytes && channel.sentBytes > 800_000)
        peer.channel.reset()
        world.run("all") { world.completions.count == 200 }
        #expect(world.completions.allSatisfy { $0.kind == .inDoubt && $0.connectionDied })
    }

    /// More output than session and channel hold: what finds no room waits in the transport.
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
        // In pieces that end anywhere.
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

    /// An answer before the body is out ends the request; the stream is free again, and the body is not sent on.
    @Test func `An answer before the body is out ends the request`() throws {
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
