import EventLoop
import Foundation
import Network
import TLS
import Testing

@Suite struct SecureChannelTests {
    @Test(arguments: ["127.0.0.1", "::1"]) func `Both ends open and exchange data`(host: String) throws {
        let world = try World(host: host)
        let client = try world.connect(DialTarget(host: host, port: world.listener.port))
        client.onOpened = { $0.send(Array("ping".utf8)) }
        world.onAccept = { $0.onReceived = { channel, bytes in channel.send(Array(bytes) + Array(" pong".utf8)) } }
        try world.run { client.received.count == 9 }
        #expect(client.received == Array("ping pong".utf8))
        #expect(client.applicationProtocol == "h2")
        #expect(client.channel.tlsVersion == "TLSv1.3")
        #expect(client.channel.peerAddress == world.listener.address)
        #expect(client.channel.sentBytes == 4)
        #expect(client.channel.writtenBytes == 4)
        client.channel.close()
        try world.run { client.end != nil && world.servers[0].end != nil }
        #expect(client.end?.kind == .closedHere)
        #expect(world.servers[0].end?.kind == .closedByPeer)
        #expect(client.violations == [] && world.servers[0].violations == [])
        #expect(client.channel.writtenBytes == 4, "The count must remain after the end")
    }

    @Test func `Many small sends in one turn are delivered together and arrive in order`() throws {
        let world = try World()
        let (client, server) = try world.connectedPair()
        var sent: [UInt8] = []
        for round in 0..<500 {
            let part = bytes(300, from: round)
            #expect(client.channel.send(part) == 300)
            sent += part
        }
        #expect(client.channel.sentBytes == 150_000)
        try world.run { server.received.count == sent.count }
        #expect(server.received == sent)
        #expect(server.reads < 12, "The server received 150,000 bytes in \(server.reads) deliveries")
        #expect(client.channel.writtenBytes == 150_000)
    }

    @Test(arguments: [1, 16_383, 16_384, 16_385, 100_000, 262_144])
    func `Data of any size arrives completely`(count: Int) throws {
        let world = try World()
        let (client, server) = try world.connectedPair()
        #expect(client.channel.send(Array("x".utf8)) == 1)
        let taken = client.channel.send(bytes(count))
        // The first record takes a little more space than its byte.
        #expect(min(count, 262_112)...min(count, 262_143) ~= taken)
        try world.run { server.received.count == taken + 1 }
        #expect(server.received.dropFirst() == bytes(count)[..<taken])
        #expect(server.violations == [])
    }

    @Test func `The send buffer is bounded while the peer does not read, and then all data arrives`() throws {
        let world = try World()
        let (client, server) = try world.connectedPair()
        server.keepsBytes = false
        server.channel.pauseReading()
        world.settle()
        var total = 0
        let part = bytes(10_000)
        // The client sends until the buffers of both kernels and of the channel are full.
        var refusals = 0
        while refusals < 50 {
            let taken = client.channel.send(part)
            total += taken
            #expect(client.channel.room <= 262_144)
            if taken == 0 { refusals += 1 }
            world.loop.runOnce(timeoutNs: 1_000_000)
        }
        #expect(client.channel.room == 0)
        #expect(client.channel.sentBytes == Int64(total))
        #expect(client.channel.writtenBytes < client.channel.sentBytes)
        #expect(client.channel.sentBytes - client.channel.writtenBytes <= 262_144 + 16_384)
        #expect(client.writables == 0)
        server.channel.resumeReading()
        try world.run { server.receivedCount == total }
        #expect(client.writables == 1)
        #expect(client.channel.writtenBytes == Int64(total))
        // The channel has the room that it announced.
        #expect(client.channel.send(part) == 10_000)
        try world.run { server.receivedCount == total + 10_000 }
        #expect(client.violations == [] && server.violations == [])
    }

    @Test func `A closed channel sends all buffered data first`() throws {
        let world = try World()
        let (client, server) = try world.connectedPair()
        server.channel.pauseReading()
        let all = bytes(250_000)
        // The client does not read these bytes before it closes. Closing the socket with unread bytes would reset the
        // connection and lose the data in its send queue.
        server.channel.send(bytes(1_000))
        #expect(client.channel.send(all) == all.count)
        client.channel.close()
        #expect(client.channel.send([1]) == 0)
        world.settle()
        server.channel.resumeReading()
        try world.run { client.end != nil && server.end != nil }
        #expect(server.received == all)
        #expect(server.end?.kind == .closedByPeer)
        #expect(client.channel.writtenBytes == 250_000)
    }

    /// The client's first data arrives together with the end of its handshake.
    @Test(arguments: Method.allCases)
    func `A channel that ends as soon as it opens delivers no data`(method: Method) throws {
        let world = try World()
        let client = try world.connect()
        client.onOpened = { $0.send(bytes(5_000)) }
        world.onAccept = { $0.onOpened = { method.call($0) } }
        try world.run { client.end != nil && world.servers.first?.end != nil }
        #expect(world.servers[0].received.isEmpty)
        #expect(world.servers[0].violations == [])
    }

    @Test func `A closing channel ends with its timeout if the peer never reads`() throws {
        let world = try World()
        var options = ChannelOptions()
        options.closeTimeoutNs = 50_000_000
        let (client, server) = try world.connectedPair(options: options)
        server.channel.pauseReading()
        while client.channel.send(bytes(60_000)) > 0 { world.settle(turns: 3) }
        let written = client.channel.writtenBytes
        client.channel.close()
        try world.run { client.end != nil }
        #expect(client.end?.kind == .closedHere)
        #expect(client.channel.writtenBytes == written)
        #expect(client.channel.writtenBytes < client.channel.sentBytes)
        server.channel.abort()
        try world.run { server.end != nil }
    }

    enum Method: CaseIterable {
        case close, abort, reset, cut
        func call(_ channel: SecureChannel) {
            switch self {
            case .close: channel.close()
            case .abort: channel.abort()
            case .reset: channel.reset()
            case .cut: channel.cut()
            }
        }
    }

    /// The callback ends the channel twice.
    @Test(arguments: Method.allCases, ["opened", "received", "writable", "closed"])
    func `A channel can be ended in every way from every callback`(method: Method, callback: String) throws {
        let world = try World()
        let client = try world.connect()
        let end = { (channel: SecureChannel) in
            channel.send(bytes(100))
            method.call(channel)
            method.call(channel)
            channel.flush()
            channel.pauseReading()
            channel.resumeReading()
        }
        switch callback {
        case "opened": client.onOpened = end
        case "received":
            client.onReceived = { channel, _ in end(channel) }
            world.onAccept = { $0.onOpened = { $0.send(bytes(200_000)) } }
        case "writable":
            client.onWritable = end
            client.onOpened = { while $0.send(bytes(60_000)) > 0 {} }
            world.onAccept = { $0.keepsBytes = false }
        default:
            client.onClosed = end
            client.onOpened = { $0.close() }
        }
        try world.run { client.end != nil && world.servers.first?.end != nil }
        #expect(client.end?.kind == .closedHere)
        #expect(client.violations == [])
        #expect(world.servers[0].violations == [])
        if callback == "received" { #expect(client.reads == 1) }
        switch (method, callback) {
        case (.close, "opened"), (.close, "received"): #expect(world.servers[0].received == bytes(100))
        default: break
        }
    }

    @Test(arguments: [true, false])
    func `A connection that the peer resets or cuts off is reported as lost`(isReset: Bool) throws {
        let world = try World()
        let (client, server) = try world.connectedPair()
        if !isReset { server.channel.send(bytes(50_000)) }
        if isReset { server.channel.reset() } else { server.channel.cut() }
        try world.run { client.end != nil }
        #expect(client.end?.kind == .failed && client.end?.text.contains("127.0.0.1") == true)
        #expect(client.end?.text.contains(isReset ? "ECONNRESET" : "without close_notify") == true)
        // The peer's last bytes are delivered before the end.
        #expect(client.received == bytes(isReset ? 0 : 50_000))
    }

    @Test func `The last data of a peer is delivered after a failed write`() throws {
        let world = try World()
        let (client, server) = try world.connectedPair()
        client.channel.pauseReading()
        server.channel.send(Array("last words".utf8))
        world.settle()
        // The peer's kernel answers writes to a closed socket with a reset.
        server.channel.abort()
        try world.run { server.end != nil }
        client.channel.send(bytes(10_000))
        client.channel.flush()
        Thread.sleep(forTimeInterval: 0.01)
        client.channel.send(bytes(10_000))
        client.channel.flush()
        client.channel.resumeReading()
        try world.run { client.end != nil }
        #expect(client.received == Array("last words".utf8))
        #expect(client.end?.kind == .failed)
        #expect(client.violations == [])
    }

    @Test func `An aborted channel and its delegate are deallocated`() throws {
        let world = try World()
        weak var channel: SecureChannel?
        weak var delegate: Recorder?
        do {
            let (client, server) = try world.connectedPair()
            channel = client.channel
            delegate = client
            client.channel.send(bytes(10))
            client.channel.abort()
            try world.run { client.end != nil && server.end != nil }
            client.channel = nil
        }
        world.settle()
        #expect(channel == nil)
        #expect(delegate == nil)
    }
}
