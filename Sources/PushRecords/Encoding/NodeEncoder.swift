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

// The generic `encode` also satisfies the protocol's requirements for the primitive types. `EncodedNode.encode` treats
// each type in its own way.

struct NodeMembers<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let node: EncodedNode
    let codingPath: [any CodingKey]

    mutating func encodeNil(forKey key: Key) { node.member(key.stringValue).set(.null) }

    mutating func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
        try node.member(key.stringValue).encode(value, codingPath + [key])
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy keyType: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        encoder(key.stringValue, key).container(keyedBy: keyType)
    }

    mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        encoder(key.stringValue, key).unkeyedContainer()
    }

    mutating func superEncoder() -> any Encoder { encoder("super", PathKey("super")) }

    mutating func superEncoder(forKey key: Key) -> any Encoder { encoder(key.stringValue, key) }

    private func encoder(_ name: String, _ key: any CodingKey) -> NodeEncoder {
        NodeEncoder(node: node.member(name), codingPath: codingPath + [key])
    }
}

struct NodeElements: UnkeyedEncodingContainer {
    let node: EncodedNode
    let codingPath: [any CodingKey]
    var count: Int { node.count }

    mutating func encodeNil() { node.element().set(.null) }

    mutating func encode<T: Encodable>(_ value: T) throws {
        let encoder = encoder()
        try encoder.node.encode(value, encoder.codingPath)
    }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy keyType: Nested.Type) -> KeyedEncodingContainer<Nested> {
        encoder().container(keyedBy: keyType)
    }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { encoder().unkeyedContainer() }

    mutating func superEncoder() -> any Encoder { encoder() }

    private func encoder() -> NodeEncoder {
        let path = codingPath + [PathKey(count)]
        return NodeEncoder(node: node.element(), codingPath: path)
    }
}

struct NodeValue: SingleValueEncodingContainer {
    let node: EncodedNode
    let codingPath: [any CodingKey]

    mutating func encodeNil() { node.set(.null) }
    mutating func encode<T: Encodable>(_ value: T) throws { try node.encode(value, codingPath) }
}

/// Writes a coding path as text, such as `order.items[2]`.
enum EncodingPath {
    static func text(_ path: [any CodingKey]) -> String {
        var text = ""
        for key in path {
            if let index = (key as? PathKey)?.intValue {
                text += "[\(index)]"
            } else {
                text += text.isEmpty ? key.stringValue : ".\(key.stringValue)"
            }
        }
        return text.isEmpty ? "the value" : text
    }
}

/// An array index or a member name in a coding path.
struct PathKey: CodingKey {
    let stringValue: String
    let intValue: Int?

    init(_ index: Int) { (stringValue, intValue) = ("\(index)", index) }
    init(_ name: String) { (stringValue, intValue) = (name, nil) }
    init?(stringValue: String) { self.init(stringValue) }
    init?(intValue: Int) { self.init(intValue) }
}
