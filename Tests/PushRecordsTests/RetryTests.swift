import PushRecords
import Testing

@Suite struct RetryTests {
    static let fields: [(String, String?)] = [
        ("push-device-token", tokenA), ("push-retry-request", "apns.requests/3/1234/7"), ("push-retry-attempt", "2"),
        ("push-retry-due-ms", "1790000000123"), ("push-retry-first-ms", "1780000000000"), ("push-retry-key", "order-7"),
        ("push-retry-reason", "TooManyRequests"), ("push-retry-sends", "3"), ("push-retry-in-doubt", "1"),
        ("push-retry-tried", "shop"),
    ]

    private func parse(_ headers: [(String, String?)], value: String = hi, role: RecordRole = .retry) -> OwnedRequest {
        PushRecordsTests.parse(OwnedRecord(key: tokenA, value, headers), role: role)
    }

    /// All but the first five are optional.
    @Test(arguments: [fields.count, 5])
    func `Every header of a retry record is read`(count: Int) {
        let found = parse(Array(Self.fields[..<count]))
        var expected = OwnedRetry(
            request: "apns.requests/3/1234/7", attempt: 2, dueMs: 1_790_000_000_123, firstMs: 1_780_000_000_000)
        if count > 5 {
            (expected.reason, expected.sends, expected.inDoubt, expected.triedApp) = ("TooManyRequests", 3, 1, "shop")
        }
        #expect(found.retry == expected && found.token == tokenA && !found.isInvalid)
        #expect(found.key == (count > 5 ? "order-7" : nil))
    }

    /// A payload that looks like an envelope is still a payload.
    @Test func `A retry record is always in payload form`() {
        let value = #"{"payload":{},"device_token":"\#(tokenB)"}"#
        let found = parse(Self.fields, value: value)
        #expect(found.form == .payload && found.payload == value && found.token == tokenA && !found.isInvalid)
    }

    @Test(
        arguments: [
            ("push-retry-request", nil), ("push-retry-attempt", nil), ("push-retry-due-ms", nil),
            ("push-retry-first-ms", nil), ("push-retry-request", "apns.requests/3/1234"),
            ("push-retry-request", "/3/1/0"),
            ("push-retry-request", "a/b/1/0"), ("push-retry-request", "a b/3/1/0"), ("push-retry-request", "a/3/1/0/"),
            ("push-retry-request", "a/4294967296/1/0"), ("push-retry-request", ""), ("push-retry-attempt", "x"),
            ("push-retry-attempt", "-1"), ("push-retry-due-ms", ""),
            ("push-retry-sends", "many"), ("push-retry-in-doubt", "1.0"), ("push-retry-sends", "-1"),
            ("push-retry-attempt", "99999999999999999999"), ("push-retry-due-ms", "-"), ("push-retry-first-ms", "--1"),
            ("push-retry-request", "a/3/1/10000"), ("push-retry-request", "a/3/9223372036854775808/0"),
        ] as [(String, String?)])
    func `A record with a missing or damaged header is a dead letter`(name: String, value: String?) {
        let found = parse(Self.fields.filter { $0.0 != name } + [(name, value)])
        #expect(found.deadLetter == .badRetryHeaders && found.target == .none)
    }

    /// The limit keeps counts from overflowing.
    @Test(
        arguments: [
            ("-1", nil, 0), ("0", 0, 0), ("1", 1, 1), ("1000000", 1_000_000, 1_000_000), ("1000001", 1_000_000, nil),
            ("2147483647", 1_000_000, nil), ("2147483648", 1_000_000, nil), ("999999999999999999", 1_000_000, 0),
            ("253402300799999", 1_000_000, 253_402_300_799_999), ("253402300800000", 1_000_000, 0),
            ("9223372036854775807", 1_000_000, 0), ("-9223372036854775807", nil, 0),
        ] as [(String, Int32?, Int64?)])
    func `Counts are clamped to their limit, and invalid times are unknown`(text: String, count: Int32?, time: Int64?) {
        func read(_ names: [String]) -> OwnedRetry? {
            parse(Self.fields.filter { !names.contains($0.0) } + names.map { ($0, text) }).retry
        }
        let counted = read(["push-retry-attempt", "push-retry-sends", "push-retry-in-doubt"])
        #expect([counted?.attempt, counted?.sends, counted?.inDoubt] == [count, count, count])
        guard let time else { return }
        let timed = read(["push-retry-due-ms", "push-retry-first-ms"])
        #expect(timed?.dueMs == time && timed?.firstMs == time)
    }

    /// The token is in a header if the parser would not read the key as the token.
    @Test(arguments: [(tokenA, false), (String(tokenA.prefix(62)), true)])
    func `The token is in the key or in a header, not in both`(token: String, inHeader: Bool) {
        let fixture = ContentFixture(token: token)
        var writer = RetryWriter(apps: ContentFixture.apps)
        let order = RetryOrder(attempt: 1, dueMs: 2, reason: .nothing, sends: 0, inDoubt: 0)
        let record = writer.write(fixture.content, order)
        #expect(record.headerTexts.contains("push-device-token=\(token)") == inHeader)
        let found = PushRecordsTests.parse(owned(record), role: .retry)
        #expect(found.token == token && found.target == .device && !found.isInvalid)
    }

    @Test(arguments: [false, true])
    func `The parser reads the retry records that the writer writes`(isBroadcast: Bool) throws {
        let fixture = ContentFixture(isBroadcast: isBroadcast)
        var writer = RetryWriter(apps: ContentFixture.apps, group: "workers")
        let reason = lend("InternalServerError")
        let order = RetryOrder(
            attempt: 4, dueMs: 1_790_000_000_999, notBefore: 1_790_000_123, reason: reason, sends: 6, inDoubt: 2,
            triedApp: lend("shop"))
        let record = writer.write(fixture.content, order)
        #expect(text(record.key) == fixture.token)
        #expect(text(record.value) == hi)
        #expect(RetryWriter.group(in: Array(record.headers)).map { text($0) } == "workers")
        let found = PushRecordsTests.parse(owned(record), role: .retry)
        let expected = OwnedRequest(
            target: isBroadcast ? .channel : .device, token: isBroadcast ? "" : fixture.token, tokenCount: 1,
            channelID: isBroadcast ? fixture.token : "", payload: hi, topic: "com.example.shop", collapseID: "score",
            app: "shop", environment: .development, pushType: isBroadcast ? .liveactivity : .alert, priority: 10,
            expiration: 1_795_000_000, notBefore: 1_790_000_123, apnsID: fixture.content.headers.apnsID.description,
            key: "user-\u{FFFD}1", copied: ["traceparent=00-ab"],
            retry: OwnedRetry(
                request: "apns.requests/3/1234/7", attempt: 4, dueMs: 1_790_000_000_999, firstMs: 1_780_000_000_000,
                reason: "InternalServerError", sends: 6, inDoubt: 2, triedApp: "shop"))
        #expect(found == expected)
    }

    @Test func `Absent values are omitted from a retry record`() {
        var fixture = ContentFixture()
        fixture.content.headers = ParsedRequest.Headers()
        fixture.content.app = -1
        fixture.content.requestKey = fixture.content.token
        fixture.content.copiedHeaders = UnsafeBufferPointer(start: nil, count: 0)
        var writer = RetryWriter(apps: [])
        let order = RetryOrder(attempt: 1, dueMs: 2, reason: .nothing, sends: 0, inDoubt: 0)
        let names = writer.write(fixture.content, order).headers.map { text($0.name) }
        #expect(
            names == [
                "apns-push-type", "push-retry-request", "push-retry-attempt", "push-retry-due-ms",
                "push-retry-first-ms",
                "push-retry-sends", "push-retry-in-doubt",
            ])
    }
}
