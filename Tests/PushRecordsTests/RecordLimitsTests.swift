import JSON
import Testing

@testable import PushRecords

/// The largest sizes of records. Texts of many lengths and of every byte go through the parser and all writers.
@Suite struct RecordLimitsTests {
    @Test func `The largest records are within their limits`() {
        let app = RecordApp(name: String(repeating: "a", count: 500), environment: .development)
        let long = lend(Array(repeating: 0x61, count: 2_000))
        let copied = [RecordHeader(name: lend("x"), value: lend(Array(repeating: 0x62, count: 1_023)))]
        var fixture = ContentFixture(isBroadcast: true)
        fixture.content.token = lend(Array(repeating: 0x63, count: 2_000))
        fixture.content.headers.topic = long
        fixture.content.requestKey = long
        fixture.content.app = 0
        fixture.content.request = RequestPlace(topic: long, partition: .min, offset: .min, index: .min)
        fixture.content.requestedAtMs = RecordTime.latestMs
        let detail = Detail(
            """
            a text that leaves a subject of one hundred bytes no more room than there is for it, so long is this one, \
            which goes on and on until nothing else could ever be said in it
            """, long)
        let ending = Ending(
            outcome: .unregistered, status: .max, reason: .other, reasonText: long, detail: detail, uniqueID: long,
            unregisteredAtMs: .min, attempts: .min, inDoubt: .min, sentAtMs: .min, settledAtMs: .min)
        copied.withUnsafeBufferPointer { copied in
            fixture.content.copiedHeaders = copied
            var results = ResultWriter(apps: [app])
            #expect(size(results.write(fixture.content, ending)) <= RecordLimits.result)
            var tokens = UnregisteredWriter(apps: [app])
            #expect(size(tokens.write(fixture.content, ending)) <= RecordLimits.unregistered)
            var letters = DeadLetterWriter()
            let headers = letters.headers(
                original: copied, place: fixture.content.request, timestampMs: .min, reason: .unreadableHeaders,
                detail: detail, truncatedBytes: .min)
            let grown = headers.reduce(-1_024) { $0 + $1.name.count + $1.value.count }
            #expect(grown <= RecordLimits.deadLetterGrowth)
        }
    }

    @Test func `A retry record cuts the key and the reason`() {
        let long = lend(Array(repeating: 0x61, count: 2_000))
        var fixture = ContentFixture()
        fixture.content.requestKey = long
        let order = RetryOrder(attempt: 1, dueMs: 0, reason: long, sends: 1, inDoubt: 0)
        var retries = RetryWriter(apps: ContentFixture.apps)
        let written = retries.write(fixture.content, order).headerTexts
        #expect(written.contains("push-retry-key=" + String(repeating: "a", count: RecordLimits.key)))
        #expect(written.contains("push-retry-reason=" + String(repeating: "a", count: RecordLimits.reason)))
    }

    // MARK: Any input

    private static let lengths = [0, 1, 63, 64, 65, 99, 100, 101, 199, 200, 201, 255, 256, 257, 511, 512, 513]

    private static func texts() -> [[UInt8]] {
        var texts: [[UInt8]] = []
        for length in lengths {
            for unit in ["a", "\"", "\\", "\u{1}", "é", "€", "𝄞", "1"].map({ Array($0.utf8) })
                + [[0xFF], [0xC3], [0xF0, 0x9D], [0x80]]
            {
                texts.append((0..<length).map { unit[$0 % unit.count] })
            }
        }
        for byte in UInt8.min ... .max {
            texts.append(Array(repeating: byte, count: 513))
            texts.append(Array("abc".utf8) + [byte] + Array("def".utf8))
        }
        return texts
    }

    private static let fields =
        ["traceparent", "x-copied", "\u{1}other", "key"] + HeaderName.allCases.map(\.text.description)

    @Test(arguments: [RecordRole.request, .retry])
    func `Any text in any header stays within the limits`(role: RecordRole) throws {
        var path = Path()
        let headers = role == .retry ? RetryTests.fields : [("apns-topic", "com.example.shop")]
        for text in Self.texts() where role == .request || text.count < 300 || text.first == 1 {
            for field in Self.fields {
                var record = OwnedRecord(key: tokenA, hi, headers)
                if field == "key" {
                    record.key = text
                } else {
                    let name = Array(field.utf8)
                    record.headers.removeAll { $0.name == name }
                    record.headers.append(OwnedRecord.Header(name, text))
                }
                try path.check(record, role)
            }
        }
    }

    @Test func `Any text in any member of an envelope stays within the limits`() throws {
        var path = Path()
        func quoted(_ text: [UInt8]) -> String {
            var json = JSONWriter()
            text.withUnsafeBytes { json.value(string: $0) }
            return json.text
        }
        for text in Self.texts() + [Array(repeating: 0x61, count: 900_000)] {
            let word = quoted(text)
            for members in [
                #""device_token":\#(word)"#, #""channel_id":\#(word)"#,
                #""device_tokens":[\#(word),"ab",\#(word)]"#, #""device_token":"ab","app":\#(word)"#,
                #""device_token":"ab","headers":{"apns-topic":\#(word)}"#,
                #""device_token":"ab","headers":{"apns-collapse-id":\#(word)}"#,
                #""device_token":"ab","headers":{\#(word):1}"#, #""device_token":"ab",\#(word):1"#,
                #""device_token":"ab","environment":\#(word)"#,
            ] {
                var record = OwnedRecord(#"{"payload":{"a":1},\#(members)}"#)
                record.key = text
                try path.check(record, .request)
            }
        }
    }

    // MARK: Limits of the parser

    /// A text that is longer than its limit is cut, even if it makes the request invalid.
    @Test func `The parser cuts every text at its limit`() {
        let long = String(repeating: "x", count: 1_000_000)
        var parser = RequestParser(copyHeaders: ["x-copied"])
        let found = parser.parse(
            OwnedRecord(
                key: long, hi,
                [
                    ("push-device-token", long), ("apns-topic", long), ("apns-collapse-id", long), ("push-app", long),
                    ("x-copied", long), ("traceparent", "t"), ("apns-channel-id", nil),
                ]))
        #expect(found.isInvalid && found.reason == .badTopic && found.subject.utf8.count == 100)
        #expect(found.token.utf8.count == 201 && found.topic.utf8.count == 255 && found.collapseID.utf8.count == 64)
        #expect(found.app.utf8.count == 101 && found.copied == ["traceparent=t"])
        #expect(found.key == nil, "key and token are the same")
        let other = parser.parse(OwnedRecord(key: long, hi, [("apns-channel-id", long + "y")]))
        #expect(other.channelID.utf8.count == 200 && other.key?.utf8.count == 512 && other.reason == .badChannelId)
        let list = parser.parse(OwnedRecord(key: long, #"{"device_tokens":["ab"],"payload":{}}"#))
        #expect(list.key?.utf8.count == 512 && !list.isInvalid)
    }

    /// A token or an app's name that is too long is invalid, although the cut text could be valid.
    @Test func `A text that was cut does not count as valid`() {
        var parser = RequestParser()
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: DeviceToken.textLimit, alignment: 1)
        for count in [202, 300, 1_000] {
            let found = parser.parse(OwnedRecord(key: String(repeating: "a", count: count), hi))
            #expect(DeviceToken.normalize(lend(found.token), into: room).failure == .badDeviceToken)
        }
        let app = String(repeating: "a", count: 100)
        #expect(parser.parse(OwnedRecord(key: tokenA, hi, [("push-app", app)])).isInvalid == false)
        let longer = parser.parse(OwnedRecord(key: tokenA, hi, [("push-app", app + "a")]))
        #expect(longer.isInvalid && longer.app != app)
    }

    @Test func `A long text is cut between characters`() throws {
        var fixture = ContentFixture()
        for (unit, count) in [("é", 256), ("€", 170), ("𝄞", 128), ("a", 512), ("\"", 256), ("\u{1}", 85)] {
            fixture.content.requestKey = lend(String(repeating: unit, count: 600))
            var writer = ResultWriter(apps: ContentFixture.apps)
            let record = writer.write(
                fixture.content,
                Ending(outcome: .accepted, attempts: 1, inDoubt: 0, sentAtMs: 1, settledAtMs: 2))
            let key = try DeliveryResult(json: record.value).request.key
            #expect(key == String(repeating: unit, count: count))
        }
    }
}

func size(_ record: EncodedRecord) -> Int {
    record.headers.reduce(record.key.count + record.value.count) { $0 + $1.name.count + $1.value.count }
}

/// Parses a record as a worker does, and writes every kind of record that it could become.
private struct Path: ~Copyable {
    private var parser = RequestParser(copyHeaders: ["x-copied"])
    private var results = ResultWriter(apps: ContentFixture.apps)
    private var tokens = UnregisteredWriter(apps: ContentFixture.apps)
    private var retries = RetryWriter(apps: ContentFixture.apps, group: String(repeating: "g", count: 300))
    private var letters = DeadLetterWriter()
    private var checked = 0
    private let room = UnsafeMutableRawBufferPointer.allocate(byteCount: DeviceToken.textLimit, alignment: 1)
    private let topic = lend(String(repeating: "t", count: RecordLimits.kafkaTopic))

    deinit {
        room.deallocate()
        topic.deallocate()
    }

    mutating func check(_ record: OwnedRecord, _ role: RecordRole) throws {
        try record.withLent { (key, value, headers) -> Result<Void, any Error> in
            Result { try check(key, value, headers, role, record.byteCount) }
        }.get()
    }

    private mutating func check(
        _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ headers: UnsafeBufferPointer<RecordHeader>,
        _ role: RecordRole, _ size: Int
    ) throws {
        let request = parser.parse(key: key, value: value, headers: headers, role: role)
        expect(request.headers.topic.count <= RecordLimits.topic, "topic")
        expect(request.headers.collapseID.count <= RecordLimits.collapseID, "collapse id")
        expect(request.channelID.count <= RecordLimits.channelID, "channel id")
        expect(request.token.count <= RecordLimits.deviceToken + 1, "token")
        expect(request.app.count <= RecordLimits.app + 1, "app")
        expect(request.key.count <= RecordLimits.key, "key")
        expect(request.detail.subject.count <= RecordLimits.detailSubject, "subject")
        let copied = request.copiedHeaders.reduce(0) { $0 + $1.name.count + $1.value.count }
        expect(copied <= RecordLimits.copiedBytes && request.copiedHeaders.count <= 32, "copied headers")
        if let retry = request.retry { try checkRetry(retry) }

        let place = RequestPlace(topic: topic, partition: .max, offset: .max, index: 9_999)
        let letter = letters.headers(
            original: headers, place: place, timestampMs: .min, reason: request.deadLetter ?? .workerCrashed,
            detail: request.detail, truncatedBytes: .max)
        let grown = letter.reduce(key.count + value.count) { $0 + $1.name.count + $1.value.count } - size
        expect(grown <= RecordLimits.deadLetterGrowth, "a dead letter's growth: \(grown)")
        var token = request.channelID
        switch request.target {
        case .none: return
        case .channel: break
        case .device:
            let normalized = DeviceToken.normalize(request.token, into: room)
            token = UnsafeRawBufferPointer(rebasing: room[..<normalized.count])
        case .devices:
            var cursor = TokenCursor()
            let normalized = cursor.next(in: request.tokenList, into: room)
            token = UnsafeRawBufferPointer(rebasing: room[..<(normalized?.count ?? 0)])
        }
        try write(request, token, place, size)
    }

    private func checkRetry(_ retry: RetryFields) throws {
        for count in [retry.attempt, retry.sends, retry.inDoubt] {
            expect(count >= 0 && count <= RecordLimits.count, "a count")
        }
        for time in [retry.dueMs, retry.firstMs] { expect(RecordTime.checked(time) == time, "a time") }
        expect(retry.request.topic.count <= RecordLimits.kafkaTopic && retry.request.index < 10_000, "a place")
        expect(retry.reason.count <= RecordLimits.reason, "a reason")
    }

    private mutating func write(
        _ request: ParsedRequest, _ token: UnsafeRawBufferPointer, _ place: RequestPlace, _ size: Int
    ) throws {
        var headers = request.headers
        headers.apnsID = NotificationUUID(high: 1, low: 2)
        let content = NotificationContent(
            token: token, isBroadcast: request.target == .channel, headers: headers, app: 1, payload: request.payload,
            request: place, requestKey: request.key, requestedAtMs: RecordTime.latestMs,
            copiedHeaders: request.copiedHeaders)
        let ending = Ending(
            outcome: .invalid, status: .max, reason: .other, reasonText: request.retry?.reason ?? request.headers.topic,
            detail: request.detail, uniqueID: request.headers.topic, unregisteredAtMs: .min, attempts: .max,
            inDoubt: .max, sentAtMs: .max, settledAtMs: .max)
        let result = results.write(content, ending)
        let resultSize = PushRecordsTests.size(result)
        expect(resultSize <= RecordLimits.result, "a result of \(resultSize) bytes")
        // The decoder is slower than everything else together, so it reads only some results.
        checked += 1
        if checked % 8 == 0 || size > 10_000 {
            _ = try DeliveryResult(json: result.value)
            let reduced = try #require(ReducedRecord.result(owned(result)))
            expect(reduced.byteCount <= RecordLimits.reduced, "a reduced result of \(reduced.byteCount) bytes")
        }

        let dead = PushRecordsTests.size(tokens.write(content, ending))
        expect(dead <= RecordLimits.unregistered, "a dead token of \(dead) bytes")

        let order = RetryOrder(
            attempt: .max, dueMs: .max, notBefore: request.notBefore, reason: ending.reasonText, sends: .max,
            inDoubt: .max, triedApp: ending.reasonText)
        let retry = PushRecordsTests.size(retries.write(content, order))
        expect(retry <= size + RecordLimits.retryGrowth, "a retry record of \(retry) bytes for one of \(size)")
    }

    private func expect(_ holds: Bool, _ what: @autoclosure () -> String) {
        if !holds { Issue.record("beyond its limit: \(what())") }
    }
}
