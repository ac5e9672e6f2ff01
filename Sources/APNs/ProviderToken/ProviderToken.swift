internal import Bytes
package import EventLoop
internal import JSON
package import TLS

/// The provider token of one key (`authorization: bearer <jwt>`): made and renewed as `TokenAge` says, whose times are the
/// same everywhere, so that replicas and what is started again send the same `iat`. (The signatures differ: ES256 takes a
/// random number for each, and OpenSSL has the deterministic ones of RFC 6979 from 3.2 on.) All connections that use the key
/// share one token. Loop's thread.
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

    /// The current one's `iat`, in milliseconds since the epoch.
    package var issuedMs: Int64 { age.issuedMs }

    /// The header's value; valid until `refresh` or `renewIfAllowed` returned true.
    package var headerValue: UnsafeRawBufferPointer { UnsafeRawBufferPointer(text) }

    /// Makes the first token, or a new one when the next `iat` has come, or the current one is too old by either clock or lies
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
        let issuedMs = age.nextIssuedMs(wallMs: now.wallMs)
        let value = Self.headerValue(keyID: keyID, teamID: teamID, issuedAt: issuedMs / 1_000) { key.sign($0) }
        formerText.deallocate()
        formerText = text
        text = .allocate(byteCount: value.count, alignment: 1)
        text.copyBytes(from: value)
        age.made(nowNs: now.monotonicNs, wallMs: now.wallMs, issuedMs: issuedMs)
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

/// When a provider token is to be renewed, when it may be, and its `iat`; a value machine.
///
/// Apple wants no more than one new token in 20 minutes on a connection, and refuses one that is older than an hour. So `iat` is a
/// time of a grid, every 40 minutes since the epoch, which all workers with the key come to by themselves; it is taken a
/// minute after it came, since APNs refuses one that lies ahead of its own clock. A token is 41 minutes old at most, and APNs'
/// clock may be 19 minutes ahead of ours.
///
/// APNs looks at `iat`, which is of the wall clock; that clock can be stepped, and the monotonic one stands still while the
/// machine sleeps. So the token is too old when either says so. Where the two disagree about its age, its `iat` may be
/// hours off: then one renewal is allowed at once, the next such one 20 minutes (monotonic) later. A clock that was wrong
/// for a while finds its way back within them: the token made before is used again, and one whose `iat` lies a minute
/// ahead is always made anew, since APNs refuses it for as long. What is made beside the grid (APNs called the one of the grid
/// expired, say) stays until the grid goes on, for 20 minutes at least.
package struct TokenAge: Sendable {
    private static let gridMs: Int64 = 40 * 60 * 1_000
    /// How long after its `iat` a token of the grid is taken into use.
    private static let settledMs: Int64 = 60 * 1_000
    /// Too old by the monotonic clock, whatever the grid says.
    private static let dueNs: Int64 = 50 * 60 * 1_000_000_000
    private static let earliestNs: Int64 = 20 * 60 * 1_000_000_000
    /// Clocks that differ by less were only adjusted.
    private static let toleranceNs: Int64 = 60 * 1_000_000_000
    /// An `iat` less ahead of the time is as good as now: a clock that is kept right is set back by less.
    private static let aheadNs: Int64 = 2 * 1_000_000_000

    /// A token's `iat` by both clocks, as they were when it was made; the ages are within Int64 whatever they say.
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
    /// When the last one was made.
    private var madeNs: Int64 = 0
    /// Of the token before; `nil`: there is none.
    private var former: Stamp?
    /// When one was made sooner than 20 minutes after the last, because the clocks disagreed; `nil`: never.
    private var exceptionNs: Int64?
    /// Counts tokens taken into use.
    package private(set) var generation: UInt32 = 0

    package init() {}

    /// The current one's `iat`, in milliseconds since the epoch.
    package var issuedMs: Int64 { current.wallMs }

    /// The time of the grid that is in force at `wallMs`, in milliseconds.
    package static func gridTime(wallMs: Int64) -> Int64 {
        let sinceMs = wallMs.subtractingReportingOverflow(settledMs)
        guard !sinceMs.overflow else { return wallMs }
        let pastMs = sinceMs.partialValue % gridMs
        let time = sinceMs.partialValue.subtractingReportingOverflow(pastMs < 0 ? pastMs + gridMs : pastMs)
        return time.overflow ? wallMs : time.partialValue
    }

    /// The `iat`, in milliseconds, of a token that is made now: of the grid, where that is another one than the current one's.
    package func nextIssuedMs(wallMs: Int64) -> Int64 {
        let grid = Self.gridTime(wallMs: wallMs)
        return generation == 0 || isNext(grid) || current.wallMs > wallMs ? grid : wallMs
    }

    /// Whether a token of that time may follow the current one.
    private func isNext(_ grid: Int64) -> Bool {
        let laterMs = grid.subtractingReportingOverflow(current.wallMs)
        return laterMs.overflow ? grid > 0 : laterMs.partialValue >= Self.earliestNs / 1_000_000
    }

    /// A token with `issuedMs` as its `iat` was made.
    package mutating func made(nowNs: Int64, wallMs: Int64, issuedMs: Int64) {
        if generation > 0 {
            if nowNs &- madeNs < Self.earliestNs, current.isOff(nowNs: nowNs, wallMs: wallMs) { exceptionNs = nowNs }
            former = current
        }
        madeNs = nowNs
        // At most a grid and a minute ago.
        let agoMs = wallMs.subtractingReportingOverflow(issuedMs)
        let agoNs = agoMs.overflow ? 0 : min(max(agoMs.partialValue, 0), Self.gridMs + Self.settledMs) * 1_000_000
        current = Stamp(ns: nowNs &- agoNs, wallMs: issuedMs)
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
        guard isNext(Self.gridTime(wallMs: wallMs)) || current.wallAgeNs(wallMs) <= -Self.aheadNs else { return false }
        return mayRenew(nowNs: nowNs, wallMs: wallMs)
    }

    /// APNs would not say TooManyProviderTokenUpdates.
    package func mayRenew(nowNs: Int64, wallMs: Int64) -> Bool {
        if generation == 0 || current.wallAgeNs(wallMs) <= -Self.toleranceNs { return true }
        guard current.isOff(nowNs: nowNs, wallMs: wallMs) else { return current.ageNs(nowNs) >= Self.earliestNs }
        guard nowNs &- madeNs < Self.earliestNs, let exceptionNs else { return true }
        return nowNs &- exceptionNs >= Self.earliestNs
    }
}
