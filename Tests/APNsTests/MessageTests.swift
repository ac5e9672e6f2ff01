@testable import APNs
import Bytes
import EventLoop
import Foundation
import PushRecords
import TLS
import Testing

@Suite struct ErrorBodyTests {
    static func parse(_ text: String) -> ErrorBody {
        Array(text.utf8).withUnsafeBytes { ErrorBody(parsing: $0) }
    }

    @Test(arguments: ReasonCode.allCases.filter { $0.text != nil })
    func `Every documented reason is parsed`(code: ReasonCode) {
        let body = Self.parse(#"{"reason":"\#(code.text!)"}"#)
        #expect(body.reason == code)
        #expect(body.text == nil)
    }

    /// A timestamp beyond the year 9999 is ignored, and one in seconds is converted.
    @Test(
        arguments: [
            ("0", 0), ("1", 1_000), ("1700000000", 1_700_000_000_000), ("99999999999", 99_999_999_999_000),
            ("100000000000", 100_000_000_000), ("1700000000123", 1_700_000_000_123),
            ("253402300799999", 253_402_300_799_999),
            ("253402300800000", 0), ("9223372036854775807", 0), ("9223372036854775808", 0), ("-1", 0), (#""x""#, 0),
            ("null", 0), ("{}", 0), (String(repeating: "9", count: 4_000), 0), ("1700000000123.75", 1_700_000_000_123),
        ] as [(String, Int64)])
    func `An invalid timestamp does not affect the reason`(text: String, expected: Int64) {
        let body = Self.parse(#" { "timestamp" : \#(text), "reason" : "Unregistered" } "#)
        #expect(body.reason == .unregistered && body.timestampMs == expected)
        #expect(body.isTimestampUnusable == (expected == 0 && text != "null"))
    }

    @Test(arguments: [
        #"{"extra":{"reason":"BadTopic"},"reason":"Unregistered"}"#,
        #"{"reason":"Unregistered","extra":[1,{"a":"}"}]}"#,
        #"{"reason":"Unregistered","reason":5}"#, #"{"reason":"Unregistered","extra":null,"more":-1.5e3}"#,
    ])
    func `Members other than reason and timestamp are ignored`(text: String) {
        #expect(Self.parse(text).reason == .unregistered)
    }

    @Test func `An unknown reason keeps its text`() {
        let body = Self.parse(#"{"timestamp":5,"reason":"SomethingNew","extra":true,"more":"x\"y","n":-1.5e3}"#)
        #expect(body.reason == .other)
        #expect(body.text == "SomethingNew")
        #expect(body.timestampMs == 5_000)
        #expect(Self.parse(#"{"reason":"\#(String(repeating: "x", count: 900))"}"#).text?.utf8.count == 200)
    }

    @Test(arguments: [
        "", " ", "{", "{}", "[]", "null", "plain text", #"{"reason"}"#, #"{"reason":}"#, #"{"reason":"Unregistered""#,
        #"{"reason":"Unregis"#, #"{"reason":5}"#, #"{"reason":"Unregistered"}x"#, #"{"reason":""}"#,
        #"{"a":{"reason":"Unregistered"}}"#, "{\"reason\":\"a\\", #"{"reason":"Unregistered",}"#,
    ])
    func `A body that is malformed or has no reason is ignored`(text: String) {
        let body = Self.parse(text)
        #expect(body.reason == .none && body.text == nil && body.timestampMs == 0)
        let objects = ["{}", #"{"reason":5}"#, #"{"reason":""}"#, #"{"a":{"reason":"Unregistered"}}"#]
        #expect(body.isTimestampUnusable == (text.first == "{" && !objects.contains(text)))
    }
}

@Suite struct ProviderTokenTests {
    private static let minute: Int64 = 60_000_000_000

    /// Whether a token is due, or may be renewed when APNs calls it expired. Times are seconds since the first token.
    /// The step is how far the wall clock is ahead of the monotonic one. `again` has the time and step of a second
    /// token.
    private static let ages:
        [(again: (at: Double, step: Double)?, now: Double, step: Double, isDue: Bool?, mayRenew: Bool?)] = [
            // The first use of the token is at 0. Its `iat` is one minute earlier.
            (nil, 2_399.999, 0, false, nil), (nil, 2_400, 0, true, nil), (nil, 1_139.999, 0, nil, false),
            (nil, 1_140, 0, nil, true),
            // The machine slept, or its clock was slow when the token was created. APNs would call the token expired.
            (nil, 300, 2_040, false, nil), (nil, 300, 3_600, true, nil), ((300, 3_600), 360, 3_600, false, nil),
            ((300, 3_600), 360, 12_000, true, nil),
            // The clock was ahead when the token was created, so APNs refuses the token until its `iat`. Small
            // corrections do not count.
            (nil, 0, -61.999, false, nil), (nil, 0, -62, true, nil), (nil, 120, -10_800, true, nil),
            ((120, -10_800), 180, -10_800, false, nil), ((120, -10_800), 180, -24_000, true, nil),
            // APNs calls the token expired. A clock that was stepped by minutes allows another token.
            (nil, 180, 59, nil, false), (nil, 180, 600, nil, true), (nil, 180, -600, nil, true),
        ]

    @Test(arguments: ages.indices)
    func `A token is renewed every forty minutes, at once after a clock step, and not before twenty minutes`(index: Int)
    {
        func ns(_ seconds: Double) -> Int64 { Int64(seconds * 1_000) * 1_000_000 }
        let row = Self.ages[index]
        var age = TokenAge()
        #expect(Self.isDue(age, 0))
        Self.make(&age, 0)
        if let again = row.again { Self.make(&age, ns(again.at), step: ns(again.step)) }
        if let isDue = row.isDue { #expect(Self.isDue(age, ns(row.now), step: ns(row.step)) == isDue) }
        if let mayRenew = row.mayRenew { #expect(Self.mayRenew(age, ns(row.now), step: ns(row.step)) == mayRenew) }
    }

    @Test func `All processes with the same key create the same token`() throws {
        let key = try SigningKey(pem: SelfSigned.privateKey())
        func issued(atMinute minute: Int64, _ token: ProviderToken) throws -> Int64 {
            token.refresh(now: LoopTime(monotonicNs: minute * Self.minute, wallMs: Self.epochMs + minute * 60_000))
            let parts = String(decoding: token.headerValue, as: UTF8.self).split(separator: ".").map(String.init)
            let claims = try JSONSerialization.jsonObject(with: Self.decode(parts[1])) as? [String: Any]
            return try #require(claims?["iat"] as? Int64) - Self.epochMs / 1_000
        }
        func token() -> ProviderToken { ProviderToken(keyID: "ABC123DEFG", teamID: "TEAM123456", key: key) }
        let first = token()
        for minute in 0..<400 as Range<Int64> {
            let expected = minute / 40 * 2_400 - 60
            #expect(try issued(atMinute: minute, first) == expected)
            #expect(try issued(atMinute: minute, token()) == expected, "A new process must create the same token")
        }
        #expect(first.generation == 10)
    }

    /// APNs called the token expired. A new one is created between two multiples of 40 minutes, and a later one is a
    /// multiple again.
    @Test func `A token created after an expiry is used for twenty minutes`() {
        // Each case has the minute of the answer, and the times of the next tokens up to the first multiple.
        let cases: [(Int64, [Int64])] = [(19, [39]), (20, [70, 119]), (29, [79, 119]), (30, [79]), (39, [79])]
        for (expiredMinute, expected) in cases {
            var age = TokenAge()
            Self.make(&age, 0)
            Self.make(&age, expiredMinute * Self.minute)
            var issued: [Int64] = []
            for minute in expiredMinute...(expected.last! + 10) where Self.isDue(age, minute * Self.minute) {
                issued.append((age.nextIssuedMs(wallMs: Self.wallMs(minute * Self.minute, 0)) - Self.epochMs) / 60_000)
                Self.make(&age, minute * Self.minute)
            }
            #expect(issued == expected)
        }
    }

    /// Whenever APNs calls a token expired, the next one is at least 20 minutes newer. No token is an hour old or in
    /// the future.
    @Test(arguments: 0..<100 as Range<UInt64>)
    func `No token is too old, from the future, or renewed too soon`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var age = TokenAge()
        var nowNs = Int64.random(in: 0..<2_400_000, using: &random) * 1_000_000
        var issuedMs: Int64?
        for _ in 0..<2_000 {
            let isExpired = Int.random(in: 0..<10, using: &random) == 0
            if Self.isDue(age, nowNs) || (isExpired && Self.mayRenew(age, nowNs)) {
                let nextMs = age.nextIssuedMs(wallMs: Self.wallMs(nowNs, 0))
                if let issuedMs { #expect(nextMs - issuedMs >= 20 * 60_000) }
                issuedMs = nextMs
                Self.make(&age, nowNs)
            }
            let ageMs = Self.wallMs(nowNs, 0) - issuedMs!
            #expect(ageMs >= 0 && ageMs < 50 * 60_000)
            nowNs += Int64.random(in: 0..<180_000, using: &random) * 1_000_000
        }
    }

    /// One minute after a multiple of 40 minutes.
    private static let epochMs: Int64 = 1_789_999_260_000

    /// Returns the wall time at a monotonic time. `stepNs` is how far the wall clock is ahead of the monotonic clock.
    private static func wallMs(_ nowNs: Int64, _ stepNs: Int64) -> Int64 { epochMs + (nowNs + stepNs) / 1_000_000 }
    private static func isDue(_ age: TokenAge, _ nowNs: Int64, step: Int64 = 0) -> Bool {
        age.isDue(nowNs: nowNs, wallMs: wallMs(nowNs, step))
    }
    private static func mayRenew(_ age: TokenAge, _ nowNs: Int64, step: Int64 = 0) -> Bool {
        age.mayRenew(nowNs: nowNs, wallMs: wallMs(nowNs, step))
    }
    private static func make(_ age: inout TokenAge, _ nowNs: Int64, step: Int64 = 0) {
        let wallMs = wallMs(nowNs, step)
        age.made(nowNs: nowNs, wallMs: wallMs, issuedMs: age.nextIssuedMs(wallMs: wallMs))
    }

    @Test func `A provider token is a JSON web token`() throws {
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
