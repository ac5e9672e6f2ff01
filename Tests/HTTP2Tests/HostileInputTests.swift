import HTTP2
import Testing

@Suite struct HostileInputTests {
    /// A server's bytes for five requests: answers with and without a body, a reset and a GOAWAY.
    @Test func `The events do not depend on how the bytes are split`() throws {
        let push = Push()
        func submit(_ client: ClientSession) throws {
            for user in 1...5 as ClosedRange<UInt32> {
                let submission = try push.submit(to: client, user: user)
                #expect(submission != .refused)
            }
        }
        let peers = try Peers.connected()
        let settings = peers.serverBytes.count
        try submit(peers.client)
        try peers.exchange()
        _ = peers.serverEvents()
        try peers.respond(3, "200", apnsID: "11111111-2222-3333-4444-555555555555")
        try peers.respond(1, "400", body: #"{"reason":"BadDeviceToken"}"#, apnsID: "X")
        try peers.server.reset(stream: 5, .refusedStream)
        try peers.server.goAway(lastStreamID: 7, .noError, Array("Shutdown".utf8))
        try peers.respond(7, "503", body: #"{"reason":"Shutdown"}"#)
        peers.serverBytes = Array(peers.serverBytes.dropFirst(settings))
        try peers.exchange()
        let (bytes, events) = (peers.serverBytes, peers.clientEvents())
        #expect(events.count == 6)
        let cuts = (0...bytes.count).map { [bytes[..<$0], bytes[$0...]] } + [bytes.indices.map { bytes[$0...$0] }]
        for parts in cuts {
            let peers = try Peers.connected()
            try submit(peers.client)
            var seen: [ClientSession.Event] = []
            var bodies: Set<String> = []
            for part in parts {
                try Array(part).withUnsafeBytes { try peers.client.receive($0) }
                while let event = peers.client.nextEvent() {
                    seen.append(event)
                    bodies.insert(String(decoding: peers.client.responseBody, as: UTF8.self))
                }
            }
            #expect(seen == events, "cut at \(parts[0].count)")
            #expect(bodies == ["", #"{"reason":"BadDeviceToken"}"#, #"{"reason":"Shutdown"}"#])
        }
    }

    /// nghttp2 accepts invalid bytes with success and queues a GOAWAY, so the session must report that it is finished.
    @Test(arguments: [
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}",
        String(repeating: "garbage ", count: 40),
    ])
    func `Invalid first bytes end the session`(text: String) throws {
        let client = try ClientSession()
        try client.consumeOutput(client.output.count)
        do {
            try Array(text.utf8).withUnsafeBytes { try client.receive($0) }
        } catch {
            return
        }
        let frames = Frame.all(Array(client.output))
        #expect(frames.contains { $0.type == 7 })
        #expect(client.isFinished)
        #expect(client.freeStreams == 0)
    }

    @Test func `An invalid frame after the SETTINGS ends the session`() throws {
        let peers = try Peers.connected()
        _ = try Push().submit(to: peers.client)
        _ = peers.takeClient()
        // A DATA frame on stream 0 (RFC 9113, 6.1: PROTOCOL_ERROR).
        try [0, 0, 1, 0, 0, 0, 0, 0, 0, 1].withUnsafeBytes { try peers.client.receive($0) }
        #expect(Frame.all(peers.takeClient()).map(\.type) == [7])
        #expect(peers.client.isFinished)
        #expect(try Push().submit(to: peers.client) == .refused)
    }
}
