import HTTP2
import Testing

/// Interim responses (1xx), trailers and malformed responses, as raw bytes of a peer.
@Suite struct InterimTests {
    static let endStream: UInt8 = 1
    static let endHeaders: UInt8 = 4

    /// A HEADERS frame for stream 1 with a literal `:status` (name index 8) and literal fields.
    static func headers(_ status: String?, _ fields: [(String, String)] = [], isEnd: Bool) -> [UInt8] {
        var block: [UInt8] = []
        if let status { block += [0x08, UInt8(status.utf8.count)] + Array(status.utf8) }
        for (name, value) in fields {
            block += [0x00, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)] + Array(value.utf8)
        }
        return frame(type: 1, flags: endHeaders | (isEnd ? endStream : 0), block)
    }

    static func data(_ bytes: [UInt8], isEnd: Bool) -> [UInt8] {
        frame(type: 0, flags: isEnd ? endStream : 0, bytes)
    }

    static func reset(_ code: ErrorCode) -> [UInt8] {
        frame(type: 3, flags: 0, bytes(code.rawValue))
    }

    static func frame(type: UInt8, flags: UInt8, stream: UInt8 = 1, _ payload: [UInt8]) -> [UInt8] {
        let header: [UInt8] = [type, flags, 0, 0, 0, stream]
        return bytes(UInt32(payload.count)).dropFirst() + header + payload
    }

    /// The number in network byte order.
    static func bytes(_ number: UInt32) -> [UInt8] { withUnsafeBytes(of: number.bigEndian, Array.init) }

    /// A client with one request that wants the header `apns-id` and has received `bytes`.
    static func client(receiving bytes: [UInt8]) throws -> ClientSession {
        let peers = try Peers.connected(client: { $0.wantedHeaders = ["apns-id"] })
        _ = try Push().submit(to: peers.client, user: 7, keep: 1)
        try (peers.takeServer() + bytes).withUnsafeBytes { try peers.client.receive($0) }
        return peers.client
    }

    static func events(of client: ClientSession) -> [ClientSession.Event] { Array(AnyIterator(client.nextEvent)) }

    /// The error code decides whether the request is in doubt or refused.
    @Test(
        arguments: [nil, "100", "103", "199"],
        [ErrorCode.internalError, .refusedStream, .cancel, .noError, ErrorCode(rawValue: 11), ErrorCode(rawValue: 400)])
    func `A stream that is reset before the final status has no response`(status: String?, code: ErrorCode) throws {
        let interim = status.map { Self.headers($0, isEnd: false) } ?? []
        let client = try Self.client(receiving: interim + Self.reset(code))
        #expect(Self.events(of: client) == [.ended(user: 7, code: code, status: 0)] && client.openStreams == 0)
        #expect(client.takePeerErrors()?.resets.firstIndex(of: 1) == min(Int(code.rawValue), 14))
    }

    @Test(
        arguments: [
            headers("100", isEnd: true), headers("199", isEnd: true),
            headers("103", isEnd: false) + headers(nil, [("x", "y")], isEnd: true),
            headers("103", isEnd: false) + data(Array("{}".utf8), isEnd: true), headers(nil, isEnd: true),
            headers(nil, [("x", "y")], isEnd: true), headers("abc", isEnd: true), headers("20", isEnd: true),
            headers("103", isEnd: true), headers(nil, [(":path", "200")], isEnd: true),
        ])
    func `A stream that ends without a valid final status has no response`(frames: [UInt8]) throws {
        let client = try Self.client(receiving: frames)
        #expect(Self.events(of: client) == [.ended(user: 7, code: .protocolError, status: 0)])
        #expect(client.openStreams == 0)
    }

    @Test func `A response has no headers or body of its interim responses`() throws {
        let full = [UInt8](repeating: 0x61, count: 4_096)
        let client = try Self.client(
            receiving: Self.headers("103", isEnd: false) + Self.data(full, isEnd: false)
                + Self.headers("103", [("apns-id", "old")], isEnd: false) + Self.data(full, isEnd: false)
                + Self.headers("410", [("apns-id", "new")], isEnd: false) + Self.data(Array("{}".utf8), isEnd: true))
        #expect(client.nextEvent() == .response(user: 7, status: 410))
        #expect(String(decoding: client.responseHeader(0), as: UTF8.self) == "new")
        #expect(String(decoding: client.responseBody, as: UTF8.self) == "{}")
    }

    @Test(arguments: [true, false])
    func `Trailers change neither the status nor the headers of a response`(hasBody: Bool) throws {
        let body = hasBody ? Self.data(Array("{}".utf8), isEnd: false) : []
        let client = try Self.client(
            receiving: Self.headers("400", [("apns-id", "id")], isEnd: false) + body
                + Self.headers("200", [("apns-id", "other")], isEnd: true))
        #expect(client.nextEvent() == .response(user: 7, status: 400))
        #expect(String(decoding: client.responseHeader(0), as: UTF8.self) == "id")
        #expect(String(decoding: client.responseBody, as: UTF8.self) == (hasBody ? "{}" : ""))
    }

    @Test func `The first of two statuses in one header block is used`() throws {
        let block: [UInt8] = [0x08, 3] + Array("400".utf8) + [0x08, 3] + Array("200".utf8)
        let client = try Self.client(receiving: Self.frame(type: 1, flags: Self.endHeaders | Self.endStream, block))
        #expect(Self.events(of: client) == [.response(user: 7, status: 400)])
    }
}

/// Boundary values of numbers that a peer sends.
@Suite struct BoundaryTests {
    static func settings(_ entries: [(UInt16, UInt32)]) -> [UInt8] {
        var payload: [UInt8] = []
        for (id, value) in entries {
            payload += InterimTests.bytes(UInt32(id)).dropFirst(2)
            payload += InterimTests.bytes(value)
        }
        return InterimTests.frame(type: 4, flags: 0, stream: 0, payload)
    }

    /// A client that has received `bytes` from its peer and nothing before them.
    static func client(receiving bytes: [UInt8]) throws -> ClientSession {
        let client = try ClientSession()
        try client.consumeOutput(client.output.count)
        try bytes.withUnsafeBytes { try client.receive($0) }
        return client
    }

    @Test(arguments: [0, 1, 999, 1_000, 1_001, 1 << 31 - 1, 1 << 31, .max] as [UInt32])
    func `The client opens as many streams as the server allows, but at most 1000`(allowed: UInt32) throws {
        let client = try Self.client(receiving: Self.settings([(3, allowed)]))
        #expect(client.isReady && client.allowedStreams == Int(min(allowed, 1_000)))
        #expect(client.freeStreams == client.allowedStreams)
    }

    /// RFC 9113, 6.5.2: a window above 2^31 - 1 is a FLOW_CONTROL_ERROR, and an invalid frame size is a PROTOCOL_ERROR.
    @Test(
        arguments: [
            (4, 0, true), (4, 1 << 31 - 1, true), (4, 1 << 31, false), (4, .max, false), (5, 16_383, false),
            (5, 16_384, true), (5, 1 << 24 - 1, true), (5, 1 << 24, false), (1, 0, true), (1, .max, true), (6, 0, true),
            (6, .max, true), (2, 2, false), (0xffff, .max, true),
        ] as [(UInt16, UInt32, Bool)])
    func `SETTINGS outside the range of RFC 9113 end the session`(id: UInt16, value: UInt32, isFine: Bool) throws {
        let client = try Self.client(receiving: Self.settings([(id, value)]))
        #expect(client.isFinished == !isFine)
        guard isFine else { return }
        let push = Push()
        for _ in 0..<3 { #expect(try push.submit(to: client) != .refused) }
        #expect(client.hasWindow(for: .max) || client.connectionWindow > 0)
    }

    @Test(
        arguments: [(1 << 31 - 1 - 65_535, true), (1 << 31 - 65_535, false), (1 << 31 - 1, false), (0, false)]
            as [(UInt32, Bool)])
    func `A WINDOW_UPDATE of zero or beyond the limit ends the session`(increment: UInt32, isFine: Bool) throws {
        let client = try Self.client(
            receiving: Self.settings([])
                + InterimTests.frame(type: 8, flags: 0, stream: 0, InterimTests.bytes(increment)))
        #expect(client.isFinished == !isFine)
        if isFine {
            #expect(client.connectionWindow == 1 << 31 - 1)
            #expect(client.hasWindow(for: 1 << 31 - 1))
            #expect(try Push().submit(to: client) != .refused)
        }
    }

    /// A GOAWAY longer than the largest frame ends the session without its debug data.
    @Test(arguments: [16_384 - 8, 16_384, 5_000_000])
    func `At most 1024 bytes of a GOAWAY's debug data are kept`(count: Int) throws {
        let payload = [0, 0, 0, 0, 0, 0, 0, 2] + [UInt8](repeating: 0x61, count: count)
        let client = try Self.client(
            receiving: Self.settings([]) + InterimTests.frame(type: 7, flags: 0, stream: 0, payload))
        #expect(try Push().submit(to: client) == .refused)
        #expect(client.goAwayData.count == (count <= 16_384 - 8 ? 1_024 : 0))
        #expect(client.isFinished)
    }

    @Test func `Endless response headers end the session`() throws {
        let peers = try Peers.connected()
        _ = try Push().submit(to: peers.client, user: 1)
        _ = peers.takeClient()
        let field = [0x00, 1, 0x78, 0x7f, 0x80, 0x7f] + [UInt8](repeating: 0x61, count: 127 + 127 * 128)
        var isOver = false
        for round in 0..<100 where !isOver {
            let frame = InterimTests.frame(type: round == 0 ? 1 : 9, flags: 0, Array(field.prefix(16_000)))
            do {
                try frame.withUnsafeBytes { try peers.client.receive($0) }
                isOver = peers.client.isFinished
            } catch {
                isOver = true
            }
        }
        #expect(isOver)
    }
}
