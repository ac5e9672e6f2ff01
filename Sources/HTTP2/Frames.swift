internal import CNghttp2

/// The header of an HTTP/2 frame that was sent or received, for the log. Source: RFC 9113, sections 4.1 and 6.
package struct FrameHead: BitwiseCopyable, Sendable, Equatable {
    package var isSent: Bool
    package var type: UInt8
    package var flags: UInt8
    package var stream: Int32
    package var length: Int

    private static let types = [
        "DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE",
        "CONTINUATION",
    ]

    package var typeName: String { Int(type) < Self.types.count ? Self.types[Int(type)] : "type \(type)" }

    /// The names of the set flags, separated by spaces. Unknown flags follow as one hexadecimal number.
    package var flagNames: String {
        let names: [(UInt8, String)] =
            switch type {
            case 0: [(0x1, "END_STREAM"), (0x8, "PADDED")]
            case 1: [(0x1, "END_STREAM"), (0x4, "END_HEADERS"), (0x8, "PADDED"), (0x20, "PRIORITY")]
            case 4, 6: [(0x1, "ACK")]
            case 5: [(0x4, "END_HEADERS"), (0x8, "PADDED")]
            case 9: [(0x4, "END_HEADERS")]
            default: []
            }
        var rest = flags
        var words: [String] = []
        for (bit, name) in names where flags & bit != 0 {
            words.append(name)
            rest &= ~bit
        }
        if rest != 0 { words.append("0x" + String(rest, radix: 16)) }
        return words.joined(separator: " ")
    }
}

/// The error code with which a stream or a connection ended. Source: RFC 9113, section 7. Any code is allowed.
package struct ErrorCode: RawRepresentable, Hashable, Sendable, BitwiseCopyable, CustomStringConvertible {
    package let rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }

    package static let noError = ErrorCode(rawValue: 0)
    package static let protocolError = ErrorCode(rawValue: 1)
    package static let internalError = ErrorCode(rawValue: 2)
    package static let refusedStream = ErrorCode(rawValue: 7)
    package static let cancel = ErrorCode(rawValue: 8)

    /// The RFC's name, or the number of an unknown code.
    package var description: String {
        rawValue <= 13 ? unsafe String(cString: nghttp2_http2_strerror(rawValue)) : "error \(rawValue)"
    }

    /// The RFC's names of the codes 0 to 13, followed by `other` for all further codes.
    package static let labels = (0...13).map { ErrorCode(rawValue: $0).description } + ["other"]

    /// The index of this code's name in `labels`.
    var label: Int { min(Int(rawValue), Self.labels.count - 1) }
}

/// The numbers of GOAWAY and RST_STREAM frames that a peer sent, by error code in the order of `ErrorCode.labels`.
package struct PeerErrors: Sendable, Equatable {
    package var goAways = [Int](repeating: 0, count: ErrorCode.labels.count)
    package var resets = [Int](repeating: 0, count: ErrorCode.labels.count)

    package init() {}
}

/// A fatal error of nghttp2, such as lack of memory or a protocol violation after which it sends no GOAWAY.
package struct HTTP2Error: Error, Sendable, CustomStringConvertible {
    package var text: String
    package init(_ text: String) { self.text = text }
    package var description: String { text }
}

/// A parameter of a SETTINGS frame (RFC 9113, section 6.5.2).
package struct Setting: Hashable, Sendable {
    let id: UInt16
    let value: UInt32

    package static func headerTableSize(_ value: UInt32) -> Setting { Setting(id: 1, value: value) }
    package static func maxConcurrentStreams(_ value: UInt32) -> Setting { Setting(id: 3, value: value) }
    package static func initialWindowSize(_ value: UInt32) -> Setting { Setting(id: 4, value: value) }
    package static func maxFrameSize(_ value: UInt32) -> Setting { Setting(id: 5, value: value) }
    package static func maxHeaderListSize(_ value: UInt32) -> Setting { Setting(id: 6, value: value) }
}
