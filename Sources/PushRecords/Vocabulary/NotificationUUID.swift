/// An `apns-id`: the 16 bytes of a UUID (RFC 9562), big-endian in two words.
public struct NotificationUUID: Hashable, Sendable {
    public var high: UInt64
    public var low: UInt64

    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The nil UUID stands for "no id".
    package static let none = NotificationUUID(high: 0, low: 0)
}
