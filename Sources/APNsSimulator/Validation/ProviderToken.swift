internal import Bytes
package import PushRecords

/// A key with which provider tokens may be signed: what a provider registered at Apple.
package struct ProviderKey: Sendable {
    /// `kid` of the tokens, Apple's ten characters.
    package var keyID: String
    /// `iss` of the tokens. `nil` allows any team.
    package var teamID: String?
    /// The environment the key is for. `nil` stands for both.
    package var environment: PushEnvironment?
    /// Whether a signature (64 bytes, r and s as in RFC 7518, 3.4, or DER) over the bytes is this key's. Called on a
    /// loop's thread, once for each distinct token.
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
    /// It is not as RFC 7515 and RFC 7518 want it, in a way that APNs is known to take.
    var forms: Set<TokenForm> = []
}

/// How tokens of well-known clients differ from the RFCs, though APNs takes them.
enum TokenForm: CaseIterable {
    /// The signature is DER, not r and s (RFC 7518, 3.4): Pushy.
    case derSignature
    /// Base64url keeps its `=` (RFC 7515, 2, wants none): a2.
    case padding
}

/// Reads and verifies provider tokens (JWT, ES256), each distinct one once. One thread.
///
/// Source: Apple's "Establishing a token-based connection to APNs".
struct ProviderTokenReader {
    /// Empty: any well-formed token passes, whoever signed it.
    var keys: [ProviderKey]
    var environment: PushEnvironment
    /// Called once for each distinct valid token of another form.
    var onForm: (TokenForm) -> Void = { _ in }
    private(set) var cache: [[UInt8]: ProviderToken] = [:]

    /// Beyond so many distinct tokens the cache is emptied, which bounds its memory.
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
        if read.refusal == .none { for form in TokenForm.allCases where read.forms.contains(form) { onForm(form) } }
        if cache.count >= Self.cacheLimit { cache.removeAll(keepingCapacity: true) }
        cache[text] = read
        return read
    }

    private func examine(_ token: UnsafeRawBufferPointer) -> ProviderToken {
        var result = ProviderToken(refusal: .invalidProviderToken)
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3,
            let header = decode(parts[0], &result.forms), let claims = decode(parts[1], &result.forms),
            let signature = decode(parts[2], &result.forms), isSignature(signature, &result.forms),
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

    private func decode(_ part: Slice<UnsafeRawBufferPointer>, _ forms: inout Set<TokenForm>) -> [UInt8]? {
        guard part.last == UInt8(ascii: "=") else { return Base64.url.decode(UnsafeRawBufferPointer(rebasing: part)) }
        forms.insert(.padding)
        guard part.count % 4 == 0 else { return nil }
        var part = part
        for _ in 0..<2 where part.last == UInt8(ascii: "=") { part.removeLast() }
        return Base64.url.decode(UnsafeRawBufferPointer(rebasing: part))
    }

    private func isSignature(_ bytes: [UInt8], _ forms: inout Set<TokenForm>) -> Bool {
        if bytes.count == 64 { return true }
        // A SEQUENCE, of all that there is.
        guard bytes.count >= 8, bytes[0] == 0x30, Int(bytes[1]) == bytes.count - 2 else { return false }
        forms.insert(.derSignature)
        return true
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
