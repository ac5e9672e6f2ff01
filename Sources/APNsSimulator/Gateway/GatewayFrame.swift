import PushRecords

/// One notification of the binary protocol. Token and payload are borrowed and may be empty.
struct GatewayFrame {
    /// The notification's identifier, or 0 if the frame has none.
    var identifier: UInt32 = 0
    var token: UnsafeRawBufferPointer = .nothing
    var payload: UnsafeRawBufferPointer = .nothing
    /// Whether an item of the frame is unknown, duplicate, incomplete, or has a size or value other than Apple
    /// documents.
    var isMalformed = false

    /// The maximum size of a frame: command 1 with the longest token and payload that 16-bit lengths allow.
    static let limit = 13 + 2 * 65_535
    private static let itemHead = 3

    /// Returns the size of the frame that begins with these bytes, or `nil` if too few bytes have arrived to determine
    /// the size. Returns `Int.max` for an unknown command.
    static func size(of bytes: UnsafeRawBufferPointer) -> Int? {
        switch bytes[0] {
        case 0: return size(of: bytes, tokenAt: 1)
        case 1: return size(of: bytes, tokenAt: 9)
        case 2: return bytes.count < 5 ? nil : 5 + Int(bytes.number32(at: 1))
        default: return .max
        }
    }

    /// Returns the size of a frame with command 0 or 1: a token and a payload, each preceded by its length.
    private static func size(of bytes: UnsafeRawBufferPointer, tokenAt index: Int) -> Int? {
        guard bytes.count >= index + 2 else { return nil }
        let payloadAt = index + 2 + Int(bytes.number16(at: index))
        guard bytes.count >= payloadAt + 2 else { return nil }
        return payloadAt + 2 + Int(bytes.number16(at: payloadAt))
    }

    /// Parses a complete frame.
    init(_ bytes: UnsafeRawBufferPointer) {
        switch bytes[0] {
        case 0: readPair(bytes, tokenAt: 1)
        case 1:
            identifier = bytes.number32(at: 1)
            readPair(bytes, tokenAt: 9)
        default: readItems(UnsafeRawBufferPointer(rebasing: bytes[5...]))
        }
    }

    private mutating func readPair(_ bytes: UnsafeRawBufferPointer, tokenAt index: Int) {
        let payloadAt = index + 2 + Int(bytes.number16(at: index))
        token = UnsafeRawBufferPointer(rebasing: bytes[index + 2..<payloadAt])
        payload = UnsafeRawBufferPointer(rebasing: bytes[payloadAt + 2..<bytes.count])
    }

    /// Parses the items of command 2. Continues after a malformed item because the identifier may follow.
    private mutating func readItems(_ items: UnsafeRawBufferPointer) {
        var at = 0
        var seen: UInt8 = 0
        while at < items.count {
            guard items.count - at >= Self.itemHead else { return isMalformed = true }
            let end = at + Self.itemHead + Int(items.number16(at: at + 1))
            guard end <= items.count else { return isMalformed = true }
            let id = items[at]
            take(
                id, UnsafeRawBufferPointer(rebasing: items[at + Self.itemHead..<end]),
                isAgain: seen >> min(id, 7) & 1 == 1)
            seen |= 1 << min(id, 7)
            at = end
        }
    }

    private mutating func take(_ id: UInt8, _ data: UnsafeRawBufferPointer, isAgain: Bool) {
        if isAgain { isMalformed = true }
        switch id {
        case 1: token = data
        case 2: payload = data
        case 3 where data.count == 4: identifier = data.number32(at: 0)
        case 4 where data.count == 4: break
        case 5 where data.count == 1 && (data[0] == 5 || data[0] == 10): break
        default: isMalformed = true
        }
    }
}

/// A reader that splits a connection's bytes into frames. Not thread-safe.
struct GatewayReader {
    /// The bytes received so far of an incomplete frame.
    private var kept: [UInt8] = []
    /// Whether the start of the next frame is unknown. The reader then ignores all further bytes.
    private(set) var isLost = false

    /// Passes each complete frame to `take`. A frame is valid during the call of `take`.
    mutating func read(_ bytes: UnsafeRawBufferPointer, _ take: (GatewayFrame) -> Void) {
        if isLost { return }
        let all = kept + bytes
        kept = Array(all.dropFirst(all.withUnsafeBytes { cut($0, take) }))
    }

    /// Passes the complete frames to `take` and returns their total size in bytes.
    private mutating func cut(_ bytes: UnsafeRawBufferPointer, _ take: (GatewayFrame) -> Void) -> Int {
        var at = 0
        while at < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[at...])
            guard let size = GatewayFrame.size(of: rest) else { break }
            isLost = size > GatewayFrame.limit
            guard size <= rest.count, !isLost else { break }
            take(GatewayFrame(UnsafeRawBufferPointer(rebasing: rest[..<size])))
            at += size
        }
        return at
    }
}

extension UnsafeRawBufferPointer {
    /// Reads two bytes as a big-endian number.
    @inline(__always) func number16(at index: Int) -> UInt16 {
        UInt16(bigEndian: loadUnaligned(fromByteOffset: index, as: UInt16.self))
    }

    @inline(__always) func number32(at index: Int) -> UInt32 {
        UInt32(bigEndian: loadUnaligned(fromByteOffset: index, as: UInt32.self))
    }
}
