import PushRecords
import Testing

@Suite final class ResultWriterTests {
    private var fixture = ContentFixture()
    private var writer = ResultWriter(apps: ContentFixture.apps)
    private let accepted = Ending(
        outcome: .accepted, status: 200, attempts: 1, inDoubt: 0, sentAtMs: 1_780_000_000_005,
        settledAtMs: 1_780_000_000_050)

    @Test func `The result of an accepted notification has the expected JSON`() {
        let record = writer.write(fixture.content, accepted)
        #expect(text(record.key) == tokenA)
        #expect(
            text(record.value)
                == #"{"outcome":"accepted","status":200,"apns_id":"01020304-0506-8708-890a-0b0c0d0e0f10","#
                + #""device_token":"\#(tokenA)","apns_topic":"com.example.shop","app":"shop","#
                + #""environment":"development","attempts":1,"in_doubt":0,"#
                + #""requested_at_ms":1780000000000,"sent_at_ms":1780000000005,"settled_at_ms":1780000000050,"#
                + #""request":{"topic":"apns.requests","partition":3,"offset":1234,"index":7,"key":"user-\#u{FFFD}1"}}"#
        )
        #expect(record.headerTexts == ["outcome=accepted", "traceparent=00-ab"])
    }

    /// Little is known of a notification that the worker refuses early.
    @Test func `Absent values are omitted from a result`() {
        fixture.content.token = .nothing
        fixture.content.app = -1
        fixture.content.headers = ParsedRequest.Headers()
        fixture.content.requestKey = .nothing
        fixture.content.requestedAtMs = RecordTime.unknown
        fixture.content.copiedHeaders = UnsafeBufferPointer(start: nil, count: 0)
        let ending = Ending(outcome: .invalid, attempts: 0, inDoubt: 0, sentAtMs: 0, settledAtMs: 9)
        let record = writer.write(fixture.content, ending)
        #expect(
            text(record.value)
                == #"{"outcome":"invalid","attempts":0,"in_doubt":0,"requested_at_ms":0,"settled_at_ms":9,"#
                + #""request":{"topic":"apns.requests","partition":3,"offset":1234,"index":7}}"#)
        #expect(record.headerTexts == ["outcome=invalid"])
        fixture.content.token = lend("ab")
        var dead = UnregisteredWriter(apps: ContentFixture.apps)
        #expect(text(dead.write(fixture.content, ending).value) == #"{"device_token":"ab","observed_at_ms":9}"#)
    }

    @Test func `An unregistered token has a result and a record`() {
        var ending = accepted
        ending.outcome = .unregistered
        ending.status = 410
        ending.reason = .expiredToken
        ending.unregisteredAtMs = 1_770_000_000_000
        ending.uniqueID = lend(Array("unique\"".utf8))
        ending.attempts = 3
        ending.inDoubt = 2
        let record = writer.write(fixture.content, ending)
        #expect(record.headerTexts[0...1] == ["outcome=unregistered", "reason=ExpiredToken"])
        let value = text(record.value)
        #expect(value.contains(#""status":410,"reason":"ExpiredToken","unregistered_at_ms":1770000000000,"apns_id":"#))
        #expect(value.contains(#""apns_unique_id":"unique\"""#))
        #expect(value.contains(#""attempts":3,"in_doubt":2"#))

        var dead = UnregisteredWriter(apps: ContentFixture.apps)
        let token = dead.write(fixture.content, ending)
        #expect(text(token.key) == tokenA && token.headers.isEmpty)
        #expect(
            text(token.value)
                == #"{"device_token":"\#(tokenA)","apns_topic":"com.example.shop","app":"shop","environment":"development","#
                + #""reason":"ExpiredToken","unregistered_at_ms":1770000000000,"observed_at_ms":1780000000050}"#)
    }

    /// Without a notification, only the app and the time are known.
    @Test(arguments: [1, 32, 100])
    func `A token from the feedback service has a record`(length: Int) throws {
        let token = lend((0..<length).map { UInt8(truncatingIfNeeded: 255 - $0) })
        var writer = UnregisteredWriter(apps: ContentFixture.apps)
        let record = writer.write(
            feedback: token, topic: lend(Array("com.example.shop".utf8)), app: 0, unregisteredAtMs: 4_294_967_295_000,
            observedAtMs: 7)
        let hex = token.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        #expect(text(record.key) == hex && record.headers.isEmpty)
        let dead = try UnregisteredToken(json: record.value)
        #expect(dead.deviceToken == hex && dead.apnsTopic == "com.example.shop" && dead.reason == .feedback)
        #expect(dead.app == ContentFixture.apps[0].name && dead.environment == ContentFixture.apps[0].environment)
        #expect(dead.unregisteredAtMs == 4_294_967_295_000 && dead.observedAtMs == 7)
    }

    @Test func `An invalid notification has a readable result`() throws {
        fixture.content.token = lend([0x22, 0xFF, 0x0A] + Array("x".utf8))
        fixture.content.app = -1
        fixture.content.headers.topic = lend(Array("a\r\nb".utf8))
        fixture.content.headers.apnsID = .none
        fixture.content.requestKey = .nothing
        let subject = lend(Array("é\"".utf8) + Array(repeating: 0x79, count: 200))
        let ending = Ending(
            outcome: .invalid, reason: .badTopic, detail: Detail("apns-topic is wrong", subject), attempts: 0,
            inDoubt: 0, sentAtMs: 0, settledAtMs: 9)
        let record = writer.write(fixture.content, ending)
        #expect(record.headerTexts == ["outcome=invalid", "reason=BadTopic", "traceparent=00-ab"])
        let result = try DeliveryResult(json: record.value)
        #expect(result.deviceToken == "\"\u{FFFD}\nx" && result.apnsTopic == "a\r\nb")
        #expect(result.app == nil && result.environment == nil && result.apnsID == nil && result.status == nil)
        #expect(result.sentAtMs == nil && result.request.key == nil && result.reason == Reason(rawValue: "BadTopic"))
        #expect(result.detail == "apns-topic is wrong: é\"" + String(repeating: "y", count: 97))
    }

    @Test func `A result keeps an unknown reason`() throws {
        var ending = accepted
        ending.outcome = .rejected
        ending.reason = .other
        ending.reasonText = lend(Array("Brand\\New".utf8))
        let record = writer.write(fixture.content, ending)
        #expect(record.headerTexts[1] == #"reason=Brand\New"#)
        #expect(try DeliveryResult(json: record.value).reason?.rawValue == #"Brand\New"#)
    }

    @Test func `A broadcast's result names the channel`() throws {
        fixture = ContentFixture(isBroadcast: true)
        let record = writer.write(fixture.content, accepted)
        #expect(text(record.key) == fixture.token)
        let result = try DeliveryResult(json: record.value)
        #expect(result.deviceToken == nil && result.channelID == fixture.token)
    }

    /// A long key is cut.
    @Test func `The result has the request's key unless it is the token`() throws {
        for (key, expected) in [
            (Array(tokenA.utf8), nil), (Array(tokenA.uppercased().utf8), nil), ([], nil), (Array("k\"".utf8), "k\""),
            (Array(tokenB.utf8), tokenB), (Array(repeating: 0x6B, count: 5_000), String(repeating: "k", count: 512)),
            (Array(repeating: 0x01, count: 1_024), String(repeating: "\u{1}", count: 85)),
        ] as [([UInt8], String?)] {
            fixture.content.requestKey = lend(key)
            let record = writer.write(fixture.content, accepted)
            #expect(try DeliveryResult(json: record.value).request.key == expected)
        }
    }
}
