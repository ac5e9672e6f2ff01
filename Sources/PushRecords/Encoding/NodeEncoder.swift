import JSON

struct NodeEncoder: Encoder {
    let node: EncodedNode
    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        node.becomeObject()
        return KeyedEncodingContainer(NodeMembers(node: node, codingPath: codingPath))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        node.becomeArray()
        return NodeElements(node: node, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { NodeValue(node: node, codingPath: codingPath) }
}

/// A container that writes to one node each time that it is asked.
protocol NodeContainer {
    var codingPath: [any CodingKey] { get }
}

extension NodeContainer {
    func number(_ value: some BinaryInteger) -> PayloadValue {
        // Beyond 64 bits with a sign: the digits as they are.
        Int64(exactly: value).map { .integer($0) } ?? .encoded(Array("\(value)".utf8))
    }

    func number(_ value: Double, at path: [any CodingKey]) throws -> PayloadValue {
        guard value.isFinite else {
            throw RequestError(.badRequestPayload, "\(EncodingPath.text(path)): JSON has no word for \(value)")
        }
        return .number(value)
    }

    /// The nearest number with the digits that a `Float` is written with: 0.1 and not 0.10000000149.
    func number(_ value: Float, at path: [any CodingKey]) throws -> PayloadValue {
        try number(value.isFinite ? Double("\(value)") ?? Double(value) : Double(value), at: path)
    }
}

struct NodeMembers<Key: CodingKey>: KeyedEncodingContainerProtocol, NodeContainer {
    let node: EncodedNode
    let codingPath: [any CodingKey]

    private func put(_ value: PayloadValue, _ key: Key) { node.member(key.stringValue).set(value) }

    mutating func encodeNil(forKey key: Key) { put(.null, key) }
    mutating func encode(_ value: Bool, forKey key: Key) { put(.bool(value), key) }
    mutating func encode(_ value: String, forKey key: Key) { put(.string(value), key) }
    mutating func encode(_ value: Double, forKey key: Key) throws {
        put(try number(value, at: codingPath + [key]), key)
    }
    mutating func encode(_ value: Float, forKey key: Key) throws { put(try number(value, at: codingPath + [key]), key) }
    mutating func encode(_ value: Int, forKey key: Key) { put(number(value), key) }
    mutating func encode(_ value: Int8, forKey key: Key) { put(number(value), key) }
    mutating func encode(_ value: Int16, forKey key: Key) { put(number(value), key) }
    mutating func encode(_ value: Int32, forKey key: Key) { put(number(value), key) }
    mutating func encode(_ value: Int64, forKey key: Key) { put(number(value), key) }
    mutating func encode(_ value: UInt, forKey key: Key) { put(number(value), key) }
    mutating func encode(_ value: UInt8, forKey key: Key) { put(number(value), key) }
    mutating func encode(_ value: UInt16, forKey key: Key) { put(number(value), key) }
    mutating func encode(_ value: UInt32, forKey key: Key) { put(number(value), key) }
    mutating func encode(_ value: UInt64, forKey key: Key) { put(number(value), key) }

    mutating func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
        try node.member(key.stringValue).encode(value, codingPath + [key])
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy keyType: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        NodeEncoder(node: node.member(key.stringValue), codingPath: codingPath + [key]).container(keyedBy: keyType)
    }

    mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        NodeEncoder(node: node.member(key.stringValue), codingPath: codingPath + [key]).unkeyedContainer()
    }

    mutating func superEncoder() -> any Encoder {
        NodeEncoder(node: node.member("super"), codingPath: codingPath + [SuperKey()])
    }

    mutating func superEncoder(forKey key: Key) -> any Encoder {
        NodeEncoder(node: node.member(key.stringValue), codingPath: codingPath + [key])
    }
}

struct NodeElements: UnkeyedEncodingContainer, NodeContainer {
    let node: EncodedNode
    let codingPath: [any CodingKey]
    var count: Int { node.count }

    private var path: [any CodingKey] { codingPath + [ElementKey(count)] }
    private func put(_ value: PayloadValue) { node.element().set(value) }

    mutating func encodeNil() { put(.null) }
    mutating func encode(_ value: Bool) { put(.bool(value)) }
    mutating func encode(_ value: String) { put(.string(value)) }
    mutating func encode(_ value: Double) throws { put(try number(value, at: path)) }
    mutating func encode(_ value: Float) throws { put(try number(value, at: path)) }
    mutating func encode(_ value: Int) { put(number(value)) }
    mutating func encode(_ value: Int8) { put(number(value)) }
    mutating func encode(_ value: Int16) { put(number(value)) }
    mutating func encode(_ value: Int32) { put(number(value)) }
    mutating func encode(_ value: Int64) { put(number(value)) }
    mutating func encode(_ value: UInt) { put(number(value)) }
    mutating func encode(_ value: UInt8) { put(number(value)) }
    mutating func encode(_ value: UInt16) { put(number(value)) }
    mutating func encode(_ value: UInt32) { put(number(value)) }
    mutating func encode(_ value: UInt64) { put(number(value)) }

    mutating func encode<T: Encodable>(_ value: T) throws {
        let path = path
        try node.element().encode(value, path)
    }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy keyType: Nested.Type) -> KeyedEncodingContainer<Nested> {
        let path = path
        return NodeEncoder(node: node.element(), codingPath: path).container(keyedBy: keyType)
    }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        let path = path
        return NodeEncoder(node: node.element(), codingPath: path).unkeyedContainer()
    }

    mutating func superEncoder() -> any Encoder {
        let path = path
        return NodeEncoder(node: node.element(), codingPath: path)
    }
}

struct NodeValue: SingleValueEncodingContainer, NodeContainer {
    let node: EncodedNode
    let codingPath: [any CodingKey]

    mutating func encodeNil() { node.set(.null) }
    mutating func encode(_ value: Bool) { node.set(.bool(value)) }
    mutating func encode(_ value: String) { node.set(.string(value)) }
    mutating func encode(_ value: Double) throws { node.set(try number(value, at: codingPath)) }
    mutating func encode(_ value: Float) throws { node.set(try number(value, at: codingPath)) }
    mutating func encode(_ value: Int) { node.set(number(value)) }
    mutating func encode(_ value: Int8) { node.set(number(value)) }
    mutating func encode(_ value: Int16) { node.set(number(value)) }
    mutating func encode(_ value: Int32) { node.set(number(value)) }
    mutating func encode(_ value: Int64) { node.set(number(value)) }
    mutating func encode(_ value: UInt) { node.set(number(value)) }
    mutating func encode(_ value: UInt8) { node.set(number(value)) }
    mutating func encode(_ value: UInt16) { node.set(number(value)) }
    mutating func encode(_ value: UInt32) { node.set(number(value)) }
    mutating func encode(_ value: UInt64) { node.set(number(value)) }
    mutating func encode<T: Encodable>(_ value: T) throws { try node.encode(value, codingPath) }
}

/// Where a value stands: `order.items[2]`.
enum EncodingPath {
    static func text(_ path: [any CodingKey]) -> String {
        var text = ""
        for key in path {
            if let index = (key as? ElementKey)?.intValue {
                text += "[\(index)]"
            } else {
                text += text.isEmpty ? key.stringValue : ".\(key.stringValue)"
            }
        }
        return text.isEmpty ? "the value" : text
    }
}

/// The place of an element in an array.
struct ElementKey: CodingKey {
    let intValue: Int?
    var stringValue: String { "\(intValue ?? 0)" }

    init(_ index: Int) { intValue = index }
    init?(stringValue: String) { nil }
    init?(intValue: Int) { self.init(intValue) }
}

/// What `superEncoder()` writes to.
struct SuperKey: CodingKey {
    var stringValue: String { "super" }
    var intValue: Int? { nil }

    init() {}
    init?(stringValue: String) { nil }
    init?(intValue: Int) { nil }
}

struct NamedKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init(_ name: String) { stringValue = name }
    init?(stringValue: String) { self.init(stringValue) }
    init?(intValue: Int) { nil }
}
