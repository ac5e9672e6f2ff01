import YAML

/// A value of the configuration while it is read. Each method that reads returns `nil` after rejecting an invalid
/// value.
struct Value {
    let node: Node
    let path: String
    let reading: Reading

    func refuse(_ text: String) { reading.refuse(path, text, at: node.mark) }

    /// Rejects the value, and returns `nil` in place of its content.
    func rejected<T>(_ text: String) -> T? {
        refuse(text)
        return nil
    }

    /// Returns the scalar's text with environment variables substituted.
    private func scalar(_ expectation: String) -> String? {
        guard !node.isNull else { return rejected("has no value; expected \(expectation)") }
        guard case .scalar(let text, _) = node.content else {
            return rejected("expected \(expectation), found \(kind)")
        }
        guard let environment = reading.environment else { return text }
        do { return try substituted(text, from: environment) } catch { return rejected("\(error)") }
    }

    private var kind: String {
        switch node.content {
        case .scalar: "a single value"
        case .sequence: "a list"
        case .mapping: "a mapping"
        }
    }

    func text(_ expectation: String = "a text") -> String? {
        guard let text = scalar(expectation) else { return nil }
        return text.isEmpty ? rejected("must not be empty") : text
    }

    func filePath() -> String? {
        guard let text = text("a file's path") else { return nil }
        reading.settings.append((path, Setting(text: text)))
        return reading.absolute(text)
    }

    /// Returns the content of the file that the value names, without the line breaks at its end.
    func fileText() -> String? {
        guard let path = filePath() else { return nil }
        do { return Secret.line(in: try readFile(path)) } catch { return rejected("\(error)") }
    }

    /// Returns the text if `isValid` accepts it, and otherwise rejects the value. `expectation` describes valid texts.
    func text(_ expectation: String, orEmpty: Bool = false, where isValid: (String) -> Bool) -> String? {
        read(expectation, orEmpty: orEmpty) { isValid($0) ? $0 : nil }
    }

    /// Returns the text converted by `body`, or rejects the value if `body` returns `nil`.
    private func read<T>(_ expectation: String, orEmpty: Bool = true, _ body: (String) -> T?) -> T? {
        guard let text = orEmpty ? scalar(expectation) : text(expectation) else { return nil }
        return body(text) ?? rejected("expected \(expectation), found \(quoted(text))")
    }

    func boolean(_ expectation: String = "true or false") -> Bool? {
        choice(of: [("true", true), ("false", false)], expectation: expectation)
    }

    func integer(_ range: ClosedRange<Int>) -> Int? {
        read("a whole number from \(range.lowerBound) to \(range.upperBound)") { text in
            Int(text).flatMap { range.contains($0) && text.first != "+" ? $0 : nil }
        }
    }

    /// - Parameter orZero: Whether 0 is allowed in addition to `range`.
    func duration(_ range: ClosedRange<Duration>, orZero: Bool = false) -> Duration? {
        let expectation =
            "a duration (ms, s, m or h) from \(Quantity.text(range.lowerBound)) to \(Quantity.text(range.upperBound))"
            + (orZero ? ", or 0" : "")
        return read(expectation) { text in
            Quantity.duration(text).flatMap { range.contains($0) || orZero && $0 == .zero ? $0 : nil }
        }
    }

    func size(_ range: ClosedRange<Int>) -> Int? {
        let (least, most) = (Quantity.text(bytes: range.lowerBound), Quantity.text(bytes: range.upperBound))
        return read("a size (KiB, MiB or GiB) from \(least) to \(most)") { text in
            Quantity.size(text).flatMap { range.contains($0) ? $0 : nil }
        }
    }

    func choice<T: RawRepresentable & CaseIterable>(_ type: T.Type = T.self) -> T? where T.RawValue == String {
        choice(of: T.allCases.map { ($0.rawValue, $0) })
    }

    func choice<T>(of words: [(String, T)], expectation: String? = nil) -> T? {
        read(expectation ?? "one of \(words.map(\.0).joined(separator: ", "))") { text in
            words.first { $0.0 == text }?.1
        }
    }

    /// Returns a mapping. A missing value counts as an empty mapping, so that all keys of a section can be commented
    /// out.
    func section() -> Section? {
        var entries: [Entry] = []
        if case .mapping(let found) = node.content {
            entries = found
        } else if !node.isNull {
            return rejected("expected a mapping, found \(kind)")
        }
        return Section(entries, path: path, mark: node.mark, reading: reading)
    }

    /// Reads a mapping, and rejects each key that `body` does not read.
    func section<T>(_ body: (inout Section) -> T?) -> T? {
        guard var section = section() else { return nil }
        defer { section.finish() }
        return body(&section)
    }

    var isMapping: Bool {
        if case .mapping = node.content { true } else { false }
    }

    /// Returns a list of 1 to `limit` values (or none, with `orEmpty`), each read by `body`.
    func list<T>(limit: Int, orEmpty: Bool = false, _ body: (Value) -> T?) -> [T]? {
        guard case .sequence(let nodes) = node.content else {
            return rejected("expected a list, found \(node.isNull ? "nothing" : kind)")
        }
        guard orEmpty || !nodes.isEmpty else { return rejected("must have at least one value") }
        guard nodes.count <= limit else {
            return rejected("has \(nodes.count) values; at most \(limit) are allowed")
        }
        let items = nodes.enumerated().map { index, item in
            let path = "\(path)[\(index)]"
            reading.noteMark(item.mark, of: path)
            return body(Value(node: item, path: path, reading: reading))
        }
        return items.contains { $0 == nil } ? nil : items.compactMap(\.self)
    }

    func distinctTexts(limit: Int, orEmpty: Bool = false, _ body: (Value) -> String?) -> [String]? {
        var texts: [String] = []
        return list(limit: limit, orEmpty: orEmpty) { item in
            guard let text = body(item) else { return nil }
            if texts.contains(text) { item.refuse("\(quoted(text)) occurs twice") }
            texts.append(text)
            return text
        }
    }
}

/// An error in a text of the configuration.
struct InvalidText: Error, CustomStringConvertible {
    let description: String
}

/// Replaces `${NAME}` and `${NAME:-default}` with the variable's value, and `$$` with a dollar sign. The default
/// replaces a variable that is unset or empty. Any other dollar sign is kept. The result is not substituted again.
private func substituted(_ text: String, from environment: (String) -> String?) throws -> String {
    try text.replacing(/\$(?:\$|\{([^}]*)(\}?))/) { match in
        guard let expression = match.1 else { return "$" }
        guard match.2 == "}" else {
            throw InvalidText(description: "${ without a closing }; write $$ for a dollar sign")
        }
        guard let parts = expression.wholeMatch(of: /(?s)([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?/) else {
            throw InvalidText(
                description: "${\(expression)} is neither ${NAME} nor ${NAME:-default}; write $$ for a dollar sign")
        }
        let value = environment(String(parts.1))
        if let fallback = parts.2 { return value.flatMap { $0.isEmpty ? nil : $0 } ?? String(fallback) }
        guard let value else {
            throw InvalidText(
                description: "the environment variable \(parts.1) is not set; set it, or write ${\(parts.1):-default}")
        }
        return value
    }
}
