/// The place where a node begins in its document. Lines and columns count from 1, columns in characters.
package struct Mark: Hashable, Comparable, Sendable {
    package var line: Int
    package var column: Int

    package init(line: Int, column: Int) {
        self.line = line
        self.column = column
    }

    package static func < (left: Mark, right: Mark) -> Bool {
        (left.line, left.column) < (right.line, right.column)
    }
}

/// A value of a document and its place. Scalars are text, whose meaning is up to the reader.
package struct Node: Hashable, Sendable {
    package enum Content: Hashable, Sendable {
        /// `isPlain`: without quotes and not as a block, so that `null`, `~` and nothing may mean "no value".
        case scalar(String, isPlain: Bool)
        case sequence([Node])
        /// In the order of the document, without duplicate names.
        case mapping([Entry])
    }

    package var content: Content
    package var mark: Mark

    package init(_ content: Content, at mark: Mark) {
        self.content = content
        self.mark = mark
    }

    /// A plain scalar that YAML reads as "no value": nothing at all, `~` or `null`.
    package var isNull: Bool {
        guard case .scalar(let text, isPlain: true) = content else { return false }
        return text.isEmpty || text == "~" || text == "null"
    }
}

/// One `name: value` of a mapping. `mark` is the name's place.
package struct Entry: Hashable, Sendable {
    package var name: String
    package var mark: Mark
    package var value: Node

    package init(name: String, at mark: Mark, value: Node) {
        self.name = name
        self.mark = mark
        self.value = value
    }
}

/// The content of a document, and everything that is wrong with it as YAML.
package struct Document: Hashable, Sendable {
    /// Why a document, or a part of it, was refused.
    package struct Problem: Hashable, Sendable {
        package var mark: Mark
        /// May quote the document, so a log has to escape it.
        package var text: String
    }

    /// Limits above what a configuration needs. A document that exceeds one is refused, not cut.
    package struct Limits: Hashable, Sendable {
        package var bytes = 1 << 20
        package var depth = 32
        package var nodes = 100_000

        package init() {}
    }

    /// `nil` if the document is empty or could not be read to its end.
    package var root: Node?
    /// In the order of the document. A syntax error ends reading, so it is the last.
    package var problems: [Problem]

    /// Reads one UTF-8 document. Refuses a second document, anchors, aliases, tags, duplicate names in a mapping, names
    /// that are not scalars, and whatever exceeds `limits`.
    package init(utf8 bytes: [UInt8], limits: Limits = Limits()) {
        guard bytes.count <= limits.bytes else {
            let text = "the document has \(bytes.count) bytes; at most \(limits.bytes) are read"
            self.init(root: nil, problems: [Problem(mark: Mark(line: 1, column: 1), text: text)])
            return
        }
        let parser = DocumentParser(reading: bytes, limits: limits)
        self.init(root: parser.root, problems: parser.problems)
    }

    private init(root: Node?, problems: [Problem]) {
        self.root = root
        self.problems = problems
    }
}
