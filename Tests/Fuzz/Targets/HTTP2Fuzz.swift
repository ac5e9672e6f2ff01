import HTTP2

private let settingsFrame: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]

/// Submits a request as the transport does. Returns whether the session accepted it.
private func submit(_ client: ClientSession, user: UInt32, body: UnsafeRawBufferPointer) throws(HTTP2Error) -> Bool {
    var headers = HeaderList()
    headers.append(":method", "POST")
    headers.append(":scheme", "https")
    headers.append(":path", "/3/device/a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1")
    headers.append(":authority", "api.push.apple.com")
    headers.append("apns-topic", "com.example.shop")
    return try client.submit(headers, body: body, user: user, keep: 3) != .refused
}

/// Fuzzes the client session. The low seven bits of the first byte are the size of the chunks in which the rest
/// arrives, where 0 means all at once. If its highest bit is clear, the server's SETTINGS frame arrives first.
func fuzzHTTP2Client(_ bytes: UnsafeRawBufferPointer) {
    var reader = FuzzReader(bytes)
    let flags = Int(reader.byte())
    let pieces = Pieces()
    defer { withExtendedLifetime(pieces) {} }
    let body = pieces.copy(Array(#"{"aps":{"alert":"Hi"}}"#.utf8))
    var options = ClientSession.Options()
    options.wantedHeaders = ["apns-id", "apns-unique-id"]
    options.bodilessStatus = 200
    do throws(HTTP2Error) {
        let client = try ClientSession(options: options)
        if flags & 128 == 0 { try client.receive(pieces.copy(settingsFrame)) }
        var ended: Set<UInt32> = []
        var user: UInt32 = 0
        while !reader.isAtEnd {
            if user < 8, try submit(client, user: user, body: body) { user += 1 }
            try client.receive(pieces.copy(reader.take(flags & 127 == 0 ? bytes.count : flags & 127)))
            while let event = client.nextEvent() {
                switch event {
                case .response(let user, _), .ended(let user, _, _):
                    require(ended.insert(user).inserted, "a request must end once")
                    touch(client.responseBody)
                    for header in 0..<2 { touch(client.responseHeader(header)) }
                    require(
                        client.responseBody.count <= options.responseLimit, "the body of a response must be limited")
                case .bodySent, .goAway, .settings, .pong:
                    require(client.goAwayData.count <= 1_024, "the debug data of a GOAWAY must be limited")
                }
            }
            touch(client.output)
            try client.consumeOutput(client.output.count)
            _ = client.freeStreams + client.allowedStreams
            if client.isFinished { return }
        }
    } catch {
        _ = "\(error)"
    }
}

func fuzzHTTP2Server(_ bytes: UnsafeRawBufferPointer) {
    var reader = FuzzReader(bytes)
    let flags = Int(reader.byte())
    let pieces = Pieces()
    defer { withExtendedLifetime(pieces) {} }
    var options = ServerSession.Options()
    options.requestLimit = 2_048
    do throws(HTTP2Error) {
        let server = try ServerSession(options: options)
        if flags & 128 == 0 {
            try server.receive(pieces.copy(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + settingsFrame))
        }
        while !reader.isAtEnd {
            try server.receive(pieces.copy(reader.take(flags & 127 == 0 ? bytes.count : flags & 127)))
            while let event = server.nextEvent() {
                touch(server.body)
                var kept = server.body.count
                for index in 0..<server.headerCount {
                    touch(server.header(index).name)
                    touch(server.header(index).value)
                    kept += server.header(index).name.count + server.header(index).value.count
                }
                require(kept <= options.requestLimit, "the stored bytes of a request must be limited")
                guard case .request(let stream) = event else { continue }
                var headers = HeaderList()
                headers.append(":status", "400")
                let reason = pieces.copy(Array(#"{"reason":"BadDeviceToken"}"#.utf8))
                try server.respond(stream: stream, headers, body: reason)
            }
            touch(server.output)
            server.consumeOutput(server.output.count)
            if server.isFinished { return }
        }
    } catch {
        _ = "\(error)"
    }
}
