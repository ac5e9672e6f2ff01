import Bytes
import JSON

/// A value that is being made, and may be asked for containers more than once and in any order.
final class EncodedNode {
    private enum Shape {
        case nothing
        case value(PayloadValue)
        case array([EncodedNode])
        case object([String: EncodedNode])
        /// Asked for two kinds of container: a fault of the type's, which must not be written.
        case torn
    }

    private var shape = Shape.nothing

    /// What was made; nothing at all is an empty object, as of a structure without members.
    func value(_ path: [any CodingKey]) throws(RequestError) -> PayloadValue {
        try Self.check(path)
        switch shape {
        case .nothing: return .object([:])
        case .value(let value): return value
        case .array(let nodes):
            var values: [PayloadValue] = []
            values.reserveCapacity(nodes.count)
            for (index, node) in nodes.enumerated() { values.append(try node.value(path + [ElementKey(index)])) }
            return .array(values)
        case .object(let nodes):
            var members: [String: PayloadValue] = [:]
            for (name, node) in nodes { members[name] = try node.value(path + [NamedKey(name)]) }
            return .object(members)
        case .torn:
            throw RequestError(.badRequestPayload, "\(EncodingPath.text(path)) is encoded as values of two kinds")
        }
    }

    func set(_ value: PayloadValue) {
        if case .nothing = shape { shape = .value(value) } else { shape = .torn }
    }

    func becomeObject() {
        switch shape {
        case .nothing: shape = .object([:])
        case .object: break
        case .value, .array, .torn: shape = .torn
        }
    }

    func becomeArray() {
        switch shape {
        case .nothing: shape = .array([])
        case .array: break
        case .value, .object, .torn: shape = .torn
        }
    }

    /// A new member; of a name that comes twice, the last one counts.
    func member(_ name: String) -> EncodedNode {
        let node = EncodedNode()
        guard case .object(var nodes) = shape else { return node }
        // The only reference, so that nothing is copied.
        shape = .nothing
        nodes[name] = node
        shape = .object(nodes)
        return node
    }

    var count: Int {
        if case .array(let nodes) = shape { nodes.count } else { 0 }
    }

    /// A new element behind the others.
    func element() -> EncodedNode {
        let node = EncodedNode()
        guard case .array(var nodes) = shape else { return node }
        shape = .nothing
        nodes.append(node)
        shape = .array(nodes)
        return node
    }

    /// Encodes a value of any type into this node.
    func encode<T: Encodable>(_ value: T, _ path: [any CodingKey]) throws {
        try Self.check(path)
        switch FoundationType(T.self) {
        case .data: set(.string(try Self.base64(value, path)))
        case .url: set(.string(try Self.absolute(value, path)))
        case .decimal: set(.encoded(Array("\(value)".utf8)))
        case nil: try value.encode(to: NodeEncoder(node: self, codingPath: path))
        }
    }

    /// Before the stack is used up; where in a payload it stands is checked when that is written.
    private static func check(_ path: [any CodingKey]) throws(RequestError) {
        if path.count > JSONScanner.depthLimit {
            throw RequestError(
                .badRequestPayload, "\(EncodingPath.text(Array(path.prefix(3))))… is nested deeper than 64 levels")
        }
    }

    /// The bytes of `Data`, which encodes itself as an array of numbers, as JSONEncoder writes them.
    private static func base64(_ data: some Encodable, _ path: [any CodingKey]) throws -> String {
        let node = EncodedNode()
        try data.encode(to: NodeEncoder(node: node, codingPath: path))
        guard case .array(let elements) = try node.value(path) else { return "" }
        let bytes = elements.map { element -> UInt8 in
            if case .integer(let byte) = element { UInt8(truncatingIfNeeded: byte) } else { 0 }
        }
        return String(decoding: Base64.standard.encode(bytes), as: UTF8.self)
    }

    /// The text of a URL, which encodes itself as an object with a base.
    private static func absolute(_ url: some Encodable, _ path: [any CodingKey]) throws -> String {
        let node = EncodedNode()
        try url.encode(to: NodeEncoder(node: node, codingPath: path))
        guard case .object(let members) = try node.value(path), case .string(let text)? = members["relative"],
            members["base"] == nil
        else {
            throw RequestError(
                .badRequestPayload, "\(EncodingPath.text(path)): a URL with a base; encode its absoluteString instead")
        }
        return text
    }
}

/// Foundation's types that JSONEncoder writes otherwise than they encode themselves. Known by name, since this module
/// does not see Foundation.
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
