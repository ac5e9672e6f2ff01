import Foundation
import PushRecords
import TestSupport
import Testing

@Suite struct SchemaTests {
    /// Headers of each kind, and a result, that another schema or the same one has to refuse.
    @Test(.needsSchemaJudge, .waiting) func `Schemas refuse what is of another kind`() throws {
        var judge = SchemaJudge()
        let fixture = ContentFixture()
        var retries = RetryWriter(apps: ContentFixture.apps)
        let order = RetryOrder(
            attempt: 1, dueMs: 5, notBefore: 4_294_967_295, reason: lend("TooManyRequests"), sends: 1, inDoubt: 0,
            triedApp: lend("shop"))
        let headers: [(name: String, value: [UInt8]?)] = retries.write(fixture.content, order).headers.map {
            (text($0.name), Array($0.value))
        }
        for schema in [RecordSchema.requestHeaders, .resultHeaders, .deadLetterHeaders] {
            try judge.ask(schema, headers: headers)
        }
        // The worker writes an id in lower case, and a reader takes it in either.
        judge.ask(.result, DecoderTests.result.utf8)
        judge.ask(.result, DecoderTests.result.replacing(/"EABE[^"]*"/) { $0.output.lowercased() }.utf8)
        judge.ask(.result, #"{"outcome":"lost","attempts":-1}"#.utf8)
        #expect(try judge.verdicts() == [.allowed, .refused, .refused, .refused, .allowed, .refused])
    }

    @Test func `the schema of dead letters lists every reason`() throws {
        let properties = try RecordSchema.deadLetterHeaders.object()["properties"] as? [String: [String: Any]]
        let listed = try #require(properties?["push-dlq-reason"]?["description"] as? String)
        let known = DeadLetterReason.allCases.map(\.text.description)
        #expect(listed.components(separatedBy: ", ") == known + ["output-too-large", "output-refused"])
    }

    private static let headerNames =
        [
            ("apns-collapse-id", true), ("push-app", true), ("x-mine", true), ("Push-Retry-X", true),
            ("push-dlq-reason", true),
            ("Apns-Collapse-Id", false), ("apns-collapse-ids", false), ("xapns-a", true), ("push-", false),
            ("PUSH-APP", false), ("push-not-befor", false), ("Push-Replay-Of", false), ("push-replay-off", false),
            ("push-replay-of", true),
        ] as [(String, Bool)]

    @Test(.needsSchemaJudge, .waiting) func `Schema and parser agree on the names of a request's headers`() throws {
        var judge = SchemaJudge()
        for (name, _) in Self.headerNames { judge.ask(.requestHeaders, "{\"\(name)\":\"shop\"}".utf8) }
        for ((name, isValid), verdict) in zip(Self.headerNames, try judge.verdicts()) {
            #expect((verdict == .allowed) == isValid, "\(name)")
            var parser = RequestParser()
            #expect(parser.parse(TestRecord(key: tokenA, hi, [(name, "shop")])).isInvalid == !isValid, "\(name)")
        }
    }

    private static let envelopes =
        [
            (#""device_token":"00""#, true), (#""device_tokens":["00","AbCd"],"app":"shop""#, true),
            (#""channel_id":"YQ==","headers":{"apns-priority":"5"}"#, true),
            (#""device_token":"00","headers":null"#, true),
            (#""device_token":"00","device_tokens":null,"environment":"development""#, true),
            (
                #""device_token":"00","headers":{"apns-priority":10,"apns-expiration":4294967295,"apns-push-type":"voip"}"#,
                true
            ),
            (#""device_token":"00","not_before":4294967295"#, true), (#""device_token":"00","not_before":null"#, true),
            (#""device_token":"00","not_before":4294967296"#, false), (#""device_token":"00","not_before":-1"#, false),
            (#""device_token":"00","not_before":"1""#, false), (#""device_token":"00","not_before":1.5"#, false),
            (#""device_token":"0""#, false), (#""device_token":"00","x":1"#, false), (#""device_tokens":[]"#, false),
            (#""device_token":"00","channel_id":"x""#, false), (#""device_token":"00","environment":"prod""#, false),
            (#""device_token":"00","headers":{"apns-priority":3}"#, false), (#""device_token":"00","app":"""#, false),
            (#""device_token":"00","headers":{"apns-expiration":4294967296}"#, false),
            (#""device_token":"00","headers":{"apns-topik":"x"}"#, false), (#""device_token":null"#, false),
            (#""device_token":"00","headers":{"apns-collapse-id":""}"#, false), (#""device_token":1"#, false),
        ] as [(String, Bool)]

    @Test(.needsSchemaJudge, .waiting) func `Schema and parser agree on what an envelope is`() throws {
        let values = Self.envelopes.map { #"{"payload":{"a":1},\#($0.0)}"# }
        var judge = SchemaJudge()
        for value in values { judge.ask(.envelope, value.utf8) }
        for ((value, isValid), verdict) in zip(zip(values, Self.envelopes.map { $0.1 }), try judge.verdicts()) {
            #expect((verdict == .allowed) == isValid, "\(value)")
            var parser = RequestParser()
            let found = parser.parse(TestRecord(value))
            let isRefused =
                found.isInvalid || found.deadLetter != nil
                || found.target == .device && (try? DeviceToken(hex: found.token)) == nil
            #expect(isRefused != isValid, "\(value)")
        }
    }
}
