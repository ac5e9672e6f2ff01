/// A device token of 1 to 100 bytes, in hex.
///
/// ```swift
/// let token = try DeviceToken(hex: "0123456789abcdef…")   // from a database, in either case
/// let same = try DeviceToken(bytes: deviceToken)          // from `didRegisterForRemoteNotifications`
/// ```
///
/// `description` contains only the first eight digits, so that logs do not contain whole tokens. `hex` is the whole
/// token. Apple's advice: "Don't make assumptions about device token size." Sources: "Registering your app with APNs",
/// "Sending notification requests to APNs".
public struct DeviceToken: Hashable, Sendable, CustomStringConvertible {
    /// The token as 2 to 200 lower-case hex digits.
    public let hex: String

    /// Creates a token from hex digits in either case. Throws `BadDeviceToken`, or `MissingDeviceToken` if `hex` is
    /// empty.
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
                "a device token must have an even number of hex digits, 2 to 200; Apple's tokens have at least 64")
        }
    }

    /// Creates a token from 1 to 100 bytes. Throws `BadDeviceToken`, or `MissingDeviceToken` if there are no bytes.
    public init(bytes: some Collection<UInt8>) throws(RequestError) {
        let digits = bytes.flatMap { byte -> [UInt8] in
            let pair = Hex.digits(UInt32(byte))
            return [UInt8(truncatingIfNeeded: pair &>> 48), UInt8(truncatingIfNeeded: pair &>> 56)]
        }
        try self.init(hex: String(decoding: digits, as: UTF8.self))
    }

    /// Creates a token from the description of NSData before iOS 13: `<740f4707 bebcf74f …>`. Removes angle brackets
    /// and spaces. Throws the errors of `init(hex:)`.
    public init(dataDescription text: some StringProtocol) throws(RequestError) {
        try self.init(hex: String(text.filter { !"<> ".contains($0) }))
    }

    /// The token's bytes.
    public var bytes: [UInt8] {
        let digits = hex.utf8.map { Hex.value($0) ?? 0 }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    /// The token's first eight digits and an ellipsis.
    public var description: String { hex.utf8.count > 8 ? "\(hex.prefix(8))…" : hex }
}

extension DeviceToken {
    /// The maximum number of hex digits in a token. Results of invalid tokens have the token's text as their key,
    /// truncated at this number of bytes.
    package static let textLimit = RecordLimits.deviceToken

    /// The result of `normalize`, which validates a token and writes it to a buffer.
    package struct Normalized {
        /// The number of bytes that `normalize` wrote to the buffer.
        package var count: Int
        /// The error: `.none` for a valid token, or `.missingDeviceToken` for an empty text. With `.badDeviceToken`,
        /// the buffer contains the original text, truncated at `textLimit` bytes.
        package var failure: ReasonCode

        @inlinable package init(count: Int, failure: ReasonCode) {
            self.count = count
            self.failure = failure
        }
    }

    /// Validates the token `text` and writes it in lower case to `buffer`, which must have at least `textLimit` bytes.
    package static func normalize(
        _ text: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer
    ) -> Normalized {
        precondition(
            buffer.count >= textLimit, "The buffer must have at least 200 bytes, the length of the longest device token"
        )
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
