/// A device token: 1 to 100 bytes, written in hex.
///
/// ```swift
/// let token = try DeviceToken(hex: "0123456789abcdef…")   // as a database has it, in either case
/// let same = try DeviceToken(bytes: deviceToken)          // as `didRegisterForRemoteNotifications` gave it
/// ```
///
/// Its description is shortened, so that printing one does not put it into a log; `hex` is all of it. "Don't make
/// assumptions about device token size": sources: "Registering your app with APNs", "Sending notification requests to
/// APNs".
public struct DeviceToken: Hashable, Sendable, CustomStringConvertible {
    /// All of it: 2 to 200 hex digits in lower case.
    public let hex: String

    /// Reads hex digits in either case. Throws `BadDeviceToken` (`MissingDeviceToken` when it is empty).
    public init(hex: some StringProtocol) throws(RequestError) {
        var text = String(hex)
        let read = withUnsafeTemporaryAllocation(byteCount: Self.textLimit, alignment: 1) { room in
            let read = text.withUTF8 { Self.normalize(UnsafeRawBufferPointer($0), into: room) }
            return (text: String(decoding: room[..<read.count], as: UTF8.self), failure: read.failure)
        }
        switch read.failure {
        case .none: self.hex = read.text
        case .missingDeviceToken: throw RequestError(.missingDeviceToken, "the device token is empty")
        default:
            throw RequestError(
                .badDeviceToken,
                "a device token is 2 to 200 hex digits, an even number of them; Apple's have 64 or more")
        }
    }

    /// Throws `BadDeviceToken` unless there are 1 to 100 bytes (`MissingDeviceToken` when there are none).
    public init(bytes: some Collection<UInt8>) throws(RequestError) {
        var digits: [UInt8] = []
        digits.reserveCapacity(2 * bytes.count)
        for byte in bytes {
            let pair = Hex.digits(UInt32(byte))
            digits.append(UInt8(truncatingIfNeeded: pair &>> 48))
            digits.append(UInt8(truncatingIfNeeded: pair &>> 56))
        }
        try self.init(hex: String(decoding: digits, as: UTF8.self))
    }

    /// Reads a token as NSData described it before iOS 13, and as old tables have it: `<740f4707 bebcf74f …>`. Angle
    /// brackets and spaces are passed over, nothing else is. Throws as `init(hex:)` does.
    public init(dataDescription text: some StringProtocol) throws(RequestError) {
        try self.init(hex: String(text.filter { !"<> ".contains($0) }))
    }

    /// The bytes that the digits spell.
    public var bytes: [UInt8] {
        var high: UInt8?
        var bytes: [UInt8] = []
        bytes.reserveCapacity(hex.utf8.count / 2)
        for digit in hex.utf8 {
            let value = Hex.value(digit) ?? 0
            if let first = high {
                bytes.append(first << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        return bytes
    }

    /// The first eight digits, and an ellipsis for the rest.
    public var description: String { hex.utf8.count > 8 ? "\(hex.prefix(8))…" : hex }
}

extension DeviceToken {
    /// Most bytes of a token's text, and of the result key of a token that is not one.
    package static let textLimit = RecordLimits.deviceToken

    /// How a token looks in its buffer.
    package struct Normalized {
        /// How many bytes of the buffer are used.
        package var count: Int
        /// `.none` when it is a token, now in lower case; `.missingDeviceToken` when it is empty; else
        /// `.badDeviceToken`, and the buffer has it as written, cut at `textLimit` bytes.
        package var failure: ReasonCode

        @inlinable package init(count: Int, failure: ReasonCode) {
            self.count = count
            self.failure = failure
        }
    }

    /// Checks `text` and writes it in lower case to `buffer`, which has at least `textLimit` bytes.
    package static func normalize(
        _ text: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer
    ) -> Normalized {
        precondition(buffer.count >= textLimit, "room for a device token's text")
        guard let source = text.baseAddress, let target = buffer.baseAddress, text.count > 0 else {
            return Normalized(count: 0, failure: .missingDeviceToken)
        }
        if text.count <= textLimit, text.count & 1 == 0, Hex.lowercase(source, count: text.count, into: target) {
            return Normalized(count: text.count, failure: .none)
        }
        let count = min(text.count, textLimit)
        target.copyMemory(from: source, byteCount: count)
        return Normalized(count: count, failure: .badDeviceToken)
    }
}
