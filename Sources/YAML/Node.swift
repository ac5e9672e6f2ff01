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

/// What a document held, and everything that is wrong with it as YAML.
package struct Document: Hashable, Sendable {
    /// Why a document, or a part of it, was refused.
    package struct Problem: Hashable, Sendable {
        package var mark: Mark
        /// May quote the document: the reader of a log wants it escaped.
        package var text: String
    }

    /// More than a document of this product ever needs; what exceeds a limit is refused, not cut.
    package struct Limits: Hashable, Sendable {
        package var bytes = 1 << 20
        package var depth = 32
        package var nodes = 100_000

        package init() {}
    }

    /// `nil` when the document is empty, or when it could not be read to its end.
    package var root: Node?
    /// In the order of the document; empty for a good one. A syntax error ends reading, so it is the last.
    package var problems: [Problem]

    /// Reads one UTF-8 document. Refused: a second document, anchors, aliases, tags, a name that stands twice in a
    /// mapping or is not a scalar, and whatever exceeds `limits`.
    package init(utf8 bytes: [UInt8], limits: Limits = Limits()) {
        guard bytes.count <= limits.bytes else {
            let text = "the document has \(bytes.count) bytes; at most \(limits.bytes) are read"
            self.init(root: nil, problems: [Problem(mark: Mark(line: 1, column: 1), text: text)])
            return
        }
        var builder = TreeBuilder(limits: limits)
        EventParser.forEachEvent(in: bytes) { builder.take($0) }
        self.init(root: builder.isComplete ? builder.root : nil, problems: builder.problems)
    }

    private init(root: Node?, problems: [Problem]) {
        self.root = root
        self.problems = problems
    }
}
