import JSON

/// A JSON value in a payload. Most values can be written as literals:
///
/// ```swift
/// payload.custom["order"] = ["id": 4711, "items": ["tea", "milk"], "paid": true]
/// ```
///
/// Use `init(encoding:)` for your own types.
public enum PayloadValue: Hashable, Sendable {
    /// The JSON value `null`.
    case null
    /// The JSON value `true` or `false`.
    case bool(Bool)
    /// An integer.
    case integer(Int64)
    /// A floating-point number, which must be finite.
    case number(Double)
    /// A string.
    case string(String)
    /// An array.
    case array([PayloadValue])
    /// An object. Members are written in the order of their names, so that equal values have equal JSON.
    case object([String: PayloadValue])
    /// A value that is encoded as JSON already. The library validates these bytes and writes them unchanged.
    case encoded([UInt8])
}

extension PayloadValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByStringInterpolation, ExpressibleByArrayLiteral,
    ExpressibleByDictionaryLiteral
{
    /// Creates the JSON value `null`.
    public init(nilLiteral: ()) { self = .null }
    /// Creates a Boolean value.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// Creates an integer.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// Creates a floating-point number.
    public init(floatLiteral value: Double) { self = .number(value) }
    /// Creates a string.
    public init(stringLiteral value: String) { self = .string(value) }
    /// Creates an array.
    public init(arrayLiteral elements: PayloadValue...) { self = .array(elements) }

    /// Creates an object. If a name occurs twice, the last value wins.
    public init(dictionaryLiteral elements: (String, PayloadValue)...) {
        self = .object(Dictionary(elements) { $1 })
    }
}

extension PayloadValue {
    /// Whether the value is written as a JSON object.
    var isObject: Bool {
        switch self {
        case .object: true
        case .encoded(let bytes): bytes.withUnsafeBytes { JSONScanner.scan($0).kind == .object }
        case .null, .bool, .integer, .number, .string, .array: false
        }
    }

    /// Writes the value as JSON. Throws if a number is not finite, encoded bytes are not JSON, or the nesting is too
    /// deep.
    ///
    /// - Parameters:
    ///   - member: The path of the value in the payload, for error messages.
    ///   - depth: The nesting level if the value is an array or object. The payload itself is level 1.
    func write(to json: inout JSONWriter, _ member: String, depth: Int) throws(RequestError) {
        switch self {
        case .null: json.null()
        case .bool(let value): json.value(value)
        case .integer(let value): json.value(value)
        case .number(let value):
            guard value.isFinite else {
                throw RequestError(.badRequestPayload, "\(member): JSON cannot represent \(value)")
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

    /// Throws if the nesting is too deep, so that the recursion cannot overflow the stack.
    private static func check(_ depth: Int, _ member: String) throws(RequestError) {
        if depth > JSONScanner.depthLimit {
            throw RequestError(.badRequestPayload, "\(member.prefix(100)) is nested deeper than 64 levels")
        }
    }
}

extension [String: PayloadValue] {
    /// Writes the members without braces, in the byte order of their names, which does not depend on a Unicode version.
    func write(to json: inout JSONWriter, _ parent: String = "", depth: Int = 2) throws(RequestError) {
        for (name, value) in sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }) {
            json.name(name)
            try value.write(to: &json, parent.isEmpty ? name : "\(parent).\(name)", depth: depth)
        }
    }
}
