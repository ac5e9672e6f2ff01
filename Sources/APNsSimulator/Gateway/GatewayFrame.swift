package import PushRecords

/// One notification as the binary protocol has it. Token and payload are lent, and empty where there is none.
struct GatewayFrame {
    /// 0: it has none.
    var identifier: UInt32 = 0
    var token = UnsafeRawBufferPointer(start: nil, count: 0)
    var payload = UnsafeRawBufferPointer(start: nil, count: 0)
    /// Whether an item is unknown, has another size than Apple's, or comes twice.
    var isMalformed = false

    /// What the bytes at hand are the beginning of.
    enum Extent: Equatable {
        /// No more can be said before there are more bytes.
        case unknown
        /// A frame of so many bytes, which may not all be there yet.
        case frame(Int)
        /// An unknown command, or a frame beyond `limit`. The beginning of the next frame is unknown.
        case noFrame
    }

    /// The longest frame that is read: command 1 with the longest token and payload that 16 bits can say.
    static let limit = 13 + 2 * 65_535
    private static let itemHead = 3

    static func extent(of bytes: UnsafeRawBufferPointer) -> Extent {
        guard let command = bytes.first else { return .unknown }
        switch command {
        case 0: return extent(of: bytes, tokenAt: 1)
        case 1: return extent(of: bytes, tokenAt: 9)
        case 2:
            guard bytes.count >= 5 else { return .unknown }
            let size = 5 + Int(bytes.number32(at: 1))
            return size > limit ? .noFrame : .frame(size)
        default: return .noFrame
        }
    }

    /// Commands 0 and 1: a token and a payload, each after its length.
    private static func extent(of bytes: UnsafeRawBufferPointer, tokenAt index: Int) -> Extent {
        guard bytes.count >= index + 2 else { return .unknown }
        let payloadAt = index + 2 + Int(bytes.number16(at: index))
        guard bytes.count >= payloadAt + 2 else { return .unknown }
        return .frame(payloadAt + 2 + Int(bytes.number16(at: payloadAt)))
    }

    /// Reads a whole frame, of which `extent` said how long it is.
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

    /// Command 2. What follows a bad item is read all the same: the identifier may be there.
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

/// Cuts what a connection brings into frames. One thread.
struct GatewayReader {
    /// The beginning of a frame, until the rest is there.
    private var kept: [UInt8] = []
    /// What came was no frame: nothing more is read.
    private(set) var isLost = false

    /// Hands over each frame that is complete now, lent for the call.
    mutating func read(_ bytes: UnsafeRawBufferPointer, _ take: (GatewayFrame) -> Void) {
        if isLost { return }
        if kept.isEmpty {
            let used = cut(bytes, take)
            kept = Array(bytes[used...])
        } else {
            kept += bytes
            let all = kept
            kept.removeFirst(all.withUnsafeBytes { cut($0, take) })
        }
    }

    /// Returns how many bytes the frames took.
    private mutating func cut(_ bytes: UnsafeRawBufferPointer, _ take: (GatewayFrame) -> Void) -> Int {
        var at = 0
        while at < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[at...])
            switch GatewayFrame.extent(of: rest) {
            case .frame(let size) where size <= rest.count:
                take(GatewayFrame(UnsafeRawBufferPointer(rebasing: rest[..<size])))
                at += size
            case .frame, .unknown: return at
            case .noFrame:
                isLost = true
                return at
            }
        }
        return at
    }
}

extension UnsafeRawBufferPointer {
    /// Two bytes as a number, big-endian.
    @inline(__always) func number16(at index: Int) -> UInt16 {
        UInt16(bigEndian: loadUnaligned(fromByteOffset: index, as: UInt16.self))
    }

    @inline(__always) func number32(at index: Int) -> UInt32 {
        UInt32(bigEndian: loadUnaligned(fromByteOffset: index, as: UInt32.self))
    }
}

/// The status of the binary gateway's error answers: Apple's numbers ("Binary Provider API", archived), and any other
/// that another gateway may send.
package struct GatewayStatus: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let processingError = Self(rawValue: 1)
    package static let missingToken = Self(rawValue: 2)
    package static let missingTopic = Self(rawValue: 3)
    package static let missingPayload = Self(rawValue: 4)
    package static let tokenSize = Self(rawValue: 5)
    package static let topicSize = Self(rawValue: 6)
    package static let payloadSize = Self(rawValue: 7)
    package static let invalidToken = Self(rawValue: 8)
    /// The server goes away; the answer names the last notification that was processed.
    package static let shutdown = Self(rawValue: 10)
    package static let protocolError = Self(rawValue: 128)
    package static let unknown = Self(rawValue: 255)

    /// The reason under which the books count it: the one that HTTP/2 has for the same mistake.
    package var reason: ReasonCode {
        switch self {
        case .processingError: .internalServerError
        case .missingToken: .missingDeviceToken
        case .missingTopic: .missingTopic
        case .missingPayload: .payloadEmpty
        case .tokenSize, .invalidToken: .badDeviceToken
        case .topicSize: .badTopic
        case .payloadSize: .payloadTooLarge
        case .shutdown: .shutdown
        default: .other
        }
    }

    /// The status for a reason of HTTP/2, or `nil` if the gateway has none for it.
    init?(_ reason: ReasonCode) {
        switch reason {
        case .internalServerError: self = .processingError
        case .missingDeviceToken: self = .missingToken
        case .missingTopic: self = .missingTopic
        case .payloadEmpty: self = .missingPayload
        case .badTopic: self = .topicSize
        case .payloadTooLarge: self = .payloadSize
        case .badDeviceToken, .deviceTokenNotForTopic: self = .invalidToken
        case .shutdown: self = .shutdown
        default: return nil
        }
    }
}

/// An error answer: `08`, the status, the notification's identifier (big-endian); then the gateway closes.
struct GatewayErrorFrame: Hashable, Sendable {
    var status: GatewayStatus
    /// 0: the notification had none, as those of command 0.
    var identifier: UInt32

    static let size = 6

    var bytes: [UInt8] {
        [8, status.rawValue] + (0..<4).map { UInt8(truncatingIfNeeded: identifier >> UInt32(24 - $0 * 8)) }
    }
}
