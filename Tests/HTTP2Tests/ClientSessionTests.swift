import TestSupport
import Testing

@testable import HTTP2

@Suite struct ClientSessionTests {
    @Test func `A session begins with the preface and a SETTINGS frame`() throws {
        let client = try ClientSession()
        let settings: [UInt8] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]
        #expect(Array(client.output) == Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + settings)
    }

    @Test func `A request is refused until the server's SETTINGS arrive`() throws {
        let peers = try Peers()
        let before = peers.client.outputTotal
        #expect(!peers.client.isReady)
        #expect(peers.client.freeStreams == 0)
        #expect(try Push().submit(to: peers.client) == .refused)
        #expect(peers.client.outputTotal == before)
        #expect(try peers.exchanged() == [.settings])
        #expect(peers.client.freeStreams == 1_000)
    }

    @Test func `A response has the request's user value, the wanted headers and the body`() throws {
        let peers = try Peers.connected(client: { $0.wantedHeaders = ["apns-id", "apns-unique-id"] })
        let push = Push()
        let submission = try push.submit(to: peers.client, user: 7, keep: 1)
        #expect(submission == .written(stream: 1, end: peers.client.outputTotal))
        try peers.exchange()
        #expect(peers.server.nextEvent() == .request(stream: 1))
        #expect(peers.server.body.elementsEqual(push.body.bytes))
        #expect(peers.server.headerCount == 7)
        let header = peers.server.header(4)
        #expect(String(decoding: header.name, as: UTF8.self) == "authorization")
        #expect(header.value.elementsEqual(push.authorization.bytes))
        try peers.respond(1, "410", body: #"{"reason":"Unregistered"}"#, apnsID: "ABC")
        try peers.exchange()
        #expect(peers.client.nextEvent() == .response(user: 7, status: 410))
        #expect(String(decoding: peers.client.responseHeader(0), as: UTF8.self) == "ABC")
        #expect(peers.client.responseHeader(1).isEmpty)
        #expect(String(decoding: peers.client.responseBody, as: UTF8.self) == #"{"reason":"Unregistered"}"#)
        #expect(peers.client.nextEvent() == nil)
        #expect(peers.client.openStreams == 0)
    }

    @Test func `Frame heads are recorded in both directions if tracing is on`() throws {
        let peers = try Peers.connected(client: { $0.tracesFrames = true })
        let opening = peers.client.takeFrameHeads().map { "\($0.isSent ? ">" : "<") \($0.typeName) \($0.flagNames)" }
        #expect(opening.first == "> SETTINGS ")
        #expect(opening.contains("< SETTINGS ") && opening.contains("> SETTINGS ACK"), "\(opening)")
        let push = Push()
        _ = try push.submit(to: peers.client)
        let sent = peers.client.takeFrameHeads()
        #expect(sent.map(\.typeName) == ["HEADERS", "DATA"])
        #expect(sent.map(\.flagNames) == ["END_HEADERS", "END_STREAM"])
        #expect(sent.last == FrameHead(isSent: true, type: 0, flags: 1, stream: 1, length: push.body.bytes.count))
        try peers.exchange()
        _ = peers.serverEvents()
        try peers.respond(1, "200")
        try peers.exchange()
        #expect(
            peers.client.takeFrameHeads().contains {
                !$0.isSent && $0.typeName == "HEADERS" && $0.flagNames == "END_STREAM END_HEADERS" && $0.stream == 1
            })
        #expect(FrameHead(isSent: true, type: 6, flags: 0x41, stream: 0, length: 8).flagNames == "ACK 0x40")

        #expect(try Peers.connected().client.takeFrameHeads().isEmpty)
    }

    @Test func `The limit of open streams follows the server's SETTINGS`() throws {
        let peers = try Peers.connected(server: { $0.settings = [.maxConcurrentStreams(1)] })
        let push = Push()
        #expect(peers.client.freeStreams == 1)
        #expect(try push.submit(to: peers.client) != .refused)
        #expect(try push.submit(to: peers.client) == .refused)
        try peers.server.changeSettings([.maxConcurrentStreams(3)])
        try peers.exchange()
        #expect(peers.client.freeStreams == 2)
        #expect(try push.submit(to: peers.client) != .refused)
        #expect(try push.submit(to: peers.client) != .refused)
        try peers.exchange()
        try peers.server.changeSettings([.maxConcurrentStreams(1)])
        try peers.exchange()
        #expect(peers.client.allowedStreams == 1)
        #expect(peers.client.freeStreams == 0)
        #expect(peers.client.openStreams == 3)
        try peers.answerAll()
        try peers.exchange()
        #expect(peers.client.freeStreams == 1)
    }

    @Test func `A GOAWAY ends the streams above it, and the streams below it are answered`() throws {
        let peers = try Peers.connected()
        let push = Push()
        for user in 0..<4 { _ = try push.submit(to: peers.client, user: UInt32(user)) }
        try peers.exchange()
        _ = peers.serverEvents()
        try peers.server.shutdownNotice()
        #expect(try peers.exchanged() == [.goAway(lastStreamID: .max, code: .noError)])
        #expect(try push.submit(to: peers.client) == .refused)
        try peers.server.goAway(lastStreamID: 3, .noError, Array(#"{"reason":"x"}"#.utf8))
        try peers.exchange()
        #expect(peers.client.nextEvent() == .goAway(lastStreamID: 3, code: .noError))
        #expect(String(decoding: peers.client.goAwayData, as: UTF8.self) == #"{"reason":"x"}"#)
        let refused = peers.clientEvents()
        #expect(refused.count == 2)
        #expect(peers.client.takePeerErrors()?.goAways.first == 2 && peers.client.takePeerErrors() == nil)
        #expect(refused.contains(.ended(user: 2, code: .refusedStream, status: 0)))
        #expect(refused.contains(.ended(user: 3, code: .refusedStream, status: 0)))
        #expect(try peers.respond(1, "200"))
        #expect(try peers.respond(3, "200"))
        #expect(try !peers.respond(5, "200"))
        #expect(try peers.exchanged() == [.response(user: 0, status: 200), .response(user: 1, status: 200)])
        #expect(peers.client.isFinished)
    }

    @Test func `A stream that is reset within the response body keeps its status and the partial body`() throws {
        let peers = try Peers.connected()
        _ = try Push().submit(to: peers.client, user: 9)
        try peers.exchange()
        var headers = HeaderList()
        headers.append(":status", "410")
        let half = Lent(#"{"reason":"Unreg"#)
        try peers.server.respond(stream: 1, headers, body: half.bytes, isEnd: false)
        try peers.server.reset(stream: 1, .internalError)
        try peers.exchange()
        #expect(peers.client.nextEvent() == .ended(user: 9, code: .internalError, status: 410))
        #expect(peers.client.responseBody.elementsEqual(half.bytes))
    }

    @Test func `The headers of a status without a body are the response, whether or not the stream ends`() throws {
        let peers = try Peers.connected(
            client: { $0.bodilessStatus = 200 }, server: { $0.settings = [.maxConcurrentStreams(4)] })
        let push = Push()
        for user in 1...3 as ClosedRange<UInt32> { _ = try push.submit(to: peers.client, user: user) }
        try peers.exchange()
        _ = peers.serverEvents()
        func begin(_ streams: Int32...) throws {
            var headers = HeaderList()
            headers.append(":status", "200")
            for stream in streams {
                try peers.server.respond(stream: stream, headers, body: Lent("").bytes, isEnd: false)
            }
        }
        try begin(1, 3)
        #expect(try peers.exchanged() == [.response(user: 1, status: 200), .response(user: 2, status: 200)])
        #expect(peers.client.openStreams == 3)
        try peers.server.reset(stream: 1, .internalError)
        #expect(try peers.exchanged() == [] && peers.client.openStreams == 2)
        try begin(5)
        peers.clientBytes = []
        #expect(try peers.exchanged() == [.response(user: 3, status: 200)])
        try peers.client.resetUnended()
        #expect(peers.client.openStreams == 2, "A peer may end its streams later")
        try peers.client.resetUnended()
        try peers.exchange()
        #expect(!peers.client.hasUnended)
        let cancels = [3, 5].map { Frame(type: 3, flags: 0, stream: $0, payload: [0, 0, 0, 8]) }
        #expect(Frame.all(peers.clientBytes) == cancels && peers.client.openStreams == 0)
    }

    @Test func `The client resets a stream whose response arrives before the request body is sent`() throws {
        let peers = try Peers.connected(server: {
            $0.settings = [.maxConcurrentStreams(1), .initialWindowSize(10)]
            $0.canStall = true
        })
        try peers.server.setStalled(true)
        let push = Push(bodyBytes: 5_000)
        #expect(try push.submit(to: peers.client, user: 3) == .waiting(stream: 1))
        try peers.exchange()
        try peers.respond(1, "413", body: #"{"reason":"PayloadTooLarge"}"#)
        peers.clientBytes = []
        #expect(try peers.exchanged() == [.response(user: 3, status: 413)])
        // The client sends RST_STREAM with CANCEL, and no further body bytes.
        #expect(Frame.all(peers.clientBytes) == [Frame(type: 3, flags: 0, stream: 1, payload: [0, 0, 0, 8])])
        #expect(peers.client.freeStreams == 1)
    }

    @Test func `A delayed request body is reported with the output position of its end`() throws {
        let peers = try Peers.connected(server: {
            $0.settings = [.initialWindowSize(10)]
            $0.canStall = true
        })
        try peers.server.setStalled(true)
        let push = Push(bodyBytes: 15)
        #expect(try push.submit(to: peers.client, user: 3) == .waiting(stream: 1))
        #expect(try peers.exchanged() == [])
        try peers.server.setStalled(false)
        let bytes = peers.takeServer()
        try bytes.withUnsafeBytes { try peers.client.receive($0) }
        #expect(peers.clientEvents() == [.bodySent(user: 3, end: peers.client.outputTotal)])
        let five = Array("xxxxx".utf8)
        #expect(Frame.all(peers.takeClient()) == [Frame(type: 0, flags: 1, stream: 1, payload: five)])
    }

    @Test func `A cancelled stream reports no event, and its body is not read again`() throws {
        let peers = try Peers.connected(server: { $0.settings = [.initialWindowSize(10)] })
        do {
            let push = Push(bodyBytes: 3_000)
            #expect(try push.submit(to: peers.client, user: 3) == .waiting(stream: 1))
            try peers.client.cancel(stream: 1)
            // `push` is freed here, so the session must not read its body any more.
        }
        try peers.server.changeSettings([.initialWindowSize(65_535)])
        #expect(try peers.exchanged() == [.settings])
        #expect(peers.serverEvents().contains(.closed(stream: 1, code: .cancel)))
        #expect(peers.client.openStreams == 0)
    }

    @Test func `A response body is truncated to 4096 bytes`() throws {
        let peers = try Peers.connected()
        _ = try Push().submit(to: peers.client)
        try peers.exchange()
        try peers.answerAll("500", body: String(repeating: "y", count: 20_000))
        try peers.exchange()
        #expect(peers.client.nextEvent() == .response(user: 0, status: 500))
        #expect(peers.client.responseBody.count == 4_096)
    }

    @Test func `A PING is answered and reported`() throws {
        let peers = try Peers.connected()
        try peers.client.ping()
        #expect(try peers.exchanged() == [.pong])
    }

    @Test func `A session with full output refuses requests until the output is consumed`() throws {
        let peers = try Peers.connected(client: { $0.outputLimit = 1_000 })
        let push = Push()
        var taken = 0
        while try push.submit(to: peers.client) != .refused { taken += 1 }
        #expect(taken > 3 && taken < 20)
        try peers.exchange()
        #expect(try push.submit(to: peers.client) != .refused)
    }

    @Test func `The name of a header with a unique value is sent once and then indexed`() throws {
        let peers = try Peers.connected()
        var sizes: [Int] = []
        for id in ["11111111", "22222222", "33333333"] {
            var push = Push()
            push.apnsID = Lent(id)
            _ = try push.submit(to: peers.client)
            sizes.append(Frame.all(peers.takeClient()).first { $0.type == 1 }!.payload.count)
        }
        // Later requests send 0x1f, index - 15 and the length, and do not repeat the bytes of the name.
        #expect(sizes[1] < 90 && sizes[0] > 200)
        let field = 2 + 1 + (8 * 5 + 7) / 8
        #expect(sizes[1] - field == sizes[2] - field - 1 || sizes[1] == sizes[2])
    }
}
