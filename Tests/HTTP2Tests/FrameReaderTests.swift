import Foundation
import HTTP2
import Testing

@Suite struct FrameReaderTests {
    private static func text(_ fields: [PassedField]?) -> [String]? {
        fields?.map { "\(String(decoding: $0.name, as: UTF8.self)): \(String(decoding: $0.value, as: UTF8.self))" }
    }

    private static func frames(_ bytes: [UInt8], isClient: Bool, pieces: Int = .max) -> [PassedFrame] {
        let reader = FrameReader(isClient: isClient, keepsData: !isClient)
        var frames: [PassedFrame] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            Array(rest.prefix(pieces)).withUnsafeBytes { reader.read($0) { frames.append($0) } }
            rest = rest.dropFirst(pieces)
        }
        return frames
    }

    /// Two requests and their answers, read beside the sessions: what the one means by its header fields, the reader
    /// sees, also where they are indexed, and the credential's stand-in is undone; in pieces of any size.
    @Test(arguments: [1, 2, 5, 9, 10, 64, Int.max]) func aConversation(pieces: Int) throws {
        let peers = try Peers()
        try peers.connect()
        let push = Push(apnsID: Lent("eabeae54-14a8-11e5-b60b-1697f925ec7b"))
        for _ in 0..<2 {
            _ = try push.submit(to: peers.client)
            try peers.exchange()
            try peers.answerAll("400", body: #"{"reason":"BadDeviceToken"}"#, apnsID: "an id")
            try peers.exchange()
        }
        try peers.client.goAway()
        try peers.exchange()

        let sent = Self.frames(peers.clientBytes, isClient: true, pieces: pieces)
        #expect(sent.map(\.type) == Frame.all(peers.clientBytes).map(\.type))
        #expect(sent.map(\.length) == Frame.all(peers.clientBytes).map(\.payload.count))
        let requests = sent.filter { $0.type == 1 }
        #expect(requests.map(\.stream) == [1, 3])
        let expected = [
            ":method: POST", ":scheme: https", ":path: /3/device/" + String(repeating: "a1", count: 32),
            ":authority: api.push.apple.com",
            "authorization: bearer eyJhbGciOiJFUzI1NiJ9." + String(repeating: "Q7x-", count: 40),
            "apns-topic: com.example.shop", "apns-push-type: alert",
            "apns-id: eabeae54-14a8-11e5-b60b-1697f925ec7b",
        ]
        #expect(requests.map { Self.text($0.fields) } == [expected, expected])
        #expect(sent.filter { $0.type == 0 }.allSatisfy { $0.payload.isEmpty && $0.length == 22 })

        let received = Self.frames(peers.serverBytes, isClient: false, pieces: pieces)
        #expect(received.map(\.type) == Frame.all(peers.serverBytes).map(\.type))
        #expect(
            received.filter { $0.type == 1 }.map { Self.text($0.fields) }
                == Array(repeating: [":status: 400", "apns-id: an id"], count: 2))
        #expect(
            received.filter { $0.type == 0 }.map { String(decoding: $0.payload, as: UTF8.self) }
                == Array(repeating: #"{"reason":"BadDeviceToken"}"#, count: 2))
        #expect(sent.filter { $0.type == 7 }.map { $0.payload.count } == [8])
    }

    private static func frame(_ type: UInt8, _ flags: UInt8, _ payload: [UInt8]) -> [UInt8] {
        [
            UInt8(payload.count >> 16), UInt8(payload.count >> 8 & 0xFF), UInt8(payload.count & 0xFF), type, flags, 0,
            0, 0, 1,
        ]
            + payload
    }

    /// RFC 9113, 6.2, 6.6 and 6.10: padding, priority, a promise, a block in two frames.
    @Test func whatStandsBesideABlockIsNoneOfIt() {
        let get: [UInt8] = [0x82]
        let bytes =
            Self.frame(1, 0x0C, [2] + get + [0, 0]) + Self.frame(1, 0x2C, [1, 0, 0, 0, 3, 9] + get + [0])
            + Self.frame(5, 0x04, [0, 0, 0, 2] + get) + Self.frame(1, 0, []) + Self.frame(9, 0, get)
            + Self.frame(9, 0x04, [])
        #expect(
            Self.frames(bytes, isClient: false).map { Self.text($0.fields) } == [
                [":method: GET"], [":method: GET"], [":method: GET"], [], [":method: GET"], [],
            ])
    }

    /// Heads go on to be told after a block that nobody can read; the fields of later ones are left out.
    @Test(
        arguments: [
            frame(1, 0x0C, [200, 0x82]), frame(1, 0x24, [0, 0]), frame(1, 4, [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
            frame(1, 4, [UInt8](repeating: 0x82, count: 20_000)),
        ])
    func whatCannotBeReadIsLeftOut(bad: [UInt8]) {
        let frames = Self.frames(bad + Self.frame(1, 4, [0x82]) + Self.frame(6, 0, [1, 2]), isClient: false)
        #expect(frames.map(\.type) == [1, 1, 6])
        #expect(frames.allSatisfy { $0.fields == nil })
        #expect(frames.last?.payload == [1, 2])
    }

    /// What HPACK makes of few bytes is kept to a limit: a value of 4,000 bytes, named 10,000 times.
    @Test func manyFieldsOutOfFewBytesAreNotKept() throws {
        let literal: [UInt8] = [0x40, 1, 0x78, 0x7F, 0xA1, 0x1E] + [UInt8](repeating: 0x61, count: 4_000)
        let bytes = Self.frame(1, 4, literal) + Self.frame(1, 4, [UInt8](repeating: 0xBE, count: 10_000))
        let frames = Self.frames(bytes, isClient: false)
        #expect(frames[0].fields?.count == 1)
        #expect(try #require(frames[1].fields).count == 4)
    }

    /// Nothing that a peer can send ends the process, or is kept beyond a limit.
    @Test func anyBytesWillDo() {
        var random = SystemRandomNumberGenerator()
        for round in 0..<50 {
            var bytes = (0..<3_000).map { _ in UInt8.random(in: 0...255, using: &random) }
            // Short frames of the types there are, half of the time.
            if round % 2 == 0 {
                for start in stride(from: 0, to: 2_900, by: 40) {
                    bytes.replaceSubrange(
                        start..<start + 4, with: [0, 0, 31, UInt8.random(in: 0...10, using: &random)])
                }
            }
            for frame in Self.frames(bytes, isClient: false, pieces: 700) {
                #expect(frame.payload.count <= 2_048)
            }
        }
    }
}
