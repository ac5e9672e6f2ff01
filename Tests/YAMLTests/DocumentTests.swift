import Testing
import YAML

/// Returns a tree as text, with the line and column of each node: `{a@1:1: 'x'@1:4}`.
private func outline(_ node: Node) -> String {
    let mark = "@\(node.mark.line):\(node.mark.column)"
    switch node.content {
    case .scalar(let text, let isPlain): return isPlain ? text + mark : "'\(text)'" + mark
    case .sequence(let items): return "[" + items.map(outline).joined(separator: ", ") + "]" + mark
    case .mapping(let entries):
        let pairs = entries.map { "\($0.name)@\($0.mark.line):\($0.mark.column): \(outline($0.value))" }
        return "{" + pairs.joined(separator: ", ") + "}" + mark
    }
}

@Suite struct DocumentTests {
    @Test(arguments: [
        ("a: x", "{a@1:1: x@1:4}@1:1"),
        ("a: 'x'\nb: \"y\\n\"", "{a@1:1: 'x'@1:4, b@2:1: 'y\n'@2:4}@1:1"),
        ("- 1\n- [2, {c: 3}]", "[1@1:3, [2@2:4, {c@2:8: 3@2:11}@2:7]@2:3]@1:1"),
        ("é: {ü: x}", "{é@1:1: {ü@1:5: x@1:8}@1:4}@1:1"),
        ("a:\nb: ~", "{a@1:1: @1:3, b@2:1: ~@2:4}@1:1"),
        ("a: |\n  1\n  2\n", "{a@1:1: '1\n2\n'@1:4}@1:1"),
        ("# only this\n--- \na: b\n...\n", "{a@3:1: b@3:4}@3:1"),
        ("\u{FEFF}a: b", "{a@1:1: b@1:4}@1:1"),
    ])
    func `A document is read as a tree with the line and column of each node`(text: String, expected: String) throws {
        let document = Document(utf8: Array(text.utf8))
        #expect(document.problems.isEmpty)
        #expect(outline(try #require(document.root)) == expected)
    }

    @Test(arguments: ["", "\n\n", "# nothing\n"])
    func `An empty document has no root`(text: String) {
        let document = Document(utf8: Array(text.utf8))
        #expect(document.root == nil)
        #expect(document.problems.isEmpty)
    }

    @Test(arguments: [
        (
            "a: 1\nb: 2\na: 3\nb: 4",
            ["3:1 the key a occurs twice, first in line 1", "4:1 the key b occurs twice, first in line 2"]
        ),
        ("a: {b: 1, b: {c: 2}}", ["1:11 the key b occurs twice, first in line 1"]),
        ("a: &x 1\nb: *x", ["1:4 anchors (&) are not supported", "2:4 aliases (*) are not supported"]),
        ("a: !!str 1", ["1:4 tags (!) are not supported"]),
        ("{[a, b]: c, d: e}", ["1:2 a key must not be a list or a mapping"]),
        ("a: 1\n---\nb: 2", ["2:1 a second document begins here; a file may contain only one"]),
        ("a: [1, 2", ["2:1 not valid YAML: did not find expected ',' or ']' while parsing a flow sequence"]),
        ("a: b\n  c: d", ["2:4 not valid YAML: mapping values are not allowed in this context"]),
        (
            "a: 1\n\tb: 2",
            ["2:1 not valid YAML: found a tab character that violates indentation while scanning a plain scalar"]
        ),
        (
            "a: 1\na: 2\nc: [",
            [
                "2:1 the key a occurs twice, first in line 1",
                "4:1 not valid YAML: did not find expected node content while parsing a flow node",
            ]
        ),
        ("a: \"\\q\"", ["1:5 not valid YAML: found unknown escape character while parsing a quoted scalar"]),
    ])
    func `Every unsupported or invalid construct is reported with its line and column`(text: String, expected: [String])
    {
        let document = Document(utf8: Array(text.utf8))
        #expect(document.problems.map { "\($0.mark.line):\($0.mark.column) \($0.text)" } == expected)
    }

    @Test(
        arguments: [
            ([0x61, 0x3A, 0x20, 0xFF], "not valid YAML: invalid leading UTF-8 octet"),
            ([0x61, 0x3A, 0x20, 0xC3], "not valid YAML: incomplete UTF-8 octet sequence"),
            ([0x61, 0x3A, 0x20, 0x01], "not valid YAML: control characters are not allowed"),
            ([0xFF, 0xFE, 0x61, 0x00], "not valid YAML: invalid leading UTF-8 octet"),
        ] as [([UInt8], String)])
    func `Invalid UTF-8 and control characters are rejected`(bytes: [UInt8], expected: String) {
        let document = Document(utf8: bytes)
        #expect(document.root == nil)
        #expect(document.problems.map(\.text) == [expected])
    }

    @Test func `Of two values with the same key the first is kept`() throws {
        let document = Document(utf8: Array("a: 1\na: 2\nb: 3".utf8))
        #expect(outline(try #require(document.root)) == "{a@1:1: 1@1:4, b@3:1: 3@3:4}@1:1")
    }

    @Test(arguments: [
        ("x", false), ("", true), ("~", true), ("null", true), ("'null'", false), ("''", false), ("[]", false),
    ])
    func `Only an empty value, a tilde and the unquoted word null are null`(text: String, isNull: Bool) throws {
        let document = Document(utf8: Array("a: \(text)".utf8))
        guard case .mapping(let entries) = try #require(document.root).content else {
            Issue.record("not a mapping")
            return
        }
        #expect(entries[0].value.isNull == isNull)
    }

    @Test(arguments: [32, 33, 10_000]) func `Collections nested deeper than 32 are refused`(depth: Int) {
        let text = String(repeating: "[", count: depth) + "a" + String(repeating: "]", count: depth)
        let document = Document(utf8: Array(text.utf8))
        #expect(document.problems.map(\.text) == (depth > 32 ? ["nested deeper than 32 levels"] : []))
        #expect((document.root == nil) == (depth > 32))
    }

    /// Reads every prefix of a document, and the document with every byte replaced by others.
    @Test func `A damaged document yields a root or a problem, and never crashes the reader`() {
        let text = Array("kafka: {a: [1, \"x\\n\"]}\nb: |\n  c\n# é\nd: 'e'\n".utf8)
        for length in 0...text.count { _ = Document(utf8: Array(text.prefix(length))) }
        for position in text.indices {
            for byte: UInt8 in [0, 0x09, 0x0A, 0x20, 0x26, 0x2A, 0x3A, 0x5B, 0x7B, 0x7D, 0x80, 0xC3, 0xFF] {
                var damaged = text
                damaged[position] = byte
                let document = Document(utf8: damaged)
                #expect(document.root != nil || !document.problems.isEmpty)
            }
        }
    }
}
