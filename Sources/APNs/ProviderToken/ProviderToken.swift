package import EventLoop
package import TLS

/// The provider token of one key (`authorization: bearer <jwt>`): made, renewed at 50 minutes, never sooner than 20 after
/// the last. All connections that use the key share one. Loop's thread.
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

    /// The header's value; valid until `refresh` returned true, or `renew`.
    package var headerValue: UnsafeRawBufferPointer { UnsafeRawBufferPointer(text) }

    /// Makes the first token, or a new one when the current one has become 50 minutes old.
    ///
    /// - Returns: true when there is another one now.
    package func refresh(now: LoopTime) -> Bool {
        guard age.isDue(nowNs: now.monotonicNs) else { return false }
        make(now)
        return true
    }

    /// APNs said ExpiredProviderToken: makes a new one if the current one is 20 minutes old.
    ///
    /// - Returns: true when there is another one now.
    package func renewIfAllowed(now: LoopTime) -> Bool {
        guard age.mayRenew(nowNs: now.monotonicNs) else { return false }
        make(now)
        return true
    }

    private func make(_ now: LoopTime) {
        let value = Self.headerValue(keyID: keyID, teamID: teamID, issuedAt: now.wallMs / 1_000) { key.sign($0) }
        text.deallocate()
        text = .allocate(byteCount: value.count, alignment: 1)
        text.copyBytes(from: value)
        age.made(nowNs: now.monotonicNs)
    }

    /// `bearer` and the JWT (RFC 7519): `iat` is a number, in seconds.
    package static func headerValue(
        keyID: String, teamID: String, issuedAt: Int64, sign: ([UInt8]) -> [UInt8]
    ) -> [UInt8] {
        let header = "{\"alg\":\"ES256\",\"kid\":\(quoted(keyID))}"
        let claims = "{\"iss\":\(quoted(teamID)),\"iat\":\(issuedAt)}"
        let input = base64url(Array(header.utf8)) + [UInt8(ascii: ".")] + base64url(Array(claims.utf8))
        return Array("bearer ".utf8) + input + [UInt8(ascii: ".")] + base64url(sign(input))
    }

    /// A JSON string.
    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": quoted += "\\\(scalar)"
            case "\u{0}"..."\u{1f}":
                quoted += "\\u00" + (scalar.value < 16 ? "0" : "") + String(scalar.value, radix: 16)
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }

    /// RFC 4648, section 5, without padding.
    static func base64url(_ bytes: [UInt8]) -> [UInt8] {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count * 4 + 2) / 3)
        var bits: UInt32 = 0
        var held = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            held += 8
            while held >= 6 {
                held -= 6
                text.append(alphabet[Int(bits >> UInt32(held)) & 63])
            }
        }
        if held > 0 { text.append(alphabet[Int(bits << UInt32(6 - held)) & 63]) }
        return text
    }
}

/// When a provider token is to be renewed, and when it may be; a value machine.
package struct TokenAge: Sendable {
    private static let dueNs: Int64 = 50 * 60 * 1_000_000_000
    private static let earliestNs: Int64 = 20 * 60 * 1_000_000_000

    private var madeNs: Int64 = 0
    package private(set) var generation: UInt32 = 0

    package init() {}

    package mutating func made(nowNs: Int64) {
        madeNs = nowNs
        generation += 1
    }

    package func isDue(nowNs: Int64) -> Bool { generation == 0 || nowNs - madeNs >= Self.dueNs }
    package func mayRenew(nowNs: Int64) -> Bool { generation == 0 || nowNs - madeNs >= Self.earliestNs }
}
