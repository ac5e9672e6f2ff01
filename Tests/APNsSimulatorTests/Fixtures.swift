import Foundation
import PushRecords
import TLS
import Testing

@testable import APNsSimulator

/// Copies bytes into memory that is never freed, so that tests can pass pointers to it.
func lent(_ text: String) -> UnsafeRawBufferPointer { lent(Array(text.utf8)) }

func lent(_ bytes: [UInt8]) -> UnsafeRawBufferPointer {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, bytes.count), alignment: 1)
    memory.copyBytes(from: bytes)
    return UnsafeRawBufferPointer(rebasing: memory[..<bytes.count])
}

/// A JSON object of `size` bytes.
func payload(_ size: Int) -> String { "{\"a\":\"" + String(repeating: "x", count: size - 8) + "\"}" }

let plainToken = String(repeating: "0a", count: 32)

/// A valid request, which each test changes.
struct SampleRequest {
    var headers: [(String, String)] = [
        (":method", "POST"), (":scheme", "https"), (":path", "/3/device/\(plainToken)"), (":authority", "localhost"),
        ("apns-topic", "com.example.app"), ("apns-push-type", "alert"), ("apns-priority", "10"),
        ("apns-expiration", "1790000000"), ("apns-collapse-id", "game1"),
        ("apns-id", "123e4567-e89b-12d3-a456-42665544000a"),
    ]
    var body = Array(#"{"aps":{"alert":"Hi"}}"#.utf8)

    func with(_ name: String, _ value: String?) -> SampleRequest {
        var copy = self
        copy.headers.removeAll { $0.0 == name }
        if let value { copy.headers.append((name, value)) }
        return copy
    }

    /// The request with another push type, or none, to the app's topic with a suffix.
    func to(_ suffix: String, _ type: String?) -> SampleRequest {
        with("apns-topic", "com.example.app\(suffix)").with("apns-push-type", type)
    }

    func with(body: String) -> SampleRequest {
        var copy = self
        copy.body = Array(body.utf8)
        return copy
    }

    func twice(_ name: String) -> SampleRequest {
        var copy = self
        copy.headers += headers.filter { $0.0 == name }
        return copy
    }

    var fields: RequestFields {
        var fields = RequestFields()
        for (name, value) in headers { fields.add(name: lent(name), value: lent(value)) }
        return fields
    }

    /// The simulator's refusal, without the check of the provider token.
    func refusal(_ check: RequestCheck = RequestCheck()) -> ReasonCode {
        var request = CheckedRequest()
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 100, alignment: 1)
        defer { room.deallocate() }
        let refusal = check.target(fields, room: room, into: &request)
        if refusal != .none { return refusal }
        return check.content(fields, body: lent(body), bodySize: body.count, request: request)
    }
}

/// A change of a request, and Apple's reason to refuse the changed request.
struct RequestRule: Sendable, CustomTestStringConvertible {
    var name: String
    var reason: ReasonCode
    var change: @Sendable (SampleRequest) -> SampleRequest
    var testDescription: String { name }

    init(_ name: String, _ reason: ReasonCode, _ change: @escaping @Sendable (SampleRequest) -> SampleRequest) {
        self.name = name
        self.reason = reason
        self.change = change
    }

    /// Rules that set a header to each value, or remove it for `nil`.
    static func each(_ header: String, _ reason: ReasonCode, _ values: String?...) -> [RequestRule] {
        values.map { value in
            RequestRule("\(header): \(value?.prefix(60) ?? "absent")", reason) { $0.with(header, value) }
        }
    }
}

/// Creates valid and invalid provider tokens.
struct TokenMaker {
    let key: SigningKey
    var keyID = "SIMULATOR1"
    var teamID = "TEAM123456"

    init() throws { key = try SigningKey(pem: SelfSigned.privateKey()) }
    init(key: SigningKey) { self.key = key }

    func token(
        header: String? = nil, claims: String? = nil, issuedAt: Int64 = 1_700_000_000, isPadded: Bool = false,
        signature: (_ plain: [UInt8]) -> [UInt8] = { $0 }
    ) -> String {
        let header = header ?? #"{"alg":"ES256","kid":"\#(keyID)"}"#
        let claims = claims ?? #"{"iss":"\#(teamID)","iat":\#(issuedAt)}"#
        let signed = encode(Array(header.utf8), isPadded) + "." + encode(Array(claims.utf8), isPadded)
        return signed + "." + encode(signature(key.sign(Array(signed.utf8))), isPadded)
    }

    func bearer(issuedAt: Int64) -> String { "bearer " + token(issuedAt: issuedAt) }

    var providerKey: ProviderKey { ProviderKey(keyID: keyID, teamID: teamID, key: key.verificationKey) }

    private func encode(_ bytes: [UInt8], _ isPadded: Bool) -> String {
        let text = Data(bytes).base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_")
        return isPadded ? text : text.replacingOccurrences(of: "=", with: "")
    }

    /// The same signature in DER: a SEQUENCE of two INTEGERs (RFC 3279, 2.2.3).
    static func der(_ plain: [UInt8]) -> [UInt8] {
        let numbers = [plain.prefix(32), plain.suffix(32)].flatMap { number -> [UInt8] in
            var bytes = Array(number.drop { $0 == 0 })
            if bytes.first.map({ $0 >= 0x80 }) ?? true { bytes.insert(0, at: 0) }
            return [0x02, UInt8(bytes.count)] + bytes
        }
        return [0x30, UInt8(numbers.count)] + numbers
    }
}
