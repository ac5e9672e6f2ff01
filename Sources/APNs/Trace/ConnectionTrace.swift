internal import HTTP2
internal import JSON
internal import Network
internal import TLS

/// One connection's part of a trace. Loop's thread.
final class ConnectionTrace: ChannelObserver {
    private let file: TraceFile
    private let number: Int
    private let sentFrames = FrameReader(isClient: true, keepsData: false)
    private let receivedFrames = FrameReader(isClient: false, keepsData: true)
    /// Of an answer's body, or of what a GOAWAY says.
    private static let bodyLimit = 1_024

    /// It is about to be dialled.
    init(_ trace: Trace, _ target: DialTarget) {
        file = trace.file
        number = trace.file.nextConnection()
        append("dial") { json in
            json.member("app", trace.app)
            json.member("host", target.host)
            json.member("port", Int(target.port))
            if let proxy = target.proxy { json.member("proxy", proxy.text) }
        }
    }

    private func append(_ event: StaticString, _ members: (inout JSONWriter) -> Void) {
        file.append(event) { json in
            json.member("connection", number)
            members(&json)
        }
    }

    // MARK: TLS

    func channelConnected(to address: SocketAddress) { append("connected") { $0.member("address", "\(address)") } }

    func channelSaw(_ seen: SessionObservation) {
        append("tls") { json in
            switch seen {
            case .record(let isSent, let type, let length):
                Self.direction(&json, isSent)
                json.member("record", Self.recordTypes[type] ?? "\(type)")
                json.member("length", length)
            case .handshake(let isSent, let type, let length):
                Self.direction(&json, isSent)
                json.member("handshake", Self.handshakeTypes[type] ?? "\(type)")
                json.member("length", length)
            case .alert(let isSent, let isFatal, let code):
                Self.direction(&json, isSent)
                json.member("alert", Int(code))
                json.member("fatal", isFatal)
            }
        }
    }

    func channelOpened(_ session: Session) {
        append("open") { json in
            json.member("tls", session.version)
            json.member("cipher", session.cipher)
            json.member("alpn", session.applicationProtocol)
            guard let certificate = session.peerCertificate else { return }
            json.member("certificate") { json in
                json.member("subject", certificate.subject)
                json.member("issuer", certificate.issuer)
                json.member("names", certificate.names)
                json.member("not_before", certificate.notBeforeDay)
                json.member("not_after", certificate.notAfterDay)
            }
        }
    }

    func closed(_ end: ChannelEnd) { append("closed") { $0.member("reason", TraceText.received(end.text.utf8)) } }

    // MARK: HTTP/2

    /// Bytes that the channel took.
    func sent(_ bytes: UnsafeRawBufferPointer) { sentFrames.read(bytes) { frame($0, isSent: true) } }

    func received(_ bytes: UnsafeRawBufferPointer) { receivedFrames.read(bytes) { frame($0, isSent: false) } }

    private func frame(_ frame: PassedFrame, isSent: Bool) {
        append("frame") { json in
            Self.direction(&json, isSent)
            json.member("type", Int(frame.type) < Self.types.count ? Self.types[Int(frame.type)] : "\(frame.type)")
            json.name("flags")
            json.beginArray()
            for flag in Self.flags(frame) { json.value(flag) }
            json.endArray()
            json.member("stream", Int(frame.stream))
            json.member("length", frame.length)
            if let fields = frame.fields { Self.write(fields, isSent: isSent, to: &json) }
            Self.writePayload(of: frame, isSent: isSent, to: &json)
        }
    }

    private static func write(_ fields: [PassedField], isSent: Bool, to json: inout JSONWriter) {
        json.name("headers")
        json.beginArray()
        for field in fields {
            let name = String(decoding: field.name, as: UTF8.self)
            json.beginArray()
            json.value(isSent ? name : TraceText.received(field.name))
            json.value(isSent ? TraceText.sent(name, field.value) : TraceText.received(field.value))
            json.endArray()
        }
        json.endArray()
    }

    /// RFC 9113, 6.
    private static func writePayload(of frame: PassedFrame, isSent: Bool, to json: inout JSONWriter) {
        let payload = frame.payload
        func number(at place: Int) -> Int {
            guard payload.count >= place + 4 else { return 0 }
            return payload[place..<place + 4].reduce(0) { $0 << 8 | Int($1) }
        }
        func code(at place: Int) -> String { ErrorCode(rawValue: UInt32(number(at: place))).description }
        switch frame.type {
        case 0 where !isSent: json.member("body", TraceText.received(payload.prefix(bodyLimit)))
        case 3: json.member("code", code(at: 0))
        case 4:
            json.member("settings") { json in
                for place in stride(from: 0, to: payload.count - 5, by: 6) {
                    let id = Int(payload[place]) << 8 | Int(payload[place + 1])
                    json.member(id < settings.count ? settings[id] : "\(id)", number(at: place + 2))
                }
            }
        case 7:
            json.member("last_stream", number(at: 0) & 0x7FFF_FFFF)
            json.member("code", code(at: 4))
            json.member("body", TraceText.received(payload.dropFirst(8).prefix(bodyLimit)))
        case 8: json.member("increment", number(at: 0) & 0x7FFF_FFFF)
        default: break
        }
    }

    private static func flags(_ frame: PassedFrame) -> [String] {
        let names: [UInt8: String] =
            switch frame.type {
            case 0: [0x1: "END_STREAM", 0x8: "PADDED"]
            case 1: [0x1: "END_STREAM", 0x4: "END_HEADERS", 0x8: "PADDED", 0x20: "PRIORITY"]
            case 4, 6: [0x1: "ACK"]
            case 5: [0x4: "END_HEADERS", 0x8: "PADDED"]
            case 9: [0x4: "END_HEADERS"]
            default: [:]
            }
        return (0..<8).map { 1 << $0 }.filter { frame.flags & $0 != 0 }
            .map { (bit: UInt8) in names[bit] ?? "0x" + String(bit, radix: 16) }
    }

    private static func direction(_ json: inout JSONWriter, _ isSent: Bool) {
        if isSent { json.member("direction", "sent") } else { json.member("direction", "received") }
    }

    private static let types = [
        "DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE",
        "CONTINUATION",
    ]
    /// RFC 9113, 6.5.2.
    private static let settings = [
        "0", "HEADER_TABLE_SIZE", "ENABLE_PUSH", "MAX_CONCURRENT_STREAMS", "INITIAL_WINDOW_SIZE", "MAX_FRAME_SIZE",
        "MAX_HEADER_LIST_SIZE",
    ]
    /// RFC 8446, B.1 and B.3.
    private static let recordTypes: [UInt8: String] = [
        20: "change_cipher_spec", 21: "alert", 22: "handshake", 23: "application_data",
    ]
    private static let handshakeTypes: [UInt8: String] = [
        1: "client_hello", 2: "server_hello", 4: "new_session_ticket", 8: "encrypted_extensions", 11: "certificate",
        12: "server_key_exchange", 13: "certificate_request", 14: "server_hello_done", 15: "certificate_verify",
        16: "client_key_exchange", 20: "finished", 24: "key_update",
    ]
}
