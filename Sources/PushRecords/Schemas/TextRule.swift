/// What a text may be, as its schema says it.
///
/// Patterns are those that ECMA-262 (which JSON Schema names), Python, Java, .NET, PCRE and RE2 read alike: nothing
/// that looks ahead. Some of these let `$` stand before a last line feed, too; so no text that has a pattern may end
/// with white space, which is said by itself.
enum TextRule {
    /// 1 to so many bytes of printable ASCII, without a space at either end.
    case plain(Int)
    /// One of these.
    case words([String])
    /// One of these numbers, in decimal without a sign; where JSON has numbers, as a number, too.
    case numbers([Int64])
    /// A number from 0 to this one, in at most 19 digits without a sign; where JSON has numbers, as a number, too.
    case upTo(UInt32)
    /// A UUID in digits of either case, and not the nil one.
    case uuid
    /// 1 to 100 bytes in hex.
    case deviceToken
    /// 1 to so many bytes, whatever they are.
    case name(Int)
    /// At most so many bytes, whatever they are.
    case any(Int)
    /// `topic/partition/offset/index`.
    case place
    /// A Kafka topic's name.
    case kafkaTopic
    /// A number without leading zeros, of at most so many digits; `orMinus`: or a negative one.
    case digits(Int, orMinus: Bool = false)
}

extension TextRule {
    /// The schema of a text; `isMember`: of a member of an envelope, which may be null, and a number where the rule
    /// says so.
    func schema(isMember: Bool) -> SchemaTree {
        let type: SchemaTree = isMember ? ["string", "null"] : "string"
        func like(_ pattern: String, maxLength: Int, never: String = #"\s$"#, minLength: Int = 1) -> SchemaTree {
            [
                "type": type, "minLength": .number(Int64(minLength)), "maxLength": .number(Int64(maxLength)),
                "pattern": .string(pattern), "not": ["type": "string", "pattern": .string(never)],
            ]
        }
        switch self {
        case .plain(let limit): return like("^[!-~]([ -~]*[!-~])?$", maxLength: limit)
        case .words(let words): return ["enum": .array(words.map { .string($0) } + (isMember ? [.null] : []))]
        case .numbers(let numbers):
            let texts = numbers.map { SchemaTree.string("\($0)") }
            return ["enum": .array(isMember ? numbers.map { .number($0) } + texts + [.null] : texts)]
        case .upTo(let most):
            let pattern = "^0*(\(Self.decimals(upTo: most)))$"
            let text = like(pattern, maxLength: 19)
            guard isMember else { return text }
            return SchemaTree.object([.init("type", ["integer", "string", "null"])])
                .adding(["minimum": 0, "maximum": .number(Int64(most))]).adding(text.removing("type"))
        case .uuid:
            return like(
                "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$", maxLength: NotificationUUID.textCount,
                never: #"^[0-]*$|\s$"#, minLength: NotificationUUID.textCount)
        case .deviceToken:
            return like(Self.tokenPattern, maxLength: RecordLimits.deviceToken, minLength: 2)
        case .name(let limit): return ["type": type, "minLength": 1, "maxLength": .number(Int64(limit))]
        case .any(let limit): return ["type": type, "maxLength": .number(Int64(limit))]
        case .place:
            return like(
                "^[A-Za-z0-9._-]{1,249}/(0|[1-9][0-9]{0,8})/(0|[1-9][0-9]{0,17})/(0|[1-9][0-9]{0,3})$",
                maxLength: RecordLimits.place)
        case .kafkaTopic: return like("^[A-Za-z0-9._-]+$", maxLength: RecordLimits.kafkaTopic)
        case .digits(let count, let orMinus):
            return like(
                "^(\(orMinus ? "-[1-9][0-9]{0,\(count - 1)}|" : "")0|[1-9][0-9]{0,\(count - 1)})$", maxLength: count + 1
            )
        }
    }

    static let tokenPattern = "^([0-9A-Fa-f]{2}){1,100}$"

    /// The decimal numbers from 0 to `most`, without leading zeros, as a pattern of alternatives.
    static func decimals(upTo most: UInt32) -> String {
        let digits = Array("\(most)".utf8).map { Int($0 - 0x30) }
        func any(_ count: Int) -> String { count == 0 ? "" : count == 1 ? "[0-9]" : "[0-9]{\(count)}" }
        var alternatives = digits.count > 1 ? ["[0-9]"] : []
        if digits.count > 2 { alternatives.append("[1-9][0-9]{1,\(digits.count - 2)}") }
        // Those of as many digits: the same beginning, then a smaller digit, then any.
        for (place, digit) in digits.enumerated() {
            let least = place == 0 && digits.count > 1 ? 1 : 0
            guard digit > least else { continue }
            let beginning = digits[..<place].map(String.init).joined()
            let smaller = digit - 1 == least ? "\(least)" : "[\(least)-\(digit - 1)]"
            alternatives.append(beginning + smaller + any(digits.count - place - 1))
        }
        return (alternatives + ["\(most)"]).joined(separator: "|")
    }
}

/// What a schema says of a header: the rule of its value, and a line for people.
struct HeaderRule {
    var value: TextRule
    var description: String

    init(_ value: TextRule, _ description: String) {
        self.value = value
        self.description = description
    }

    /// - Parameter isMember: of an envelope's `headers`.
    func schema(isMember: Bool) -> SchemaTree {
        let value = value.schema(isMember: isMember)
        return description.isEmpty ? value : value.adding(["description": .string(description)])
    }
}

extension HeaderName {
    /// What schemas say of it.
    var rule: HeaderRule {
        switch self {
        case .topic:
            HeaderRule(
                .plain(RecordLimits.topic),
                "Sent as it is. Absent: the app's only bundle id, with the suffix that apns-push-type wants")
        case .pushType:
            HeaderRule(.words(PushType.allCases.map(\.text.description)), "Absent: alert, of a broadcast liveactivity")
        case .priority: HeaderRule(.numbers([1, 5, 10]), "Of a background notification 5 only")
        case .expiration: HeaderRule(.upTo(.max), "Seconds since 1970; 0: now or never")
        case .apnsID: HeaderRule(.uuid, "Absent: derived from the request's place")
        case .channelID:
            HeaderRule(
                .plain(RecordLimits.channelID),
                "A broadcast, instead of a device: apns-topic is the bundle id alone, apns-push-type liveactivity")
        case .deviceToken:
            HeaderRule(
                .deviceToken, "Absent: the key is the device token, of 64 or more hex digits (or it is a broadcast)")
        case .app: HeaderRule(.name(RecordLimits.app), "An app of the worker's configuration; \(Self.bytes)")
        case .environment: HeaderRule(.words(PushEnvironment.allCases.map(\.text.description)), "Of that app")
        case .notBefore: HeaderRule(.upTo(.max), Self.notBeforeMeaning)
        case .retryRequest: HeaderRule(.place, "Where the original request is")
        case .retryAttempt: HeaderRule(.digits(7), "Stays in a retry topic that were used up")
        case .retryDue: HeaderRule(.digits(15), "Milliseconds since 1970; 0: at once")
        case .retryFirst: HeaderRule(.digits(15), "The original's timestamp; 0: unknown")
        case .retryKey: HeaderRule(.any(RecordLimits.key), "The original's key, where it is not the device token; cut")
        case .retryReason: HeaderRule(.name(RecordLimits.reason), "Apple's word, or held or scheduled")
        case .retrySends: HeaderRule(.digits(7), "Becomes attempts of the result")
        case .retryInDoubt: HeaderRule(.digits(7), "Becomes in_doubt of the result")
        case .retryTried:
            HeaderRule(
                .name(RecordLimits.app), "The app of the other environment, which answered BadDeviceToken before")
        }
    }

    static let bytes = "100 bytes in UTF-8 at most"
    static let notBeforeMeaning = "Sent then, and not before: seconds since 1970; 0: at once"
}

extension KnownHeader {
    /// What schemas say of it.
    var rule: HeaderRule {
        if let name { return name.rule }
        return HeaderRule(.plain(textHeader?.row.limit ?? 0), "")
    }
}
