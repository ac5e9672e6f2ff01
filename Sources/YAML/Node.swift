/// The position where a node begins. Lines and columns are 1-based, and columns count characters.
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

/// A value in a document and its position. Scalars are text without a type.
package struct Node: Hashable, Sendable {
    package enum Content: Hashable, Sendable {
        /// A scalar. `isPlain` is false for quoted and block scalars, in which `null` and `~` are text.
        case scalar(String, isPlain: Bool)
        case sequence([Node])
        /// The entries in the order of the document, without duplicate names.
        case mapping([Entry])
    }

    package var content: Content
    package var mark: Mark

    package init(_ content: Content, at mark: Mark) {
        self.content = content
        self.mark = mark
    }

    /// Whether the node is a plain scalar that is empty, `~` or `null`. `Null` and `NULL` are text.
    package var isNull: Bool {
        guard case .scalar(let text, isPlain: true) = content else { return false }
        return text.isEmpty || text == "~" || text == "null"
    }
}

/// A `name: value` pair of a mapping. `mark` is the position of the name.
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

/// The content of a document, and all errors that were found in it.
package struct Document: Hashable, Sendable {
    /// An error in a document.
    package struct Problem: Hashable, Sendable {
        package var mark: Mark
        /// The message. It may quote the document, so logs must escape it.
        package var text: String
    }

    /// The root node, or `nil` if the document is empty or was not read to its end.
    package var root: Node?
    /// The errors in the order of the document. A syntax error is the last one, since reading stops there.
    package var problems: [Problem]

    /// Parses one UTF-8 document. It reports an error for a second document, anchors, aliases, tags, duplicate names in
    /// a mapping, names that are not scalars, and collections nested deeper than 32 levels.
    package init(utf8 bytes: [UInt8]) {
        let parser = DocumentParser(reading: bytes)
        root = parser.root
        problems = parser.problems
    }
}
