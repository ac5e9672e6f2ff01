import Bytes
import Foundation
import TestSupport
import Testing

@testable import PushRecords

/// The worker accepts exactly the requests that their schema allows, except for the rules in `BeyondSchemas`. The
/// records are random, with valid and invalid values near every limit.
@Suite struct SchemaAgreementTests {
    private static let count = 1_000

    private struct Comparison {
        var drawn: DrawnRequest
        var isTaken: Bool
        var isAllowed = true
    }

    private func compare(
        seed: UInt64, _ form: ParsedRequest.Form, oddity: Double,
        _ schemas: (headers: RecordSchema, value: RecordSchema),
        allowsTarget: (DrawnRequest) -> Bool
    ) throws {
        var random = SplitMix64(seed: seed)
        var judge = SchemaJudge()
        var parser = RequestParser()
        var comparisons: [Comparison] = []
        for _ in 0..<Self.count {
            let drawn = DrawnRequest(form, &random, oddity: oddity)
            comparisons.append(
                Comparison(
                    drawn: drawn, isTaken: Self.isTaken(parser.parse(drawn.record), as: form),
                    isAllowed: allowsTarget(drawn)))
            try judge.ask(schemas.headers, headers: drawn.record.headers)
            judge.ask(schemas.value, drawn.value.utf8)
        }
        for (place, verdict) in try judge.verdicts().enumerated() {
            #expect(verdict == .allowed || verdict == .refused, "\(verdict): \(comparisons[place / 2].drawn.value)")
            if verdict != .allowed { comparisons[place / 2].isAllowed = false }
        }
        var seen: Set<BeyondSchemas> = []
        for (place, one) in comparisons.enumerated() where one.isAllowed != one.isTaken {
            let record = "\(one.drawn.key ?? "no key") \(one.drawn.headers) \(one.drawn.value.prefix(500))"
            if one.isTaken {
                Issue.record("seed \(seed), \(place): the worker accepts a record that the schema rejects: \(record)")
            } else if one.drawn.beyond.isEmpty {
                Issue.record("seed \(seed), \(place): the worker rejects a record that the schema allows: \(record)")
            } else if one.drawn.beyond.count == 1 {
                seen.formUnion(one.drawn.beyond)
            }
        }
        let taken = comparisons.count(where: \.isTaken)
        #expect(taken > Self.count / 5 && taken < Self.count * 4 / 5, "\(taken) of \(Self.count) are accepted")
        // Every rule that the schemas cannot express was drawn, and was the only difference at least once.
        let expected = BeyondSchemas.allCases.filter {
            $0.schemas.contains(schemas.headers) || $0.schemas.contains(schemas.value)
        }
        #expect(seen == Set(expected))
    }

    /// Whether the worker sends all of the record's notifications, as far as that needs no configuration.
    private static func isTaken(_ request: OwnedRequest, as form: ParsedRequest.Form) -> Bool {
        guard request.form == form, request.deadLetter == nil, !request.isInvalid else { return false }
        switch request.target {
        case .none: return false
        case .channel: return true
        case .device: return isToken(request.token)
        // `readTokens` marks invalid tokens.
        case .devices: return request.tokens.allSatisfy { isToken($0) }
        }
    }

    private static func isToken(_ text: String) -> Bool { (try? DeviceToken(hex: text)) != nil }

    @Test(.needsSchemaJudge, .waiting, arguments: [1, 2] as [UInt64])
    func `The worker and the schema accept the same records in payload form`(seed: UInt64) throws {
        try compare(seed: seed, .payload, oddity: 0.06, (.requestHeaders, .payload)) { drawn in
            // The rule about the key cannot be part of a schema of headers or values.
            drawn.headers.contains { ["push-device-token", "apns-channel-id"].contains($0.name) && $0.value != nil }
                || Array((drawn.key ?? "").utf8).withUnsafeBytes { RequestParser.isTokenKey($0) }
        }
    }

    @Test(.needsSchemaJudge, .waiting, arguments: [1, 2] as [UInt64])
    func `The worker and the schema accept the same records in envelope form`(seed: UInt64) throws {
        try compare(seed: seed, .envelope, oddity: 0.05, (.envelopeHeaders, .envelope)) { _ in true }
    }

    @Test(arguments: BeyondSchemas.allCases)
    func `The descriptions of schemas list the rules that schemas cannot express`(beyond: BeyondSchemas) throws {
        for schema in RecordSchema.allCases {
            let object = try schema.object()
            let names = (object["description"] as? String)?.contains(beyond.rawValue) == true
            #expect(names == beyond.schemas.contains(schema), "\(schema)")
        }
    }
}

/// Schemas allow what the worker writes, and readers read what schemas allow.
@Suite struct OutputSchemaTests {
    private static func text(_ random: inout SplitMix64, _ limit: Int) -> String {
        let unit = ["a", "é", "\"", "\u{1}", "漢", "😀", " "].randomElement(using: &random)!
        let count = [0, 1, 2, limit / unit.utf8.count].randomElement(using: &random)!
        return String(repeating: unit, count: count)
    }

    @Test(.needsSchemaJudge, .waiting, arguments: [1, 2] as [UInt64])
    func `Schemas allow the records that the worker writes`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var judge = SchemaJudge()
        var results = ResultWriter(apps: ContentFixture.apps)
        var tokens = UnregisteredWriter(apps: ContentFixture.apps)
        var retries = RetryWriter(apps: ContentFixture.apps)
        var letters = DeadLetterWriter()
        var asked: [String] = []
        func headers(_ list: UnsafeBufferPointer<RecordHeader>) -> [OwnedRecord.Header] {
            OwnedRecord(copying: .nothing, .nothing, headers: list).headers
        }
        for round in 0..<120 {
            func text(_ limit: Int) -> UnsafeRawBufferPointer { lend(Self.text(&random, limit)) }
            var fixture = ContentFixture(isBroadcast: Bool.random(using: &random))
            fixture.content.headers.topic = lend(
                ["", "a", String(repeating: "a", count: 255)].randomElement(using: &random)!)
            fixture.content.requestKey = text(600)
            fixture.content.app = Int.random(in: -1...1, using: &random)
            fixture.content.requestedAtMs = [0, -1, 1, RecordTime.latestMs, .max].randomElement(using: &random)!
            fixture.content.headers.priority = [0, 1, 5, 10].randomElement(using: &random)!
            fixture.content.headers.expiration = [nil, 0, .max].randomElement(using: &random)!
            if Bool.random(using: &random) { fixture.content.headers.apnsID = .none }
            fixture.content.request.index = [0, 9_999].randomElement(using: &random)!
            fixture.content.request.offset = [0, 999_999_999_999_999_999].randomElement(using: &random)!
            fixture.content.request.partition = [0, 999_999_999].randomElement(using: &random)!
            let ending = Ending(
                outcome: Outcome.allCases.randomElement(using: &random)!,
                status: [0, 200, 599].randomElement(using: &random)!,
                reason: ReasonCode.allCases.randomElement(using: &random)!, reasonText: text(70),
                detail: Detail(["", "detail"].randomElement(using: &random)!, text(300)), uniqueID: text(120),
                unregisteredAtMs: [0, 1, RecordTime.latestMs].randomElement(using: &random)!,
                attempts: [0, .max].randomElement(using: &random)!, inDoubt: [0, .max].randomElement(using: &random)!,
                sentAtMs: [0, RecordTime.latestMs].randomElement(using: &random)!, settledAtMs: RecordTime.latestMs)
            let result = results.write(fixture.content, ending)
            judge.ask(.result, result.value)
            try judge.ask(.resultHeaders, headers: headers(result.headers))
            judge.ask(.result, try #require(ReducedRecord.result(owned(result))?.value))
            let order = RetryOrder(
                attempt: [0, .max].randomElement(using: &random)!,
                dueMs: [0, 1, RecordTime.latestMs].randomElement(using: &random)!,
                notBefore: [0, 1, .max].randomElement(using: &random)!,
                reason: text(70), sends: .max, inDoubt: 0, triedApp: lend(["", "shop"].randomElement(using: &random)!))
            let retry = retries.write(fixture.content, order)
            try judge.ask(.retryHeaders, headers: headers(retry.headers))
            judge.ask(.payload, retry.value)
            let given = ReducedRecord.abandonedResult(ofRetry: owned(retry), because: .tooLarge, settledAtMs: 77)
            judge.ask(.result, try #require(given?.value))
            let letter = letters.headers(
                original: fixture.content.copiedHeaders, place: fixture.content.request,
                timestampMs: [-1, 0, 5].randomElement(using: &random)!,
                reason: DeadLetterReason.allCases.randomElement(using: &random)!, detail: ending.detail,
                truncatedBytes: [nil, 0].randomElement(using: &random)!)
            try judge.ask(.deadLetterHeaders, headers: headers(letter))
            let refused = ReducedRecord.deadLetter(
                ofOutput: OwnedRecord(key: nil, value: [0x7B], headers: []), of: "apns.results", because: .tooLarge,
                atMs: 9)
            try judge.ask(.deadLetterHeaders, headers: refused.headers)
            asked += (0..<8).map { "round \(round), \($0): \(PushRecordsTests.text(result.value))" }
            guard !fixture.content.isBroadcast else { continue }
            judge.ask(.unregistered, tokens.write(fixture.content, ending).value)
            asked.append("round \(round), a dead token")
        }
        for (verdict, what) in zip(try judge.verdicts(), asked) where verdict != .allowed {
            Issue.record("seed \(seed): \(verdict): \(what)")
        }
    }

    /// Valid and invalid values of each member.
    private static let members: [(name: String, values: [String])] = [
        ("outcome", [#""accepted""#, #""rejected""#, #""lost""#, "null", "1"]),
        ("status", ["200", "0", "65535", "65536", "-1", #""200""#]),
        ("reason", [#""BadTopic""#, #""""#, "1"]), ("detail", [#""x""#, #""\ud83d""#, "[]"]),
        ("unregistered_at_ms", ["0", "253402300799999", "253402300800000", "1e30"]),
        ("apns_id", [#""123e4567-e89b-12d3-a456-4266554400a0""#, #""123E4567-e89b-12d3-a456-4266554400a0""#, #""x""#]),
        ("apns_unique_id", [#""x""#, "1"]), ("device_token", [#""ab""#, #""""#, "1"]),
        ("channel_id", [#""c""#, #""""#]),
        ("apns_topic", [#""t""#]), ("app", [#""shop""#, "{}"]), ("environment", [#""production""#, #""prod""#]),
        ("attempts", ["0", "2147483647", "2147483648", "-1"]), ("in_doubt", ["0", "1"]),
        ("requested_at_ms", ["0", "253402300799999", "-1", "9223372036854775807", "1e30"]),
        ("sent_at_ms", ["1", #""1""#]),
        ("settled_at_ms", ["1"]), ("observed_at_ms", ["1", "-1", "true"]), ("added_later", ["{}", "null"]),
        (
            "request",
            [
                #"{"topic":"t","partition":0,"offset":0,"index":0}"#,
                #"{"topic":"t","partition":2147483647,"offset":9223372036854775807,"index":9999,"key":"k"}"#,
                #"{"topic":"t","partition":2147483648,"offset":0,"index":0}"#,
                #"{"topic":"t","partition":0,"offset":9223372036854775808,"index":0}"#,
                #"{"topic":"t","partition":0,"offset":0,"index":10000}"#, #"{"topic":"t"}"#, "[]",
            ]
        ),
    ]

    /// Draws most of the members or headers, each usually with its first value.
    private static func draw(
        _ pools: [(name: String, values: [String])], _ random: inout SplitMix64, presence: Double
    ) -> [(name: String, value: String)] {
        var drawn: [(name: String, value: String)] = []
        for (name, all) in pools where Double.random(in: 0..<1, using: &random) < presence {
            let isOther = Int.random(in: 0..<11, using: &random) == 0
            drawn.append((name, isOther ? all.randomElement(using: &random)! : all[0]))
        }
        return drawn
    }

    /// Expects that every value allowed by its schema was read.
    private static func compare(_ judge: SchemaJudge, _ read: [(isRead: Bool, value: String)]) throws {
        let allowed = zip(try judge.verdicts(), read).filter { $0.0 == .allowed }
        for (_, one) in allowed where !one.isRead { Issue.record("allowed and not read: \(one.value)") }
        #expect(allowed.count > read.count / 10 && allowed.count < read.count * 9 / 10, "\(allowed.count)")
    }

    @Test(.needsSchemaJudge, .waiting, arguments: [1, 2] as [UInt64])
    func `Readers accept the records that schemas allow`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var judge = SchemaJudge()
        var read: [(isRead: Bool, value: String)] = []
        for _ in 0..<1_000 {
            let members = Self.draw(Self.members, &random, presence: 0.85).map { "\"\($0.name)\":\($0.value)" }
            let value = "{" + members.shuffled(using: &random).joined(separator: ",") + "}"
            judge.ask(.result, value.utf8)
            judge.ask(.unregistered, value.utf8)
            read.append(((try? DeliveryResult(json: Array(value.utf8))) != nil, value))
            read.append(((try? UnregisteredToken(json: Array(value.utf8))) != nil, value))
        }
        try Self.compare(judge, read)
    }

    @Test(.needsSchemaJudge, .waiting)
    func `The worker accepts the retry records that their schema allows`() throws {
        let pools: [(name: String, values: [String])] = [
            (
                "push-retry-request",
                ["t/0/0/0", "t/999999999/999999999999999999/9999", "t/0/0/10000", "t/00/0/0", "t/0/0", "é/0/0/0"]
            ),
            ("push-retry-attempt", ["0", "9999999", "10000000", "-1", "01", ""]),
            ("push-retry-due-ms", ["0", "999999999999999", "1000000000000000", "x"]),
            ("push-retry-first-ms", ["0", "1780000000000", "-1"]), ("push-retry-sends", ["0", "9999999", "x"]),
            ("push-retry-in-doubt", ["0", "1", ""]), ("push-retry-reason", ["held", ""]),
            ("push-retry-key", ["", "k"]),
            ("push-retry-tried", ["shop", ""]), ("apns-push-type", ["alert", "background", "x"]),
            ("apns-priority", ["5", "10"]),
        ]
        var random = SplitMix64(seed: 3)
        var judge = SchemaJudge()
        var parser = RequestParser()
        var read: [(isRead: Bool, value: String)] = []
        for _ in 0..<1_000 {
            let headers = Self.draw(pools, &random, presence: 0.95).map { ($0.name, $0.value) as (String, String?) }
            let record = OwnedRecord(key: tokenA, hi, headers)
            try judge.ask(.retryHeaders, headers: record.headers)
            let found = parser.parse(record, role: .retry)
            read.append((found.retry != nil && !found.isInvalid, "\(headers)"))
        }
        try Self.compare(judge, read)
    }

    /// Headers of a retry record, and results with an id in upper case, an id in lower case, and invalid values.
    @Test(.needsSchemaJudge, .waiting) func `Schemas reject records of another kind`() throws {
        var judge = SchemaJudge()
        let fixture = ContentFixture()
        var retries = RetryWriter(apps: ContentFixture.apps)
        let order = RetryOrder(
            attempt: 1, dueMs: 5, notBefore: 4_294_967_295, reason: lend("TooManyRequests"), sends: 1, inDoubt: 0,
            triedApp: lend("shop"))
        let headers = owned(retries.write(fixture.content, order)).headers
        for schema in [RecordSchema.requestHeaders, .resultHeaders, .deadLetterHeaders] {
            try judge.ask(schema, headers: headers)
        }
        // The worker writes ids in lower case, but readers accept both cases.
        judge.ask(.result, DecoderTests.result.utf8)
        judge.ask(.result, DecoderTests.result.replacing(/"EABE[^"]*"/) { $0.output.lowercased() }.utf8)
        judge.ask(.result, #"{"outcome":"lost","attempts":-1}"#.utf8)
        #expect(try judge.verdicts() == [.refused, .refused, .refused, .refused, .allowed, .refused])
    }

    @Test func `The schema of dead letters lists every reason`() throws {
        let properties = try RecordSchema.deadLetterHeaders.object()["properties"] as? [String: [String: Any]]
        let listed = try #require(properties?["push-dlq-reason"]?["description"] as? String)
        let known = DeadLetterReason.allCases.map(\.text.description)
        #expect(listed.components(separatedBy: ", ") == known + ["output-too-large", "output-refused"])
    }
}
