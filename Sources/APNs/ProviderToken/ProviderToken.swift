internal import Bytes
package import EventLoop
package import TLS

/// The provider token of one key (`authorization: bearer <jwt>`), which all connections with the key share. Used on the
/// loop's thread only. `TokenAge` decides when the token is renewed, usually at the same times in all replicas.
///
/// Source: Apple, "Establishing a token-based connection to APNs".
package final class ProviderToken {
    package let keyID: String
    private let teamID: String
    private let key: SigningKey
    private var age = TokenAge()
    private var text = UnsafeMutableRawBufferPointer.allocate(byteCount: 0, alignment: 1)

    package init(keyID: String, teamID: String, key: SigningKey) {
        self.keyID = keyID
        self.teamID = teamID
        self.key = key
    }

    deinit { text.deallocate() }

    /// The sequence number of the current token. Each new token increases it.
    package var generation: UInt32 { age.generation }

    package var issuedMs: Int64 { age.issuedMs }

    /// The header's value, valid until `refresh` or `renewIfAllowed` changes the token.
    package var headerValue: UnsafeRawBufferPointer { UnsafeRawBufferPointer(text) }

    /// Creates a token if there is none, or if a renewal is due (`TokenAge`).
    package func refresh(now: LoopTime) {
        if age.isDue(nowNs: now.monotonicNs, wallMs: now.wallMs) { make(now) }
    }

    /// Creates a new token after ExpiredProviderToken, if `TokenAge` permits it.
    package func renewIfAllowed(now: LoopTime) {
        if age.mayRenew(nowNs: now.monotonicNs, wallMs: now.wallMs) { make(now) }
    }

    private func make(_ now: LoopTime) {
        let issuedMs = age.nextIssuedMs(wallMs: now.wallMs)
        let value = Self.headerValue(keyID: keyID, teamID: teamID, issuedAt: issuedMs / 1_000) { key.sign($0) }
        age.made(nowNs: now.monotonicNs, wallMs: now.wallMs, issuedMs: issuedMs)
        text.deallocate()
        text = .allocate(byteCount: value.count, alignment: 1)
        text.copyBytes(from: value)
    }

    /// Returns `bearer` and the JWT (RFC 7519). The ids consist of letters and digits, so they need no escaping.
    /// `issuedAt` is in seconds since the epoch.
    package static func headerValue(
        keyID: String, teamID: String, issuedAt: Int64, sign: ([UInt8]) -> [UInt8]
    ) -> [UInt8] {
        let header = #"{"alg":"ES256","kid":"\#(keyID)"}"#
        let claims = #"{"iss":"\#(teamID)","iat":\#(issuedAt)}"#
        let input = Base64.url.encode(Array(header.utf8)) + [UInt8(ascii: ".")] + Base64.url.encode(Array(claims.utf8))
        return Array("bearer ".utf8) + input + [UInt8(ascii: ".")] + Base64.url.encode(sign(input))
    }
}

/// Decides when a provider token must or may be renewed, and its `iat`.
///
/// Apple accepts at most one new token in 20 minutes on a connection, and refuses a token that is older than an hour.
/// The `iat` is therefore a multiple of 40 minutes since the epoch, which all workers with the key compute
/// independently. A token is used from one minute after this time, because APNs refuses an `iat` that is ahead of its
/// own clock. These tokens are at most 41 minutes old, so the clock of APNs may be 19 minutes ahead of this machine's.
/// If APNs rejects a token as expired, a new one is created between two multiples. It is replaced at the first multiple
/// that is at least 20 minutes later, or after 50 minutes.
///
/// The wall clock can be stepped, and the monotonic clock can drift, so a token is renewed when it is too old by either
/// clock. If the clocks disagree about its age, the wall clock was stepped, and a new token may be created immediately.
struct TokenAge {
    private static let gridMs: Int64 = 40 * 60 * 1_000
    /// How long after a multiple of 40 minutes the token with this `iat` is first used.
    private static let settledMs: Int64 = 60 * 1_000
    /// The age, according to the monotonic clock, at which a token must be renewed regardless of the wall clock.
    private static let dueNs: Int64 = 50 * 60 * 1_000_000_000
    private static let earliestNs: Int64 = 20 * 60 * 1_000_000_000
    /// If the token's ages by the two clocks differ by at least this time, the clocks disagree. Smaller differences are
    /// normal adjustments.
    private static let toleranceNs: Int64 = 60 * 1_000_000_000
    /// An `iat` that is ahead of the wall clock by less than this time does not count as a time in the future.
    private static let aheadNs: Int64 = 2 * 1_000_000_000

    /// The monotonic time that corresponds to the current token's `iat`.
    private var issuedNs: Int64 = 0
    /// The current token's `iat` in milliseconds since the epoch.
    private(set) var issuedMs: Int64 = 0
    private(set) var generation: UInt32 = 0

    /// Returns the latest multiple of 40 minutes that is at least a minute before `wallMs`, in milliseconds.
    private static func gridTime(wallMs: Int64) -> Int64 { (wallMs - settledMs) / gridMs * gridMs }

    /// Returns the `iat`, in milliseconds, for a token created now: the result of `gridTime`, or the current time if
    /// that result is less than 20 minutes after the current token's `iat` and this `iat` is not in the future.
    func nextIssuedMs(wallMs: Int64) -> Int64 {
        let grid = Self.gridTime(wallMs: wallMs)
        return generation == 0 || isNext(grid) || issuedMs > wallMs ? grid : wallMs
    }

    /// Returns whether a token with the `iat` `grid` may replace the current one.
    private func isNext(_ grid: Int64) -> Bool { ageNs(grid) >= Self.earliestNs }

    /// Records that a token with the `iat` `issuedMs` is now in use.
    mutating func made(nowNs: Int64, wallMs: Int64, issuedMs: Int64) {
        self.issuedMs = issuedMs
        // A new token's `iat` is at most 41 minutes in the past, even if the wall clock was stepped.
        issuedNs = nowNs - max(0, min(ageNs(wallMs), (Self.gridMs + Self.settledMs) * 1_000_000))
        generation &+= 1
    }

    /// Returns whether a new token must be created before the next request.
    func isDue(nowNs: Int64, wallMs: Int64) -> Bool {
        if generation == 0 || nowNs - issuedNs >= Self.dueNs { return true }
        guard isNext(Self.gridTime(wallMs: wallMs)) || ageNs(wallMs) <= -Self.aheadNs else { return false }
        return mayRenew(nowNs: nowNs, wallMs: wallMs)
    }

    /// Returns whether a new token may be created now: APNs would accept the new token without
    /// TooManyProviderTokenUpdates, or would refuse the current one anyway.
    func mayRenew(nowNs: Int64, wallMs: Int64) -> Bool {
        if generation == 0 || nowNs - issuedNs >= Self.earliestNs { return true }
        let ageNs = ageNs(wallMs)
        return ageNs <= -Self.aheadNs || abs(ageNs - (nowNs - issuedNs)) >= Self.toleranceNs
    }

    /// Returns the current token's age at a wall time. Linux's wall clock fits into 64 bits of nanoseconds, so the
    /// calculation does not overflow.
    private func ageNs(_ wallMs: Int64) -> Int64 { (wallMs - issuedMs) * 1_000_000 }
}
