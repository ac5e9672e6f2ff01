import Bytes
import Foundation

@testable import PushRecords

/// A rule of the worker that JSON Schema cannot express. The raw value is a part of the schema's description.
enum BeyondSchemas: String, CaseIterable {
    /// A schema cannot reject a repeated name, because it is given each name once.
    case twice = "is repeated"
    /// JSON Schema counts characters.
    case bytes = "up to 100 bytes in UTF-8"
    /// A schema is given the parsed value, so it cannot limit the size of the text.
    case size = "up to 4096 bytes, 5120 for voip and broadcasts"
    case depth = "levels of nesting"
    case halfSurrogate = #"no escape of an unpaired surrogate (\ud83d alone)"#
    /// JSON Schema calls 10, 10.0 and 1e1 one integer.
    case digits = "a number is written in digits alone"
    /// A schema cannot compare two values.
    case order = "apns-expiration is 0 or later than"

    var schemas: [RecordSchema] {
        switch self {
        case .twice, .bytes, .order: [.requestHeaders, .envelope]
        case .size, .depth, .halfSurrogate: [.payload, .envelope]
        case .digits: [.envelope]
        }
    }
}

/// A value just inside or outside a limit, and the rule beyond schemas that the value breaks, if any.
struct Edge {
    var text: String
    var beyond: BeyondSchemas?

    init(_ text: String, _ beyond: BeyondSchemas? = nil) {
        self.text = text
        self.beyond = beyond
    }
}

extension [Edge] {
    fileprivate init(_ texts: String...) { self = texts.map { Edge($0) } }
}

/// Draws random records. Most are valid, the others have one or two wrong values.
struct DrawnRequest {
    var key: String?
    var value = ""
    var headers: [(name: String, value: String?)] = []
    var beyond: Set<BeyondSchemas> = []

    /// The values of an envelope's `apns-expiration`.
    private var expirations: [String] = []
    private var random: SplitMix64
    private let oddity: Double

    /// - Parameter oddity: the probability that a value is wrong.
    init(_ form: ParsedRequest.Form, _ random: inout SplitMix64, oddity: Double) {
        self.random = random
        self.oddity = oddity
        if form == .payload { drawPayloadForm() } else { drawEnvelopeForm() }
        random = self.random
    }

    var record: OwnedRecord {
        OwnedRecord(key: key, value, headers.map { ($0.name, $0.value) })
    }

    // MARK: Values

    private static func many(_ unit: String, _ count: Int) -> String { String(repeating: unit, count: count) }

    private static let plainOdd = [
        "", " a", "a ", "a\n", "\n", "\"a\"", "\"\"", "é", "a\u{7F}", "a\tb", "a\u{0}b", "\u{1F}", "aé", "a\r",
    ]

    /// Right and wrong texts of each header.
    private static func edges(_ header: HeaderName) -> (right: [Edge], wrong: [Edge]) {
        func plain(_ limit: Int) -> (right: [Edge], wrong: [Edge]) {
            (
                [
                    Edge("a"), Edge("~"), Edge("!"), Edge("a b"), Edge(many("a", limit)),
                    Edge("a" + many(" ", limit - 2) + "b"),
                ],
                (plainOdd + [many("a", limit + 1), many("a", limit - 1) + "é", many("é", limit)]).map { Edge($0) }
            )
        }
        switch header {
        case .topic:
            let rule = plain(255)
            return (rule.right + [Edge("com.example.shop"), Edge(".push-type.liveactivity")], rule.wrong)
        case .pushType:
            return (
                PushType.allCases.map { Edge($0.text.description) }, .init("", "Alert", "alert ", "alert\n", "alerts")
            )
        case .priority:
            return (.init("1", "5", "10"), .init("", "0", "2", "05", "10 ", "+5", "1.0", "100", "five", "5\n", "-1"))
        case .expiration, .notBefore:
            return (
                .init(
                    "0", "00", "1", "9", "10", "99", "999999999", "1000000000", "3999999999", "4294967294",
                    "4294967295",
                    "0000000000000000000", "0000000004294967295", "4200000000", "4294967199"),
                .init(
                    "", "4294967296", "4294967300", "4294968000", "4300000000", "5000000000", "10000000000", "-1",
                    "1.5", " 1", "1 ",
                    "1\n", "1e3", "00000000004294967295", "99999999999999999999", "+1", "0x1")
            )
        case .apnsID:
            return (
                .init(
                    "123e4567-e89b-12d3-a456-4266554400a0", "123E4567-E89B-12D3-A456-4266554400A0",
                    "00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
                .init(
                    "", "00000000-0000-0000-0000-000000000000", "123e4567-e89b-12d3-a456-4266554400a",
                    "123e4567-e89b-12d3-a456-4266554400a00", "123e4567-e89b-12d3-a456-4266554400g0",
                    "{123e4567-e89b-12d3-a456-4266554400a0}", "123e4567e89b12d3a4564266554400a0",
                    "123e4567-e89b-12d3-a456-4266554400a0\n", "123e4567-e89b12-d3-a456-4266554400a0")
            )
        case .channelID: return plain(200)
        case .deviceToken:
            return (
                .init("ab", "AB", "0f", many("ab", 32), many("aB", 100), many("00", 99)),
                .init(
                    "", "a", "abc", "xy", "ab\n", "ab ", " ab", many("ab", 100) + "c", many("ab", 101), "\"ab\"", "é",
                    "<ab>")
            )
        case .app:
            return (
                .init("shop", many("a", 100), many("é", 50), "a b", " ", "\n", "漢"),
                [
                    Edge(""), Edge("\"shop\""), Edge(many("a", 101)), Edge(many("é", 51), .bytes),
                    Edge(many("é", 100), .bytes),
                    Edge(many("é", 101)),
                ]
            )
        case .environment:
            return (.init("production", "development"), .init("", "prod", "Production", "sandbox", "development\n"))
        case .retryRequest, .retryAttempt, .retryDue, .retryFirst, .retryKey, .retryReason, .retrySends, .retryInDoubt,
            .retryTried:
            // A request must not have these headers, whatever their value.
            return (.init("", "x"), .init("x"))
        case .collapseID: return plain(RecordLimits.collapseID)
        }
    }

    /// - Parameter more: raises the probability, so that values which break `BeyondSchemas` rules occur often enough.
    private mutating func isOdd(more: Bool = false) -> Bool {
        if more, chance(0.15) { return true }
        return chance(oddity)
    }
    private mutating func chance(_ probability: Double) -> Bool {
        Double.random(in: 0..<1, using: &random) < probability
    }
    private mutating func pick<T>(_ list: [T]) -> T { list.randomElement(using: &random)! }

    private mutating func text(of header: HeaderName) -> String {
        let (right, wrong) = Self.edges(header)
        return take(pick(isOdd(more: header == .app) ? wrong : right))
    }

    private mutating func take(_ edge: Edge) -> String {
        if let beyond = edge.beyond { self.beyond.insert(beyond) }
        return edge.text
    }

    // MARK: Payloads

    /// - Parameter room: the maximum number of nested levels.
    private mutating func payload(room: Int) -> String {
        guard isOdd(more: true) else {
            return pick([
                "{}", #"{"aps":{"alert":"Hi"}}"#, #"{"a":"\ud83d\ude00é\\ud83d"}"#, #" {"a" : [1e400, -0.0, null]}"#,
            ])
        }
        switch Int.random(in: 0..<8, using: &random) {
        case 0, 1:
            let count = pick([4_095, 4_096, 4_097, 5_119, 5_120, 5_121])
            if count > 4_096 { beyond.insert(.size) }
            let unit = pick(["x", "é"])
            let inside = Self.many(unit, (count - 8) / unit.utf8.count)
            return #"{"a":"\#(inside)\#(Self.many("x", count - 8 - inside.utf8.count))"}"#
        case 2, 3:
            let levels = room + pick([-1, 0, 1])
            if levels > room { beyond.insert(.depth) }
            return #"{"a":"# + Self.many("[", levels - 1) + "1" + Self.many("]", levels - 1) + "}"
        case 4, 5:
            beyond.insert(.halfSurrogate)
            return pick([#"{"a":"\ud83d"}"#, #"{"a":"x\ude00"}"#, #"{"\uDBFF":1}"#, #"{"a":["\ud83d\ud83d\ude00"]}"#])
        default: return pick(["[]", "null", "1", "true", #""{}""#, "[{}]"])
        }
    }

    // MARK: Payload form

    private mutating func drawPayloadForm() {
        key = pick([tokenA, tokenA.uppercased(), Self.many("ab", 100)])
        let isBroadcast = chance(0.25)
        if isBroadcast {
            add(.channelID)
            key = pick([nil, "any", tokenA])
        } else if chance(0.4) {
            add(.deviceToken)
            key = pick([nil, "user-1", tokenB])
        } else if isOdd() {
            key = pick([
                nil, "", "user-1", Self.many("a", 63), Self.many("a", 65), Self.many("x", 64), Self.many("ab", 31),
            ])
        }
        for header in HeaderName.allCases where header != .channelID && header != .deviceToken {
            guard chance(header.isRetry ? 0.003 : 0.3) else { continue }
            // Otherwise most broadcasts and background notifications would be invalid.
            if header == .pushType, isBroadcast, !isOdd() {
                headers.append(("apns-push-type", "liveactivity"))
            } else if header == .priority, headers.contains(where: { $0.value == "background" }), !isOdd() {
                headers.append(("apns-priority", "5"))
            } else {
                add(header)
            }
        }
        if isOdd() { add(pick([.channelID, .deviceToken])) }
        if isOdd() { headers.append(("apns-topic", pick(["a.push-type.liveactivity", ".push-type.liveactivity"]))) }
        if chance(0.2) {
            let foreign = ["traceparent", "x-mine", "push", "apns", "apnsx-a", "PUSH-DLQ-a", "id", ""]
            headers.append((pick(foreign), "v"))
        }
        if isOdd() {
            let others = [
                "Apns-Topic", "apns-topik", "push-", "apns-", "PUSH-APP", "push-retr-x", "apns-retry-x", "push-dlqx",
                "Push-Retry-X",
            ]
            headers.append((pick(others), "v"))
        }
        if chance(0.1) { headers.append((pick(["apns-priority", "push-app"]), nil)) }
        if isOdd(), let header = headers.last(where: { $0.name.hasPrefix("apns-") && $0.value != nil }) {
            beyond.insert(.twice)
            headers.append(header)
        }
        if headers.count != Set(headers.map(\.name)).count { beyond.insert(.twice) }
        func texts(_ name: HeaderName) -> [String] {
            headers.filter { $0.name == name.text.description }.compactMap(\.value)
        }
        order(texts(.expiration), texts(.notBefore))
        headers.shuffle(using: &random)
        value = payload(room: 64)
        if chance(0.03) {
            value = pick([
                #"{"payload":{},"channel_id":null}"#, #"{"payload":{},"device_token":"ab","aps":{}}"#,
                #"{"payload":{}}"#,
            ])
        }
    }

    /// Notes a request that expires before it may be sent.
    private mutating func order(_ expirations: [String], _ notBefores: [String]) {
        for expiration in expirations.compactMap({ UInt32($0) }) where expiration > 0 {
            if notBefores.contains(where: { UInt32($0).map { $0 >= expiration } ?? false }) { beyond.insert(.order) }
        }
    }

    private mutating func add(_ header: HeaderName) {
        headers.append((header.text.description, text(of: header)))
    }

    // MARK: Envelope form

    private typealias Members = [(name: String, value: String)]

    private mutating func drawEnvelopeForm() {
        var members: Members = []
        var isBroadcast = false
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
            members.append(("channel_id", quoted(text(of: .channelID))))
            isBroadcast = true
        case 1: members.append(("device_tokens", list()))
        default: members.append(("device_token", quoted(text(of: .deviceToken))))
        }
        if isOdd() { members[0].value = pick(["null", "1", "{}", "[]", #"["ab"]"#, #""ab""#, "true"]) }
        let isSecondTarget = isOdd()
        let other = pick(["device_token", "device_tokens", "channel_id"])
        if other != members[0].name, isSecondTarget || chance(0.1) {
            members.append((other, isSecondTarget ? pick(["null", #""ab""#, #"["ab"]"#]) : "null"))
        }
        if chance(0.3) { members.append(("app", member(.app))) }
        if chance(0.3) { members.append(("environment", member(.environment))) }
        if chance(0.4) { members.append(("not_before", notBefore())) }
        if chance(0.7) {
            members.append(("headers", isOdd() ? pick(["null", "[]", "1", #""x""#]) : headersObject(isBroadcast)))
        }
        if !isOdd() || chance(0.5) { members.append(("payload", payload(room: 63))) }
        if isOdd() { members.append((pick(["priority", "Payload", "", "apns-topic", "aps"]), "1")) }
        if isOdd() {
            beyond.insert(.twice)
            members.append(pick(members))
        }
        order(expirations, members.filter { $0.name == "not_before" }.map(\.value))
        members.shuffle(using: &random)
        value = object(members)
        key = pick([nil, "campaign", tokenA])
        if chance(0.2) {
            headers.append((pick(["traceparent", "x-mine", "push-dlq-reason"]), "v"))
        }
        if isOdd() {
            headers.append((pick(["apns-topic", "push-app", "Push-x", "apns-", "push-", "push-retry-key"]), "v"))
        }
    }

    private mutating func list() -> String {
        if isOdd() {
            return pick(["[]", #"[""]"#, #"["ab",1]"#, #"["ab","zz"]"#, #"["ab",null]"#, #"[["ab"]]"#, #"["abc"]"#])
        }
        if chance(0.006) {
            let count = pick([9_999, 10_000, 10_001])
            return "[" + Self.many("\"ab\",", count - 1) + "\"ab\"]"
        }
        let count = pick([1, 1, 2, 3, 7])
        return "["
            + (0..<count).map { _ in quoted(pick(["ab", "AB", tokenA, Self.many("0f", 100)])) }.joined(separator: ", ")
            + "]"
    }

    /// A value of `not_before`.
    private mutating func notBefore() -> String {
        isOdd(more: true)
            ? wrongNumber("-1", "1790000000000", #""1790000000""#, "true", "[]")
            : pick(["null", "0", "1", "1790000000", "4294967294", "4294967295"])
    }

    /// A number that is neither a time nor a priority: one of `others`, a number out of range, or one not in digits.
    private mutating func wrongNumber(_ others: String...) -> String {
        let edges = ["10.0", "1e1", "-0", "4294967295.0"].map { Edge($0, .digits) }
        return take(pick(edges + (["4294967296", "1.5"] + others).map { Edge($0) }))
    }

    private mutating func headersObject(_ isBroadcast: Bool) -> String {
        var members: Members = []
        for header in HeaderName.allCases where header.isOfEnvelope && chance(0.3) {
            let name = header.text.description
            if header == .pushType, isBroadcast, !isOdd() {
                members.append((name, pick([#""liveactivity""#, "null"])))
            } else if header == .priority, members.contains(where: { $0.value == #""background""# }),
                !isOdd()
            {
                members.append((name, pick(["5", #""5""#, "null"])))
            } else {
                members.append((name, member(header)))
            }
        }
        if isOdd() { members.append(("apns-topic", #""a.push-type.liveactivity""#)) }
        if isOdd() { members.append((pick(["apns-channel-id", "push-app", "apns-topik", "x", ""]), #""v""#)) }
        if isOdd(), !members.isEmpty { members.append(pick(members)) }
        if members.count != Set(members.map(\.name)).count { beyond.insert(.twice) }
        expirations = members.filter { $0.name == HeaderName.expiration.text.description }.compactMap { member in
            let value = try? JSONSerialization.jsonObject(with: Data(member.value.utf8), options: .fragmentsAllowed)
            return value as? String ?? (value as? NSNumber)?.stringValue
        }
        members.shuffle(using: &random)
        return object(members)
    }

    /// The value of a header as a member: a text, a number, null, or something else.
    private mutating func member(_ header: HeaderName) -> String {
        if chance(0.1) { return "null" }
        if isOdd() { return pick(["true", "[]", "{}", "1.5", "-1", "1e99", "7"]) }
        guard header == .priority || header == .expiration, chance(0.5) else { return quoted(text(of: header)) }
        if isOdd(more: true) { return wrongNumber("2", "0.5", "-5") }
        return header == .priority
            ? pick(["1", "5", "10"]) : pick(["0", "1", "4294967294", "4294967295", "1790000000"])
    }

    // MARK: JSON

    /// A JSON string, sometimes with unusual escapes.
    private mutating func quoted(_ text: String) -> String {
        var json = ""
        for scalar in text.unicodeScalars {
            if scalar.value < 0x20 || scalar == "\"" || scalar == "\\" || (scalar.value < 0x10000 && chance(0.01)) {
                let hex = String(scalar.value, radix: 16)
                json += "\\u" + Self.many("0", 4 - hex.count) + hex
            } else {
                json.unicodeScalars.append(scalar)
            }
        }
        return "\"\(json)\""
    }

    private mutating func object(_ members: Members) -> String {
        let space = pick(["", " ", "\n "])
        return "{" + space
            + members.map { "\(quoted($0.name))\(space):\(space)\($0.value)" }.joined(separator: "\(space),") + "}"
    }
}
