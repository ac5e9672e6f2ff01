import Testing

@testable import PushRecords

/// The detail names what a serializer added to a key or a value, and how to avoid it.
@Suite struct ForeignFormTests {
    private let plain = Array(hi.utf8)

    private func parse(key: [UInt8]?, _ value: [UInt8], _ headers: [(String, String?)] = []) -> OwnedRequest {
        PushRecordsTests.parse(OwnedRecord(key: key, value: value, headers: OwnedRecord(nil, headers).headers))
    }

    /// Confluent's serializers: JSON Schema, Avro (a record of one string), Protobuf (message indexes, then a field).
    @Test(arguments: [
        ([0, 0, 0, 7] as [UInt8], "7"), ([0, 0, 1, 0], "256"), ([255, 255, 255, 255], "4294967295"),
        ([0, 0, 0, 0], "0"),
    ])
    func `The detail explains a Schema Registry prefix of a value`(id: [UInt8], number: String) {
        for body in [plain, [44] + plain, [0, 0x0A, 22] + plain, []] {
            // A token in a header does not help, because there is no payload to send.
            let found = parse(key: Array(tokenA.utf8), [0] + id + body, [("push-device-token", tokenB)])
            #expect(found.deadLetter == .notJSON && found.target == .none)
            #expect(found.detail == "the value begins with a Schema Registry prefix")
            #expect(found.subject == "magic byte 0, schema id \(number); use a plain string/bytes serializer")
        }
    }

    /// A byte order mark is explained. A value shorter than a prefix or a mark is only invalid JSON.
    @Test(
        arguments: [
            ([0xEF, 0xBB, 0xBF] + Array(hi.utf8), "(EF BB BF); write UTF-8 without a byte order mark"),
            ([0xEF, 0xBB], "unexpected byte"), ([0], "unexpected byte"), ([0, 0, 0, 7], "unexpected byte"),
            ([1, 0, 0, 0, 7] + Array(hi.utf8), "unexpected byte"),
        ] as [([UInt8], String)])
    func `Other values that are not JSON are dead letters`(value: [UInt8], words: String) {
        let found = parse(key: Array(tokenA.utf8), value)
        #expect(found.deadLetter == .notJSON && found.detail.contains(words))
        #expect((found.subject == "at byte 0") == (words == "unexpected byte"))
    }

    @Test(arguments: [tokenA, tokenA.uppercased(), String(repeating: "ab", count: 100)])
    func `The detail explains a key in quotes`(token: String) {
        let key = Array("\"\(token)\"".utf8)
        let found = parse(key: key, plain)
        #expect(found.deadLetter == .noDeviceToken && found.subject == "")
        #expect(
            found.detail.contains("its key is a device token in quotes") && found.detail.contains("serializer for keys")
        )
        #expect("\(found.detail)".utf8.count <= RecordLimits.detail)
        // If the token is in a header or in an envelope, the key may be anything.
        #expect(!parse(key: key, plain, [("push-device-token", tokenB)]).isInvalid)
        #expect(!parse(key: key, Array(#"{"device_token":"\#(tokenB)","payload":{}}"#.utf8)).isInvalid)
    }

    @Test func `The detail explains a Schema Registry prefix of a key`() {
        let token = Array(tokenA.utf8)
        for body in [token, [0x80, 0x01] + token, [0, 0x0A, 0x40] + token, [0x22] + token + [0x22]] as [[UInt8]] {
            let key = [0, 0, 0, 0, 9] + body
            let found = parse(key: key, plain)
            #expect(found.deadLetter == .noDeviceToken)
            #expect(
                found.detail == "the record has no push-device-token, and its key begins with a Schema Registry prefix")
            #expect(found.subject == "magic byte 0, schema id 9; use a plain string serializer for keys")
            #expect(!parse(key: key, plain, [("push-device-token", tokenB)]).isInvalid)
        }
    }

    /// Numbers, ids and other keys that resemble a prefix or a quoted token.
    @Test(
        arguments: [
            [0, 0, 0, 0, 0, 0, 0, 42], [0, 0, 0, 42], [], [0x22], [0x22, 0x22], Array("user-7".utf8),
            Array("\"user-7\"".utf8),
            [0, 0, 0, 0, 9] + Array(repeating: 0x61, count: 63), [0, 0, 0, 0, 9] + Array(repeating: 0x67, count: 64),
            Array(repeating: 0x61, count: 63),
        ] as [[UInt8]])
    func `The detail about any other key names no serializer`(key: [UInt8]) {
        let found = parse(key: key, plain)
        #expect(found.deadLetter == .noDeviceToken && found.subject == "")
        #expect(
            found.detail == "the record has no push-device-token, and its key is not a token of at least 64 hex digits")
    }

    /// A JSON serializer quotes headers, too, and turns a text that is already JSON into a string.
    @Test func `A token in quotes is invalid`() {
        for quoted in [tokenA, "ab"] {
            for found in [
                parse(key: nil, plain, [("push-device-token", "\"\(quoted)\"")]),
                parse(key: nil, Array(#"{"device_token":"\"\#(quoted)\"","payload":{}}"#.utf8)),
            ] {
                #expect(found.isInvalid && found.reason == .badDeviceToken && found.target == .device)
                #expect(found.detail == ForeignForm.quotedToken.description && found.token == "\"\(quoted)\"")
            }
        }
        // These texts are not quoted tokens. The check of device tokens rejects them.
        for other in ["\"", "\"\"", "\"ab", "ab\"", "\"xy\""] {
            #expect(!parse(key: nil, plain, [("push-device-token", other)]).isInvalid)
        }
    }

    @Test(
        arguments: [
            ("apns-topic", "com.example.shop", .badTopic), ("apns-push-type", "alert", .invalidPushType),
            ("apns-priority", "5", .badPriority), ("apns-expiration", "0", .badExpirationDate),
            ("apns-collapse-id", "news", .badCollapseId), ("push-app", "shop", .none),
            ("apns-id", "123e4567-e89b-12d3-a456-4266554400a0", .badMessageId),
            ("push-environment", "production", .none), ("push-not-before", "1790000000", .none),
            ("apns-channel-id", "dHN0", .badChannelId),
        ] as [(String, String, ReasonCode)])
    func `The detail explains a header's value in quotes`(name: String, value: String, reason: ReasonCode) {
        let key = Array(tokenA.utf8)
        let found = parse(key: key, plain, [(name, "\"\(value)\"")])
        #expect(found.isInvalid && found.reason == reason)
        #expect(found.detail == ForeignForm.quotedHeader.description && found.subject == name)
        guard name != "apns-channel-id" else { return }
        #expect(!parse(key: key, plain, [(name, value)]).isInvalid)
        guard name.hasPrefix("apns-") else { return }
        let envelope = #"{"device_token":"ab","payload":{},"headers":{"\#(name)":"\"\#(value)\""}}"#
        let inside = parse(key: nil, Array(envelope.utf8))
        #expect(inside.detail == ForeignForm.quotedHeader.description && inside.subject == name)
    }

    @Test func `The detail names a payload that was serialized twice`() {
        for found in [
            parse(key: Array(tokenA.utf8), Array(#""{\"aps\":{}}""#.utf8)),
            parse(key: nil, Array(#"{"device_token":"ab","payload":"{\"aps\":{}}"}"#.utf8)),
        ] {
            #expect(found.isInvalid && found.reason == .badRequestPayload)
            #expect(found.detail == "the payload must be a JSON object, not a string (serialized twice?)")
        }
    }
}

/// An unpaired surrogate is valid by JSON's grammar (RFC 8259, 8.2), but Foundation rejects it.
@Suite struct HalfSurrogateTests {
    /// The second argument is the position of the unpaired surrogate, if there is one.
    @Test(
        arguments: [
            (#"{"a":"\ud83d"}"#, 6), (#"{"a":"\ude00"}"#, 6), (#"{"a":"x\uD83Dx"}"#, 7), (#"{"a":"\ud83d\u0041"}"#, 6),
            (#"{"a":"\ud83d\ud83d\ude00"}"#, 6), (#"{"a":"\ud83d\ude00\ude00"}"#, 18), (#"{"\ud83d":1}"#, 2),
            (#"{"a":{"b":["\udfff"]}}"#, 12), (#"{"a":"\ud83d\n"}"#, 6), (#"{"a":1,"b":"\ud800","c":"\ud800"}"#, 12),
            (#"{"a":"\ud83d\ude00"}"#, nil), (#"{"a":"\uD83D\uDE00x"}"#, nil), (#"{"a":"\\ud83d"}"#, nil),
            (#"{"a":"\ud7ff\ue000"}"#, nil), (#"{"a":"😀"}"#, nil), (#"{"a":"\ud83d\ude00\ud83d\ude00"}"#, nil),
        ] as [(String, Int?)])
    func `An unpaired surrogate in a payload is refused with its position`(payload: String, place: Int?) {
        let opening = #"{"device_token":"ab","payload":"#
        let found = parse(OwnedRecord(key: tokenA, payload))
        let inside = parse(OwnedRecord(opening + payload + "}"))
        guard let place else { return #expect(!found.isInvalid && !inside.isInvalid) }
        #expect(found.isInvalid && found.reason == .badRequestPayload && found.target == .device)
        #expect(found.detail == "the payload has an unpaired surrogate, as if a string was cut inside an emoji")
        #expect(found.subject == "at byte \(place)")
        #expect(inside.isInvalid && inside.detail == found.detail)
        #expect(inside.subject == "at byte \(place + opening.utf8.count)")
        let error = #expect(throws: RequestError.self) {
            try PushNotification(json: payload).payloadRecord(to: DeviceToken(hex: tokenA))
        }
        #expect(error?.reason == .badRequestPayload)
    }

    /// Outside the payload, only the decoded text is used.
    @Test func `An unpaired surrogate outside the payload is replaced`() {
        let list = parse(OwnedRecord(#"{"device_tokens":["\ud83d","ab"],"payload":{}}"#))
        #expect(!list.isInvalid && list.tokens == ["\u{FFFD}!badDeviceToken", "ab"])
        let both = parse(
            OwnedRecord(
                #"{"device_token":"\u0061b","app":"sh\u006fp","headers":{"apns-topic":"\u0061"},"payload":{"a":"\udc00"}}"#
            ))
        #expect(both.isInvalid && both.app == "shop" && both.token == "ab" && both.topic == "a")
        #expect(both.subject.hasPrefix("at byte "))
    }
}
