import EventLoop
import Foundation
import TLS
import TestSupport
import Testing

@testable import Network

/// Opening a channel: failures, timeouts and the choice of an address.
@Suite struct OpeningTests {
    private func end(of client: Recorder, _ world: World) throws -> ChannelEnd {
        try world.run { client.end != nil }
        #expect(!client.isOpen)
        #expect(client.violations == [])
        return client.end!
    }

    @Test func `The error of a refused connection names the address`() throws {
        let world = try World()
        // No process listens on port 1 (tcpmux).
        let end = try end(of: world.connect(DialTarget(host: "127.0.0.1", port: 1)), world)
        #expect(end == ChannelEnd("127.0.0.1:1: Connection refused (ECONNREFUSED)"))
    }

    @Test(arguments: ["does-not-exist.invalid", "", "bad host name", String(repeating: "x", count: 400)])
    func `A host name that does not exist is reported as unresolved`(host: String) throws {
        let world = try World()
        let end = try end(of: world.connect(DialTarget(host: host, port: 443)), world)
        #expect(end.kind == .failed && end.text.hasPrefix(host))
    }

    @Test func `A dial to a host that does not answer ends with its timeout`() throws {
        // A listener with a full queue drops further connections' SYNs.
        let world = try World()
        let full = DeadListener()
        var options = ChannelOptions()
        options.dialTimeoutNs = 200_000_000
        let end = try end(of: world.connect(DialTarget(host: "127.0.0.1", port: full.port), options: options), world)
        #expect(end.kind == .failed && end.text.contains("timed out"))
    }

    /// A dial to given addresses, without name resolution.
    private final class Dial {
        var result: Result<TCPConnection, ChannelEnd>?
        let begunNs = LoopTime.read().monotonicNs
        var tookNs: Int64 { LoopTime.read().monotonicNs - begunNs }

        init(_ world: World, _ addresses: [(host: String, port: UInt16)], timeoutNs: Int64 = 10_000_000_000) {
            let attempt = DialAttempt(
                DialTarget(host: "push.example", port: 443), loop: world.loop, timeoutNs: timeoutNs
            ) { [self] in result = $0 }
            attempt.resolved(.success(addresses.map { SocketAddress(literal: $0.host, port: $0.port)! }))
        }
    }

    @Test func `An address that does not answer leaves time for the next one`() throws {
        let world = try World()
        let full = DeadListener()
        let ports = [full.port, full.port, world.listener.port]
        let dial = Dial(world, ports.map { ("127.0.0.1", $0) }, timeoutNs: 600_000_000)
        try world.run { dial.result != nil }
        #expect(try dial.result!.get().address.port == world.listener.port)
    }

    /// RFC 8305: the client tries the next address while one does not answer, long before the dial timeout.
    @Test(arguments: ["127.0.0.2", "::1"])
    func `An address that does not answer does not end the dial`(other: String) throws {
        let world = try World()
        let full = DeadListener()
        var accepted: [TCPConnection] = []
        guard
            let listener = try? Listener(
                host: other, port: full.port, loop: world.loop, onAccept: { accepted.append($0) })
        else {
            #expect(other == "::1", "Only IPv6 may be unavailable")
            return
        }
        defer { listener.close() }
        let dial = Dial(world, [("127.0.0.1", full.port), (other, full.port)])
        try world.run { dial.result != nil }
        #expect(try dial.result!.get().address.hostText == other)
        try world.run { accepted.count == 1 }
    }

    /// Attempts continue while the client tries other addresses. The kernel repeats the first SYN after a second.
    @Test func `A slow address is used if it answers first`() throws {
        let world = try World()
        let (slow, silent) = (DeadListener(), DeadListener())
        let dial = Dial(world, [slow.port, silent.port].map { ("127.0.0.1", $0) }, timeoutNs: 20_000_000_000)
        try world.run { dial.tookNs > 400_000_000 }
        #expect(dial.result == nil)
        slow.acceptAll()
        try world.run { dial.result != nil }
        #expect(try dial.result!.get().address.port == slow.port)
    }

    /// The client tries the next address after each refusal.
    @Test func `A dial ends when its last address refuses the connection`() throws {
        let world = try World()
        let dial = Dial(world, (1...20).map { ("127.0.0.\($0)", 1) })
        try world.run { dial.result != nil }
        let end = #expect(throws: ChannelEnd.self) { try dial.result!.get() }
        #expect(end?.kind == .failed)
        #expect(end?.text == "push.example:443: 127.0.0.20:1: Connection refused (ECONNREFUSED)")
    }

    @Test func `Address families alternate, and connections are spread over all addresses`() {
        func order(_ all: [String], from first: Int) -> [String] {
            DialAttempt.order(all.map { SocketAddress(literal: $0, port: 443)! }, from: first).map(\.hostText)
        }
        let mixed = ["2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2", "192.0.2.3"]
        #expect(order(mixed, from: 0) == ["2001:db8::1", "192.0.2.1", "2001:db8::2", "192.0.2.2", "192.0.2.3"])
        #expect(order(mixed, from: 1) == ["2001:db8::2", "192.0.2.2", "2001:db8::1", "192.0.2.3", "192.0.2.1"])
        #expect(
            order(mixed.reversed(), from: -1)
                == ["192.0.2.1", "2001:db8::1", "192.0.2.3", "2001:db8::2", "192.0.2.2"])
        #expect(order(["192.0.2.1", "192.0.2.2"], from: 3) == ["192.0.2.2", "192.0.2.1"])
        #expect(order(["2001:db8::1"], from: .min) == ["2001:db8::1"])
        #expect(order([], from: 1) == [])
    }

    /// The bytes that the server sends, and whether it then keeps the connection open.
    @Test(
        arguments: [
            (nil, true, "handshake timed out"), (nil, false, "during the TLS handshake"),
            ("HTTP/1.1 400 Bad Request\r\n\r\n", true, "does not speak TLS"),
        ] as [(String?, Bool, String)])
    func `The error of a failed TLS handshake names the cause`(says: String?, keeps: Bool, words: String) throws {
        let world = try World()
        var kept: [TCPConnection] = []
        let listener = try Listener(host: "127.0.0.1", port: 0, loop: world.loop) { accepted in
            if keeps { kept.append(accepted) }
            if let says { _ = says.withCString { write(accepted.descriptor.raw, $0, strlen($0)) } }
        }
        var options = ChannelOptions()
        if words == "handshake timed out" { options.handshakeTimeoutNs = 100_000_000 }
        let end = try end(
            of: world.connect(DialTarget(host: "127.0.0.1", port: listener.port), options: options), world)
        #expect(end.kind == .failed && end.text.contains(words), "\(end.text)")
    }

    @Test func `The server drops a client that never sends a handshake`() throws {
        let world = try World()
        world.serverOptions.handshakeTimeoutNs = 100_000_000
        let client = try PlainClient(port: world.listener.port)
        try world.run { world.servers.first?.end != nil }
        #expect(world.servers[0].end?.kind == .failed)
        withExtendedLifetime(client) {}
    }

    @Test func `The client refuses a certificate for another name and sends the server an alert`() throws {
        let other = try World.authority.issueServer(names: ["other.example"], isLocal: false).identity()
        let world = try World(server: ServerContext(identity: other))
        let end = try end(of: world.connect(), world)
        #expect(end.kind == .failed)
        #expect(end.text.contains("the certificate of 127.0.0.1 is for another name"))
        try world.run { world.servers[0].end != nil }
        #expect(world.servers[0].end?.kind == .failed)
        #expect(world.servers[0].end?.text.contains("alert") == true)
    }

    @Test func `An aborted dial ends with one callback in a later turn`() throws {
        let world = try World()
        let client = try world.connect()
        client.channel.abort()
        #expect(client.end == nil)
        try world.run { client.end != nil }
        #expect(client.end?.kind == .closedHere)
        world.settle()
        #expect(client.violations == [])
    }
}

/// A blocking TCP client without TLS.
final class PlainClient {
    let raw: Int32

    init(port: UInt16) throws {
        raw = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard LocalHTTP.connect(raw, to: port) else { throw SystemError(call: "connect", code: errno) }
    }

    func write(_ text: String) { _ = text.withCString { Glibc.write(raw, $0, strlen($0)) } }

    deinit { close(raw) }
}
