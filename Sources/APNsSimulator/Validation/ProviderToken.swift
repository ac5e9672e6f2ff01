internal import Bytes
import PushRecords
import TLS

/// A key that verifies provider tokens, like the keys that teams register with Apple.
struct ProviderKey: Sendable {
    /// The `kid` of the key's tokens. It has ten characters.
    var keyID: String
    /// The `iss` of the key's tokens. `nil` allows any team.
    var teamID: String?
    /// The public key. It verifies signatures in both encodings: r and s (RFC 7518, 3.4), or DER.
    var key: VerificationKey
}

/// The claims of a provider token, and the result of checking its form and signature.
struct ProviderToken {
    var keyID = ""
    var teamID = ""
    /// The time of issue (`iat`), in milliseconds since the epoch.
    var issuedAtMs: Int64 = 0
    /// The reason why the token is invalid, or `.none`.
    var refusal = ReasonCode.none
    /// The RFC violations in this token that APNs tolerates, by their names in `/totals`.
    var leniencies: [String] = []
}

/// A parser of provider tokens (JWT, ES256), which caches the result for each distinct token. Not thread-safe.
///
/// Source: Apple's "Establishing a token-based connection to APNs".
struct ProviderTokenReader {
    let keys: [ProviderKey]
    private(set) var cache: [[UInt8]: ProviderToken] = [:]
    /// The violations (`ProviderToken.leniencies`) of distinct valid tokens that `Totals.leniencies` does not count
    /// yet.
    var leniencies: [String] = []

    /// The number of cached tokens at which the reader clears the cache.
    static let cacheLimit = 256
    static let lengthLimit = 4096

    init(keys: [ProviderKey]) { self.keys = keys }

    mutating func read(_ token: UnsafeRawBufferPointer) -> ProviderToken {
        guard token.count <= Self.lengthLimit else { return ProviderToken(refusal: .invalidProviderToken) }
        let text = Array(token)
        if let known = cache[text] { return known }
        let read = examine(token)
        if cache.count >= Self.cacheLimit { cache.removeAll(keepingCapacity: true) }
        cache[text] = read
        if read.refusal == .none { leniencies += read.leniencies }
        return read
    }

    private func examine(_ token: UnsafeRawBufferPointer) -> ProviderToken {
        var result = ProviderToken(refusal: .invalidProviderToken)
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = members(parts[0]), let claims = members(parts[1]),
            let signature = decode(parts[2]), isSignature(signature), header["alg"] == "\"ES256\"",
            let keyID = text(header["kid"]), !keyID.isEmpty, let teamID = text(claims["iss"]), !teamID.isEmpty,
            let issuedAt = number(claims["iat"] ?? "")
        else { return result }
        if signature.count != 64 { result.leniencies.append("der_signatures") }
        if parts.contains(where: { $0.last == UInt8(ascii: "=") }) { result.leniencies.append("padded_tokens") }
        if claims["iat"]?.first == "\"" { result.leniencies.append("iat_strings") }
        result.keyID = keyID
        result.teamID = teamID
        result.issuedAtMs = issuedAt * 1000
        let signed = UnsafeRawBufferPointer(rebasing: token[..<parts[1].endIndex])
        if let key = keys.first(where: { $0.keyID == keyID }), key.teamID == nil || key.teamID == teamID,
            key.key.isValid(signature: signature, of: Array(signed))
        {
            result.refusal = .none
        }
        return result
    }

    /// Decodes base64url. Accepts padding, which RFC 7515 (2) forbids, because the client a2 sends it and APNs accepts
    /// it.
    private func decode(_ part: Slice<UnsafeRawBufferPointer>) -> [UInt8]? {
        guard part.last == UInt8(ascii: "=") else { return Base64.url.decode(UnsafeRawBufferPointer(rebasing: part)) }
        guard part.count % 4 == 0 else { return nil }
        var part = part
        for _ in 0..<2 where part.last == UInt8(ascii: "=") { part.removeLast() }
        return Base64.url.decode(UnsafeRawBufferPointer(rebasing: part))
    }

    /// Returns whether a signature is r and s (RFC 7518, 3.4) or one DER sequence, which Pushy sends and APNs accepts.
    private func isSignature(_ bytes: [UInt8]) -> Bool {
        bytes.count == 64 || bytes.count >= 8 && bytes[0] == 0x30 && Int(bytes[1]) == bytes.count - 2
    }

    /// Returns the members of a base64url-encoded JSON object, with their values as raw JSON.
    private func members(_ part: Slice<UnsafeRawBufferPointer>) -> [String: String]? {
        decode(part)?.withUnsafeBytes {
            PayloadSyntax.members(of: $0)?.mapValues { String(decoding: $0, as: UTF8.self) }
        }
    }

    /// Returns the contents of a JSON string, or `nil` for another value or a string with escapes. Ids need no escapes.
    private func text(_ value: String?) -> String? {
        guard let value, value.hasPrefix("\""), !value.contains("\\") else { return nil }
        return String(value.dropFirst().dropLast())
    }

    /// Returns a JSON number without its fraction, or `nil` if the value is not a number of up to 12 digits. Also
    /// accepts a numeric string, which two clients send and APNs accepts.
    private func number(_ value: String) -> Int64? {
        let whole = (text(value) ?? value).prefix { $0 != "." }
        guard whole.count <= 12, let number = Int64(whole), number >= 0 else { return nil }
        return number
    }
}
