import Bytes
import JSON

/// A JSON value under construction, to which an `Encodable` type adds members or elements. The type can request its
/// containers more than once and in any order.
final class EncodedNode {
    private enum Shape {
        case nothing
        case value(PayloadValue)
        case array([EncodedNode])
        case object([String: EncodedNode])
        /// The type encoded one value in two ways, for example as an object and as an array. This is an error.
        case conflicting
    }

    private var shape = Shape.nothing

    /// Returns the finished value. A node without content becomes an empty object, as for a structure without members.
    func value(_ path: [any CodingKey]) throws(RequestError) -> PayloadValue {
        try Self.check(path)
        switch shape {
        case .nothing: return .object([:])
        case .value(let value): return value
        case .array(let nodes):
            var values: [PayloadValue] = []
            values.reserveCapacity(nodes.count)
            for (index, node) in nodes.enumerated() { values.append(try node.value(path + [PathKey(index)])) }
            return .array(values)
        case .object(let nodes):
            var members: [String: PayloadValue] = [:]
            for (name, node) in nodes { members[name] = try node.value(path + [PathKey(name)]) }
            return .object(members)
        case .conflicting:
            throw RequestError(
                .badRequestPayload,
                "\(EncodingPath.text(path)) must be encoded as one kind of value: object, array or single value")
        }
    }

    func set(_ value: PayloadValue) {
        if case .nothing = shape { shape = .value(value) } else { shape = .conflicting }
    }

    func becomeObject() {
        switch shape {
        case .nothing: shape = .object([:])
        case .object: break
        case .value, .array, .conflicting: shape = .conflicting
        }
    }

    func becomeArray() {
        switch shape {
        case .nothing: shape = .array([])
        case .array: break
        case .value, .object, .conflicting: shape = .conflicting
        }
    }

    /// Adds a member and returns its node. If a name occurs twice, the last member is used.
    func member(_ name: String) -> EncodedNode {
        let node = EncodedNode()
        guard case .object(var nodes) = shape else { return node }
        // Release the reference in `shape`, so that the change does not copy the dictionary.
        shape = .nothing
        nodes[name] = node
        shape = .object(nodes)
        return node
    }

    var count: Int {
        if case .array(let nodes) = shape { nodes.count } else { 0 }
    }

    /// Appends an element and returns its node.
    func element() -> EncodedNode {
        let node = EncodedNode()
        guard case .array(var nodes) = shape else { return node }
        shape = .nothing
        nodes.append(node)
        shape = .array(nodes)
        return node
    }

    func encode<T: Encodable>(_ value: T, _ path: [any CodingKey]) throws {
        try Self.check(path)
        switch value {
        case let value as Bool: set(.bool(value))
        case let value as String: set(.string(value))
        case let value as Double: set(try Self.number(value, value, path))
        // The shortest text of a `Float` is used, so that 0.1 does not become 0.10000000149.
        case let value as Float: set(try Self.number(value, Double("\(value)") ?? Double(value), path))
        // An integer that does not fit into `Int64` is written as its digits.
        case let value as any BinaryInteger:
            set(Int64(exactly: value).map { .integer($0) } ?? .encoded(Array("\(value)".utf8)))
        default:
            switch FoundationType(T.self) {
            case .data: set(.string(try Self.base64(value, path)))
            case .url: set(.string(try Self.absolute(value, path)))
            case .decimal: set(.encoded(Array("\(value)".utf8)))
            case nil: try value.encode(to: NodeEncoder(node: self, codingPath: path))
            }
        }
    }

    private static func number<F: BinaryFloatingPoint>(
        _ value: F, _ double: Double, _ path: [any CodingKey]
    ) throws(RequestError) -> PayloadValue {
        guard value.isFinite else {
            throw RequestError(.badRequestPayload, "\(EncodingPath.text(path)): JSON cannot represent \(value)")
        }
        return .number(double)
    }

    /// Throws if the nesting is too deep, to protect the stack. `PayloadValue.write` checks the depth inside the
    /// payload.
    private static func check(_ path: [any CodingKey]) throws(RequestError) {
        if path.count > JSONScanner.depthLimit {
            throw RequestError(
                .badRequestPayload, "\(EncodingPath.text(Array(path.prefix(3))))… is nested deeper than 64 levels")
        }
    }

    /// Returns the base64 text of `Data`. By itself, `Data` encodes as an array of numbers.
    private static func base64(_ data: some Encodable, _ path: [any CodingKey]) throws -> String {
        let node = EncodedNode()
        try data.encode(to: NodeEncoder(node: node, codingPath: path))
        guard case .array(let elements) = try node.value(path) else { return "" }
        let bytes = elements.map { element -> UInt8 in
            if case .integer(let byte) = element { UInt8(truncatingIfNeeded: byte) } else { 0 }
        }
        return String(decoding: Base64.standard.encode(bytes), as: UTF8.self)
    }

    /// Returns the text of a `URL`. By itself, a `URL` encodes as an object. Throws for a relative URL.
    private static func absolute(_ url: some Encodable, _ path: [any CodingKey]) throws -> String {
        let node = EncodedNode()
        try url.encode(to: NodeEncoder(node: node, codingPath: path))
        guard case .object(let members) = try node.value(path), case .string(let text)? = members["relative"],
            members["base"] == nil
        else {
            throw RequestError(
                .badRequestPayload, "\(EncodingPath.text(path)) is a relative URL; encode its absoluteString instead")
        }
        return text
    }
}

/// The Foundation types that `JSONEncoder` treats specially, recognized by name, since Foundation is not imported.
enum FoundationType {
    case data, url, decimal

    init?(_ type: Any.Type) {
        switch String(reflecting: type) {
        case "Foundation.Data", "FoundationEssentials.Data": self = .data
        case "Foundation.URL", "FoundationEssentials.URL": self = .url
        case "Foundation.Decimal", "FoundationEssentials.Decimal", "__C.NSDecimal": self = .decimal
        default: return nil
        }
    }
}
