import Testing

@testable import PushRecords

/// A request that is asked for again: what its record becomes, and how one knows that it is the one.
@Suite struct ReplayWriterTests {
    private static let timeMs: Int64 = 1_780_000_000_000
    private static let place = "apns.requests/3/1234"

    /// What a verdict was, copied.
    private enum Said: Equatable {
        case record(key: String?, value: String?, headers: [String])
        case another(String)
        case expired
        case refused(String)
    }

    private static func bytes(_ bytes: UnsafeRawBufferPointer) -> String? {
        bytes.baseAddress == nil ? nil : text(bytes)
    }

    private static func copied(_ record: EncodedRecord) -> Said {
        .record(
            key: bytes(record.key), value: bytes(record.value),
            headers: record.headers.map { "\(text($0.name))=\(bytes($0.value) ?? "nil")" })
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
                case .record(let record): said.append(Self.copied(record))
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

    @Test func `A record in payload form is copied unchanged`() {
        let record = OwnedRecord(
            key: "user-1", hi,
            [
                ("push-device-token", tokenA.uppercased()), ("apns-topic", "com.example.shop"), ("x", nil),
                ("apns-id", "123e4567-e89b-12d3-a456-4266554400a0"), ("push-dlq-reason", "old"), ("empty", ""),
            ])
        #expect(
            replay(record, [asked()]) == [
                .record(
                    key: "user-1", value: hi,
                    headers: [
                        "push-replay-of=\(Self.place)/0", "push-device-token=\(tokenA.uppercased())",
                        "apns-topic=com.example.shop", "x=nil", "apns-id=123e4567-e89b-12d3-a456-4266554400a0",
                        "push-dlq-reason=old", "empty=",
                    ])
            ])
    }

    @Test func `An envelope for one device and a broadcast are copied unchanged`() {
        let envelope = #"{"device_token":"\#(tokenA)","payload":{"aps":{}},"app":"shop"}"#
        #expect(
            replay(OwnedRecord(key: nil, envelope, [("traceparent", "t")]), [asked()]) == [
                .record(key: nil, value: envelope, headers: ["push-replay-of=\(Self.place)/0", "traceparent=t"])
            ])
        let channel = OwnedRecord(key: "k", hi, [("apns-channel-id", "YQ==")])
        #expect(
            replay(channel, [asked("YQ==")]) == [
                .record(key: "k", value: hi, headers: ["push-replay-of=\(Self.place)/0", "apns-channel-id=YQ=="])
            ])
    }

    /// Whoever mends its headers has the worker read it; by itself it would be refused as before.
    @Test func `An invalid record is copied unchanged`() {
        let said = replay(OwnedRecord(key: tokenA, hi, [("apns-priority", "7")]), [asked()])
        #expect(
            said == [
                .record(key: tokenA, value: hi, headers: ["push-replay-of=\(Self.place)/0", "apns-priority=7"])
            ])
    }

    @Test func `A replayed record keeps the place of its first request`() {
        let record = OwnedRecord(
            key: tokenA, hi, [("a", "1"), ("push-replay-of", "first/0/7/9999"), ("push-replay-of", "second/0/1/0")])
        #expect(
            replay(record, [asked()]) == [
                .record(key: tokenA, value: hi, headers: ["push-replay-of=first/0/7/9999", "a=1"])
            ])
        let wrong = OwnedRecord(key: tokenA, hi, [("push-replay-of", "nowhere")])
        #expect(
            replay(wrong, [asked()]) == [
                .record(key: tokenA, value: hi, headers: ["push-replay-of=\(Self.place)/0"])
            ])
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
                key: "campaign", value: payload,
                headers: [
                    "push-replay-of=\(Self.place)/\(index)", "apns-topic=com.example.shop", "apns-push-type=background",
                    "apns-priority=5", "apns-expiration=1790000000", "apns-collapse-id=c",
                    "push-device-token=\(Self.tokens[index])", "push-app=shop", "push-environment=development",
                    "push-not-before=1789999999",
                    "traceparent=t", "x-mine=\u{1}",
                ])
        }
        let requests = [asked(Self.tokens[1], index: 1), asked(Self.tokens[3], index: 3)]
        #expect(replay(record, requests) == expected)
    }

    /// The worker reads what was made as it read the envelope.
    @Test func `A replayed notification of a fan-out is parsed like the original`() throws {
        let value = """
            {"device_tokens": ["\(tokenA)", "ab"], "headers": {"apns-topic": "t", "apns-id": null, "apns-priority": 1},
             "payload": {"aps":{}}}
            """
        for (index, token) in [(0 as Int32, tokenA), (1, "ab")] {
            let said = replay(OwnedRecord(value), [asked(token, index: index)])
            guard case .record(let key?, let value, let headers)? = said.first else {
                Issue.record("no record: \(said)")
                return
            }
            #expect(key == token, "without a key it gets the token's, as a retry record does")
            let fields = headers.map { header in
                let parts = header.split(separator: "=", maxSplits: 1)
                return (String(parts[0]), String(parts[1])) as (String, String?)
            }
            var parser = RequestParser()
            let found = parser.parse(OwnedRecord(key: key, value, fields))
            #expect(!found.isInvalid && found.form == .payload && found.token == token, "\(found.detail)")
            #expect(found.topic == "t" && found.priority == 1 && found.payload == #"{"aps":{}}"# && found.key == nil)
            #expect(found.copied == ["push-replay-of=\(Self.place)/\(index)"])
        }
    }

    @Test func `A fan-out that cannot be split is refused`() {
        let invalid = OwnedRecord(#"{"device_tokens":[\#(Self.list)],"payload":{"aps":{}},"colour":"red"}"#)
        #expect(
            replay(invalid, [asked(Self.tokens[1], index: 1)]) == [.refused("an envelope has no such member: colour")])
        let inner = OwnedRecord(
            #"{"device_tokens":[\#(Self.list)],"payload":{"payload":{},"device_token":"ab"}}"#)
        #expect(
            replay(inner, [asked(Self.tokens[1], index: 1)])
                == [.refused("its payload has the members of an envelope: ")])
        let bad = OwnedRecord(#"{"device_tokens":["xyz", "\#(tokenA)"],"payload":{"aps":{}}}"#)
        let said = replay(bad, [asked("xyz"), asked(index: 1)])
        #expect(said.first == .refused("its device token is invalid: ") && said.count == 2)
    }

    // MARK: Another record

    @Test func `A record that is not the result's request is recognized`() {
        let record = OwnedRecord(key: tokenA, hi)
        #expect(
            replay(record, [asked(requestedAtMs: Self.timeMs - 1)])
                == [.another("the record has another timestamp than the result says")])
        #expect(
            replay(record, [asked(requestedAtMs: 0)])
                == [.another("the record has another timestamp than the result says")])
        #expect(replay(record, [asked(tokenB)]) == [.another("the record is for another device")])
        #expect(replay(record, [asked(index: 1)]) == [.another("the record has no such notification")])
        #expect(
            replay(OwnedRecord(key: tokenA, "not json"), [asked()]) == [
                .another("the record has no such notification")
            ])
        let list = OwnedRecord(#"{"device_tokens":["\#(tokenA)"],"payload":{"aps":{}}}"#)
        #expect(replay(list, [asked(index: 1)]) == [.another("the record has no such notification")])
    }

    /// A record without a time, and a result that names no device (a topic's limit may leave no room for it).
    @Test func `An absent time or device is not a difference`() {
        for said in [
            replay(OwnedRecord(key: tokenA, hi), [asked(requestedAtMs: 0)], timestampMs: -1),
            replay(OwnedRecord(key: tokenA, hi), [asked()], timestampMs: -1),
            replay(OwnedRecord(key: tokenA, hi), [asked("")]),
            // Cut, and with what is no UTF-8 replaced, in its result.
            replay(OwnedRecord(key: "k", hi, [("push-device-token", "no\u{1}token")]), [asked("no?token")]),
        ] {
            guard case .record? = said.first else {
                Issue.record("\(said)")
                continue
            }
        }
    }

    @Test func `The matching one of several results for one place is replayed`() {
        let other = "the record is for another device"
        let list = OwnedRecord(#"{"device_tokens":["\#(tokenB)","\#(tokenA)"],"payload":{"aps":{}}}"#)
        for (record, index) in [(OwnedRecord(key: tokenA, hi), 0), (list, 1)] as [(OwnedRecord, Int32)] {
            let wrong = asked(String(repeating: "0", count: 64), index: index)
            let said = replay(record, [wrong, asked(index: index), wrong])
            #expect(said.count == 3 && said[0] == .another(other) && said[2] == .another(other))
            guard case .record = said[1] else {
                Issue.record("\(said)")
                continue
            }
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

    @Test func `A replayed dead letter loses the headers that the worker added`() {
        let record = OwnedRecord(
            key: nil, "{", [("a", "1"), ("push-dlq-reason", "not-json"), ("push-dlq-topic", "t"), ("b", nil)])
        var writer = ReplayWriter()
        let said = record.withLent { key, value, headers in
            Self.copied(
                writer.whole(
                    key: key, value: value, headers: headers,
                    place: RequestPlace(topic: lend("t"), partition: 0, offset: 5, index: 0), as: .letter))
        }
        #expect(said == .record(key: nil, value: "{", headers: ["push-replay-of=t/0/5/0", "a=1", "b=nil"]))
    }

    /// A retry record says where its notification was asked for; on a request topic anybody may have written that.
    @Test(arguments: [
        ("r.req/3/17/4", ReplayWriter.Whole.retryLetter, "r.req/3/17/4"), ("r.req/3/17/4", .letter, "t/0/5/0"),
        ("r.req", .retryLetter, "t/0/5/0"), ("r.req/3/17/4", .movedRetryLetter, "r.req/3/17/4"),
    ])
    func `A retry record's dead letter replays its request`(told: String, kind: ReplayWriter.Whole, place: String) {
        func written(_ more: (String, String?)...) -> Said {
            let record = OwnedRecord(key: tokenA, hi, [("push-retry-request", told), ("push-dlq-topic", "t")] + more)
            var writer = ReplayWriter()
            return record.withLent { key, value, headers in
                Self.copied(
                    writer.whole(
                        key: key, value: value, headers: headers,
                        place: RequestPlace(topic: lend("t"), partition: 0, offset: 5, index: 0), as: kind))
            }
        }
        let kept = kind == .movedRetryLetter ? [] : ["push-retry-request=\(told)"]
        #expect(written() == .record(key: tokenA, value: hi, headers: ["push-replay-of=\(place)"] + kept))
        // Of a request that was a replay itself, where that one was asked for first.
        #expect(
            written(("push-replay-of", "first/0/0/0"))
                == .record(key: tokenA, value: hi, headers: ["push-replay-of=first/0/0/0"] + kept))
    }

    // MARK: The header's way

    /// It is known in both forms, and carried on however many others are: it stands first.
    @Test func `The replay header is carried through results and retries`() {
        let place = String(repeating: "t", count: 249) + "/2147483647/9223372036854775807/9999"
        let others = (0..<40).map { ("tenant", "\($0)" + String(repeating: "v", count: 60)) } as [(String, String?)]
        let single = OwnedRecord(key: tokenA, hi, [("push-replay-of", place)] + others)
        let envelope = OwnedRecord(
            #"{"payload":{},"device_tokens":["\#(tokenA)"]}"#, [("push-replay-of", place)] + others)
        for record in [single, envelope] {
            var parser = RequestParser(copyHeaders: ["tenant"])
            let found = parser.parse(record)
            #expect(!found.isInvalid, "\(found.detail) \(found.subject)")
            #expect(found.copied.first == "push-replay-of=\(place)" && found.copied.count > 5)
        }
        var parser = RequestParser()
        let retry = parser.parse(
            OwnedRecord(key: tokenA, hi, RetryTests.fields + [("push-replay-of", place)]), role: .retry)
        #expect(retry.copied == ["push-replay-of=\(place)"] && !retry.isInvalid)
        // In any other spelling it is a typo.
        #expect(parser.parse(OwnedRecord(key: tokenA, hi, [("Push-Replay-Of", "t/0/1/0")])).isInvalid)
    }
}
