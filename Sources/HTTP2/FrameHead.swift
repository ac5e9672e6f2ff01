/// The head of an HTTP/2 frame that was sent or received, for the log. Source: RFC 9113, sections 4.1 and 6.
package struct FrameHead: BitwiseCopyable, Sendable, Equatable {
    package var isSent: Bool
    package var type: UInt8
    package var flags: UInt8
    package var stream: Int32
    package var length: Int

    package init(isSent: Bool, type: UInt8, flags: UInt8, stream: Int32, length: Int) {
        self.isSent = isSent
        self.type = type
        self.flags = flags
        self.stream = stream
        self.length = length
    }

    private static let types = [
        "DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE",
        "CONTINUATION",
    ]

    package var typeName: String { Int(type) < Self.types.count ? Self.types[Int(type)] : "type \(type)" }

    /// The names of the flags that are set, with a space between, and the rest as a number.
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
