import Foundation
import TestSupport
import Testing

@testable import HTTP2

@Suite struct AuthorizationIndexingTests {
    static let spelled: [UInt8] = [0x89, 0x1d, 0xa9, 0x9c, 0xf6, 0x19, 0x03, 0x49, 0x8f, 0x57]
    static let value: [UInt8] = [3] + Array("abc".utf8)

    static func frame(_ block: [UInt8], type: UInt8 = 1, flags: UInt8 = 4) -> [UInt8] {
        [0, 0, UInt8(block.count), type, flags, 0, 0, 0, 1] + block
    }

    static func rewritten(_ frame: [UInt8]) -> [UInt8] {
        var output = OutputBuffer()
        defer { output.free() }
        frame.withUnsafeBytes { AuthorizationIndexing.append($0.baseAddress!, $0.count, to: &output) }
        return Array(output.bytes)
    }

    /// The literal representations of RFC 7541, 6.2.1 to 6.2.3: with incremental indexing, without indexing and never
    /// indexed.
    @Test(
        arguments: [
            ([0x40], [0x57]), ([0x00], [0x0f, 0x08]), ([0x10], [0x1f, 0x08]),
        ] as [([UInt8], [UInt8])])
    func `The stand-in header name becomes authorization in every kind of literal`(first: [UInt8], replaced: [UInt8]) {
        let before: [UInt8] = [0x83, 0x3f, 0x01, 0x04, 2, 0x2f, 0x61]
        let after: [UInt8] = [0x82, 0x40, 1, 0x78, 0]
        #expect(
            Self.rewritten(Self.frame(before + first + Self.spelled + Self.value + after))
                == Self.frame(before + replaced + Self.value + after))
    }

    @Test(
        arguments: [
            // The bytes of the stand-in name occur within a value.
            [0x04, 11] + [0x40] + spelled,
            // The name is an index.
            [0x7e] + value,
            // A name and a value that are longer than seven bits can express.
            [0x00, 0x7f, 0x01] + [UInt8](repeating: 0x61, count: 128) + value,
            [0x7e, 0x7f, 0x01] + [UInt8](repeating: 0x61, count: 128) + [0xc0, 0xff, 0x00],
            [],
        ] as [[UInt8]])
    func `A header block without the stand-in header name is not changed`(block: [UInt8]) {
        #expect(Self.rewritten(Self.frame(block)) == Self.frame(block))
    }

    @Test func `The stand-in header name is replaced only in HEADERS frames without padding`() {
        let block = [0x40] + Self.spelled + Self.value
        #expect(Self.rewritten(Self.frame(block, type: 0)) == Self.frame(block, type: 0))
        #expect(Self.rewritten(Self.frame(block, flags: 0xc)) == Self.frame(block, flags: 0xc))
    }

    @Test func `A repeated credential is sent as an index, and its frames match the expected bytes`() throws {
        let peers = try Peers.connected()
        let path = Lent("/a")
        let token = Lent("bearer 0123456789")
        let body = Lent("{}")
        var headers = HeaderList()
        headers.append(":method", "POST")
        headers.append(":path", path.bytes, .never)
        headers.append("authorization", token.bytes, .credential)
        _ = try peers.client.submit(headers, body: body.bytes, user: 0)
        _ = try peers.client.submit(headers, body: body.bytes, user: 0)
        let frames = Frame.all(peers.takeClient())
        let path4: [UInt8] = [0x14, 2, 0x2f, 0x61]
        // The peer's table size, `:method: POST`, the path, `authorization` by its static name and the Huffman code of
        // "bearer 0123456789" (RFC 7541, appendix B).
        let introduced: [UInt8] =
            [0x3f, 0xe1, 0x1f, 0x83] + path4
            + [0x57, 0x8c, 0x8c, 0xa3, 0xb0, 0xb6, 0x28, 0x00, 0x89, 0x96, 0x9b, 0x71, 0xd7, 0x9f]
        #expect(
            frames == [
                Frame(type: 1, flags: 4, stream: 1, payload: introduced),
                Frame(type: 0, flags: 1, stream: 1, payload: Array("{}".utf8)),
                Frame(type: 1, flags: 4, stream: 3, payload: [0x83] + path4 + [0xbe]),
                Frame(type: 0, flags: 1, stream: 3, payload: Array("{}".utf8)),
            ])
    }

    /// The credential is renewed and evicted several times.
    @Test(arguments: [4_096, 0, 100, 250, 300, 1_000, 65_536] as [UInt32], [true, false])
    func `Every request arrives with its credential for any size of the header table`(size: UInt32, isOn: Bool) throws {
        let peers = try Peers.connected(
            client: { $0.indexAuthorization = isOn },
            server: { $0.settings = [.headerTableSize(size), .maxConcurrentStreams(100)] })
        var expected: [String] = []
        var seen: [String] = []
        for round in 0..<60 {
            var push = Push()
            let text = "bearer eyJ." + String(repeating: "k\(round / 7)-", count: 50)
            push.authorization = Lent(text)
            // The topics are long enough to evict every entry of the table repeatedly.
            push.topic = Lent("com.example." + String(repeating: "t\(round % 13)", count: 20))
            _ = try push.submit(to: peers.client)
            expected.append(text)
            try peers.exchange()
            while let event = peers.server.nextEvent() {
                guard case .request(let stream) = event else { continue }
                for index in 0..<peers.server.headerCount {
                    let header = peers.server.header(index)
                    let name = String(decoding: header.name, as: UTF8.self)
                    #expect(name != "authorisation")
                    if name == "authorization" { seen.append(String(decoding: header.value, as: UTF8.self)) }
                }
                try peers.respond(stream, "200")
            }
            try peers.exchanged()
        }
        #expect(seen == expected)
        #expect(!peers.client.isFinished)
    }

    /// The budget of <doc:WhatItCosts> is 62 bytes of HEADERS per request with random tokens, and 92 with an apns-id.
    @Test(arguments: [(false, 62.0), (true, 92.0)])
    func `The mean size of HEADERS frames is within the documented budget`(hasID: Bool, budget: Double) throws {
        let peers = try Peers.connected(server: { $0.settings = [.maxConcurrentStreams(1_000)] })
        var random = SystemRandomNumberGenerator()
        var bytes = 0
        let count = 2_000
        for _ in 0..<count {
            var push = Push()
            let token = (0..<8).map { _ in String(format: "%08x", UInt32.random(in: 0...(.max), using: &random)) }
            push.path = Lent("/3/device/" + token.joined())
            if hasID { push.apnsID = Lent(UUID().uuidString.lowercased()) }
            _ = try push.submit(to: peers.client)
            for frame in Frame.all(Array(peers.client.output)) where frame.type == 1 { bytes += frame.payload.count }
            try peers.exchange()
            try peers.answerAll()
            try peers.exchanged()
        }
        let mean = Double(bytes) / Double(count)
        print("HEADERS: \(mean) bytes a request, apns-id: \(hasID)")
        #expect(mean <= budget)
    }
}
