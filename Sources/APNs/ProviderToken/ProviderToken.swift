internal import Bytes
package import EventLoop
internal import JSON
package import TLS

/// The provider token of one key (`authorization: bearer <jwt>`): made and renewed as `TokenAge` says, whose times are
/// the same everywhere, so that replicas and what is started again send the same `iat`. (The signatures differ: ES256
/// takes a random number for each, and OpenSSL has the deterministic ones of RFC 6979 from 3.2 on.) All connections
/// that use the key share one token. Loop's thread.
///
/// Source: Apple, "Establishing a token-based connection to APNs".
package final class ProviderToken {
    package let keyID: String
    private let teamID: String
    private let key: SigningKey
    private var age = TokenAge()
    /// The headers' values, each in its token's place (`TokenAge.place`).
    private var texts: [UnsafeMutableRawBufferPointer]

    package init(keyID: String, teamID: String, key: SigningKey) {
        self.keyID = keyID
        self.teamID = teamID
        self.key = key
        texts = (0..<TokenAge.places).map { _ in .allocate(byteCount: 0, alignment: 1) }
    }

    deinit { for text in texts { text.deallocate() } }

    /// Counts tokens taken into use; the current one's number.
    package var generation: UInt32 { age.generation }

    /// The current one's `iat`, in milliseconds since the epoch.
    package var issuedMs: Int64 { age.issuedMs }

    /// The header's value; valid until `refresh` or `renewIfAllowed` returned true.
    package var headerValue: UnsafeRawBufferPointer { UnsafeRawBufferPointer(texts[age.place]) }

    /// Makes the first token, or a new one when the next `iat` has come, or the current one is too old by either clock
    /// or lies ahead (`TokenAge`).
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
        age.returned(nowNs: now.monotonicNs, wallMs: now.wallMs)
        return true
    }

    private func make(_ now: LoopTime) {
        let issuedMs = age.nextIssuedMs(wallMs: now.wallMs)
        let value = Self.headerValue(keyID: keyID, teamID: teamID, issuedAt: issuedMs / 1_000) { key.sign($0) }
        age.made(nowNs: now.monotonicNs, wallMs: now.wallMs, issuedMs: issuedMs)
        let text = UnsafeMutableRawBufferPointer.allocate(byteCount: value.count, alignment: 1)
        text.copyBytes(from: value)
        texts[age.place].deallocate()
        texts[age.place] = text
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
/// Apple wants no more than one new token in 20 minutes on a connection, and refuses one that is older than an hour. So
/// `iat` is a time of a grid, every 40 minutes since the epoch, which all workers with the key come to by themselves;
/// it is taken a minute after it came, since APNs refuses one that lies ahead of its own clock. A token is 41 minutes
/// old at most, and APNs' clock may be 19 minutes ahead of ours.
///
/// APNs looks at `iat`, which is of the wall clock; that clock can be stepped, and the monotonic one stands still while
/// the machine sleeps. So the token is too old when either says so. Where the two disagree about its age, its `iat` may
/// be hours off: then one renewal is allowed at once, the next such one 20 minutes (monotonic) later. A clock that was
/// wrong for a while finds its way back within them: the token made before it was wrong is used again, whatever was
/// made meanwhile (while that token is younger than 50 minutes), and one whose `iat` lies a minute ahead is always made
/// anew, since APNs refuses it for as long. What is made beside the grid (APNs called the one of the grid expired, say)
/// stays until the grid goes on, for 20 minutes at least.
///
/// Nobody here knows which of two times is the right one. So a new token takes the place of one about whose age the
/// clocks agree at that moment, and the others keep theirs: a clock that is wrong by so much renews what was made by a
/// clock that was wrong by so much, never what was made by the right one. Where all places are taken, the token goes
/// whose place was in use for the shortest time: a clock is right for longer than it is wrong.
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

    /// How many tokens are kept: the current one, and others for as many times that the wall clock may be back at.
    package static let places = 4

    /// A token's `iat` by both clocks, as they were when it was made; the ages are within Int64 whatever they say.
    private struct Stamp {
        var ns: Int64 = 0
        var wallMs: Int64 = 0
        /// How long it was in use until it was left, and those before it in its place.
        var usedNs: Int64 = 0

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

    /// The current one's place, less than `places`.
    package private(set) var place = 0
    private var current = Stamp()
    /// When it came into use.
    private var sinceNs: Int64 = 0
    /// When the last one was made.
    private var madeNs: Int64 = 0
    /// The tokens before, each in its place; `nil`: there is none, or it is the current one's.
    private var others = [Stamp?](repeating: nil, count: places)
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

    /// The `iat`, in milliseconds, of a token that is made now: of the grid, where that is another one than the current
    /// one's.
    package func nextIssuedMs(wallMs: Int64) -> Int64 {
        let grid = Self.gridTime(wallMs: wallMs)
        return generation == 0 || isNext(grid) || current.wallMs > wallMs ? grid : wallMs
    }

    /// Whether a token of that time may follow the current one.
    private func isNext(_ grid: Int64) -> Bool {
        let laterMs = grid.subtractingReportingOverflow(current.wallMs)
        return laterMs.overflow ? grid > 0 : laterMs.partialValue >= Self.earliestNs / 1_000_000
    }

    /// A token with `issuedMs` as its `iat` was made; it is the current one, in `place`.
    package mutating func made(nowNs: Int64, wallMs: Int64, issuedMs: Int64) {
        if generation > 0, current.isOff(nowNs: nowNs, wallMs: wallMs) {
            if nowNs &- madeNs < Self.earliestNs { exceptionNs = nowNs }
            let next = placeForNext(nowNs: nowNs, wallMs: wallMs)
            if let lost = others[next], lost.isOff(nowNs: nowNs, wallMs: wallMs) { others[next] = nil }
            use(next, nowNs: nowNs)
        } else if generation == 0 {
            sinceNs = nowNs
        }
        madeNs = nowNs
        // At most a grid and a minute ago.
        let agoMs = wallMs.subtractingReportingOverflow(issuedMs)
        let agoNs = agoMs.overflow ? 0 : min(max(agoMs.partialValue, 0), Self.gridMs + Self.settledMs) * 1_000_000
        current = Stamp(ns: nowNs &- agoNs, wallMs: issuedMs, usedNs: current.usedNs)
        generation &+= 1
    }

    /// Another place than the current one's: whose token the clocks agree about (it is too old, or would be used
    /// again), or where none is that could be used again; or the one that was in use for the shortest time.
    private func placeForNext(nowNs: Int64, wallMs: Int64) -> Int {
        let places = others.indices.filter { $0 != place }
        if let same = places.first(where: { others[$0].map { !$0.isOff(nowNs: nowNs, wallMs: wallMs) } ?? false }) {
            return same
        }
        if let free = places.first(where: { others[$0].map { $0.ageNs(nowNs) >= Self.dueNs } ?? true }) { return free }
        return places.min { (others[$0]?.usedNs ?? 0) < (others[$1]?.usedNs ?? 0) } ?? place
    }

    /// Keeps the current one as one before, and takes what is in the place as the current one.
    private mutating func use(_ next: Int, nowNs: Int64) {
        current.usedNs &+= nowNs &- sinceNs
        others[place] = current
        current = others[next] ?? Stamp()
        others[next] = nil
        (place, sinceNs) = (next, nowNs)
    }

    /// The one that `mayReturn` speaks of is used again; the current one is now one before.
    package mutating func returned(nowNs: Int64, wallMs: Int64) {
        guard let better = better(nowNs: nowNs, wallMs: wallMs) else { return }
        use(better, nowNs: nowNs)
        generation &+= 1
    }

    /// The clocks agree about a token before, and not about the current one: the wall clock is back where it was.
    package func mayReturn(nowNs: Int64, wallMs: Int64) -> Bool { better(nowNs: nowNs, wallMs: wallMs) != nil }

    /// The youngest one's place.
    private func better(nowNs: Int64, wallMs: Int64) -> Int? {
        guard current.isOff(nowNs: nowNs, wallMs: wallMs) else { return nil }
        var found: (place: Int, ageNs: Int64)?
        for (place, other) in others.enumerated() {
            guard let other, !other.isOff(nowNs: nowNs, wallMs: wallMs) else { continue }
            let ageNs = other.ageNs(nowNs)
            if ageNs < found?.ageNs ?? Self.dueNs { found = (place, ageNs) }
        }
        return found?.place
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
