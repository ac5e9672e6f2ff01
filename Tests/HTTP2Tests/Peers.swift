import HTTP2
import TestSupport
import Testing

/// A client and a server session that exchange their output in memory, without a socket.
final class Peers {
    let client: ClientSession
    let server: ServerSession
    /// All bytes that each side has sent.
    var serverBytes: [UInt8] = []
    var clientBytes: [UInt8] = []

    init(
        client: ClientSession.Options = ClientSession.Options(), server: ServerSession.Options = ServerSession.Options()
    ) throws {
        self.client = try ClientSession(options: client)
        self.server = try ServerSession(options: server)
    }

    /// Two sessions that have exchanged their SETTINGS.
    static func connected(
        client: (inout ClientSession.Options) -> Void = { _ in },
        server: (inout ServerSession.Options) -> Void = { _ in }
    ) throws -> Peers {
        var clientOptions = ClientSession.Options()
        client(&clientOptions)
        var serverOptions = ServerSession.Options()
        server(&serverOptions)
        let peers = try Peers(client: clientOptions, server: serverOptions)
        try peers.exchanged()
        _ = peers.serverEvents()
        return peers
    }

    /// Moves bytes in both directions until neither session has output.
    func exchange() throws {
        while true {
            let toServer = takeClient()
            let toClient = takeServer()
            if toServer.isEmpty && toClient.isEmpty { return }
            try toServer.withUnsafeBytes { try server.receive($0) }
            try toClient.withUnsafeBytes { try client.receive($0) }
        }
    }

    /// Exchanges all bytes, and returns the client's events.
    @discardableResult
    func exchanged() throws -> [ClientSession.Event] {
        try exchange()
        return clientEvents()
    }

    func takeClient() -> [UInt8] {
        let bytes = Array(client.output)
        try? client.consumeOutput(bytes.count)
        clientBytes += bytes
        return bytes
    }

    func takeServer() -> [UInt8] {
        let bytes = Array(server.output)
        server.consumeOutput(bytes.count)
        serverBytes += bytes
        return bytes
    }

    func clientEvents() -> [ClientSession.Event] { Array(AnyIterator(client.nextEvent)) }

    func serverEvents() -> [ServerSession.Event] { Array(AnyIterator(server.nextEvent)) }

    /// Answers each received request with `status` and `body`.
    func answerAll(_ status: String = "200", body: String = "", apnsID: String? = nil) throws {
        while let event = server.nextEvent() {
            guard case .request(let stream) = event else { continue }
            try respond(stream, status, body: body, apnsID: apnsID)
        }
    }

    @discardableResult
    func respond(_ stream: Int32, _ status: String, body: String = "", apnsID: String? = nil) throws -> Bool {
        var headers = HeaderList()
        let statusBytes = Lent(status)
        let idBytes = Lent(apnsID ?? "")
        headers.append(":status", statusBytes.bytes)
        if apnsID != nil { headers.append("apns-id", idBytes.bytes, .nameOnly(slot: 0)) }
        let bodyBytes = Lent(body)
        return try server.respond(stream: stream, headers, body: bodyBytes.bytes)
    }
}

/// A push request as the transport sends it. It owns the bytes of its `Lent` values.
struct Push {
    var path = Lent("/3/device/" + String(repeating: "a1", count: 32))
    var authorization = Lent("bearer eyJhbGciOiJFUzI1NiJ9." + String(repeating: "Q7x-", count: 40))
    var topic = Lent("com.example.shop")
    var apnsID: Lent? = nil
    var body = Lent(#"{"aps":{"alert":"Hi"}}"#)

    init() {}

    init(bodyBytes: Int) { body = Lent(String(repeating: "x", count: bodyBytes)) }

    func submit(to client: ClientSession, user: UInt32 = 0, keep: UInt8 = 0) throws -> ClientSession.Submission {
        var headers = HeaderList()
        headers.append(":method", "POST")
        headers.append(":scheme", "https")
        headers.append(":path", path.bytes, .never)
        headers.append(":authority", "api.push.apple.com")
        headers.append("authorization", authorization.bytes, .credential)
        headers.append("apns-topic", topic.bytes)
        headers.append("apns-push-type", "alert")
        if let apnsID { headers.append("apns-id", apnsID.bytes, .nameOnly(slot: 0)) }
        return try client.submit(headers, body: body.bytes, user: user, keep: keep)
    }
}

/// One frame (RFC 9113, section 4.1).
struct Frame: Equatable {
    var type: UInt8
    var flags: UInt8
    var stream: UInt32
    var payload: [UInt8]

    /// Splits `bytes` into frames, skipping the client's preface if it is present.
    static func all(_ bytes: [UInt8]) -> [Frame] {
        var rest = bytes[...]
        let magic = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        if rest.starts(with: magic) { rest = rest.dropFirst(magic.count) }
        var frames: [Frame] = []
        while rest.count >= 9 {
            let head = Array(rest.prefix(9))
            let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            let stream = UInt32(head[5]) << 24 | UInt32(head[6]) << 16 | UInt32(head[7]) << 8 | UInt32(head[8])
            frames.append(
                Frame(
                    type: head[3], flags: head[4], stream: stream, payload: Array(rest.dropFirst(9).prefix(length))))
            rest = rest.dropFirst(9 + length)
        }
        return frames
    }
}
