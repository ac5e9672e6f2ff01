import Delivery
import EventLoop
import Foundation
import HTTP2
import Network
import PushRecords
import TLS
import TestSupport
import Testing

@testable import APNs

/// A received request.
struct Arrived {
    var stream: Int32
    var headers: [String: String]
    var body: [UInt8]

    var path: String { headers[":path"] ?? "" }
    var token: String { String(path.dropFirst("/3/device/".count)) }
}

/// One accepted connection of a scripted server.
final class ServerPeer: MemoryPeer {
    let number: Int
    let session: ServerSession
    fileprivate(set) var channel: (any ServerChannel)!
    var arrived: [Arrived] = []
    var cancelled: [Int32] = []
    var isClosed = false
    /// Whether the client has received the settings.
    private(set) var isReady = false
    /// Whether the peer accepts bytes but answers nothing, not even PINGs.
    var isDeaf = false
    private unowned let server: ScriptedServer

    fileprivate init(_ number: Int, _ server: ScriptedServer) throws {
        self.number = number
        self.server = server
        session = try ServerSession(options: server.options)
    }

    func channelOpened(applicationProtocol: String?) {
        flush()
    }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        if isDeaf { return }
        do { try session.receive(bytes) } catch { return channel.abort() }
        while let event = session.nextEvent() {
            switch event {
            case .request(let stream):
                var headers: [String: String] = [:]
                for index in 0..<session.headerCount {
                    let (name, value) = session.header(index)
                    headers[String(decoding: name, as: UTF8.self)] = String(decoding: value, as: UTF8.self)
                }
                let request = Arrived(stream: stream, headers: headers, body: Array(session.body))
                arrived.append(request)
                server.onRequest(self, request)
            case .closed(let stream, let code): if code == .cancel { cancelled.append(stream) }
            case .settings(let isAcknowledgement): if isAcknowledgement { isReady = true }
            case .goAway: break
            }
        }
        server.onBytes(self)
        flush()
    }

    func take(_ channel: MemoryChannel) { server.accept(self, channel) }
    func channelWritable() { flush() }
    func channelClosed(_ end: ChannelEnd) { isClosed = true }

    func flush() {
        let output = session.output
        session.consumeOutput(channel.send(output))
    }

    func allow(streams: UInt32) throws {
        try session.changeSettings([.maxConcurrentStreams(streams)])
        flush()
    }

    /// Sends a GOAWAY with this reason, if any.
    func goAway(_ last: Int32, _ reason: String? = nil) {
        try? session.goAway(lastStreamID: last, .noError, Array((reason.map { #"{"reason":"\#($0)"}"# } ?? "").utf8))
        flush()
    }

    func respond(
        _ stream: Int32, _ status: Int = 200, _ body: String = "", headers extra: [(StaticString, String)] = [],
        isEnd: Bool = true
    ) {
        let texts = extra.map { Lent($0.1) }
        let statusText = Lent("\(status)")
        let bodyText = Lent(body)
        var headers = HeaderList()
        headers.append(":status", statusText.bytes)
        for (index, field) in extra.enumerated() { headers.append(field.0, texts[index].bytes) }
        _ = try? session.respond(stream: stream, headers, body: bodyText.bytes, isEnd: isEnd)
        flush()
    }
}

/// A server whose answers a test decides. It uses real HTTP/2 and, if it listens, real TLS and sockets.
final class ScriptedServer {
    static let authority = try! CertificateAuthority()

    var options = ServerSession.Options()
    var onRequest: (ServerPeer, Arrived) -> Void = { $0.respond($1.stream) }
    /// Called for all received bytes, including parts of requests.
    var onBytes: (ServerPeer) -> Void = { _ in }
    /// The requests that `hold` left unanswered.
    private(set) var held: [(peer: ServerPeer, stream: Int32)] = []
    private(set) var peers: [ServerPeer] = []
    /// Whether connections are accepted.
    private(set) var isListening = true
    private var listener: Listener?

    /// Leaves requests of the first peers unanswered until they are released.
    func hold(firstPeers count: Int = .max) {
        onRequest = { [unowned self] peer, request in
            if peer.number < count { held.append((peer, request.stream)) } else { peer.respond(request.stream) }
        }
    }

    /// Answers the oldest held requests, or all of them.
    func release(_ count: Int = .max, _ status: Int = 200, _ body: String = "") {
        let released = held.prefix(count)
        held.removeFirst(released.count)
        for (peer, stream) in released { peer.respond(stream, status, body) }
    }

    /// Listens on its own port with TLS.
    func listen(loop: Loop, clientCertificates: ServerContext.ClientCertificates) throws {
        let identity = try Self.authority.issueServer().identity()
        let context = try ServerContext(identity: identity, clientCertificates: clientCertificates)
        listener = try Listener(host: "127.0.0.1", port: 0, loop: loop) { [unowned self] accepted in
            guard let peer = try? makePeer() else { return }
            accept(peer, SecureChannel(accepted: accepted, context: context, loop: loop, delegate: peer))
        }
    }

    func makePeer() throws -> ServerPeer { try ServerPeer(peers.count, self) }

    func accept(_ peer: ServerPeer, _ channel: any ServerChannel) {
        peer.channel = channel
        peers.append(peer)
    }

    var port: UInt16 { listener?.port ?? 2197 }

    /// Refuses connections from now on.
    func stopListening() {
        isListening = false
        listener = nil
    }

    var arrived: Int { peers.reduce(0) { $0 + $1.arrived.count } }
}

/// The connection between a transport and a scripted server.
enum Wire: CaseIterable {
    /// Byte channels in memory with simulated time.
    case memory
    /// Sockets and TLS.
    case tls
}

/// One loop with a scripted server and a transport. Everything happens in `run`.
final class World: TransportScene {
    let server: ScriptedServer
    let dialer: any ChannelDialer
    var configuration: APNsConfiguration
    private(set) var transport: APNsTransport!

    init(
        over wire: Wire = .memory, clientCertificates: ServerContext.ClientCertificates = .notRequested,
        prepare: (ScriptedServer) -> Void = { _ in }
    ) throws {
        let server = ScriptedServer()
        self.server = server
        let time: TestTime?
        let loop: Loop
        switch wire {
        case .memory:
            let simulated = try TestTime()
            time = simulated
            loop = simulated.loop
            dialer = MemoryDialer(loop: loop, server: server)
        case .tls:
            time = nil
            loop = try Loop()
            dialer = Dialer(loop: loop)
            try server.listen(loop: loop, clientCertificates: clientCertificates)
        }
        prepare(server)
        let target = DialTarget(host: "127.0.0.1", port: server.port)
        configuration = APNsConfiguration(ConnectionSettings(target, tls: try Self.context.get()))
        super.init(loop, time)
        configuration.connections.backOff.firstNs = 20_000_000
        configuration.connections.backOff.lastNs = 40_000_000
    }

    private static let context = Result {
        try ClientContext(trust: .pem(ScriptedServer.authority.certificatePEM))
    }

    /// The clients' channels in memory, in the order of dials.
    var channels: [MemoryChannel] { (dialer as? MemoryDialer)?.channels ?? [] }

    /// Returns a token that is too young to be renewed at any time of day.
    static func providerToken(keyID: String = "ABC123DEFG", now: LoopTime = TestClock.start) throws -> ProviderToken {
        let token = ProviderToken(keyID: keyID, teamID: "TEAM123456", key: try key.get())
        token.refresh(now: now)
        token.renewIfAllowed(now: now)
        return token
    }

    private static let key = Result { try SigningKey(pem: SelfSigned.privateKey()) }

    func start(hasToken: Bool = true) throws {
        let token = hasToken ? try Self.providerToken(now: loop.now) : nil
        transport = APNsTransport(
            app: AppIndex(0), configuration: configuration, token: token, loop: loop, dialer: dialer
        ) { [unowned self] events in take(events) }
    }

    func connect() throws {
        try start()
        run("capacity") { capacity > 0 }
    }

    /// Returns a world with an open connection. The closure can prepare the server and the configuration.
    static func connected(
        over wire: Wire = .memory, streams: UInt32? = nil, connections: ClosedRange<Int>? = nil,
        prepare: (World) -> Void = { _ in }
    ) throws -> World {
        let world = try World(over: wire) { if let streams { $0.options.settings = [.maxConcurrentStreams(streams)] } }
        if let connections {
            world.configuration.connections.minimum = connections.lowerBound
            world.configuration.connections.maximum = connections.upperBound
        }
        prepare(world)
        try world.connect()
        return world
    }

    static func token(_ number: UInt32) -> String { String(format: "%064x", number) }

    override func handle(_ command: TransportCommand) { transport.handle(command) }

    override func request(_ number: UInt32) -> OutgoingRequest { request(number, bodyBytes: 20) }

    func request(_ number: UInt32, bodyBytes: Int) -> OutgoingRequest {
        request(
            number, token: Self.token(number),
            payload: #"{"aps":{"x":""# + String(repeating: "y", count: max(0, bodyBytes - 16)) + #""}}"#)
    }

    func send(_ numbers: Range<UInt32>, bodyBytes: Int = 20) {
        transport.handle(.send(numbers.map { request($0, bodyBytes: bodyBytes) }))
    }

    /// Replaces all connections.
    func replace(keyID: String = "ABC123DEFG") throws {
        transport.replace(configuration: configuration, token: try Self.providerToken(keyID: keyID))
    }

    /// Sends these notifications and waits for their completions with this status.
    func complete(
        _ numbers: Range<UInt32>, bodyBytes: Int = 20, status: UInt16? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        send(numbers, bodyBytes: bodyBytes)
        awaitCompletions(numbers, sourceLocation: sourceLocation)
        guard let status else { return }
        #expect(numbers.allSatisfy { completionOf[$0]?.status == status }, sourceLocation: sourceLocation)
    }

    /// Sends a request on each free stream, with numbers from `next` on, below `end`.
    func fill(_ next: inout UInt32, below end: UInt32 = .max, bodyBytes: Int = 20) {
        let upTo = min(end, next + UInt32(max(0, capacity - (Int(next) - completions.count))))
        if upTo > next { send(next..<upTo, bodyBytes: bodyBytes) }
        next = upTo
    }
}
