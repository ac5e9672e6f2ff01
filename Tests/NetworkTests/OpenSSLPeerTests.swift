import Foundation
import Network
import TLS
import TestSupport
import Testing

/// Connections to `openssl s_server` and `s_client`, which use the same TLS library but none of the worker's code.
@Suite(.enabled(if: OpenSSLPeer.isThere, "no openssl command")) struct OpenSSLPeerTests {
    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func `The client connects to an OpenSSL server`(version: String) throws {
        let world = try World()
        let server = try OpenSSLPeer.server([version, "-rev", "-alpn", "h2"], world)
        let client = try world.connect(DialTarget(host: "localhost", port: server.port))
        client.onOpened = { $0.send(Array("hello openssl\n".utf8)) }
        try world.run { client.received.count == 14 }
        #expect(String(decoding: client.received, as: UTF8.self) == "lssnepo olleh\n")
        #expect(client.channel.tlsVersion == (version == "-tls1_2" ? "TLSv1.2" : "TLSv1.3"))
        #expect(client.applicationProtocol == "h2")
        client.channel.close()
        try world.run { client.end != nil }
        #expect(client.end?.kind == .closedHere)
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"]) func `An OpenSSL client connects to the server`(version: String) throws {
        let world = try World()
        let client = try OpenSSLPeer.client([version, "-quiet", "-no_ign_eof", "-alpn", "h2"], world)
        try world.run { world.servers.first?.isOpen == true }
        client.write("from s_client\n")
        try world.run { world.servers[0].received.count == 14 }
        #expect(world.servers[0].applicationProtocol == "h2")
        let all = bytes(900_000)
        var position = 0
        func pump(_ channel: SecureChannel) {
            position += channel.send(Array(all[position...].prefix(channel.room)))
        }
        world.servers[0].onWritable = { pump($0) }
        pump(world.servers[0].channel)
        try client.await(in: world) { client.output.count >= all.count }
        #expect(client.output == all)
        client.closeInput()
        try world.run { world.servers[0].end != nil }
        #expect(world.servers[0].end?.kind == .closedByPeer)
        #expect(world.servers[0].violations == [])
    }

    /// `K` makes s_client send a KeyUpdate that requests one from the server (RFC 8446, 4.6.3). The server sends it
    /// before its next data.
    @Test func `A connection survives TLS key updates`() throws {
        let world = try World()
        let client = try OpenSSLPeer.client(["-tls1_3", "-alpn", "h2"], world, withErrors: true)
        try world.run { world.servers.first?.isOpen == true }
        let server = world.servers[0]
        for round in 0..<5 {
            client.write("K\n")
            // s_client recognizes a command only as a whole read, and sends its KeyUpdate with the next data.
            try client.await(in: world) { client.text.components(separatedBy: "KEYUPDATE").count == round + 2 }
            client.write("after \(round)\n")
            try world.run { server.received.count == 8 * (round + 1) }
            server.channel.send(Array("answer \(round)\n".utf8))
            try client.await(in: world) { client.text.contains("answer \(round)\n") }
        }
        #expect(server.end == nil)
        client.kill()
        try world.run { server.end != nil }
        #expect(server.end?.kind == .failed)
    }

    /// `R` makes s_client request a renegotiation. The server must send its alert although it has no data to send.
    @Test func `The server refuses TLS renegotiation`() throws {
        let world = try World()
        let client = try OpenSSLPeer.client(["-tls1_2", "-alpn", "h2"], world, withErrors: true)
        try world.run { world.servers.first?.isOpen == true }
        client.write("R\n")
        try world.run { world.servers[0].end != nil }
        try client.await(in: world) { client.text.contains("no renegotiation") }
        #expect(world.servers[0].received.isEmpty)
    }

    @Test(arguments: ["-tls1", "-tls1_1"]) func `The server refuses outdated TLS versions`(version: String) throws {
        let world = try World()
        let client = try OpenSSLPeer.client([version, "-quiet", "-cipher", "ALL:@SECLEVEL=0"], world)
        try world.run { world.servers.first?.end != nil }
        #expect(world.servers[0].end?.kind == .failed)
        #expect(!world.servers[0].isOpen)
        withExtendedLifetime(client) {}
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"]) func `An OpenSSL server accepts the client's certificate`(version: String)
        throws
    {
        let world = try World()
        let server = try OpenSSLPeer.server(
            [version, "-rev", "-alpn", "h2", "-Verify", "2", "-verify_return_error"], world)
        let context = try World.clientContext(
            identity: World.authority.issueClient(bundleID: "com.example.shop").identity())
        let client = try world.connect(DialTarget(host: "localhost", port: server.port), client: context)
        client.onOpened = { $0.send(Array("ab\n".utf8)) }
        try world.run { client.received.count == 3 }
        #expect(client.received == Array("ba\n".utf8))
        client.channel.abort()

        // Without a certificate, the server ends the connection: in the handshake with TLS 1.2, after it with TLS 1.3.
        let without = try world.connect(DialTarget(host: "localhost", port: server.port))
        try world.run { without.end != nil }
        #expect(without.end?.kind == .failed)
        #expect(without.isOpen == (version == "-tls1_3"))
    }
}

/// An `openssl` process, which is killed with this object.
final class OpenSSLPeer {
    static let isThere = FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl")

    private let process = Process()
    private let input = Pipe()
    private let pipe = Pipe()
    private let folder: TemporaryFolder
    private(set) var output: [UInt8] = []
    private(set) var port: UInt16 = 0

    var text: String { String(decoding: output, as: UTF8.self) }

    static func server(_ arguments: [String], _ world: World) throws -> OpenSSLPeer {
        let peer = try OpenSSLPeer()
        let issued = try World.authority.issueServer()
        try peer.start(
            ["s_server", "-accept", "127.0.0.1:0", "-cert", peer.file(issued.certificatePEM)]
                + ["-key", peer.file(issued.keyPEM), "-CAfile", peer.file(World.authority.certificatePEM)] + arguments)
        // s_server prints `ACCEPT 127.0.0.1:45321`.
        try peer.await(in: world) {
            peer.port = peer.text.firstMatch(of: /ACCEPT .*:(\d+)\n/).flatMap { UInt16($0.1) } ?? 0
            return peer.port != 0
        }
        return peer
    }

    static func client(_ arguments: [String], _ world: World, withErrors: Bool = false) throws -> OpenSSLPeer {
        let peer = try OpenSSLPeer()
        try peer.start(
            ["s_client", "-connect", "127.0.0.1:\(world.listener.port)", "-servername", "localhost", "-CAfile"]
                + [peer.file(World.authority.certificatePEM)] + arguments, withErrors: withErrors)
        return peer
    }

    private init() throws { folder = try TemporaryFolder() }

    deinit {
        if process.isRunning { Glibc.kill(process.processIdentifier, SIGKILL) }
        process.waitUntilExit()
    }

    private func file(_ text: String) throws -> String { try folder.write(text, UUID().uuidString) }

    /// - Parameter withErrors: Whether `output` includes standard error, where s_client reports its commands.
    private func start(_ arguments: [String], withErrors: Bool = false) throws {
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        process.arguments = arguments
        process.standardInput = input
        process.standardOutput = pipe
        process.standardError = withErrors ? pipe.fileHandleForWriting : FileHandle.nullDevice
        try process.run()
        let descriptor = pipe.fileHandleForReading.fileDescriptor
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    }

    /// Runs the loop until the process has written what is expected.
    func await(in world: World, _ isDone: () -> Bool) throws {
        try world.run {
            read()
            return isDone()
        }
    }

    private func read() {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = Glibc.read(pipe.fileHandleForReading.fileDescriptor, &chunk, chunk.count)
            if count <= 0 { return }
            output += chunk[..<count]
        }
    }

    func write(_ text: String) { input.fileHandleForWriting.write(Data(text.utf8)) }
    func closeInput() { try? input.fileHandleForWriting.close() }
    func kill() { Glibc.kill(process.processIdentifier, SIGKILL) }
}
