import HTTP2
import TestSupport
import Testing

/// The peer's window for the whole connection (RFC 9113, section 6.9).
@Suite struct ConnectionWindowTests {
    @Test func `Requests use up the connection window, and a body waits until the server extends it`() throws {
        let peers = try Peers.connected(server: { $0.canStall = true })
        try peers.server.setStalled(true)
        #expect(peers.client.connectionWindow == 65_535)
        let push = Push(bodyBytes: 4_096)
        var written = 0
        while case .written = try push.submit(to: peers.client, user: UInt32(written)) { written += 1 }
        #expect(written == 15)
        #expect(peers.client.connectionWindow == 0)
        #expect(try peers.exchanged() == [])
        try peers.server.setStalled(false)
        #expect(try peers.exchanged().last.map { if case .bodySent(user: 15, _) = $0 { true } else { false } } == true)
    }

    /// The peer sends WINDOW_UPDATE when half of the window is used.
    @Test(
        arguments: [[146], [1_000], [4_096], [90, 700, 146, 3_011], [32_767], [65_535]], [65_535, 1 << 20] as [Int32])
    func `Bodies of any size use the whole connection window in each round trip`(sizes: [Int], window: Int32) throws {
        let peers = try Peers.connected(client: { $0.outputLimit = 2 << 20 }, server: { $0.connectionWindow = window })
        #expect(peers.client.connectionWindow == window)
        let pushes = sizes.map { Push(bodyBytes: $0) }
        peers.clientBytes = []
        var made = 0
        var ranOutOfStreams = false
        let rounds = 20
        for _ in 0..<rounds {
            // Requests are submitted until the window or the streams are used up.
            while true {
                let push = pushes[made % pushes.count]
                ranOutOfStreams = ranOutOfStreams || peers.client.freeStreams == 0
                guard peers.client.freeStreams > 0, peers.client.hasWindow(for: push.body.bytes.count) else { break }
                try #require(push.submit(to: peers.client, user: UInt32(made)) != .refused)
                made += 1
            }
            let bytes = peers.takeClient()
            try bytes.withUnsafeBytes { try peers.server.receive($0) }
            try peers.answerAll()
            try peers.exchanged()
        }
        let frames = Frame.all(peers.clientBytes).filter { $0.type == 0 }
        let sent = frames.map(\.payload.count).reduce(0, +)
        #expect(ranOutOfStreams || sent >= rounds * Int(window - 1), "\(sent) bytes in \(rounds) rounds")
        // Each half of the window may split one DATA frame.
        #expect(frames.count <= made + 2 * rounds + sent / 16_384)
    }

    @Test func `A body does not fit the window if its first part causes no WINDOW_UPDATE`() throws {
        let peers = try Peers.connected()
        let push = Push(bodyBytes: 65_534)
        #expect(peers.client.hasWindow(for: 65_534))
        _ = try push.submit(to: peers.client)
        #expect(peers.client.connectionWindow == 1)
        #expect(peers.client.hasWindow(for: 1))
        // One byte does not reach half of the window, so the peer would send no WINDOW_UPDATE for it.
        #expect(!peers.client.hasWindow(for: 2))
    }
}
