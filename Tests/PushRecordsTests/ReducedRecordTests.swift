import Testing

@testable import PushRecords

/// Reduced forms of up to 1 KiB, made from the bytes of a rejected record.
@Suite struct ReducedRecordTests {
    private static let longTopic = String(repeating: "t", count: 249)

    private func written(_ fixture: ContentFixture, _ ending: Ending) -> OwnedRecord {
        var writer = ResultWriter(apps: ContentFixture.apps)
        return owned(writer.write(fixture.content, ending))
    }

    private func texts(_ record: OwnedRecord) -> [String] {
        record.headers.map {
            "\(String(decoding: $0.name, as: UTF8.self))=\(String(decoding: $0.value ?? [], as: UTF8.self))"
        }
    }

    @Test func `A reduced result keeps its request and outcome`() throws {
        let ending = Ending(
            outcome: .rejected, status: 400, reason: .badTopic, detail: Detail("why"), uniqueID: lend("u"), attempts: 3,
            inDoubt: 1, sentAtMs: 5, settledAtMs: 6)
        let refused = written(ContentFixture(), ending)
        let reduced = try #require(ReducedRecord.result(refused))
        let result = try DeliveryResult(json: try #require(reduced.value))
        var expected = try DeliveryResult(json: try #require(refused.value))
        expected.detail = "the broker rejected the whole result as too large"
        expected.apnsUniqueID = nil
        expected.request.key = nil
        #expect(result == expected && reduced.key == refused.key)
        #expect(texts(reduced) == ["outcome=rejected", "reason=BadTopic"])
    }

    /// The reduced result has the outcome and the request's place, whatever the full result contains.
    @Test(arguments: ["com.example.shop", String(repeating: "\"", count: 255), String(repeating: "x", count: 255)])
    func `A reduced result always fits`(topic: String) throws {
        for name in ["t", Self.longTopic] {
            for token in [tokenA, String(repeating: "ab", count: 100), "\u{1}"] {
                for isBroadcast in [false, true] {
                    var fixture = ContentFixture(token: token, isBroadcast: isBroadcast)
                    if isBroadcast { fixture.content.token = lend(String(repeating: "c", count: 200)) }
                    fixture.content.headers.topic = lend(topic)
                    fixture.content.request = RequestPlace(
                        topic: lend(name), partition: .max, offset: .max, index: 9_999)
                    let ending = Ending(
                        outcome: .unregistered, status: 410, reason: .other,
                        reasonText: lend(String(repeating: "\u{2}", count: 64)), unregisteredAtMs: RecordTime.latestMs,
                        attempts: .max, inDoubt: .max, sentAtMs: RecordTime.latestMs, settledAtMs: RecordTime.latestMs)
                    let refused = written(fixture, ending)
                    let reduced = try #require(ReducedRecord.result(refused))
                    #expect(reduced.byteCount <= RecordLimits.reduced)
                    let result = try DeliveryResult(json: try #require(reduced.value))
                    #expect(result.outcome == .unregistered && result.request.topic == name)
                    #expect(result.request.offset == .max && result.attempts == Int(Int32.max))
                    #expect(reduced.key == refused.key && texts(reduced)[0] == "outcome=unregistered")
                    #expect(result.reason != nil && texts(reduced).count == 2)
                }
            }
        }
    }

    @Test func `A record that is not a result has no reduced form`() {
        #expect(ReducedRecord.result(OwnedRecord(key: nil, value: nil, headers: [])) == nil)
        #expect(ReducedRecord.result(OwnedRecord(key: [1], value: Array("{}".utf8), headers: [])) == nil)
    }

    @Test func `A retry record that the broker rejects becomes an abandoned result`() throws {
        let fixture = ContentFixture()
        var writer = RetryWriter(apps: ContentFixture.apps)
        let order = RetryOrder(attempt: 2, dueMs: 9, reason: lend("TooManyRequests"), sends: 4, inDoubt: 1)
        let refused = owned(writer.write(fixture.content, order))
        let record = try #require(ReducedRecord.abandonedResult(ofRetry: refused, because: .tooLarge, settledAtMs: 77))
        let result = try DeliveryResult(json: try #require(record.value))
        #expect(result.outcome == .abandoned && result.reason == .tooManyRequests && result.deviceToken == tokenA)
        #expect(result.attempts == 4 && result.inDoubt == 1 && result.requestedAtMs == 1_780_000_000_000)
        #expect(result.settledAtMs == 77 && result.sentAtMs == nil && result.app == "shop")
        #expect(result.request.description == "apns.requests/3/1234/7" && result.environment == .development)
        #expect(result.detail == "the broker rejected the retry record as too large: \(refused.byteCount) bytes")
        #expect(record.key == refused.key && record.byteCount <= RecordLimits.reduced)
        // A notification that was not sent has no reason.
        for word in ["held", "scheduled"] {
            let held = RetryOrder(attempt: 0, dueMs: 9, notBefore: 7, reason: lend(word), sends: 0, inDoubt: 0)
            let other = ReducedRecord.abandonedResult(
                ofRetry: owned(writer.write(fixture.content, held)), because: .named("INVALID_RECORD"), settledAtMs: 77)
            let heldResult = try DeliveryResult(json: try #require(other?.value))
            #expect(heldResult.reason == nil)
            #expect(heldResult.detail == "the broker rejected the retry record: INVALID_RECORD")
        }
        #expect(
            ReducedRecord.abandonedResult(
                ofRetry: OwnedRecord(key: nil, value: [], headers: []), because: .tooLarge, settledAtMs: 1) == nil
        )
    }

    /// A reduced dead letter also keeps its place and its reason.
    @Test(arguments: [0, 127, 128, 129, 1_000_000])
    func `A reduced dead letter has the first bytes of key and value`(count: Int) throws {
        let headers = [RecordHeader(name: lend("x"), value: lend(Array(repeating: 1, count: count)))]
        let topic = lend(Self.longTopic)
        var writer = DeadLetterWriter()
        let all = headers.withUnsafeBufferPointer { original in
            let older = RecordHeader(name: lend("push-dlq-reason"), value: lend("older"))
            let list = Array(original) + [older]
            return list.withUnsafeBufferPointer { list in
                OwnedRecord(
                    copying: .nothing, .nothing,
                    headers: writer.headers(
                        original: list, place: RequestPlace(topic: topic, partition: .max, offset: .max, index: 0),
                        timestampMs: .min, reason: .notJSON,
                        detail: Detail("unexpected byte", lend(Array(repeating: 1, count: 500)))))
            }
        }
        let bytes = Array(repeating: UInt8(ascii: "v"), count: count)
        let refused = OwnedRecord(key: bytes, value: bytes, headers: all.headers)
        let reduced = ReducedRecord.deadLetter(refused)
        #expect(reduced.byteCount <= RecordLimits.reduced)
        let letter = try decoded(reduced)
        #expect(letter.reason == "not-json" && letter.place == "\(Self.longTopic)/2147483647/9223372036854775807")
        #expect(letter.timestampMs == .min && letter.truncatedBytes == count && letter.headers == [])
        #expect(letter.truncatedKeyBytes == (count > 128 ? count : nil))
        #expect(letter.key == Array(bytes.prefix(128)) && letter.value == Array(bytes.prefix(128)))
        #expect(letter.detail?.hasPrefix("unexpected byte: \\u0001") == true)
        // Reducing the dead letter again changes nothing, even if an older version left out its value.
        let again = ReducedRecord.deadLetter(reduced)
        #expect(again == reduced)
        let valueless = OwnedRecord(
            key: nil, value: nil, headers: all.headers + [OwnedRecord.Header("push-dlq-truncated", "5")])
        #expect(texts(ReducedRecord.deadLetter(valueless)).contains("push-dlq-truncated=5"))
    }

    @Test func `A result that is rejected in every form becomes a dead letter that names its request`() throws {
        let ending = Ending(outcome: .accepted, status: 200, attempts: 1, inDoubt: 0, sentAtMs: 5, settledAtMs: 6)
        let record = written(ContentFixture(), ending)
        let letter = try decoded(
            ReducedRecord.deadLetter(ofOutput: record, of: "apns.results", because: .tooLarge, atMs: 9))
        #expect(
            letter.reason == "output-too-large" && letter.place == "apns.requests/3/1234" && letter.timestampMs == 9)
        #expect(letter.detail == "the broker rejected the record as too large for topic apns.results")
        #expect(letter.key == record.key && letter.value == record.value)
        var keyless = ReducedRecord.deadLetter(ofOutput: record, of: "apns.results", because: .tooLarge, atMs: 9)
        keyless.key = nil
        #expect(
            ReducedRecord.deadLetter(keyless).key == Array("apns.requests/3/1234".utf8),
            "a record of a compacted topic must have a key")
    }

    @Test func `A rejected record of an unregistered token becomes a dead letter that names the topic`() throws {
        let record = OwnedRecord(key: Array("abcd".utf8), value: Array(#"{"device_token":"abcd"}"#.utf8), headers: [])
        let letter = try decoded(
            ReducedRecord.deadLetter(
                ofOutput: record, of: "apns.unregistered", because: .named("INVALID_RECORD"), atMs: 9))
        #expect(letter.reason == "output-refused")
        #expect(letter.detail == "the broker rejected the record for topic apns.unregistered: INVALID_RECORD")
        #expect(letter.place == "apns.unregistered/-1/-1" && letter.value == record.value)
    }

    private func decoded(_ record: OwnedRecord) throws -> DeadLetter {
        try DeadLetter(
            key: record.key, value: record.value,
            headers: record.headers.map {
                HeaderField(String(decoding: $0.name, as: UTF8.self), $0.value ?? [])
            })
    }
}
