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
final class ServerPeer: SecureChannelDelegate {
    let number: Int
    let session: ServerSession
    fileprivate(set) var channel: SecureChannel!
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

    func channelOpened(_ channel: SecureChannel, applicationProtocol: String?) {
        if let greeting = server.greeting {
            session.consumeOutput(session.output.count)
            session.appendRaw(Array(greeting.utf8))
            isDeaf = true
        }
        flush()
    }

    func channelReceived(_ channel: SecureChannel, _ bytes: UnsafeRawBufferPointer) {
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
            case .headers, .goAway, .pong: break
            }
        }
        flush()
    }

    func channelWritable(_ channel: SecureChannel) { flush() }
    func channelClosed(_ channel: SecureChannel, _ end: ChannelEnd) { isClosed = true }

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

/// A server whose every answer a test decides; TLS, HTTP/2 and sockets are real.
final class ScriptedServer {
    static let authority = try! CertificateAuthority()

    var options = HTTP2.ServerOptions()
    /// Said instead of HTTP/2's preface.
    var greeting: String?
    var onRequest: (ServerPeer, Arrived) -> Void = { $0.respond($1.stream) }
    private(set) var peers: [ServerPeer] = []
    private var listener: Listener!

    init(loop: Loop, clientCertificates: TLS.ServerOptions.ClientCertificates) throws {
        let identity = try Self.authority.issueServer().identity()
        let context = try ServerContext(
            TLS.ServerOptions(identity: identity, clientCertificates: clientCertificates))
        listener = try Listener(host: "127.0.0.1", port: 0, loop: loop) { [unowned self] accepted in
            guard let peer = try? ServerPeer(peers.count, self) else { return }
            peer.channel = SecureChannel(accepted: accepted, context: context, loop: loop, delegate: peer)
            peers.append(peer)
        }
    }

    var port: UInt16 { listener.port }
    /// Connections are refused from now on.
    func stopListening() { listener = nil }
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

/// One loop with a scripted server and a transport; everything happens in `run`.
final class World {
    let loop: Loop
    let server: ScriptedServer
    let resolver: Resolver
    var configuration: APNsConfiguration
    private(set) var transport: APNsTransport!
    private(set) var completions: [Completion] = []
    private(set) var texts: [[String]] = []
    private(set) var completionOf: [UInt32: Completion] = [:]
    private(set) var capacity = 0
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

    init(
        clientCertificates: TLS.ServerOptions.ClientCertificates = .notRequested,
        prepare: (ScriptedServer) -> Void = { _ in }
    ) throws {
        loop = try Loop()
        resolver = try Resolver()
        server = try ScriptedServer(loop: loop, clientCertificates: clientCertificates)
        prepare(server)
        let trust = Trust.pem(ScriptedServer.authority.certificatePEM)
        configuration = APNsConfiguration(
            host: "127.0.0.1", port: server.port, tls: try ClientContext(TLS.ClientOptions(trust: trust)))
        configuration.backOff.firstNs = 20_000_000
        configuration.backOff.lastNs = 40_000_000
    }

    deinit { resolver.stop() }

    /// Too young to be renewed, whatever the time of day.
    static func providerToken(keyID: String = "ABC123DEFG") throws -> ProviderToken {
        let token = ProviderToken(
            keyID: keyID, teamID: "TEAM123456", key: try SigningKey(pem: SelfSigned.privateKey()))
        _ = token.refresh(now: .read())
        _ = token.renewIfAllowed(now: .read())
        return token
    }

    func start(hasToken: Bool = true) throws {
        let token = hasToken ? try Self.providerToken() : nil
        transport = APNsTransport(
            app: AppIndex(0), configuration: configuration, token: token, loop: loop,
            dialer: Dialer(loop: loop, resolver: resolver)
        ) { [unowned self] events in take(events) }
    }

    private func take(_ events: [TransportEvent]) {
        for event in events {
            switch event {
            case .completions(let batch):
                for completion in batch.completions {
                    #expect(completionOf[completion.id.slot] == nil, "two completions for \(completion.id)")
                    completions.append(completion)
                    completionOf[completion.id.slot] = completion
                    if completion.reasonText >= 0 {
                        reasonText[completion.id.slot] = batch.texts[Int(completion.reasonText)]
                    }
                    if completion.uniqueIDText >= 0 {
                        uniqueID[completion.id.slot] = batch.texts[Int(completion.uniqueIDText)]
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
            case .connections: break
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
        let deadlineNs = LoopTime.read().monotonicNs + Int64(seconds * 1e9)
        while !condition() {
            if LoopTime.read().monotonicNs > deadlineNs {
                Issue.record("not within \(seconds) s: \(what)", sourceLocation: sourceLocation)
                return
            }
            loop.runOnce(timeoutNs: 10_000_000)
        }
    }

    /// Turns for a while, for what must not happen.
    func runFor(seconds: Double) {
        let deadlineNs = LoopTime.read().monotonicNs + Int64(seconds * 1e9)
        while LoopTime.read().monotonicNs < deadlineNs { loop.runOnce(timeoutNs: 5_000_000) }
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
            id: NotificationID(slot: number, generation: 3), token: bytes(Self.token(number)),
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
        completions.removeAll { $0.id.slot == number }
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
