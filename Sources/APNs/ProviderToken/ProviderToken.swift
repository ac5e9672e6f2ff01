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
    /// The token before, which a wall clock that was wrong for a while makes the better one again.
    private var formerText: UnsafeMutableRawBufferPointer = .allocate(byteCount: 0, alignment: 1)

    package init(keyID: String, teamID: String, key: SigningKey) {
        self.keyID = keyID
        self.teamID = teamID
        self.key = key
    }

    deinit {
        text.deallocate()
        formerText.deallocate()
    }

    /// Counts tokens taken into use; the current one's number.
    package var generation: UInt32 { age.generation }

    /// The header's value; valid until `refresh` or `renewIfAllowed` returned true.
    package var headerValue: UnsafeRawBufferPointer { UnsafeRawBufferPointer(text) }

    /// Makes the first token, or a new one when the current one has become 50 minutes old by either clock or its `iat` lies
    /// ahead (`TokenAge`).
    ///
    /// - Returns: true when there is another one now.
    package func refresh(now: LoopTime) -> Bool {
        if returnIfBetter(now) { return true }
        guard age.isDue(nowNs: now.monotonicNs, wallMs: now.wallMs) else { return false }
        make(now)
        return true
    }

    /// APNs said ExpiredProviderToken: makes a new one if `TokenAge.mayRenew`.
    ///
    /// - Returns: true when there is another one now.
    package func renewIfAllowed(now: LoopTime) -> Bool {
        if returnIfBetter(now) { return true }
        guard age.mayRenew(nowNs: now.monotonicNs, wallMs: now.wallMs) else { return false }
        make(now)
        return true
    }

    private func returnIfBetter(_ now: LoopTime) -> Bool {
        guard age.mayReturn(nowNs: now.monotonicNs, wallMs: now.wallMs) else { return false }
        swap(&text, &formerText)
        age.returned()
        return true
    }

    private func make(_ now: LoopTime) {
        let value = Self.headerValue(keyID: keyID, teamID: teamID, issuedAt: now.wallMs / 1_000) { key.sign($0) }
        formerText.deallocate()
        formerText = text
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
/// hours off: then one renewal is allowed at once, the next such one 20 minutes (monotonic) later. A clock that was wrong
/// for a while finds its way back within them: the token made before is used again, and one whose `iat` lies a minute
/// ahead is always made anew, since APNs refuses it for as long.
package struct TokenAge: Sendable {
    private static let dueNs: Int64 = 50 * 60 * 1_000_000_000
    private static let earliestNs: Int64 = 20 * 60 * 1_000_000_000
    /// Clocks that differ by less were only adjusted.
    private static let toleranceNs: Int64 = 60 * 1_000_000_000
    /// An `iat` less ahead of the time is as good as now: a clock that is kept right is set back by less.
    private static let aheadNs: Int64 = 2 * 1_000_000_000

    /// When a token was made, by both clocks; the ages are within Int64 whatever they say.
    private struct Stamp {
        var ns: Int64 = 0
        var wallMs: Int64 = 0

        func ageNs(_ nowNs: Int64) -> Int64 { nowNs &- ns }

        func wallAgeNs(_ wallMs: Int64) -> Int64 {
            let ageMs = wallMs.subtractingReportingOverflow(self.wallMs)
            guard !ageMs.overflow else { return wallMs < self.wallMs ? .min : .max }
            let ageNs = ageMs.partialValue.multipliedReportingOverflow(by: 1_000_000)
            return ageNs.overflow ? (ageMs.partialValue < 0 ? .min : .max) : ageNs.partialValue
        }

        /// Whether the clocks disagree about its age, or its `iat` lies ahead.
        func isOff(nowNs: Int64, wallMs: Int64) -> Bool {
            let wallNs = wallAgeNs(wallMs)
            let apart = wallNs.subtractingReportingOverflow(ageNs(nowNs))
            return wallNs <= -aheadNs || apart.overflow || apart.partialValue.magnitude >= UInt64(toleranceNs)
        }
    }

    private var current = Stamp()
    /// Of the token before; `nil`: there is none.
    private var former: Stamp?
    /// When one was made sooner than 20 minutes after the last, because the clocks disagreed; `nil`: never.
    private var exceptionNs: Int64?
    /// Counts tokens taken into use.
    package private(set) var generation: UInt32 = 0

    package init() {}

    /// A token with `wallMs` as its `iat` was made.
    package mutating func made(nowNs: Int64, wallMs: Int64) {
        if generation > 0 {
            if current.ageNs(nowNs) < Self.earliestNs { exceptionNs = nowNs }
            former = current
        }
        current = Stamp(ns: nowNs, wallMs: wallMs)
        generation &+= 1
    }

    /// The token before is used again in the place of the current one, which is now the one before.
    package mutating func returned() {
        guard let former else { return }
        (current, self.former) = (former, current)
        generation &+= 1
    }

    /// The clocks agree about the token before, and not about the current one: the wall clock is back where it was.
    package func mayReturn(nowNs: Int64, wallMs: Int64) -> Bool {
        guard let former, former.ageNs(nowNs) < Self.dueNs else { return false }
        return current.isOff(nowNs: nowNs, wallMs: wallMs) && !former.isOff(nowNs: nowNs, wallMs: wallMs)
    }

    /// It is to be made anew before the next request.
    package func isDue(nowNs: Int64, wallMs: Int64) -> Bool {
        if generation == 0 || current.ageNs(nowNs) >= Self.dueNs { return true }
        let wallNs = current.wallAgeNs(wallMs)
        guard wallNs >= Self.dueNs || wallNs <= -Self.aheadNs else { return false }
        return mayRenew(nowNs: nowNs, wallMs: wallMs)
    }

    /// APNs would not say TooManyProviderTokenUpdates.
    package func mayRenew(nowNs: Int64, wallMs: Int64) -> Bool {
        if generation == 0 || current.ageNs(nowNs) >= Self.earliestNs { return true }
        if current.wallAgeNs(wallMs) <= -Self.toleranceNs { return true }
        guard current.isOff(nowNs: nowNs, wallMs: wallMs) else { return false }
        guard let exceptionNs else { return true }
        return nowNs &- exceptionNs >= Self.earliestNs
    }
}
