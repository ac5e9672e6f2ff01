import Bytes
import Foundation
import PushRecords
import Testing

private let token = try! DeviceToken(hex: tokenA.uppercased())

/// A notification with every property.
private func full() -> PushNotification<RawPayload> {
    var notification = PushNotification(json: hi, pushType: .voip, topic: .exactly("com.example.shop.voip"))
    notification.priority = .immediate
    notification.expiration = .at(secondsSinceEpoch: 1_790_000_000)
    notification.collapseID = "news"
    notification.apnsID = NotificationUUID(text: "EABEAE54-14A8-11E5-B60B-1697F925EC7B")
    notification.app = "shöp \"1\""
    notification.environment = .development
    notification.notBefore = UnixTime(secondsSinceEpoch: 1_780_000_000)
    return notification
}

@Suite struct BuildingTests {
    @Test func `A record in payload form can have every header`() throws {
        let record = try full().payloadRecord(to: token)
        #expect(record.key == Array(tokenA.utf8) && record.value == Array(hi.utf8))
        #expect(
            record.headers.map(\.description) == [
                "apns-push-type=voip", "apns-topic=com.example.shop.voip", "apns-priority=10",
                "apns-expiration=1790000000", "apns-collapse-id=news", "apns-id=eabeae54-14a8-11e5-b60b-1697f925ec7b",
                "push-app=shöp \"1\"", "push-environment=development", "push-not-before=1780000000",
            ])
        let found = read(record)
        #expect(found.form == .payload && !found.isInvalid && found.target == .device && found.key == nil)
        expectAll(found)
        #expect(try full().encoded().payloadRecord(to: token) == record, "an encoded payload gives the same record")
    }

    @Test func `A record in envelope form can have every member`() throws {
        let record = try full().envelopeRecord(to: [token])
        #expect(record.key == nil && record.headers == [])
        let found = read(record)
        #expect(found.form == .envelope && !found.isInvalid && found.tokens == [tokenA] && found.key == nil)
        expectAll(found)
        #expect(try full().encoded().envelopeRecord(to: [token]) == record, "an encoded payload gives the same record")
    }

    private func expectAll(_ found: OwnedRequest) {
        #expect(found.payload == hi && found.topic == "com.example.shop.voip" && found.pushType == .voip)
        #expect(found.priority == 10 && found.expiration == 1_790_000_000 && found.collapseID == "news")
        #expect(found.apnsID == "eabeae54-14a8-11e5-b60b-1697f925ec7b" && found.app == "shöp \"1\"")
        #expect(found.environment == .development && found.notBefore == 1_780_000_000)
    }

    @Test func `By default the push type is the only header of a record`() throws {
        let plain = PushNotification(json: Data(hi.utf8))
        #expect(try plain.payloadRecord(to: token).headers == [HeaderField("apns-push-type", "alert")])
        let envelope = try plain.envelopeRecord(to: [token])
        #expect(
            text(lend(envelope.value))
                == #"{"device_tokens":["\#(tokenA)"],"headers":{"apns-push-type":"alert"},"payload":\#(hi)}"#)
        var now = plain
        now.expiration = .nowOrNever
        #expect(try read(now.payloadRecord(to: token)).expiration == 0)
    }

    /// The worker reads a key as the token only if the key has at least 64 digits.
    @Test(arguments: [1, 31, 32, 100])
    func `A record has a short token in a header`(count: Int) throws {
        let token = try DeviceToken(bytes: (0..<count).map { UInt8($0 * 7 & 0xFF) })
        let found = read(try PushNotification(json: hi).payloadRecord(to: token))
        #expect(found.token == token.hex && found.target == .device && found.key == nil)
    }

    @Test func `An envelope record has up to 10000 tokens`() throws {
        let tokens = try (0..<10_000).map { number in
            try DeviceToken(hex: String(format: "%064x", number))
        }
        let found = read(try PushNotification(json: hi).envelopeRecord(to: tokens))
        #expect(found.tokenCount == 10_000 && found.tokens == tokens.map(\.hex) && found.payload == hi)
        let error = #expect(throws: RequestError.self) {
            try PushNotification(json: hi).envelopeRecord(to: tokens + [token])
        }
        #expect(error?.detail == "device_tokens has more than 10000 tokens")
    }

    @Test func `A record for a channel is validated as a broadcast`() throws {
        let live = PushNotification(
            json: #"{"aps":{"event":"update"}}"#, pushType: .liveactivity, topic: .exactly("com.example.shop"))
        let error = #expect(throws: RequestError.self) { try PushNotification(json: hi).payloadRecord(toChannel: "a") }
        #expect(error?.reason == .invalidPushType)
        var suffixed = live
        suffixed.topic = .exactly("com.example.shop.push-type.liveactivity")
        let refusal = #expect(throws: RequestError.self) { try suffixed.payloadRecord(toChannel: "dHN0LXNyY2g=") }
        #expect(refusal?.reason == .topicDisallowed)
    }

    private static let refused: [(@Sendable (inout PushNotification<RawPayload>) -> Void, Reason?, String)] = [
        ({ $0.payload.bytes = [] }, .payloadEmpty, "the payload is empty"),
        (
            { $0.payload.bytes = Array("{".utf8) }, .badRequestPayload,
            "the payload is not JSON: ends too early at byte 1"
        ),
        ({ $0.payload.bytes = Array("[1]".utf8) }, .badRequestPayload, "must be a JSON object"),
        (
            { $0.payload.bytes = Array("{},\"app\":\"x\"".utf8) }, .badRequestPayload,
            "the payload is not JSON: more bytes after the value at byte 2"
        ),
        ({ $0.topic = .exactly("") }, .badTopic, "apns-topic"),
        ({ $0.topic = .bundleID("a\nb") }, .badTopic, "apns-topic"),
        ({ $0.collapseID = String(repeating: "x", count: 65) }, .badCollapseID, "1 to 64 bytes"),
        ({ $0.collapseID = "ü" }, .badCollapseID, "printable ASCII"),
        ({ $0.expiration = .at(secondsSinceEpoch: 4_294_967_296) }, .badExpirationDate, "4294967295"),
        ({ $0.expiration = .at(secondsSinceEpoch: -1) }, .badExpirationDate, "4294967295"),
        ({ $0.notBefore = UnixTime(secondsSinceEpoch: 4_294_967_296) }, nil, "4294967295 seconds since 1970"),
        ({ $0.notBefore = UnixTime(secondsSinceEpoch: -1) }, nil, "0 to 4294967295"),
        (
            {
                $0.notBefore = UnixTime(secondsSinceEpoch: 1_790_000_000)
                $0.expiration = .at(secondsSinceEpoch: 1_790_000_000)
            }, .badExpirationDate, "must be 0, or later than"
        ),
        ({ ($0.payload.pushType, $0.priority) = (.background, .immediate) }, .badPriority, "must be 5"),
        ({ $0.apnsID = NotificationUUID(high: 0, low: 0) }, .badMessageID, "a UUID other than the nil UUID"),
        ({ $0.app = "" }, nil, "the app's name must not be empty"),
    ]

    /// Each error has the reason and the text that the worker would give.
    @Test(arguments: refused)
    func `Both record forms reject each notification that the worker would reject`(
        spoil: @Sendable (inout PushNotification<RawPayload>) -> Void, reason: Reason?, words: String
    ) throws {
        var notification = PushNotification(json: hi)
        spoil(&notification)
        for build in [{ try $0.payloadRecord(to: token) }, { try $0.envelopeRecord(to: [token]) }]
            as [(PushNotification<RawPayload>) throws -> RequestRecord]
        {
            let error = #expect(throws: RequestError.self) { try build(notification) }
            if let reason { #expect(error?.reason == reason) }
            #expect(error?.detail.contains(words) == true, "\(String(describing: error))")
        }
    }

    @Test func `Values at their limits are accepted`() throws {
        var notification = PushNotification(json: hi)
        notification.collapseID = String(repeating: "x", count: 64)
        notification.expiration = .at(secondsSinceEpoch: 4_294_967_295)
        notification.notBefore = UnixTime(secondsSinceEpoch: 4_294_967_294)
        _ = try notification.payloadRecord(to: token)
        _ = try notification.envelopeRecord(to: [token])
    }

    @Test func `A payload that only one form can carry is refused in the other`() throws {
        let shaped = PushNotification(json: #"{"payload":{},"device_token":"\#(tokenB)"}"#, pushType: .mdm)
        let error = #expect(throws: RequestError.self) { try shaped.payloadRecord(to: token) }
        #expect(error?.detail.contains("create an envelope record for this payload") == true)
        #expect(read(try shaped.envelopeRecord(to: [token])).tokens == [tokenA])
        var own = PushNotification(json: hi)
        own.apnsID = .random()
        let several = #expect(throws: RequestError.self) { try own.envelopeRecord(to: [token, token]) }
        #expect(several?.reason == .badMessageID)
        let none = #expect(throws: RequestError.self) { try own.envelopeRecord(to: []) }
        #expect(none?.detail == "device_tokens is empty")
    }

    @Test func `A device token is created from hex, bytes and descriptions`() throws {
        #expect(token.hex == tokenA && token.bytes == [UInt8](repeating: 0xA1, count: 32))
        #expect(token.description == "a1a1a1a1…")
        #expect(try DeviceToken(hex: "0aFf").description == "0aff")
        #expect(try DeviceToken(bytes: Data([0x0A, 0xFF])).hex == "0aff")
        let missing = try #require(throws: RequestError.self) { try DeviceToken(hex: "") }
        let bad = try #require(throws: RequestError.self) { try DeviceToken(hex: "0") }
        #expect(missing.reason == .missingDeviceToken && bad.reason == .badDeviceToken)
        #expect(throws: missing) { try DeviceToken(bytes: []) }
        for text in ["0g", String(repeating: "a", count: 202), " 00"] {
            #expect(throws: bad) { try DeviceToken(hex: text) }
        }
        let described =
            "<" + stride(from: 0, to: 64, by: 8).map { tokenA.dropFirst($0).prefix(8) }.joined(separator: " ") + ">"
        #expect(try DeviceToken(dataDescription: described) == token)
        #expect(throws: missing) { try DeviceToken(dataDescription: "< >") }
        for text in ["<0f-0f>", "{length = 32, bytes = 0x0f0f ... 0f0f }", "0x0f"] {
            #expect(throws: bad) { try DeviceToken(dataDescription: text) }
        }
    }

    @Test func `Random ids are UUIDs of version 4`() {
        var generator = SplitMix64(seed: 5)
        for _ in 0..<100 {
            let text = NotificationUUID.random(using: &generator).description
            #expect(UUID(uuidString: text) != nil && text.dropFirst(14).first == "4")
            #expect("89ab".contains(text.dropFirst(19).first ?? "-"))
        }
        #expect(NotificationUUID.random() != NotificationUUID.random())
    }
}
