import JSON

/// A JSON value to be printed for people and programs: what schemas and the AsyncAPI document are made of. Members stay
/// in the order in which they are written.
package indirect enum SchemaTree: Equatable, Sendable {
    case null
    case bool(Bool)
    case number(Int64)
    case string(String)
    case array([SchemaTree])
    case object([Member])

    package struct Member: Equatable, Sendable {
        package var name: String
        package var value: SchemaTree

        package init(_ name: String, _ value: SchemaTree) {
            self.name = name
            self.value = value
        }
    }
}

extension SchemaTree: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByStringInterpolation, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    package init(nilLiteral: ()) { self = .null }
    package init(booleanLiteral value: Bool) { self = .bool(value) }
    package init(integerLiteral value: Int64) { self = .number(value) }
    package init(stringLiteral value: String) { self = .string(value) }
    package init(arrayLiteral elements: SchemaTree...) { self = .array(elements) }
    package init(dictionaryLiteral elements: (String, SchemaTree)...) {
        self = .object(elements.map { Member($0.0, $0.1) })
    }
}

extension SchemaTree {
    package init(words: some Sequence<String>) { self = .array(words.map { .string($0) }) }

    package init(members: some Sequence<(String, SchemaTree)>) { self = .object(members.map { Member($0.0, $0.1) }) }

    /// An object with the members of another one behind its own; of what is no object, itself.
    package func adding(_ more: SchemaTree) -> SchemaTree {
        guard case .object(let own) = self, case .object(let others) = more else { return self }
        return .object(own + others)
    }

    /// An object without a member.
    package func removing(_ name: String) -> SchemaTree {
        guard case .object(let members) = self else { return self }
        return .object(members.filter { $0.name != name })
    }

    // MARK: Text

    private static let width = 120

    /// The JSON, in lines of at most 120 characters as far as a value can be broken; a newline at the end.
    package var text: String { lines(indent: 0, after: 0, before: 0) + "\n" }

    /// - Parameters:
    ///   - indent: of the line that it stands on.
    ///   - after: characters before it on that line, without the indent.
    ///   - before: characters that must follow it on its last line.
    private func lines(indent: Int, after: Int, before: Int) -> String {
        let line = oneLine
        if indent + after + line.count + before <= Self.width { return line }
        let inner = String(repeating: " ", count: indent + 2)
        let outer = String(repeating: " ", count: indent)
        switch self {
        case .null, .bool, .number, .string: return line
        case .array(let elements) where elements.allSatisfy(\.isScalar):
            var lines = [inner]
            for (place, element) in elements.enumerated() {
                let piece = element.oneLine + (place == elements.count - 1 ? "" : ",")
                if lines[lines.count - 1].count + piece.count + 1 > Self.width { lines.append(inner) }
                lines[lines.count - 1] += (lines[lines.count - 1] == inner ? "" : " ") + piece
            }
            return "[\n" + lines.joined(separator: "\n") + "\n\(outer)]"
        case .array(let elements):
            let pieces = elements.map { inner + $0.lines(indent: indent + 2, after: 0, before: 1) }
            return "[\n" + pieces.joined(separator: ",\n") + "\n\(outer)]"
        case .object(let members):
            let pieces = members.map { member in
                let name = "\(Self.quoted(member.name)): "
                return inner + name + member.value.lines(indent: indent + 2, after: name.count, before: 1)
            }
            return "{\n" + pieces.joined(separator: ",\n") + "\n\(outer)}"
        }
    }

    private var isScalar: Bool {
        switch self {
        case .null, .bool, .number, .string: true
        case .array, .object: false
        }
    }

    private var oneLine: String {
        switch self {
        case .null: "null"
        case .bool(let value): "\(value)"
        case .number(let value): "\(value)"
        case .string(let value): Self.quoted(value)
        case .array(let elements): "[" + elements.map(\.oneLine).joined(separator: ", ") + "]"
        case .object(let members):
            "{" + members.map { "\(Self.quoted($0.name)): \($0.value.oneLine)" }.joined(separator: ", ") + "}"
        }
    }

    private static func quoted(_ text: String) -> String {
        var json = JSONWriter()
        json.value(text)
        return json.text
    }
}
