import PushRecords
import Testing

@Suite struct EnvelopeFormTests {
    private func parse(_ value: String, key: String? = nil, _ headers: [(String, String?)] = []) -> OwnedRequest {
        PushRecordsTests.parse(OwnedRecord(key: key, value, headers))
    }

    @Test func `Every member of an envelope is read`() {
        let payload = #"{ "aps" : {"alert":"H\u0069"} }"#
        let found = parse(
            """
            {"device_tokens": ["\(tokenA)", "\(tokenB.uppercased())"], "app": "shop", "environment": "production",
             "headers": {"apns-topic": "com.example.shop", "apns-push-type": "alert", "apns-priority": 10,
                         "apns-expiration": 1790000000, "apns-collapse-id": "c"},
             "payload": \(payload)}
            """, key: "campaign", [("traceparent", "00")])
        let expected = OwnedRequest(
            target: .devices, form: .envelope, tokens: [tokenA, tokenB], tokenCount: 2, payload: payload,
            topic: "com.example.shop", collapseID: "c", app: "shop", environment: .production, priority: 10,
            expiration: 1_790_000_000, key: "campaign", copied: ["traceparent=00"])
        #expect(found == expected)
    }

    @Test func `device_token names one device`() {
        let found = parse(
            #"{"payload":{},"device_token":"\#(tokenA)","headers":{"apns-id":"123e4567-e89b-12d3-a456-4266554400a0"}}"#)
        #expect(found.target == .device && found.token == tokenA && found.tokenCount == 1 && !found.isInvalid)
        #expect(found.payload == "{}" && found.apnsID == "123e4567-e89b-12d3-a456-4266554400a0")
    }

    @Test func `channel_id makes a broadcast`() {
        let found = parse(#"{"payload":{},"channel_id":"ab\/+=","headers":{"apns-topic":"com.ex"}}"#)
        #expect(found.target == .channel && found.channelID == "ab/+=" && found.pushType == .liveactivity)
        #expect(!found.isInvalid && found.tokenCount == 1)
    }

    /// Members below the top level do not count.
    @Test(
        arguments: [
            (#"{"payload":{},"device_token":"\#(tokenA)","aps":{}}"#, .payload),
            (#"{"aps":{},"payload":{},"device_token":"\#(tokenA)"}"#, .payload),
            (#"{"payload":{},"device_token":"\#(tokenA)","\u0061ps":{}}"#, .payload),
            (#"{"payload":{}}"#, .payload), (#"{"device_token":"\#(tokenA)"}"#, .payload), ("{}", .payload),
            (#"{"data":{"payload":{},"device_token":"\#(tokenA)"}}"#, .payload),
            (#"{"payload":{"aps":{}},"device_token":"\#(tokenA)"}"#, .envelope),
            (#"{"p\u0061yload":{},"device\u005ftoken":"\#(tokenA)"}"#, .envelope),
            (#"{"payload":null,"channel_id":"x"}"#, .envelope), (#"{"payload":1,"device_tokens":[]}"#, .envelope),
        ] as [(String, ParsedRequest.Form)])
    func `The top-level members determine the form`(value: String, form: ParsedRequest.Form) {
        #expect(parse(value, key: tokenB).form == form)
    }

    /// An object may have more members than an envelope has names.
    @Test func `The form of an object with many members is detected`() {
        let many = (0..<100).map { #""m\#($0)":\#($0)"# }.joined(separator: ",")
        let payload = parse(#"{\#(many),"aps":{},"payload":{},"device_token":"x"}"#, key: tokenB)
        #expect(payload.form == .payload && !payload.isInvalid && payload.token == tokenB)
        let envelope = parse(#"{\#(many),"payload":{},"device_token":"\#(tokenA)"}"#, key: tokenB)
        #expect(envelope.form == .envelope && envelope.isInvalid && envelope.token == tokenA)
        #expect(envelope.detail == "an envelope has no such member" && envelope.subject == "m0")
    }

    @Test(
        arguments: [
            (#""device_tokens":[]"#, .noDeviceToken), (#""device_tokens":[ ]"#, .noDeviceToken),
            (#""device_token":null"#, .noDeviceToken), (#""device_token":7"#, .badEnvelope),
            (#""device_token":["\#(tokenA)"]"#, .badEnvelope), (#""device_tokens":"\#(tokenA)""#, .badEnvelope),
            (#""device_tokens":["\#(tokenA)",7]"#, .badEnvelope), (#""device_tokens":[null]"#, .badEnvelope),
            (#""device_tokens":["\#(tokenA)",["x"]]"#, .badEnvelope), (#""channel_id":{}"#, .badEnvelope),
            (#""device_token":"\#(tokenA)","device_tokens":["\#(tokenA)"]"#, .badEnvelope),
            (#""device_token":"\#(tokenA)","channel_id":"x""#, .badEnvelope),
        ] as [(String, DeadLetterReason)])
    func `An envelope without readable tokens is a dead letter`(members: String, reason: DeadLetterReason) {
        let found = parse("{\"payload\":{},\(members)}", key: tokenB)
        #expect(found.deadLetter == reason && found.target == .none && found.form == .envelope)
        #expect(found.tokenCount == 0 && !found.detail.isEmpty)
    }

    /// An object with `payload` and without `aps` is meant as an envelope, even if it has no target.
    @Test(arguments: [
        (#"{"payload":{},"deviceToken":"ab"}"#, "deviceToken (did you mean device_token?)"),
        (#"{"device-tokens":["ab"],"payload":{}}"#, "device-tokens (did you mean device_tokens?)"),
        (#"{"payload":{},"to":"ab"}"#, "to"), (#"{"payload":{}}"#, ""),
    ])
    func `The dead letter of an envelope without a target names the missing members`(value: String, subject: String) {
        let found = parse(value, key: "campaign")
        #expect(found.deadLetter == .noDeviceToken && found.subject == subject)
        #expect(found.detail == "an envelope must have device_token, device_tokens or channel_id")
        #expect(parse(value, key: tokenB).deadLetter == nil)
        for payload in [#"{"aps":{},"payload":{},"deviceToken":"ab"}"#, #"{"alert":1}"#, "[1]"] {
            let other = parse(payload, key: "campaign")
            #expect(
                other.deadLetter == .noDeviceToken && other.detail.hasPrefix("the record has no push-device-token"),
                "\(payload)")
        }
    }

    @Test func `An envelope has at most 10000 tokens`() {
        func list(_ count: Int) -> String {
            "{\"payload\":{},\"device_tokens\":["
                + Array(repeating: "\"\(tokenA)\"", count: count).joined(separator: ",")
                + "]}"
        }
        let most = parse(list(10_000))
        #expect(most.tokenCount == 10_000 && most.tokens.count == 10_000 && !most.isInvalid)
        #expect(parse(list(10_001)).deadLetter == .tooManyTokens)
    }

    @Test(
        arguments: [
            (#""x":1"#, .none, "x"), (#""Headers":{}"#, .none, "Headers (did you mean headers?)"),
            (#""enviroment":"production""#, .none, "enviroment (did you mean environment?)"),
            (#""apns-topic":"x""#, .none, "apns-topic (did you mean headers.apns-topic?)"),
            (#""priority":10"#, .none, "priority (did you mean headers.apns-priority?)"),
            (#""headers":{"topic":"x"}"#, .none, "topic (did you mean apns-topic?)"),
            (#""payload":{}"#, .none, "payload"),
            (#""app":"a","app":"a""#, .none, "app"), (#""device_tokens":[]"#, .none, "device_tokens"),
            (#""headers":[]"#, .none, ""), (#""app":1"#, .none, ""), (#""app":"""#, .none, ""),
            (#""environment":true"#, .none, ""), (#""environment":"dev""#, .none, "dev"),
            (#""headers":{"apns-topik":"x"}"#, .none, "apns-topik (did you mean apns-topic?)"),
            (#""headers":{"push-app":"x"}"#, .none, "push-app"),
            (#""headers":{"authorization":"x"}"#, .none, "authorization"),
            (#""headers":{"apns-topic":"x","apns-topic":"x"}"#, .duplicateHeaders, "apns-topic"),
            (#""headers":{"apns-topic":1}"#, .badTopic, "apns-topic"),
            (#""headers":{"apns-topic":"a\u000d\u000ab: c"}"#, .badTopic, "a\r\nb: c"),
            (#""headers":{"apns-push-type":"Voip"}"#, .invalidPushType, "Voip (did you mean voip?)"),
            (#""headers":{"apns-push-type":"message"}"#, .invalidPushType, "message"),
            (#""headers":{"apns-priority":10.0}"#, .badPriority, "10.0"),
            (#""headers":{"apns-priority":true}"#, .badPriority, "apns-priority"),
            (#""headers":{"apns-expiration":1e9}"#, .badExpirationDate, "1e9"),
            (#""not_before":-1"#, .none, "-1"), (#""not_before":"1790000000""#, .none, #""1790000000""#),
            (#""not_before":[1]"#, .none, "[1]"), (#""not_before":1,"not_before":1"#, .none, "not_before"),
            (#""not-before":1"#, .none, "not-before (did you mean not_before?)"),
            (#""not_before":5,"headers":{"apns-expiration":5}"#, .badExpirationDate, "5"),
            (#""headers":{"apns-collapse-id":5}"#, .badCollapseId, "apns-collapse-id"),
            (#""headers":{"apns-id":5}"#, .badMessageId, "apns-id"),
        ] as [(String, ReasonCode, String)])
    func `A faulty envelope makes its notifications invalid`(members: String, reason: ReasonCode, subject: String) {
        let found = parse("{\"payload\":{},\"device_tokens\":[\"\(tokenA)\",\"\(tokenB)\"],\(members)}")
        #expect(found.isInvalid && found.reason == reason && found.subject == subject && !found.detail.isEmpty)
        #expect(found.target == .devices && found.tokens == [tokenA, tokenB])
    }

    @Test(arguments: [
        #""app":null,"environment":null,"headers":null,"device_token":null,"channel_id":null"#, #""headers":{}"#,
        #""headers":{"apns-topic":null,"apns-priority":null}"#,
        #""headers":{"apns-priority":"5","apns-expiration":"0"}"#,
        #""headers":{"apns-p\u0072iority":1}"#, #""not_before":null"#, #""not_before":0"#,
        #""not_befor\u0065":4294967295"#, #""not_before":5,"headers":{"apns-expiration":"6"}"#,
    ])
    func `Null values and numbers in strings are accepted`(members: String) {
        let found = parse("{\"payload\":{},\"device_tokens\":[\"\(tokenA)\",\"\(tokenB)\"],\(members)}")
        #expect(!found.isInvalid && found.target == .devices, "\(found.detail) \(found.subject)")
    }

    @Test func `One apns-id for several tokens is refused`() {
        let headers = #""headers":{"apns-id":"123e4567-e89b-12d3-a456-4266554400a0"}"#
        let found = parse("{\"payload\":{},\"device_tokens\":[\"\(tokenA)\",\"\(tokenB)\"],\(headers)}")
        #expect(found.isInvalid && found.reason == .badMessageId)
        #expect(!parse("{\"payload\":{},\"device_tokens\":[\"\(tokenA)\"],\(headers)}").isInvalid)
    }

    /// `apns-` and `push-` headers of an envelope's record are errors. The headers of a dead letter are ignored.
    @Test(arguments: [
        ("apns-topic", true), ("apns-foo", true), ("push-app", true), ("push-device-token", true), ("push-", true),
        ("apns-", true), ("push-retry-request", true), ("push-retry-x", true), ("push-dlq-reason", false),
        ("traceparent", false), ("apnsx", false), ("", false),
    ])
    func `apns- and push- headers must be in the envelope`(name: String, isWrong: Bool) {
        let found = parse("{\"payload\":{},\"device_token\":\"\(tokenA)\"}", [(name, "x")])
        #expect(found.isInvalid == isWrong && found.token == tokenA)
        if isWrong { #expect(found.subject == name) }
        #expect(!parse("{\"payload\":{},\"device_token\":\"\(tokenA)\"}", [("apns-topic", nil)]).isInvalid)
    }

    @Test func `Each token of a list is read and checked by itself`() {
        let upper = tokenA.uppercased()
        let long = String(repeating: "x", count: 300)
        let found = parse(
            """
            {"payload":{},"device_tokens":[ "\(upper)" ,"\\u0061b", "", "abc","zz", "a\\"]b" ,
            "\(long)","\(String(repeating: "f", count: 200))" ]}
            """)
        #expect(
            found.tokens == [
                tokenA, "ab", "!missingDeviceToken", "abc!badDeviceToken", "zz!badDeviceToken",
                #"a"]b!badDeviceToken"#, String(repeating: "x", count: 200) + "!badDeviceToken",
                String(repeating: "f", count: 200),
            ])
        #expect(found.tokenCount == 8)
    }

    @Test func `Escapes in strings are decoded`() {
        let found = parse(
            #"{"payload":{},"device_token":"\u0061b","app":"s\u0068op","headers":{"apns-topic":"com\u002eex"}}"#)
        #expect(found.token == "ab" && found.app == "shop" && found.topic == "com.ex" && !found.isInvalid)
        // A value that exceeds the parser's buffer is refused like any value that is too long.
        let long = String(repeating: #"\u0061"#, count: 5_000)
        #expect(parse(#"{"payload":{},"device_token":"ab","headers":{"apns-topic":"\#(long)"}}"#).reason == .badTopic)
    }
}
