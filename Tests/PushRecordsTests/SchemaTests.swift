import Foundation
import PushRecords
import Testing

/// As much of JSON Schema as the product's schemas use; what a value breaks, in words.
struct SchemaCheck {
    let schema: [String: Any]

    init(_ schema: RecordSchema) throws {
        let object = try JSONSerialization.jsonObject(with: Data(schema.text.description.utf8))
        self.schema = try #require(object as? [String: Any])
    }

    func faults(_ json: some Collection<UInt8>) throws -> [String] {
        let value = try JSONSerialization.jsonObject(with: Data(json), options: [.fragmentsAllowed])
        return Self.faults(value, schema, "")
    }

    static let known: Set<String> = [
        "$schema", "title", "description", "type", "enum", "required", "properties", "additionalProperties", "oneOf",
        "propertyNames", "items", "minItems", "maxItems", "minLength", "maxLength", "pattern", "minimum", "maximum",
        "anyOf", "allOf", "not", "if", "then",
    ]

    static func faults(_ value: Any, _ schema: [String: Any], _ path: String) -> [String] {
        var faults = schema.keys.filter { !known.contains($0) }.map { "\(path): the test does not know \($0)" }
        let types = (schema["type"] as? [String]) ?? (schema["type"] as? String).map { [$0] }
        if let types, !types.contains(where: { isA($0, value) }) { faults.append("\(path): not \(types)") }
        if let allowed = schema["enum"] as? [Any], !allowed.contains(where: { ($0 as! NSObject).isEqual(value) }) {
            faults.append("\(path): not among \(allowed)")
        }
        if let alternatives = schema["oneOf"] as? [[String: Any]],
            alternatives.count(where: { Self.faults(value, $0, path).isEmpty }) != 1
        {
            faults.append("\(path): not exactly one alternative")
        }
        faults += conditionFaults(value, schema, path)
        if let object = value as? [String: Any] { faults += objectFaults(object, schema, path) }
        if let list = value as? [Any] {
            if list.count < schema["minItems"] as? Int ?? 0 { faults.append("\(path): too few") }
            if list.count > schema["maxItems"] as? Int ?? .max { faults.append("\(path): too many") }
            if let items = schema["items"] as? [String: Any] {
                faults += list.flatMap { Self.faults($0, items, path + "[]") }
            }
        }
        if let text = value as? String {
            if text.count < schema["minLength"] as? Int ?? 0 { faults.append("\(path): too short") }
            if text.count > schema["maxLength"] as? Int ?? .max { faults.append("\(path): too long") }
            if let pattern = schema["pattern"] as? String, text.range(of: pattern, options: .regularExpression) == nil {
                faults.append("\(path): not like \(pattern)")
            }
        } else if isA("integer", value), let number = (value as? NSNumber)?.int64Value {
            if number < schema["minimum"] as? Int64 ?? .min { faults.append("\(path): too small") }
            if number > schema["maximum"] as? Int64 ?? .max { faults.append("\(path): too large") }
        }
        return faults
    }

    private static func conditionFaults(_ value: Any, _ schema: [String: Any], _ path: String) -> [String] {
        func holds(_ other: [String: Any]) -> Bool { Self.faults(value, other, path).isEmpty }
        var faults: [String] = []
        if let all = schema["allOf"] as? [[String: Any]] { faults += all.flatMap { Self.faults(value, $0, path) } }
        if let any = schema["anyOf"] as? [[String: Any]], !any.contains(where: holds) {
            faults.append("\(path): no alternative")
        }
        if let not = schema["not"] as? [String: Any], holds(not) { faults.append("\(path): is what it must not be") }
        if let condition = schema["if"] as? [String: Any], holds(condition), let then = schema["then"] as? [String: Any]
        {
            faults += Self.faults(value, then, path)
        }
        return faults
    }

    private static func objectFaults(_ object: [String: Any], _ schema: [String: Any], _ path: String) -> [String] {
        var faults: [String] = []
        for name in schema["required"] as? [String] ?? [] where object[name] == nil {
            faults.append("\(path): no \(name)")
        }
        let properties = schema["properties"] as? [String: [String: Any]] ?? [:]
        for (name, member) in object {
            if let names = schema["propertyNames"] as? [String: Any] {
                faults += Self.faults(name, names, "\(path).\(name)")
            }
            if let property = properties[name] {
                faults += Self.faults(member, property, "\(path).\(name)")
            } else if schema["additionalProperties"] as? Bool == false {
                faults.append("\(path): \(name) is not allowed")
            }
        }
        return faults
    }

    private static func isA(_ type: String, _ value: Any) -> Bool {
        switch type {
        case "object": return value is [String: Any]
        case "array": return value is [Any]
        case "null": return value is NSNull
        case "string": return value is String
        case "integer": return (value as? NSNumber).map { $0.doubleValue == $0.doubleValue.rounded() } == true
        default: return false
        }
    }
}

@Suite struct SchemaTests {
    /// Whatever the worker writes, its schema allows.
    @Test func resultsAndDeadTokens() throws {
        let results = try SchemaCheck(.result)
        let tokens = try SchemaCheck(.unregistered)
        var writer = ResultWriter(apps: ContentFixture.apps)
        var unregistered = UnregisteredWriter(apps: ContentFixture.apps)
        for outcome in Outcome.allCases {
            for isBroadcast in [false, true] {
                for isBare in [false, true] {
                    var fixture = ContentFixture(isBroadcast: isBroadcast)
                    var ending = Ending(
                        outcome: outcome, status: 410, reason: .unregistered, detail: Detail("d", lend("s")),
                        uniqueID: lend("u"), unregisteredAtMs: 5, attempts: 2, inDoubt: 1, sentAtMs: 3, settledAtMs: 4)
                    if isBare {
                        fixture.content.headers.apnsID = .none
                        fixture.content.app = -1
                        fixture.content.headers.topic = .nothing
                        fixture.content.requestKey = .nothing
                        ending = Ending(
                            outcome: outcome, attempts: 0, inDoubt: 0, sentAtMs: 0, settledAtMs: 4)
                    }
                    #expect(
                        try results.faults(writer.write(fixture.content, ending).value).joined(separator: "; ") == "")
                    #expect(
                        try tokens.faults(unregistered.write(fixture.content, ending).value).joined(separator: "; ")
                            == "")
                }
            }
        }
        // But for the id, which the worker writes in lower case, and a reader takes in either.
        #expect(try results.faults(Array(DecoderTests.result.utf8)).count == 1)
        #expect(try results.faults(Array(#"{"outcome":"lost","attempts":-1}"#.utf8)).count == 6)
    }

    /// The headers that the worker writes, as objects of texts.
    @Test func headers() throws {
        func faults(_ schema: RecordSchema, _ headers: UnsafeBufferPointer<RecordHeader>) throws -> String {
            let object = Dictionary(headers.map { (text($0.name), text($0.value)) }) { $1 }
            return try SchemaCheck(schema).faults(JSONEncoder().encode(object)).joined(separator: "; ")
        }
        for isBroadcast in [false, true] {
            let fixture = ContentFixture(isBroadcast: isBroadcast)
            var results = ResultWriter(apps: ContentFixture.apps)
            let ending = Ending(
                outcome: .rejected, status: 400, reason: .badTopic, attempts: 1, inDoubt: 0, sentAtMs: 3, settledAtMs: 4
            )
            #expect(try faults(.resultHeaders, results.write(fixture.content, ending).headers) == "")
            var retries = RetryWriter(apps: ContentFixture.apps)
            let order = RetryOrder(
                attempt: 1, dueMs: 5, notBefore: 4_294_967_295, reason: lend("TooManyRequests"), sends: 1, inDoubt: 0,
                triedApp: lend("shop"))
            let retry = retries.write(fixture.content, order)
            #expect(try faults(.retryHeaders, retry.headers) == "")
            #expect(try faults(.requestHeaders, retry.headers) == "")
            #expect(try faults(.resultHeaders, retry.headers) != "")
            var letters = DeadLetterWriter()
            for reason in DeadLetterReason.allCases {
                let headers = letters.headers(
                    original: fixture.content.copiedHeaders, place: fixture.content.request, timestampMs: -1,
                    reason: reason, detail: Detail("d", lend("s")), truncatedBytes: 5)
                #expect(try faults(.deadLetterHeaders, headers) == "")
            }
            #expect(try faults(.deadLetterHeaders, retry.headers) != "")
        }
    }

    @Test func `the schema of dead letters lists every reason`() throws {
        let properties = try SchemaCheck(.deadLetterHeaders).schema["properties"] as? [String: [String: Any]]
        let listed = try #require(properties?["push-dlq-reason"]?["description"] as? String)
        let known = DeadLetterReason.allCases.map(\.text.description)
        #expect(listed.components(separatedBy: ", ") == known + ["output-too-large", "output-refused"])
    }

    /// The schema and the parser agree on what a request's headers may be called.
    @Test(arguments: [
        ("apns-collapse-id", true), ("push-app", true), ("x-mine", true), ("Push-Retry-X", true),
        ("push-dlq-reason", true),
        ("Apns-Collapse-Id", false), ("apns-collapse-ids", false), ("xapns-a", true), ("push-", false),
        ("PUSH-APP", false), ("push-not-befor", false), ("Push-Replay-Of", false), ("push-replay-off", false),
        ("push-replay-of", true),
    ])
    func headerNames(name: String, isValid: Bool) throws {
        let faults = try SchemaCheck(.requestHeaders).faults(Array("{\"\(name)\":\"shop\"}".utf8))
        #expect(faults.isEmpty == isValid, "\(faults)")
        var parser = RequestParser()
        #expect(parser.parse(TestRecord(key: tokenA, hi, [(name, "shop")])).isInvalid == !isValid)
    }

    /// The schema and the parser agree on what an envelope is.
    @Test(arguments: [
        (#""device_token":"00""#, true), (#""device_tokens":["00","AbCd"],"app":"shop""#, true),
        (#""channel_id":"YQ==","headers":{"apns-priority":"5"}"#, true), (#""device_token":"00","headers":null"#, true),
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
    ])
    func envelopes(members: String, isValid: Bool) throws {
        let json = #"{"payload":{"a":1},\#(members)}"#
        #expect(try SchemaCheck(.envelope).faults(Array(json.utf8)).isEmpty == isValid)
        var parser = RequestParser()
        let found = parser.parse(TestRecord(json))
        let badToken = DeviceToken.normalize(lend(found.token), into: .allocate(byteCount: 200, alignment: 1)).failure
        let isRefused =
            found.isInvalid || found.deadLetter != nil || (found.target == .device && badToken != .none)
        #expect(isRefused != isValid)
    }
}
