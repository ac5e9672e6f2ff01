import EventLoop
import HTTP2
import Network
import PushRecords
import TLS

@testable import APNsSimulator

/// A client with one real connection to a simulator, on the test's thread. Keeps its simulator running.
class Client: ByteChannelDelegate {
    let loop: Loop
    private let simulator: Simulator
    private(set) var channel: SecureChannel?
    private(set) var isOpen = false
    private(set) var end: ChannelEnd.Kind?
    private(set) var endText = ""
    /// The number of deliveries of received bytes.
    private(set) var receipts = 0

    init(_ simulator: Simulator, port: UInt16?, identity: Identity?, alpn: [String]) throws {
        loop = try Loop()
        self.simulator = simulator
        let context = try ClientContext(trust: .pem(simulator.credentials.caPEM), alpn: alpn, identity: identity)
        channel = SecureChannel(
            dialing: DialTarget(host: "localhost", port: port ?? 0), context: context,
            dialer: Dialer(loop: loop), loop: loop, delegate: self)
    }

    /// Runs the loop until the condition is true or the time is over. Returns whether the condition is true.
    @discardableResult
    func run(forMs limitMs: Int64 = 180_000, until isSo: () -> Bool = { false }) -> Bool {
        let deadline = LoopTime.read().monotonicNs + limitMs * 1_000_000
        while !isSo() {
            if LoopTime.read().monotonicNs > deadline { return false }
            loop.runOnce(timeoutNs: 10_000_000)
        }
        return true
    }

    func abort() { channel?.abort() }

    /// Passes as many unsent bytes to the channel as it accepts.
    func flush() {}

    func receive(_ bytes: UnsafeRawBufferPointer) {}

    // MARK: ByteChannelDelegate

    func channelOpened(applicationProtocol: String?) {
        isOpen = true
        flush()
    }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        receipts += 1
        receive(bytes)
    }

    func channelWritable() { flush() }

    func channelClosed(_ end: ChannelEnd) {
        self.end = end.kind
        endText = end.text
        channel = nil
    }
}

final class Provider: Client {
    struct Response: Equatable {
        var status: Int
        var id: String
        var uniqueID: String
        var body: String
        var requestID = ""
        var channelID = ""
    }

    let session: ClientSession
    private(set) var responses: [UInt32: Response] = [:]
    /// The users of the responses in the order of their arrival.
    private(set) var order: [UInt32] = []
    private(set) var ended: [UInt32: ErrorCode] = [:]
    private(set) var goAways: [(last: Int32, data: String)] = []
    private(set) var pongs = 0
    private(set) var waiting: Set<UInt32> = []
    private(set) var brokenBy: String?
    private(set) var sent: [UInt32: Int32] = [:]
    private var asked: UInt32 = 0
    var authorization: String?

    init(
        _ simulator: Simulator, port: UInt16? = nil, identity: Identity? = nil, authorization: String? = nil,
        alpn: [String] = ["h2"]
    ) throws {
        var options = ClientSession.Options()
        options.wantedHeaders = ["apns-id", "apns-unique-id", "apns-request-id", "apns-channel-id"]
        session = try ClientSession(options: options)
        self.authorization = authorization
        try super.init(simulator, port: port ?? simulator.port, identity: identity, alpn: alpn)
    }

    func isReady() -> Bool { run { session.isReady } }

    /// Sends a push. Returns `false` if the session refuses the request.
    @discardableResult
    func push(
        _ user: UInt32, token: String = plainToken, id: String? = nil, payload: String = #"{"aps":{"alert":"Hi"}}"#,
        topic: String? = "com.example.app"
    ) throws -> Bool {
        let more: [(StaticString, String?)] = [("apns-topic", topic), ("apns-id", id)]
        return try submit("POST", "/3/device/" + token, more, payload, user: user)
    }

    /// Sends a push and waits for its answer. Throws if there is none.
    func answer(token: String = plainToken, id: String? = nil, topic: String? = "com.example.app") throws -> Response {
        try answer { try push($0, token: token, id: id, topic: topic) }
    }

    /// Sends any request and waits for its answer. Throws if there is none.
    func ask(
        _ method: String, _ path: String, channel: String? = nil, requestID: String? = nil, isPush: Bool = false,
        body: String = ""
    ) throws -> Response {
        let more: [(StaticString, String?)] = [
            ("apns-channel-id", channel), ("apns-request-id", requestID),
            ("apns-push-type", isPush ? "liveactivity" : nil),
        ]
        return try answer { try submit(method, path, more, body, user: $0) }
    }

    private func answer(to send: (UInt32) throws -> Bool) throws -> Response {
        asked += 1
        let user = 1_000_000 + asked
        guard try send(user) else { throw SimulatorError("no stream for a request") }
        guard run(until: { responses[user] != nil }), let response = responses[user] else {
            throw SimulatorError("no answer to a request")
        }
        return response
    }

    private func submit(
        _ method: String, _ path: String, _ more: [(StaticString, String?)], _ body: String, user: UInt32
    ) throws -> Bool {
        var headers = HeaderList()
        headers.append(":method", lent(method), .never)
        headers.append(":scheme", "https")
        headers.append(":path", lent(path), .never)
        headers.append(":authority", "localhost")
        if let authorization { headers.append("authorization", lent(authorization), .credential) }
        for case (let name, let value?) in more { headers.append(name, lent(value), .never) }
        let result = try session.submit(headers, body: lent(body), user: user, keep: 15)
        flush()
        switch result {
        case .written(let stream, _): sent[user] = stream
        case .waiting(let stream):
            sent[user] = stream
            waiting.insert(user)
        case .refused: return false
        }
        return true
    }

    func ping() throws {
        try session.ping()
        flush()
    }

    override func flush() {
        while let channel, !session.output.isEmpty {
            let taken = channel.send(session.output)
            if taken == 0 { break }
            try? session.consumeOutput(taken)
        }
    }

    override func receive(_ bytes: UnsafeRawBufferPointer) {
        do { try session.receive(bytes) } catch { brokenBy = "\(error)" }
        while let event = session.nextEvent() {
            switch event {
            case .response(let user, let status):
                responses[user] = Response(
                    status: Int(status), id: String(decoding: session.responseHeader(0), as: UTF8.self),
                    uniqueID: String(decoding: session.responseHeader(1), as: UTF8.self),
                    body: String(decoding: session.responseBody, as: UTF8.self),
                    requestID: String(decoding: session.responseHeader(2), as: UTF8.self),
                    channelID: String(decoding: session.responseHeader(3), as: UTF8.self))
                order.append(user)
            case .ended(let user, let code, _): ended[user] = code
            case .bodySent(let user, _): waiting.remove(user)
            case .goAway(let last, _): goAways.append((last, String(decoding: session.goAwayData, as: UTF8.self)))
            case .settings: break
            case .pong: pongs += 1
            }
        }
        if session.isFinished { brokenBy = brokenBy ?? session.errorText }
        flush()
    }
}

extension Simulator {
    /// An `authorization` value with a provider token that this simulator accepts.
    func bearer() throws -> String {
        let maker = TokenMaker(key: try SigningKey(pem: credentials.providerKeyPEM))
        return maker.bearer(issuedAt: LoopTime.read().wallMs / 1000)
    }

    static func with(_ change: (inout SimulatorOptions) throws -> Void) throws -> Simulator {
        var options = SimulatorOptions()
        try change(&options)
        return try Simulator(options)
    }

    /// A simulator, and a provider whose connection to it is open and has all its streams.
    static func connected(
        _ change: (inout SimulatorOptions) throws -> Void = { _ in }
    ) throws -> (Simulator, Provider) {
        let simulator = try with(change)
        return (simulator, try simulator.provider())
    }

    /// A provider whose connection is open and has all its streams.
    func provider() throws -> Provider {
        let provider = try Provider(self, authorization: bearer())
        try provider.openAllStreams()
        return provider
    }
}

extension Provider {
    static let warmUp = UInt32.max

    func openAllStreams() throws {
        guard isReady(), try push(Self.warmUp, token: "00") else { throw SimulatorError("no stream to begin with") }
        guard
            run(until: { !ended.isEmpty || end != nil || !responses.isEmpty && session.freeStreams > 1 }),
            responses[Self.warmUp]?.status == 200
        else {
            throw SimulatorError("no answer to begin with: \(responses) \(ended) \(String(describing: end))")
        }
    }
}

/// A token of 64 digits that consists of `prefix`, zeros and `number`.
func token(_ prefix: String, _ number: Int = 0) -> String {
    let tail = String(number, radix: 16)
    return prefix + String(repeating: "0", count: 64 - prefix.count - tail.count) + tail
}
