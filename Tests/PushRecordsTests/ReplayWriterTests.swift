import Testing

@testable import PushRecords

/// The record of a replayed request, and the checks that a record is the requested one.
@Suite struct ReplayWriterTests {
    private static let timeMs: Int64 = 1_780_000_000_000
    private static let place = "apns.requests/3/1234"

    /// A copied verdict.
    private enum Said: Equatable {
        case record(OwnedRecord)
        case another(String)
        case expired
        case refused(String)

        init(_ record: EncodedRecord) {
            self = .record(owned(record))
        }

        /// A record that names the place of its request before these headers.
        static func record(
            _ key: String?, _ value: String, of place: String = "\(ReplayWriterTests.place)/0",
            _ headers: [(String, String?)]
        ) -> Self { .record(OwnedRecord(key: key, value, [("push-replay-of", place)] + headers)) }

        var isRecord: Bool { if case .record = self { true } else { false } }
    }

    private func replay(
        _ record: OwnedRecord, _ requests: [ReplayRequest], timestampMs: Int64 = timeMs, nowMs: Int64 = timeMs,
        expiredToo: Bool = false, copying: [String] = []
    ) -> [Said] {
        var writer = ReplayWriter(copyHeaders: copying)
        var said: [Said] = []
        record.withLent { key, value, headers in
            writer.write(
                key: key, value: value, headers: headers, timestampMs: timestampMs,
                place: RequestPlace(topic: lend("apns.requests"), partition: 3, offset: 1_234, index: 77),
                requests: requests, nowMs: nowMs, expiredToo: expiredToo
            ) { number, verdict in
                #expect(number == said.count)
                switch verdict {
                case .record(let record): said.append(Said(record))
                case .another(let words): said.append(.another(words.description))
                case .expired: said.append(.expired)
                case .refused(let detail): said.append(.refused("\(detail.text): \(text(detail.subject))"))
                }
            }
        }
        return said
    }

    private func asked(_ target: String = tokenA, index: Int32 = 0, requestedAtMs: Int64 = timeMs) -> ReplayRequest {
        ReplayRequest(index: index, target: target, requestedAtMs: requestedAtMs)
    }

    // MARK: Records with one notification

    /// Invalid records are replayed unchanged, too.
    @Test(
        arguments: [
            (
                "user-1", hi,
                [
                    ("push-device-token", tokenA.uppercased()), ("apns-topic", "com.example.shop"), ("x", nil),
                    ("apns-id", "123e4567-e89b-12d3-a456-4266554400a0"), ("push-dlq-reason", "old"), ("empty", ""),
                ], tokenA
            ), (nil, #"{"device_token":"\#(tokenA)","payload":{"aps":{}},"app":"shop"}"#, [("trace", "t")], tokenA),
            ("k", hi, [("apns-channel-id", "YQ==")], "YQ=="), (tokenA, hi, [("apns-priority", "7")], tokenA),
        ] as [(String?, String, [(String, String?)], String)])
    func `A record with one notification is replayed unchanged`(
        key: String?, value: String, headers: [(String, String?)], target: String
    ) {
        #expect(replay(OwnedRecord(key: key, value, headers), [asked(target)]) == [.record(key, value, headers)])
    }

    @Test func `A record that is replayed again keeps its first place`() {
        let twice = [("a", "1"), ("push-replay-of", "first/0/7/9999"), ("push-replay-of", "second/0/1/0")]
        #expect(
            replay(OwnedRecord(key: tokenA, hi, twice), [asked()])
                == [.record(tokenA, hi, of: "first/0/7/9999", [("a", "1")])])
        let wrong = OwnedRecord(key: tokenA, hi, [("push-replay-of", "nowhere")])
        #expect(replay(wrong, [asked()]) == [.record(tokenA, hi, [])])
    }

    // MARK: Fan-outs

    private static let tokens = (0..<4).map { String(repeating: "0\($0)", count: 32) }
    private static let list = tokens.map { "\"\($0)\"" }.joined(separator: ", ")

    @Test func `Only the requested indexes of a fan-out are written`() {
        let payload = #"{ "aps" : {"alert":"H\u0069"} }"#
        let value = """
            {"device_tokens": [\(Self.list)], "app": "shop", "environment": "development", "not_before": 1789999999,
             "headers": {"apns-topic": "com.example.shop", "apns-push-type": "background", "apns-collapse-id": "\\u0063",
                         "apns-expiration": 1790000000},
             "payload": \(payload)}
            """
        let record = OwnedRecord(key: "campaign", value, [("traceparent", "t"), ("x-mine", "\u{1}")])
        let expected = [1, 3].map { index in
            Said.record(
                "campaign", payload, of: "\(Self.place)/\(index)",
                [
                    ("apns-topic", "com.example.shop"), ("apns-push-type", "background"), ("apns-priority", "5"),
                    ("apns-expiration", "1790000000"), ("apns-collapse-id", "c"),
                    ("push-device-token", Self.tokens[index]), ("push-app", "shop"),
                    ("push-environment", "development"), ("push-not-before", "1789999999"), ("traceparent", "t"),
                    ("x-mine", "\u{1}"),
                ])
        }
        let requests = [asked(Self.tokens[1], index: 1), asked(Self.tokens[3], index: 3)]
        #expect(replay(record, requests) == expected)
    }

    /// The worker parses the replayed record as it parsed the envelope.
    @Test(arguments: [(0 as Int32, tokenA), (1, "ab")])
    func `A replayed notification of a fan-out has the values of its envelope`(index: Int32, token: String) {
        let value = """
            {"device_tokens": ["\(tokenA)", "ab"], "headers": {"apns-topic": "t", "apns-id": null, "apns-priority": 1},
             "payload": {"aps":{}}}
            """
        guard case .record(let record)? = replay(OwnedRecord(value), [asked(token, index: index)]).first else {
            Issue.record("there is no record")
            return
        }
        #expect(
            record.key == Array(token.utf8), "a record without a key gets the token as its key, like a retry record")
        let found = parse(record)
        #expect(!found.isInvalid && found.form == .payload && found.token == token, "\(found.detail)")
        #expect(found.topic == "t" && found.priority == 1 && found.payload == #"{"aps":{}}"# && found.key == nil)
        #expect(found.copied == ["push-replay-of=\(Self.place)/\(index)"])
    }

    @Test(arguments: [
        (#"[\#(list)],"payload":{"aps":{}},"colour":"red""#, 1, tokens[1], "an envelope has no such member: colour"),
        (
            #"[\#(list)],"payload":{"payload":{},"device_token":"ab"}"#, 1, tokens[1],
            "the payload has the members of an envelope: "
        ), (#"["xyz"],"payload":{"aps":{}}"#, 0, "xyz", "the device token is invalid: "),
    ])
    func `An envelope that cannot be split is refused`(members: String, index: Int32, target: String, words: String) {
        let said = replay(OwnedRecord(#"{"device_tokens":\#(members)}"#), [asked(target, index: index)])
        #expect(said == [.refused(words)])
    }

    // MARK: Another record

    @Test(arguments: [
        (hi, tokenA, 0, timeMs - 1, "has a different timestamp than the result"),
        (hi, tokenA, 0, 0, "has a different timestamp than the result"),
        (hi, tokenB, 0, timeMs, "is for another device or channel"),
        (hi, tokenA, 1, timeMs, "has no notification with the result's index"),
        ("no JSON", tokenA, 0, timeMs, "has no notification with the result's index"),
        (
            #"{"device_tokens":["\#(tokenA)"],"payload":{"aps":{}}}"#, tokenA, 1, timeMs,
            "has no notification with the result's index"
        ),
    ])
    func `A record that is not the requested one is recognized`(
        value: String, target: String, index: Int32, requestedAtMs: Int64, words: String
    ) {
        let said = replay(OwnedRecord(key: tokenA, value), [asked(target, index: index, requestedAtMs: requestedAtMs)])
        #expect(said == [.another("the record \(words)")])
    }

    /// A record may have no timestamp, and a reduced result may name no device.
    @Test func `An absent time or device does not rule a record out`() {
        for said in [
            replay(OwnedRecord(key: tokenA, hi), [asked(requestedAtMs: 0)], timestampMs: -1),
            replay(OwnedRecord(key: tokenA, hi), [asked()], timestampMs: -1),
            replay(OwnedRecord(key: tokenA, hi), [asked("")]),
            // A result can contain a token that was cut or had invalid UTF-8 replaced.
            replay(OwnedRecord(key: "k", hi, [("push-device-token", "no\u{1}token")]), [asked("no?token")]),
        ] {
            #expect(said.first?.isRecord == true, "\(said)")
        }
    }

    @Test func `Of several results for one place only the matching one is replayed`() {
        let other = Said.another("the record is for another device or channel")
        let list = OwnedRecord(#"{"device_tokens":["\#(tokenB)","\#(tokenA)"],"payload":{"aps":{}}}"#)
        for (record, index) in [(OwnedRecord(key: tokenA, hi), 0), (list, 1)] as [(OwnedRecord, Int32)] {
            let wrong = asked(String(repeating: "0", count: 64), index: index)
            let said = replay(record, [wrong, asked(index: index), wrong])
            #expect(said.count == 3 && said[0] == other && said[1].isRecord && said[2] == other, "\(said)")
        }
    }

    // MARK: Expired

    @Test(arguments: [
        ("1780000000", true), ("1780000001", false), ("1", true), ("0", false), ("soon", false),
    ])
    func `An expired request is replayed only on demand`(expiration: String, isExpired: Bool) {
        let record = OwnedRecord(key: tokenA, hi, [("apns-expiration", expiration)])
        #expect((replay(record, [asked()]) == [.expired]) == isExpired)
        #expect(replay(record, [asked()], expiredToo: true) != [.expired])
    }

    // MARK: Dead letters

    private func whole(_ record: OwnedRecord, _ kind: ReplayWriter.Whole) -> Said {
        var writer = ReplayWriter()
        return record.withLent { key, value, headers in
            Said(
                writer.whole(
                    key: key, value: value, headers: headers,
                    place: RequestPlace(topic: lend("t"), partition: 0, offset: 5, index: 0), as: kind))
        }
    }

    @Test func `A replayed dead letter loses the headers that the worker added`() {
        let record = OwnedRecord(
            key: nil, "{", [("a", "1"), ("push-dlq-reason", "not-json"), ("push-dlq-topic", "t"), ("b", nil)])
        #expect(whole(record, .letter) == .record(nil, "{", of: "t/0/5/0", [("a", "1"), ("b", nil)]))
    }

    /// A retry record names the place of its request. In a request topic this header is ignored, because any producer
    /// may have written it. A request that is a replay keeps the place of the first request.
    @Test(
        arguments: [
            ("r.req/3/17/4", .retryLetter, "r.req/3/17/4"), ("r.req/3/17/4", .letter, "t/0/5/0"),
            ("r.req", .retryLetter, "t/0/5/0"), ("r.req/3/17/4", .movedRetryLetter, "r.req/3/17/4"),
        ] as [(String, ReplayWriter.Whole, String)])
    func `A dead letter of a retry record names the place of its request`(
        told: String, kind: ReplayWriter.Whole, place: String
    ) {
        let kept = kind == .movedRetryLetter ? [] : [("push-retry-request", told as String?)]
        let headers = [("push-retry-request", told), ("push-dlq-topic", "t")] as [(String, String?)]
        let record = OwnedRecord(key: tokenA, hi, headers)
        #expect(whole(record, kind) == .record(tokenA, hi, of: place, kept))
        let replayed = OwnedRecord(key: tokenA, hi, headers + [("push-replay-of", "first/0/0/0")])
        #expect(whole(replayed, kind) == .record(tokenA, hi, of: "first/0/0/0", kept))
    }

    // MARK: The replay header

    /// The header is valid in both forms. It is copied first, so other headers cannot displace it.
    @Test func `The replay header is carried through results and retries`() {
        let place = String(repeating: "t", count: 249) + "/2147483647/9223372036854775807/9999"
        let others = (0..<40).map { ("tenant", "\($0)" + String(repeating: "v", count: 60)) } as [(String, String?)]
        let single = OwnedRecord(key: tokenA, hi, [("push-replay-of", place)] + others)
        let envelope = OwnedRecord(
            #"{"payload":{},"device_tokens":["\#(tokenA)"]}"#, [("push-replay-of", place)] + others)
        for record in [single, envelope] {
            let found = parse(record, copying: ["tenant"])
            #expect(!found.isInvalid, "\(found.detail) \(found.subject)")
            #expect(found.copied.first == "push-replay-of=\(place)" && found.copied.count > 5)
        }
        let retry = parse(OwnedRecord(key: tokenA, hi, RetryTests.fields + [("push-replay-of", place)]), role: .retry)
        #expect(retry.copied == ["push-replay-of=\(place)"] && !retry.isInvalid)
        // Any other spelling is an unknown header.
        #expect(parse(OwnedRecord(key: tokenA, hi, [("Push-Replay-Of", "t/0/1/0")])).isInvalid)
    }
}
