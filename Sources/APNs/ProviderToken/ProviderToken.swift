internal import Bytes
package import EventLoop
internal import JSON
package import TLS

/// The provider token of one key (`authorization: bearer <jwt>`): made, renewed at 50 minutes, not sooner than 20 after
/// the last (`TokenAge` has the one exception). All connections that use the key share one. Loop's thread.
///
/// Source: Apple, "Establishing a token-based connection to APNs".
package final class ProviderToken {
    package let keyID: String
    private let teamID: String
    private let key: SigningKey
    private var age = TokenAge()
    private var text: UnsafeMutableRawBufferPointer = .allocate(byteCount: 0, alignment: 1)

    package init(keyID: String, teamID: String, key: SigningKey) {
        self.keyID = keyID
        self.teamID = teamID
        self.key = key
    }

    deinit { text.deallocate() }

    /// Counts tokens made; the current one's number.
    package var generation: UInt32 { age.generation }

    /// The header's value; valid until `refresh` or `renewIfAllowed` returned true.
    package var headerValue: UnsafeRawBufferPointer { UnsafeRawBufferPointer(text) }

    /// Makes the first token, or a new one when the current one has become 50 minutes old by either clock.
    ///
    /// - Returns: true when there is another one now.
    package func refresh(now: LoopTime) -> Bool {
        guard age.isDue(nowNs: now.monotonicNs, wallMs: now.wallMs) else { return false }
        make(now)
        return true
    }

    /// APNs said ExpiredProviderToken: makes a new one if `TokenAge.mayRenew`.
    ///
    /// - Returns: true when there is another one now.
    package func renewIfAllowed(now: LoopTime) -> Bool {
        guard age.mayRenew(nowNs: now.monotonicNs, wallMs: now.wallMs) else { return false }
        make(now)
        return true
    }

    private func make(_ now: LoopTime) {
        let value = Self.headerValue(keyID: keyID, teamID: teamID, issuedAt: now.wallMs / 1_000) { key.sign($0) }
        text.deallocate()
        text = .allocate(byteCount: value.count, alignment: 1)
        text.copyBytes(from: value)
        age.made(nowNs: now.monotonicNs, wallMs: now.wallMs)
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

/// When a provider token is to be renewed, and when it may be; a value machine.
///
/// APNs looks at `iat`, which is of the wall clock; that clock can be stepped, and the monotonic one stands still while the
/// machine sleeps. So the token is too old when either says so. Where the two disagree about its age, its `iat` may be
/// hours off: then one renewal is allowed at once, the next such one 20 minutes (monotonic) later.
package struct TokenAge: Sendable {
    private static let dueNs: Int64 = 50 * 60 * 1_000_000_000
    private static let earliestNs: Int64 = 20 * 60 * 1_000_000_000
    /// Clocks that differ by less were only adjusted; an `iat` so little ahead of the time does no harm.
    private static let toleranceNs: Int64 = 60 * 1_000_000_000

    private var madeNs: Int64 = 0
    private var madeWallMs: Int64 = 0
    /// When one was made sooner than 20 minutes after the last, because the clocks disagreed; `nil`: never.
    private var exceptionNs: Int64?
    package private(set) var generation: UInt32 = 0

    package init() {}

    /// A token with `wallMs` as its `iat` was made.
    package mutating func made(nowNs: Int64, wallMs: Int64) {
        if generation > 0, ageNs(nowNs) < Self.earliestNs { exceptionNs = nowNs }
        madeNs = nowNs
        madeWallMs = wallMs
        generation &+= 1
    }

    /// It is to be made anew before the next request.
    package func isDue(nowNs: Int64, wallMs: Int64) -> Bool {
        if generation == 0 || ageNs(nowNs) >= Self.dueNs { return true }
        let wallNs = wallAgeNs(wallMs)
        guard wallNs >= Self.dueNs || wallNs <= -Self.toleranceNs else { return false }
        return mayRenew(nowNs: nowNs, wallMs: wallMs)
    }

    /// APNs would not say TooManyProviderTokenUpdates.
    package func mayRenew(nowNs: Int64, wallMs: Int64) -> Bool {
        if generation == 0 || ageNs(nowNs) >= Self.earliestNs { return true }
        let apart = wallAgeNs(wallMs).subtractingReportingOverflow(ageNs(nowNs))
        guard apart.overflow || apart.partialValue.magnitude >= UInt64(Self.toleranceNs) else { return false }
        guard let exceptionNs else { return true }
        return nowNs &- exceptionNs >= Self.earliestNs
    }

    private func ageNs(_ nowNs: Int64) -> Int64 { nowNs &- madeNs }

    /// Within Int64, whatever the wall clock says.
    private func wallAgeNs(_ wallMs: Int64) -> Int64 {
        let ageMs = wallMs.subtractingReportingOverflow(madeWallMs)
        guard !ageMs.overflow else { return wallMs < madeWallMs ? .min : .max }
        let ageNs = ageMs.partialValue.multipliedReportingOverflow(by: 1_000_000)
        return ageNs.overflow ? (ageMs.partialValue < 0 ? .min : .max) : ageNs.partialValue
    }
}
