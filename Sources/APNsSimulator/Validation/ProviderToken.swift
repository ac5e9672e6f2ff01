internal import Bytes
package import PushRecords

/// A key with which provider tokens may be signed: what a provider registered at Apple.
package struct ProviderKey: Sendable {
    /// `kid` of the tokens, Apple's ten characters.
    package var keyID: String
    /// `iss` of the tokens; `nil`: any team.
    package var teamID: String?
    /// The environment the key is for; `nil`: both.
    package var environment: PushEnvironment?
    /// Whether a signature (64 bytes, r and s as in RFC 7518, 3.4) over the bytes is this key's. Called on a loop's
    /// thread, once for each distinct token.
    package var verify: @Sendable (_ signed: UnsafeRawBufferPointer, _ signature: UnsafeRawBufferPointer) -> Bool

    package init(
        keyID: String, teamID: String? = nil, environment: PushEnvironment? = nil,
        verify: @escaping @Sendable (_ signed: UnsafeRawBufferPointer, _ signature: UnsafeRawBufferPointer) -> Bool
    ) {
        self.keyID = keyID
        self.teamID = teamID
        self.environment = environment
        self.verify = verify
    }
}

/// What a provider token says, once its form and signature were looked at.
struct ProviderToken {
    var keyID = ""
    var teamID = ""
    /// `iat` in milliseconds.
    var issuedAtMs: Int64 = 0
    /// What is wrong with it whenever it is sent; `.none`: nothing.
    var refusal = ReasonCode.none
}

/// Reads and verifies provider tokens (JWT, ES256), each distinct one once. One thread.
///
/// Source: Apple's "Establishing a token-based connection to APNs".
struct ProviderTokenReader {
    /// Empty: any well-formed token passes, whoever signed it.
    var keys: [ProviderKey]
    var environment: PushEnvironment
    private var cache: [[UInt8]: ProviderToken] = [:]

    var cachedCount: Int { cache.count }

    /// Beyond so many distinct tokens the cache is emptied: nobody fills the memory with them.
    static let cacheLimit = 256
    static let lengthLimit = 4096

    init(keys: [ProviderKey], environment: PushEnvironment) {
        self.keys = keys
        self.environment = environment
    }

    mutating func read(_ token: UnsafeRawBufferPointer) -> ProviderToken {
        guard token.count <= Self.lengthLimit else { return ProviderToken(refusal: .invalidProviderToken) }
        let text = Array(token)
        if let known = cache[text] { return known }
        let read = examine(token)
        if cache.count >= Self.cacheLimit { cache.removeAll(keepingCapacity: true) }
        cache[text] = read
        return read
    }

    private func examine(_ token: UnsafeRawBufferPointer) -> ProviderToken {
        var result = ProviderToken(refusal: .invalidProviderToken)
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3,
            let header = Base64.url.decode(UnsafeRawBufferPointer(rebasing: parts[0])),
            let claims = Base64.url.decode(UnsafeRawBufferPointer(rebasing: parts[1])),
            let signature = Base64.url.decode(UnsafeRawBufferPointer(rebasing: parts[2])), signature.count == 64,
            text("alg", of: header) == "ES256", let keyID = text("kid", of: header), !keyID.isEmpty,
            let teamID = text("iss", of: claims), !teamID.isEmpty,
            let issuedAt = number("iat", of: claims)
        else { return result }
        result.keyID = keyID
        result.teamID = teamID
        result.issuedAtMs = issuedAt * 1000
        guard !keys.isEmpty else {
            result.refusal = .none
            return result
        }
        guard let key = keys.first(where: { $0.keyID == keyID }), key.teamID == nil || key.teamID == teamID else {
            return result
        }
        let signed = UnsafeRawBufferPointer(rebasing: token[..<parts[1].endIndex])
        guard signature.withUnsafeBytes({ key.verify(signed, $0) }) else { return result }
        result.refusal =
            key.environment == nil || key.environment == environment ? .none : .badEnvironmentKeyIdInToken
        return result
    }

    /// A member that is a string without escapes: identifiers have none.
    private func text(_ name: StaticString, of json: [UInt8]) -> String? {
        json.withUnsafeBytes { bytes in
            guard let value = PayloadSyntax.member(name, of: bytes), value.first == UInt8(ascii: "\""),
                !value.contains(UInt8(ascii: "\\"))
            else { return nil }
            return String(decoding: value.dropFirst().dropLast(), as: UTF8.self)
        }
    }

    /// A member that is a number (not a string that spells one); the fraction is cut off.
    private func number(_ name: StaticString, of json: [UInt8]) -> Int64? {
        json.withUnsafeBytes { bytes in
            guard let value = PayloadSyntax.member(name, of: bytes) else { return nil }
            let whole = value.prefix { $0 != UInt8(ascii: ".") }
            guard whole.count <= 12, let number = Int64(String(decoding: whole, as: UTF8.self)), number >= 0 else {
                return nil
            }
            return number
        }
    }
}
