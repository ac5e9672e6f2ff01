/// Where a node begins in its document; both count from 1, columns in characters.
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

/// A value of a document and where it stands. Scalars are text: what they mean is for the reader to say.
package struct Node: Hashable, Sendable {
    package enum Content: Hashable, Sendable {
        /// `isPlain`: written without quotes and not as a block, so that `null`, `~` and nothing may mean "no value".
        case scalar(String, isPlain: Bool)
        case sequence([Node])
        /// In the order of the document; no name stands twice.
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

/// One `name: value` of a mapping; `mark` is the name's.
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
