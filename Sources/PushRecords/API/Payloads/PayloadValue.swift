import JSON

/// A JSON value of a payload. Literals spell most of them:
///
/// ```swift
/// payload.custom["order"] = ["id": 4711, "items": ["tea", "milk"], "paid": true]
/// ```
public enum PayloadValue: Hashable, Sendable {
    case null
    case bool(Bool)
    case integer(Int64)
    /// Must be finite.
    case number(Double)
    case string(String)
    case array([PayloadValue])
    /// Written in the order of the names, so that equal values are equal bytes.
    case object([String: PayloadValue])
    /// JSON made elsewhere (by `JSONEncoder`, for example): one value, written as it is.
    case encoded([UInt8])
}

extension PayloadValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByStringInterpolation, ExpressibleByArrayLiteral,
    ExpressibleByDictionaryLiteral
{
    public init(nilLiteral: ()) { self = .null }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(integerLiteral value: Int64) { self = .integer(value) }
    public init(floatLiteral value: Double) { self = .number(value) }
    public init(stringLiteral value: String) { self = .string(value) }
    public init(arrayLiteral elements: PayloadValue...) { self = .array(elements) }

    /// Of a name that comes twice, the last value counts.
    public init(dictionaryLiteral elements: (String, PayloadValue)...) {
        self = .object(Dictionary(elements) { $1 })
    }
}

extension PayloadValue {
    func write(to json: inout JSONWriter, _ member: String) throws(RequestError) {
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
            json.beginArray()
            for element in elements { try element.write(to: &json, member) }
            json.endArray()
        case .object(let members):
            json.beginObject()
            try members.write(to: &json, member)
            json.endObject()
        case .encoded(let bytes):
            if let error = bytes.withUnsafeBytes({ JSONScanner.scan($0).error }) {
                throw RequestError(.badRequestPayload, "\(member) is not JSON: \(error)")
            }
            bytes.withUnsafeBytes { json.value(json: $0) }
        }
    }
}

extension [String: PayloadValue] {
    /// Writes the members, without braces, in the order of their names; `parent` is for what is wrong.
    func write(to json: inout JSONWriter, _ parent: String = "") throws(RequestError) {
        for (name, value) in sorted(by: { $0.key < $1.key }) {
            json.name(name)
            try value.write(to: &json, parent.isEmpty ? name : "\(parent).\(name)")
        }
    }
}
