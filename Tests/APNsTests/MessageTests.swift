import APNs
import Foundation
import PushRecords
import TLS
import Testing

@Suite struct ErrorBodyTests {
    static func parse(_ text: String) -> ErrorBody {
        Array(text.utf8).withUnsafeBytes { ErrorBody(parsing: $0) }
    }

    @Test(arguments: ReasonCode.allCases.filter { $0.text != nil })
    func everyReasonIsKnown(code: ReasonCode) {
        let body = Self.parse(#"{"reason":"\#(code.text!)"}"#)
        #expect(body.reason == code)
        #expect(body.text == nil)
    }

    @Test func aTimestamp() {
        let body = Self.parse(#" { "reason" : "Unregistered", "timestamp" : 1700000000123 } "#)
        #expect(body.reason == .unregistered)
        #expect(body.timestampMs == 1_700_000_000_123)
    }

    @Test func anUnknownReasonKeepsItsText() {
        let body = Self.parse(#"{"timestamp":5,"reason":"SomethingNew","extra":true,"more":"x\"y","n":-1.5e3}"#)
        #expect(body.reason == .other)
        #expect(body.text == "SomethingNew")
        #expect(body.timestampMs == 5)
        #expect(Self.parse(#"{"reason":"\#(String(repeating: "x", count: 900))"}"#).text?.utf8.count == 200)
    }

    @Test(arguments: [
        "", " ", "{", "{}", "[]", "null", "plain text", #"{"reason"}"#, #"{"reason":}"#, #"{"reason":"Unregistered""#,
        #"{"reason":"Unregis"#, #"{"reason":5}"#, #"{"reason":"Unregistered"}x"#, #"{"reason":""}"#,
        #"{"reason":"Unregistered","timestamp":"x"}"#, #"{"reason":"Unregistered","timestamp":9999999999999999999}"#,
        #"{"a":{"reason":"Unregistered"}}"#, "{\"reason\":\"a\\", #"{"reason":"Unregistered",}"#,
    ])
    func anythingElseLeavesTheReasonOut(text: String) {
        #expect(Self.parse(text) == ErrorBody())
    }

    /// Every prefix of a good body, and every single changed byte, is taken without a trap.
    @Test func damagedBodies() {
        let good = Array(#"{"reason":"Unregistered","timestamp":1700000000123}"#.utf8)
        for cut in 0..<good.count {
            #expect(good[..<cut].withUnsafeBytes { ErrorBody(parsing: $0) } == ErrorBody())
            for byte in [0, 0x22, 0x5c, 0x7b, 0xff] as [UInt8] {
                var changed = good
                changed[cut] = byte
                _ = changed.withUnsafeBytes { ErrorBody(parsing: $0) }
            }
        }
    }
}

@Suite struct ProviderTokenTests {
    private static let minute: Int64 = 60_000_000_000

    @Test func isRenewedAtFiftyMinutesAndNotBeforeTwenty() {
        var age = TokenAge()
        #expect(age.isDue(nowNs: 0))
        age.made(nowNs: 0)
        #expect(!age.isDue(nowNs: 50 * Self.minute - 1))
        #expect(age.isDue(nowNs: 50 * Self.minute))
        #expect(!age.mayRenew(nowNs: 20 * Self.minute - 1))
        #expect(age.mayRenew(nowNs: 20 * Self.minute))
        age.made(nowNs: 20 * Self.minute)
        #expect(age.generation == 2)
        #expect(!age.mayRenew(nowNs: 39 * Self.minute))
        #expect(!age.isDue(nowNs: 69 * Self.minute))
    }

    @Test func isAJSONWebToken() throws {
        let key = try SigningKey(pem: SelfSigned.privateKey())
        let value = ProviderToken.headerValue(keyID: "ABC123DEFG", teamID: "TEAM123456", issuedAt: 1_700_000_000) {
            key.sign($0)
        }
        let text = String(decoding: value, as: UTF8.self)
        #expect(text.hasPrefix("bearer "))
        let parts = text.dropFirst(7).split(separator: ".").map(String.init)
        #expect(parts.count == 3)
        let header = try #require(try JSONSerialization.jsonObject(with: Self.decode(parts[0])) as? [String: String])
        #expect(header == ["alg": "ES256", "kid": "ABC123DEFG"])
        let claims = String(decoding: Self.decode(parts[1]), as: UTF8.self)
        #expect(claims == #"{"iss":"TEAM123456","iat":1700000000}"#)
        let isValid = key.verificationKey.isValid(
            signature: Array(Self.decode(parts[2])), of: Array((parts[0] + "." + parts[1]).utf8))
        #expect(isValid)
    }

    static func decode(_ text: String) -> Data {
        var base64 = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        while base64.count % 4 != 0 { base64 += "=" }
        return Data(base64Encoded: base64) ?? Data()
    }
}
