import Delivery
import EventLoop
import Foundation
import HTTP2
import Network
import PushRecords
import TLS
import Testing

@testable import APNs

/// A request as it arrived.
struct Arrived {
    var stream: Int32
    var headers: [String: String]
    var body: [UInt8]

    var path: String { headers[":path"] ?? "" }
    var token: String { String(path.dropFirst("/3/device/".count)) }
}

/// One accepted connection of a scripted server.
final class ServerPeer: ByteChannelDelegate {
    let number: Int
    let session: ServerSession
    fileprivate(set) var channel: (any ServerChannel)!
    var arrived: [Arrived] = []
    var cancelled: [Int32] = []
    var isClosed = false
    /// The client has its settings.
    private(set) var isReady = false
    /// Takes bytes, answers nothing, not even PINGs.
    var isDeaf = false
    private unowned let server: ScriptedServer

    fileprivate init(_ number: Int, _ server: ScriptedServer) throws {
        self.number = number
        self.server = server
        session = try ServerSession(options: server.options)
    }

    func channelOpened(applicationProtocol: String?) {
        if let greeting = server.greeting {
            session.consumeOutput(session.output.count)
            session.appendRaw(Array(greeting.utf8))
            isDeaf = true
        }
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
            case .headers(let stream): server.onHeaders(self, stream)
            case .goAway, .pong: break
            }
        }
        flush()
    }

    func channelWritable() { flush() }
    func channelClosed(_ end: ChannelEnd) { isClosed = true }

    func flush() {
        let output = session.output
        session.consumeOutput(channel.send(output))
    }

    func respond(
        _ stream: Int32, _ status: Int = 200, _ body: String = "", headers extra: [(StaticString, String)] = []
    ) {
        let texts = extra.map { Lent($0.1) }
        let statusText = Lent("\(status)")
        let bodyText = Lent(body)
        var headers = HeaderList()
        headers.append(":status", statusText.bytes)
        for (index, field) in extra.enumerated() { headers.append(field.0, texts[index].bytes) }
        _ = try? session.respond(stream: stream, headers, body: bodyText.bytes)
        flush()
    }
}

extension ServerPeer: SecureChannelDelegate {}

/// A server whose every answer a test decides; HTTP/2 is real, and TLS and sockets are where it listens.
final class ScriptedServer {
    static let authority = try! CertificateAuthority()

    var options = ServerSessionOptions()
    /// Said instead of HTTP/2's preface.
    var greeting: String?
    var onRequest: (ServerPeer, Arrived) -> Void = { $0.respond($1.stream) }
    /// With `announcesHeaders`.
    var onHeaders: (ServerPeer, Int32) -> Void = { _, _ in }
    private(set) var peers: [ServerPeer] = []
    /// Connections are refused unless it is.
    private(set) var isListening = true
    private var listener: Listener?

    /// Listens on a port of its own, with TLS.
    func listen(loop: Loop, clientCertificates: ServerOptions.ClientCertificates) throws {
        let identity = try Self.authority.issueServer().identity()
        let context = try ServerContext(
            ServerOptions(identity: identity, clientCertificates: clientCertificates))
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

    /// Connections are refused from now on.
    func stopListening() {
        isListening = false
        listener = nil
    }

    var arrived: Int { peers.reduce(0) { $0 + $1.arrived.count } }
}

/// Bytes that stay where they are as long as this object lives.
final class Lent {
    let bytes: UnsafeRawBufferPointer
    private let memory: UnsafeMutableRawBufferPointer

    init(_ text: String) {
        memory = .allocate(byteCount: max(1, text.utf8.count), alignment: 1)
        memory.copyBytes(from: text.utf8)
        bytes = UnsafeRawBufferPointer(rebasing: memory[0..<text.utf8.count])
    }

    deinit { memory.deallocate() }
}

/// What is between a transport and a scripted server.
enum Wire: CaseIterable {
    /// Byte channels in memory, and a clock that passes as timers want it.
    case memory
    /// Sockets and TLS.
    case tls
}

/// One loop with a scripted server and a transport; everything happens in `run`.
final class World {
    let loop: Loop
    let server: ScriptedServer
    let dialer: any ChannelDialer
    var configuration: APNsConfiguration
    private(set) var transport: APNsTransport!
    private(set) var completions: [Completion] = []
    private(set) var texts: [[String]] = []
    private(set) var completionOf: [UInt32: Completion] = [:]
    private(set) var capacity = 0
    private(set) var connections = ConnectionCounts()
    private(set) var capacities: [Int] = []
    private(set) var notes: [TransportNote] = []
    private(set) var isClosed = false
    private(set) var reachable: [Bool] = []
    private(set) var unanswered: [Unanswered?] = []
    private(set) var refusals: [ReasonCode] = []
    /// Texts of each completion, resolved at once.
    private(set) var reasonText: [UInt32: String] = [:]
    private(set) var uniqueID: [UInt32: String] = [:]
    private var lent: [Lent] = []
    /// `nil`: of the machine.
    private let time: TestTime?
    private let resolver: Resolver?

    init(
        over wire: Wire = .memory, clientCertificates: ServerOptions.ClientCertificates = .notRequested,
        prepare: (ScriptedServer) -> Void = { _ in }
    ) throws {
        server = ScriptedServer()
        switch wire {
        case .memory:
            let time = try TestTime()
            self.time = time
            loop = time.loop
            resolver = nil
            dialer = MemoryDialer(loop: loop, server: server)
        case .tls:
            time = nil
            loop = try Loop()
            let resolver = try Resolver()
            self.resolver = resolver
            dialer = Dialer(loop: loop, resolver: resolver)
            try server.listen(loop: loop, clientCertificates: clientCertificates)
        }
        prepare(server)
        configuration = APNsConfiguration(host: "127.0.0.1", port: server.port, tls: try Self.context.get())
        configuration.backOff.firstNs = 20_000_000
        configuration.backOff.lastNs = 40_000_000
    }

    deinit { resolver?.stop() }

    private static let context = Result {
        try ClientContext(ClientOptions(trust: .pem(ScriptedServer.authority.certificatePEM)))
    }

    /// The clients' ends of connections in memory, in the order of dials.
    var channels: [MemoryChannel] { (dialer as? MemoryDialer)?.channels ?? [] }

    /// Too young to be renewed, whatever the time of day.
    static func providerToken(
        keyID: String = "ABC123DEFG", now: LoopTime = TestClock.start
    ) throws -> ProviderToken {
        let token = ProviderToken(keyID: keyID, teamID: "TEAM123456", key: try key.get())
        _ = token.refresh(now: now)
        _ = token.renewIfAllowed(now: now)
        return token
    }

    private static let key = Result { try SigningKey(pem: SelfSigned.privateKey()) }

    func start(hasToken: Bool = true) throws {
        let token = hasToken ? try Self.providerToken(now: loop.now) : nil
        transport = APNsTransport(
            app: AppIndex(0), configuration: configuration, token: token, loop: loop, dialer: dialer
        ) { [unowned self] events in take(events) }
    }

    private func take(_ events: [TransportEvent]) {
        for event in events {
            switch event {
            case .completions(let batch):
                for completion in batch.completions {
                    #expect(completionOf[completion.id.slot.number] == nil, "two completions for \(completion.id)")
                    completions.append(completion)
                    completionOf[completion.id.slot.number] = completion
                    if completion.reasonText >= 0 {
                        reasonText[completion.id.slot.number] = batch.texts[Int(completion.reasonText)]
                    }
                    if completion.uniqueIDText >= 0 {
                        uniqueID[completion.id.slot.number] = batch.texts[Int(completion.uniqueIDText)]
                    }
                }
            case .capacity(_, let requests):
                capacity = requests
                capacities.append(requests)
            case .credentialRefused(_, let reason):
                #expect(
                    !events.prefix(while: { if case .credentialRefused = $0 { false } else { true } }).contains {
                        if case .completions = $0 { true } else { false }
                    })
                refusals.append(reason)
            case .connections(_, let counts): connections = counts
            case .unanswered(_, let how): unanswered.append(how)
            case .reachable(_, let isReachable): reachable.append(isReachable)
            case .note(_, let note): notes.append(note)
            case .closed: isClosed = true
            }
        }
    }

    /// Turns the loop until `condition` holds; the deadline is a failure.
    func run(
        _ what: String = "", seconds: Double = 10, sourceLocation: SourceLocation = #_sourceLocation,
        until condition: () -> Bool
    ) {
        let deadlineNs = loop.readClock().monotonicNs + Int64(seconds * 1e9)
        while !condition() {
            if loop.readClock().monotonicNs > deadlineNs {
                Issue.record("not within \(seconds) s: \(what)", sourceLocation: sourceLocation)
                return
            }
            turn(limitNs: deadlineNs)
        }
    }

    /// Turns for a while, for what must not happen.
    func runFor(seconds: Double) {
        let deadlineNs = loop.readClock().monotonicNs + Int64(seconds * 1e9)
        while loop.readClock().monotonicNs < deadlineNs { turn(limitNs: deadlineNs) }
    }

    private func turn(limitNs: Int64) {
        if let time { time.turn(limitNs: limitNs) } else { loop.runOnce(timeoutNs: 5_000_000) }
    }

    func connect() throws {
        try start()
        run("capacity") { capacity > 0 }
    }

    func bytes(_ text: String) -> UnsafeRawBufferPointer {
        let bytes = Lent(text)
        lent.append(bytes)
        return bytes.bytes
    }

    static func token(_ number: UInt32) -> String { String(format: "%064x", number) }

    func request(_ number: UInt32, bodyBytes: Int = 20) -> OutgoingRequest {
        OutgoingRequest(
            id: NotificationID(slot: NotificationSlot(number), generation: 3), token: bytes(Self.token(number)),
            payload: bytes(#"{"aps":{"x":""# + String(repeating: "y", count: max(0, bodyBytes - 16)) + #""}}"#),
            headers: NotificationHeaders(topic: bytes("com.example.shop")))
    }

    func sendSuspects(_ numbers: some Sequence<UInt32>) {
        transport.handle(
            .send(
                numbers.map { number in
                    var request = request(number)
                    request.isSuspect = true
                    return request
                }))
    }

    /// A notification comes back: its earlier completion is forgotten.
    func forgetCompletion(_ number: UInt32) {
        completionOf[number] = nil
        completions.removeAll { $0.id.slot.number == number }
    }

    func send(_ numbers: Range<UInt32>, bodyBytes: Int = 20) {
        transport.handle(.send(numbers.map { request($0, bodyBytes: bodyBytes) }))
    }

    /// Sends into every stream that is free, from this number on, below `end`.
    func fill(_ next: inout UInt32, below end: UInt32 = .max, bodyBytes: Int = 20) {
        let upTo = min(end, next + UInt32(max(0, capacity - (Int(next) - completions.count))))
        if upTo > next { send(next..<upTo, bodyBytes: bodyBytes) }
        next = upTo
    }

    func close() {
        transport.handle(.close)
        run("closed") { isClosed }
    }
}
