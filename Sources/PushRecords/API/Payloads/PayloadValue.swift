import JSON

/// A JSON value of a payload. Most can be written as literals:
///
/// ```swift
/// payload.custom["order"] = ["id": 4711, "items": ["tea", "milk"], "paid": true]
/// ```
///
/// Values of your own types become one by `init(encoding:)`.
public enum PayloadValue: Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A whole number.
    case integer(Int64)
    /// Must be finite.
    case number(Double)
    /// A text.
    case string(String)
    /// Values in this order.
    case array([PayloadValue])
    /// Written in the order of the names, so that equal values are equal bytes.
    case object([String: PayloadValue])
    /// One value that is JSON already, written as it is.
    case encoded([UInt8])
}

extension PayloadValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByStringInterpolation, ExpressibleByArrayLiteral,
    ExpressibleByDictionaryLiteral
{
    /// `null`.
    public init(nilLiteral: ()) { self = .null }
    /// `true` or `false`.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// A whole number.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// A number.
    public init(floatLiteral value: Double) { self = .number(value) }
    /// A text.
    public init(stringLiteral value: String) { self = .string(value) }
    /// Values in this order.
    public init(arrayLiteral elements: PayloadValue...) { self = .array(elements) }

    /// If a name comes twice, the last value counts.
    public init(dictionaryLiteral elements: (String, PayloadValue)...) {
        self = .object(Dictionary(elements) { $1 })
    }
}

extension PayloadValue {
    /// Whether it is written as an object.
    var isObject: Bool {
        switch self {
        case .object: true
        case .encoded(let bytes): bytes.withUnsafeBytes { JSONScanner.scan($0).kind == .object }
        case .null, .bool, .integer, .number, .string, .array: false
        }
    }

    /// Writes the value.
    ///
    /// - Parameters:
    ///   - member: its path, for errors.
    ///   - depth: the level of an array or object here; the payload is the first.
    func write(to json: inout JSONWriter, _ member: String, depth: Int) throws(RequestError) {
        switch self {
        case .null: json.null()
        case .bool(let value): json.value(value)
        case .integer(let value): json.value(value)
        case .number(let value):
            guard value.isFinite else {
                throw RequestError(.badRequestPayload, "\(member): JSON has no word for \(value)")
            }
            json.value(value)
        case .string(let value): json.value(value)
        case .array(let elements):
            try Self.check(depth, member)
            json.beginArray()
            for element in elements { try element.write(to: &json, member, depth: depth + 1) }
            json.endArray()
        case .object(let members):
            try Self.check(depth, member)
            json.beginObject()
            try members.write(to: &json, member, depth: depth + 1)
            json.endObject()
        case .encoded(let bytes):
            if let error = bytes.withUnsafeBytes({ JSONScanner.scan($0).error }) {
                throw RequestError(.badRequestPayload, "\(member) is not JSON: \(error)")
            }
            bytes.withUnsafeBytes { json.value(json: $0) }
        }
    }

    /// Checks the depth before the stack is used up.
    private static func check(_ depth: Int, _ member: String) throws(RequestError) {
        if depth > JSONScanner.depthLimit {
            throw RequestError(.badRequestPayload, "\(member.prefix(100)) is nested deeper than 64 levels")
        }
    }
}

extension [String: PayloadValue] {
    /// Writes the members, without braces, in the order of their names' bytes, which no version of Unicode changes.
    func write(to json: inout JSONWriter, _ parent: String = "", depth: Int = 2) throws(RequestError) {
        for (name, value) in sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }) {
            json.name(name)
            try value.write(to: &json, parent.isEmpty ? name : "\(parent).\(name)", depth: depth)
        }
    }
}
