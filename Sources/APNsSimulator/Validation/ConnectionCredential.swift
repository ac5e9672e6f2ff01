import PushRecords

/// The simulator's limits for provider tokens, in milliseconds.
private enum TokenLimits {
    /// The maximum age: "APNs rejects any provider token whose iat is older than one hour."
    static let expiresAfterMs: Int64 = 60 * 60 * 1000
    /// The minimum difference between the `iat` of two tokens on a connection: "Update the authentication token no more
    /// than once every 20 minutes." The arrival times do not matter, since a client may open a connection a minute
    /// before it renews its token.
    static let updateAfterMs: Int64 = 20 * 60 * 1000
    /// How far the provider's clock may be ahead of the simulator's clock. Apple documents no limit.
    static let clockSkewMs: Int64 = 5 * 60 * 1000
}

/// The provider token of one connection. To check the same token again, the simulator compares only its bytes and its
/// expiration time.
struct ConnectionCredential {
    /// The last accepted `authorization` value, including `bearer `.
    private var value: [UInt8] = []
    private var token = ProviderToken()
    /// The time at which the last accepted token expires, in milliseconds since the epoch.
    private var expiresAtMs: Int64 = 0

    /// Whether the connection has received a valid provider token.
    var isKnown: Bool { !value.isEmpty }

    /// Checks a request's `authorization`. Returns Apple's reason for a rejection, or `.none`. `wallMs` is the current
    /// time in milliseconds since the epoch.
    @inline(__always)
    mutating func check(
        _ authorization: UnsafeRawBufferPointer, reader: inout ProviderTokenReader, wallMs: Int64
    ) -> ReasonCode {
        let isSame = value.withUnsafeBytes { authorization.same(as: $0) }
        if isSame, isKnown { return wallMs < expiresAtMs ? .none : .expiredProviderToken }
        return change(authorization, reader: &reader, wallMs: wallMs)
    }

    @inline(never)
    private mutating func change(
        _ authorization: UnsafeRawBufferPointer, reader: inout ProviderTokenReader, wallMs: Int64
    ) -> ReasonCode {
        let scheme = authorization.prefix(7)
        guard authorization.count > 7, scheme.map({ $0 | 0x20 }).elementsEqual("bearer ".utf8.map { $0 | 0x20 }) else {
            return .missingProviderToken
        }
        let next = reader.read(UnsafeRawBufferPointer(rebasing: authorization.dropFirst(7)))
        if next.refusal != .none { return next.refusal }
        if next.issuedAtMs > wallMs + TokenLimits.clockSkewMs { return .invalidProviderToken }
        let expiry = next.issuedAtMs + TokenLimits.expiresAfterMs
        if wallMs >= expiry { return .expiredProviderToken }
        if isKnown {
            if next.keyID != token.keyID { return .unrelatedKeyIdInToken }
            if next.teamID != token.teamID { return .invalidProviderToken }
            // The limit does not apply if the last token has expired, because the client must then replace the token.
            if wallMs < expiresAtMs, next.issuedAtMs - token.issuedAtMs < TokenLimits.updateAfterMs {
                return .tooManyProviderTokenUpdates
            }
        }
        value = Array(authorization)
        token = next
        expiresAtMs = expiry
        return .none
    }
}
