internal import Bytes
package import EventLoop
internal import JSON
package import TLS

/// The provider token of one key (`authorization: bearer <jwt>`), which all connections with the key share. `TokenAge`
/// has its times, which are the same for all replicas. Loop's thread.
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

    /// Counts tokens taken into use; the current one's number.
    package var generation: UInt32 { age.generation }

    package var issuedMs: Int64 { age.issuedMs }

    /// The header's value; valid until `refresh` or `renewIfAllowed` returned true.
    package var headerValue: UnsafeRawBufferPointer { UnsafeRawBufferPointer(text) }

    /// Makes a token if there is none, or a newer one is due (`TokenAge`). Returns whether there is another one now.
    package func refresh(now: LoopTime) -> Bool {
        guard age.isDue(nowNs: now.monotonicNs, wallMs: now.wallMs) else { return false }
        make(now)
        return true
    }

    /// Makes a new token after ExpiredProviderToken, if `TokenAge.mayRenew`. Returns whether there is another one now.
    package func renewIfAllowed(now: LoopTime) -> Bool {
        guard age.mayRenew(nowNs: now.monotonicNs, wallMs: now.wallMs) else { return false }
        make(now)
        return true
    }

    private func make(_ now: LoopTime) {
        let issuedMs = age.nextIssuedMs(wallMs: now.wallMs)
        let value = Self.headerValue(keyID: keyID, teamID: teamID, issuedAt: issuedMs / 1_000) { key.sign($0) }
        age.made(nowNs: now.monotonicNs, wallMs: now.wallMs, issuedMs: issuedMs)
        text.deallocate()
        text = .allocate(byteCount: value.count, alignment: 1)
        text.copyBytes(from: value)
    }

    /// `bearer` and the JWT (RFC 7519): `iat` is a number, in seconds.
    package static func headerValue(
        keyID: String, teamID: String, issuedAt: Int64, sign: ([UInt8]) -> [UInt8]
    ) -> [UInt8] {
        var header = JSONWriter()
        header.beginObject()
        header.member("alg", "ES256")
        header.member("kid", keyID)
        header.endObject()
        var claims = JSONWriter()
        claims.beginObject()
        claims.member("iss", teamID)
        claims.member("iat", issuedAt)
        claims.endObject()
        let input =
            Base64.url.encode(Array(header.bytes)) + [UInt8(ascii: ".")] + Base64.url.encode(Array(claims.bytes))
        return Array("bearer ".utf8) + input + [UInt8(ascii: ".")] + Base64.url.encode(sign(input))
    }
}

/// When a provider token has to be renewed, when it may be, and its `iat`: a value machine.
///
/// Apple wants no more than one new token in 20 minutes on a connection, and refuses one that is older than an hour.
/// `iat` is therefore a time of a grid, every 40 minutes since the epoch, which all workers with the key compute for
/// themselves. It is used from a minute after it came, because APNs refuses an `iat` that is ahead of its own clock. A
/// token is at most 41 minutes old, and the clock of APNs may be 19 minutes ahead of this one. A token that was made
/// off the grid, because APNs called the last one expired, stays for at least 20 minutes, until the grid goes on.
///
/// The wall clock can be stepped, and the monotonic clock can drift, so the token is too old when either of them says
/// so. Where they disagree about its age, the wall clock was stepped since, and a new token may be made at once.
struct TokenAge {
    private static let gridMs: Int64 = 40 * 60 * 1_000
    /// How long after its `iat` a token of the grid is used first.
    private static let settledMs: Int64 = 60 * 1_000
    /// Too old by the monotonic clock, whatever the grid says.
    private static let dueNs: Int64 = 50 * 60 * 1_000_000_000
    private static let earliestNs: Int64 = 20 * 60 * 1_000_000_000
    /// Clocks that differ by less were only adjusted.
    private static let toleranceNs: Int64 = 60 * 1_000_000_000
    /// An `iat` that is less ahead of the time is as good as now.
    private static let aheadNs: Int64 = 2 * 1_000_000_000

    /// The `iat` of the current token by the monotonic clock.
    private var issuedNs: Int64 = 0
    /// The `iat` of the current token, in milliseconds since the epoch.
    private(set) var issuedMs: Int64 = 0
    private(set) var generation: UInt32 = 0

    /// The time of the grid that is in force at `wallMs`, in milliseconds.
    private static func gridTime(wallMs: Int64) -> Int64 { (wallMs - settledMs) / gridMs * gridMs }

    /// The `iat`, in milliseconds, of a token that is made now: that of the grid, unless the current one has it.
    func nextIssuedMs(wallMs: Int64) -> Int64 {
        let grid = Self.gridTime(wallMs: wallMs)
        return generation == 0 || isNext(grid) || issuedMs > wallMs ? grid : wallMs
    }

    /// Whether a token of that time may follow the current one.
    private func isNext(_ grid: Int64) -> Bool { ageNs(grid) >= Self.earliestNs }

    /// Records that a token with that `iat` was made and is the current one.
    mutating func made(nowNs: Int64, wallMs: Int64, issuedMs: Int64) {
        self.issuedMs = issuedMs
        // At most a grid and a minute ago.
        issuedNs = nowNs - max(0, min(ageNs(wallMs), (Self.gridMs + Self.settledMs) * 1_000_000))
        generation &+= 1
    }

    /// Whether the token must be made anew before the next request.
    func isDue(nowNs: Int64, wallMs: Int64) -> Bool {
        if generation == 0 || nowNs - issuedNs >= Self.dueNs { return true }
        guard isNext(Self.gridTime(wallMs: wallMs)) || ageNs(wallMs) <= -Self.aheadNs else { return false }
        return mayRenew(nowNs: nowNs, wallMs: wallMs)
    }

    /// Whether APNs would not answer TooManyProviderTokenUpdates, or refuses the current token in any case.
    func mayRenew(nowNs: Int64, wallMs: Int64) -> Bool {
        if generation == 0 || nowNs - issuedNs >= Self.earliestNs { return true }
        let ageNs = ageNs(wallMs)
        return ageNs <= -Self.aheadNs || abs(ageNs - (nowNs - issuedNs)) >= Self.toleranceNs
    }

    /// The current token's age at a wall time. Linux's wall clock fits into 64 bits of nanoseconds.
    private func ageNs(_ wallMs: Int64) -> Int64 { (wallMs - issuedMs) * 1_000_000 }
}
