/// A time in whole seconds since 1970 (UTC), as Apple's payloads have it.
///
/// ```swift
/// let now = UnixTime(secondsSinceEpoch: Int64(Date().timeIntervalSince1970))
/// ```
public struct UnixTime: Hashable, Comparable, Sendable, ExpressibleByIntegerLiteral {
    /// Seconds, not milliseconds.
    public var secondsSinceEpoch: Int64

    /// The time that many seconds after 1970 began.
    public init(secondsSinceEpoch: Int64) { self.secondsSinceEpoch = secondsSinceEpoch }

    /// A literal is seconds since 1970.
    public init(integerLiteral secondsSinceEpoch: Int64) { self.init(secondsSinceEpoch: secondsSinceEpoch) }

    /// Whether one is earlier.
    public static func < (one: Self, other: Self) -> Bool { one.secondsSinceEpoch < other.secondsSinceEpoch }

    /// The seconds. Throws when they can be none: negative, or with so many digits as milliseconds have.
    func checked(_ member: StaticString) throws(RequestError) -> Int64 {
        guard (0..<100_000_000_000).contains(secondsSinceEpoch) else {
            throw RequestError(
                .badRequestPayload,
                "\(member) is \(secondsSinceEpoch): seconds since 1970 are expected, and not milliseconds")
        }
        return secondsSinceEpoch
    }
}
