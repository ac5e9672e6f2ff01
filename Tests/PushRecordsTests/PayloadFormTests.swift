import PushRecords
import Testing

@Suite struct PayloadFormTests {
    /// Parses a record with a good token and payload, and these headers.
    private func parsed(_ headers: [(String, String?)]) -> OwnedRequest {
        parse(OwnedRecord(key: tokenA, hi, headers))
    }

    @Test func `A record needs only a key and a payload`() {
        let expected = OwnedRequest(target: .device, token: tokenA, tokenCount: 1, payload: hi)
        #expect(parse(OwnedRecord(key: tokenA, hi)) == expected)
    }

    @Test func `Every header of a record is read`() {
        let found = parse(
            OwnedRecord(
                key: "order-7", hi,
                [
                    ("push-device-token", tokenB), ("apns-topic", "com.example.shop"), ("apns-push-type", "alert"),
                    ("apns-priority", "10"), ("apns-expiration", "1790000000"), ("apns-collapse-id", "news"),
                    ("apns-id", "123E4567-E89B-12D3-A456-4266554400A0"), ("push-app", "shop"),
                    ("push-environment", "development"), ("traceparent", "00-ab"), ("x-other", "1"),
                ]))
        let expected = OwnedRequest(
            target: .device, token: tokenB, tokenCount: 1, payload: hi, topic: "com.example.shop", collapseID: "news",
            app: "shop", environment: .development, priority: 10, expiration: 1_790_000_000,
            apnsID: "123e4567-e89b-12d3-a456-4266554400a0", key: "order-7", copied: ["traceparent=00-ab"])
        #expect(found == expected)
    }

    /// The number of digits must be even.
    @Test(arguments: [
        (String(repeating: "Ab", count: 32), true), (String(repeating: "0", count: 80), true),
        (String(repeating: "0", count: 62), false), (String(repeating: "0", count: 65), false),
        (String(repeating: "0", count: 63) + "g", false), ("", false), (String(repeating: "f", count: 300), true),
    ])
    func `A key of at least 64 hex digits is the token`(key: String, isToken: Bool) {
        let found = parse(OwnedRecord(key: key, hi))
        #expect(found.target == (isToken ? .device : .none))
        #expect(found.deadLetter == (isToken ? nil : .noDeviceToken))
        #expect(found.token == (isToken ? String(key.prefix(DeviceToken.textLimit + 1)) : ""))
        #expect(found.key == nil)
    }

    @Test func `A record's key is kept if it is not the token`() {
        let header = [("push-device-token", tokenA)] as [(String, String?)]
        #expect(parse(OwnedRecord(key: "k", hi, header)).key == "k")
        #expect(parse(OwnedRecord(key: tokenB, hi, header)).key == tokenB)
        #expect(parse(OwnedRecord(key: tokenA, hi, header)).key == nil)
        #expect(parse(OwnedRecord(key: tokenA.uppercased(), hi, header)).key == nil)
        #expect(parse(OwnedRecord(key: nil, hi, header)).key == nil)
        #expect(parse(OwnedRecord(key: "", hi, header)).key == "")
    }

    @Test func `A record without target or JSON is a dead letter`() {
        let token = [("push-device-token", tokenA)] as [(String, String?)]
        for (record, reason) in [
            (OwnedRecord(key: tokenA, nil), .tombstone), (OwnedRecord(key: nil, nil), .tombstone),
            (OwnedRecord(key: nil, hi), .noDeviceToken), (OwnedRecord(key: "user-1", hi), .noDeviceToken),
            (OwnedRecord(key: nil, "", []), .noDeviceToken), (OwnedRecord(key: nil, "[1]"), .noDeviceToken),
            (OwnedRecord(key: tokenA, "{"), .notJSON), (OwnedRecord(key: tokenA, "Hi", token), .notJSON),
            (OwnedRecord(key: tokenA, hi + hi, token), .notJSON), (OwnedRecord(key: tokenA, "\u{FEFF}{}"), .notJSON),
            (OwnedRecord(key: tokenA, hi, [("push-device-token", "")]), .noDeviceToken),
        ] as [(OwnedRecord, DeadLetterReason)] {
            let found = parse(record)
            #expect(found.deadLetter == reason, "\(record)")
            #expect(found.target == .none && found.tokenCount == 0 && !found.detail.isEmpty)
        }
        let found = parse(OwnedRecord(key: tokenA, #"{"aps":{"alert":"Hi"}"#))
        #expect(found.detail == "ends too early" && found.subject == "at byte 21")
        // A header without a value is absent.
        #expect(parse(OwnedRecord(key: tokenA, hi, [("push-device-token", nil)])).token == tokenA)
    }

    @Test(
        arguments: [
            ("apns-topic", "", .badTopic), ("apns-topic", "com\r\nx: y", .badTopic),
            ("apns-topic", String(repeating: "a", count: 256), .badTopic),
            ("apns-push-type", "Alert", .invalidPushType), ("apns-push-type", "", .invalidPushType),
            ("apns-push-type", "alerts", .invalidPushType),
            ("apns-push-type", "backgroand", .invalidPushType), ("apns-priority", "2", .badPriority),
            ("apns-priority", "05", .badPriority), ("apns-expiration", "-1", .badExpirationDate),
            ("apns-expiration", "4294967296", .badExpirationDate),
            ("apns-collapse-id", String(repeating: "c", count: 65), .badCollapseId),
            ("apns-collapse-id", "a\0b", .badCollapseId), ("apns-id", "1", .badMessageId),
            ("apns-id", "00000000-0000-0000-0000-000000000000", .badMessageId), ("push-environment", "prod", .none),
            ("push-app", "", .none), ("push-not-before", "4294967296", .none), ("push-not-before", "90s", .none),
            ("push-not-before", "1790000000000", .none), ("apns-expiration", "1790000000000", .badExpirationDate),
        ] as [(String, String, ReasonCode)])
    func `An invalid header is refused with Apple's reason`(name: String, value: String, reason: ReasonCode) {
        let found = parsed([(name, value)])
        #expect(found.target == .device && found.deadLetter == nil && found.token == tokenA)
        #expect(found.isInvalid && found.reason == reason && !found.detail.isEmpty)
        // The detail quotes the value as the producer wrote it.
        let meant = ["Alert": "alert", "alerts": "alert", "backgroand": "background"][value]
        let subject = meant.map { "\(value) (did you mean \($0)?)" } ?? String(value.prefix(Detail.subjectLimit))
        #expect(found.subject == subject || found.subject.isEmpty)
    }

    @Test(arguments: [
        ("apns-topic", String(repeating: "a", count: 255)), ("apns-collapse-id", "a b~!"),
        ("push-not-before", "0000000000000000017"), ("PUSH-DLQ-X", "x"), ("", "x"), ("apns", "x"), ("push", "x"),
        ("apns_topic", "x"),
        ("x-apns-topic", "x"), ("apnstopic", "x"), ("apps-topic", "x"),
    ])
    func `Values at their limit and foreign headers are accepted`(name: String, value: String) {
        #expect(!parsed([(name, value)]).isInvalid)
    }

    /// Without this check, a notification would be sent without the misspelled `apns-` or `push-` header.
    @Test(arguments: [
        ("Apns-Topic", "apns-topic"), ("APNS-PRIORITY", "apns-priority"), ("apns-topi", "apns-topic"),
        ("apns-topic2", "apns-topic"), ("apns-ID", "apns-id"), ("apns-colapse-id", "apns-collapse-id"),
        ("apns-pushtype", "apns-push-type"), ("apns-expires", nil), ("apns-unknown", nil), ("apns-", nil),
        ("Push-App", "push-app"), ("push-device-tokens", "push-device-token"), ("push-enviroment", "push-environment"),
        ("push-not-befor", "push-not-before"), ("Push-Not-Before", "push-not-before"),
        ("push-before", "push-not-before"),
        ("apns-not-before", "push-not-before"),
        ("push-x", nil), ("push-retry", nil), ("push-dlq", nil), ("apns-request-id", nil),
        ("apns-" + String(repeating: "x", count: 500), nil), ("APNS-é\n", nil),
    ])
    func `An unknown header is refused with a suggestion`(name: String, meant: String?) {
        let found = parsed([(name, "x")])
        #expect(found.target == .device && found.deadLetter == nil && found.token == tokenA)
        #expect(found.isInvalid && found.reason == .none)
        #expect(found.detail == "unknown header")
        let subject = String(name.prefix(Detail.subjectLimit))
        #expect(found.subject == meant.map { "\(name) (did you mean \($0)?)" } ?? subject)
        // An unknown header without a value is refused, too.
        #expect(parsed([(name, nil)]).isInvalid)
        // A header in `results.copy_headers` is known, and a retry record may come from a newer version.
        #expect(!parse(OwnedRecord(key: tokenA, hi, [(name, "x")]), copying: [name]).isInvalid)
        let retry = OwnedRecord(key: tokenA, hi, RetryTests.fields + [(name, "x")])
        let again = parse(retry, role: .retry)
        #expect(again.retry != nil && !again.isInvalid)
    }

    /// Only the worker writes these headers, and it trusts them in its retry topics.
    @Test(arguments: ["push-retry-request", "push-retry-key", "push-retry-x", "Push-Retry-Due-Ms"])
    func `A request with a retry record's header is refused`(name: String) {
        for value in ["x", nil] {
            let found = parsed([(name, value)])
            #expect(found.isInvalid && found.reason == .none && found.token == tokenA && found.retry == nil)
            #expect(
                found.detail == "a request must not have push-retry headers, which only the worker writes"
                    && found.subject == name)
        }
        #expect(!parse(OwnedRecord(key: tokenA, hi, [(name, "x")]), copying: [name]).isInvalid)
    }

    @Test(
        arguments: [
            ("com.example.shop.voip", .voip), ("com.example.shop.complication", .complication),
            ("com.example.shop.location-query", .location), ("com.example.shop.pushkit.fileprovider", .fileprovider),
            ("com.example.shop.voip-ptt", .pushtotalk), ("com.example.shop.push-type.widgets", .widgets),
            ("com.example.shop.push-type.controls", .controls), ("com.example.push-type.liveactivity", .liveactivity),
            ("com.example.shop", .alert), ("com.example.voip.shop", .alert), (".voip", .alert),
            ("com.example-voip", .alert),
        ] as [(String, PushType)])
    func `Without a push type the topic's suffix determines it and the payload's size limit`(
        topic: String, type: PushType
    ) {
        let headers = [("apns-topic", topic)] as [(String, String?)]
        #expect(parsed(headers).pushType == type)
        #expect(parse(OwnedRecord(key: tokenA, Self.payload(5_120), headers)).isInvalid == (type != .voip))
        #expect(parse(OwnedRecord(key: tokenA, Self.payload(5_121), headers)).reason == .payloadTooLarge)
        #expect(parsed(headers + [("apns-push-type", "background")]).pushType == .background)
    }

    @Test(arguments: [("0", 0), ("4294967295", UInt32.max)])
    func `A time may use all 32 bits`(text: String, time: UInt32) {
        let found = parsed([("apns-expiration", text), ("push-not-before", text)])
        #expect(found.expiration == time && found.notBefore == time)
    }

    @Test(
        arguments: [
            ("1790000000", "1790000001", true), ("1790000000", "1790000000", false), ("1790000000", "1", false),
            ("1790000000", "0", true), ("0", "0", true), ("0", "1", true), ("1", "1", false),
            ("4294967295", "4294967295", false), ("4294967294", "4294967295", true),
        ])
    func `A request must not expire before it may be sent`(notBefore: String, expiration: String, isValid: Bool) {
        for isFirst in [true, false] {
            let headers = [("push-not-before", notBefore), ("apns-expiration", expiration)] as [(String, String?)]
            let found = parsed(isFirst ? headers : headers.reversed())
            #expect(found.isInvalid != isValid)
            guard !isValid else { continue }
            #expect(found.reason == .badExpirationDate && found.subject == expiration)
            #expect(found.detail == "apns-expiration must be 0, or later than push-not-before")
        }
    }

    @Test func `A background notification has priority 5`() {
        for priority in ["1", "10"] {
            let found = parsed([("apns-priority", priority), ("apns-push-type", "background")])
            #expect(found.isInvalid && found.reason == .badPriority)
        }
        let found = parsed([("apns-push-type", "background"), ("apns-priority", "5")])
        #expect(!found.isInvalid && found.priority == 5)
    }

    @Test func `A header that occurs twice is refused`() {
        let found = parsed([("apns-topic", "a"), ("apns-priority", "5"), ("apns-topic", "a")])
        #expect(found.isInvalid && found.reason == .duplicateHeaders && found.subject == "apns-topic")
        let token = parsed([("push-device-token", tokenA), ("push-device-token", tokenB)])
        #expect(token.isInvalid && token.reason == .duplicateHeaders && token.token == tokenA)
        #expect(!parsed([("x", "1"), ("x", "2")]).isInvalid)
    }

    /// An alert payload of `count` bytes.
    private static func payload(_ count: Int) -> String {
        #"{"aps":{"alert":""# + String(repeating: "x", count: count - 20) + #""}}"#
    }

    /// White space around a payload does not count.
    @Test(
        arguments: [
            ("", .payloadEmpty), ("null", .payloadEmpty), ("[]", .badRequestPayload), ("1", .badRequestPayload),
            (#""{}""#, .badRequestPayload), (" true ", .badRequestPayload), ("{}", .none), (payload(4_096), .none),
            (payload(4_097), .payloadTooLarge), (payload(100_000), .payloadTooLarge),
        ] as [(String, ReasonCode)])
    func `A payload is an object of a limited size, in both forms`(payload: String, reason: ReasonCode) {
        var records = [OwnedRecord(key: tokenA, payload)]
        if !payload.isEmpty { records.append(OwnedRecord(#"{"device_token":"\#(tokenA)","payload":  \#(payload)  }"#)) }
        for found in records.map({ parse($0) }) {
            #expect(found.target == .device && found.isInvalid == (reason != .none) && found.reason == reason)
        }
    }

    @Test func `The payload has the bytes that the producer wrote`() {
        let odd = " { \"aps\" : {\"alert\":\"\\u0048i / \\/\"}, \"payload\":1, \"device_token\":\"\(tokenB)\" } \n"
        let found = parse(OwnedRecord(key: tokenA, odd))
        #expect(found.form == .payload && found.payload == odd && !found.isInvalid && found.token == tokenA)
    }

    @Test func `A channel id makes a broadcast`() {
        let channel = ("apns-channel-id", "dHN0LXNyY2gtY2hubA==") as (String, String?)
        let found = parse(OwnedRecord(key: "match-9", hi, [channel, ("apns-topic", "com.ex")]))
        #expect(found.target == .channel && found.channelID == "dHN0LXNyY2gtY2hubA==" && !found.isInvalid)
        #expect(found.pushType == .liveactivity && found.tokenCount == 1 && found.key == "match-9")
        // The key of a broadcast is never a token.
        #expect(parse(OwnedRecord(key: tokenA, hi, [channel])).target == .channel)
        #expect(parse(OwnedRecord(key: channel.1, hi, [channel])).key == nil)
        #expect(!parse(OwnedRecord(key: nil, Self.payload(5120), [channel])).isInvalid)
        #expect(parse(OwnedRecord(key: nil, Self.payload(5121), [channel])).reason == .payloadTooLarge)
        #expect(parse(OwnedRecord(key: nil, hi, [channel, ("apns-push-type", "alert")])).reason == .invalidPushType)
        #expect(!parse(OwnedRecord(key: nil, hi, [channel, ("apns-push-type", "liveactivity")])).isInvalid)
        #expect(parse(OwnedRecord(key: nil, hi, [("apns-channel-id", "")])).reason == .badChannelId)
        // This suffix is only for Live Activities of single devices.
        let suffixed = ("apns-topic", "com.ex.push-type.liveactivity") as (String, String?)
        let refused = parse(OwnedRecord(key: nil, hi, [channel, suffixed]))
        #expect(refused.isInvalid && refused.reason == .topicDisallowed)
        #expect(!parse(OwnedRecord(key: tokenA, hi, [suffixed, ("apns-push-type", "liveactivity")])).isInvalid)
        #expect(!parse(OwnedRecord(key: nil, hi, [channel, ("apns-topic", ".push-type.liveactivity")])).isInvalid)
        #expect(parse(OwnedRecord(key: nil, hi, [("apns-channel-id", "a\nb")])).reason == .badChannelId)
        let both = parse(OwnedRecord(key: nil, hi, [channel, ("push-device-token", tokenA)]))
        #expect(both.isInvalid && both.target == .device && both.token == tokenA)
    }

    @Test func `Configured headers are copied within limits`() {
        let headers =
            [
                ("tracestate", "a"), ("x-campaign", "7"), ("x-other", "1"), ("traceparent", "b"), ("tracestate", "c"),
                ("x-empty", nil), ("apns-topic", "t"),
            ] as [(String, String?)]
        let record = OwnedRecord(key: tokenA, hi, headers)
        #expect(parse(record).copied == ["tracestate=a", "traceparent=b", "tracestate=c"])
        #expect(
            parse(record, copying: ["x-campaign", "apns-topic", "x-empty", "traceparent"]).copied
                == ["tracestate=a", "x-campaign=7", "traceparent=b", "tracestate=c", "apns-topic=t"])
        // At most 32 headers and a limited number of bytes are copied.
        let many = (0..<40).map { ("x-n", "\($0)") } as [(String, String?)]
        #expect(parse(OwnedRecord(key: tokenA, hi, many), copying: ["x-n"]).copied.count == 32)
        let large = (0..<4).map { _ in ("x-n", String(repeating: "v", count: 500)) } as [(String, String?)]
        #expect(parse(OwnedRecord(key: tokenA, hi, large), copying: ["x-n"]).copied.count == 2)
    }

    @Test func `Parsing a record leaves no state for the next one`() {
        var parser = RequestParser()
        let plain = parser.parse(OwnedRecord(key: tokenA, hi))
        _ = parser.parse(
            OwnedRecord(
                key: "k", hi,
                [("push-device-token", tokenB), ("apns-topic", "\n"), ("traceparent", "x"), ("apns-id", "1")]))
        _ = parser.parse(OwnedRecord(#"{"payload":{},"device_tokens":["\#(tokenA)"],"x":1}"#))
        _ = parser.parse(OwnedRecord(key: nil, "{"))
        #expect(parser.parse(OwnedRecord(key: tokenA, hi)) == plain)
    }
}
