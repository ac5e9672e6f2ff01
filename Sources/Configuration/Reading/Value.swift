import YAML

/// A value of the configuration while it is read. Each method that reads returns `nil` after rejecting an invalid
/// value.
struct Value {
    let node: Node
    let path: String
    let reading: Reading

    func refuse(_ text: String) {
        reading.refuse(path, text, at: node.mark)
    }

    /// Returns the scalar's text with environment variables substituted.
    private func scalar(_ expectation: String) -> String? {
        guard !node.isNull else {
            refuse("has no value; expected \(expectation)")
            return nil
        }
        guard case .scalar(let text, _) = node.content else {
            refuse("expected \(expectation), found \(kind)")
            return nil
        }
        guard let environment = reading.environment else { return text }
        do throws(SubstitutionError) {
            return try substituted(text, from: environment)
        } catch {
            refuse(error.text)
            return nil
        }
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
        guard !text.isEmpty else {
            refuse("must not be empty")
            return nil
        }
        return text
    }

    func filePath() -> String? { text("a file's path").map(reading.absolute) }

    /// Returns the content of the file that the value names, without the line breaks at its end.
    func fileText() -> String? {
        guard let path = filePath() else { return nil }
        do throws(FileError) {
            return Secret.line(in: try readFile(path))
        } catch {
            refuse("\(error)")
            return nil
        }
    }

    /// Returns the text if `isValid` accepts it, and otherwise rejects the value. `expectation` describes valid texts.
    func text(_ expectation: String, orEmpty: Bool = false, where isValid: (String) -> Bool) -> String? {
        read(expectation, orEmpty: orEmpty) { isValid($0) ? $0 : nil }
    }

    /// Returns the text converted by `body`, or rejects the value if `body` returns `nil`.
    private func read<T>(_ expectation: String, orEmpty: Bool = true, _ body: (String) -> T?) -> T? {
        guard let text = orEmpty ? scalar(expectation) : text(expectation) else { return nil }
        guard let result = body(text) else {
            refuse("expected \(expectation), found \(quoted(text))")
            return nil
        }
        return result
    }

    func boolean() -> Bool? { choice(of: [("true", true), ("false", false)], expectation: "true or false") }

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
        if case .mapping(let entries) = node.content {
            return Section(entries, path: path, mark: node.mark, reading: reading)
        }
        guard !node.isNull else { return Section([], path: path, mark: node.mark, reading: reading) }
        refuse("expected a mapping, found \(kind)")
        return nil
    }

    var isMapping: Bool {
        if case .mapping = node.content { true } else { false }
    }

    /// Returns a list of 1 to `limit` values (or none, with `orEmpty`), each read by `body`.
    func list<T>(limit: Int, orEmpty: Bool = false, _ body: (Value) -> T?) -> [T]? {
        guard case .sequence(let nodes) = node.content else {
            refuse("expected a list, found \(node.isNull ? "nothing" : kind)")
            return nil
        }
        guard orEmpty || !nodes.isEmpty else {
            refuse("must have at least one value")
            return nil
        }
        guard nodes.count <= limit else {
            refuse("has \(nodes.count) values; at most \(limit) are allowed")
            return nil
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

struct SubstitutionError: Error, Equatable {
    var text: String
}

/// Replaces `${NAME}` and `${NAME:-default}` with the variable's value, and `$$` with a dollar sign. The default
/// replaces a variable that is unset or empty. Any other dollar sign is kept. The result is not substituted again.
func substituted(_ text: String, from environment: (String) -> String?) throws(SubstitutionError) -> String {
    guard text.utf8.contains(UInt8(ascii: "$")) else { return text }
    var result = ""
    var rest = Substring(text)
    while let dollar = rest.firstIndex(of: "$") {
        result += rest[..<dollar]
        rest = rest[rest.index(after: dollar)...]
        if rest.first == "$" {
            result += "$"
            rest.removeFirst()
        } else if rest.first == "{" {
            guard let end = rest.firstIndex(of: "}") else {
                throw SubstitutionError(text: "${ without a closing }; write $$ for a dollar sign")
            }
            result += try value(of: rest[rest.index(after: rest.startIndex)..<end], from: environment)
            rest = rest[rest.index(after: end)...]
        } else {
            result += "$"
        }
    }
    return result + rest
}

private func value(
    of expression: Substring, from environment: (String) -> String?
) throws(SubstitutionError) -> String {
    let name = expression.prefix { $0 == "_" || $0.isASCII && ($0.isLetter || $0.isNumber) }
    let rest = expression[name.endIndex...]
    guard let first = name.first, !first.isNumber, rest.isEmpty || rest.hasPrefix(":-") else {
        throw SubstitutionError(
            text: "${\(expression)} is neither ${NAME} nor ${NAME:-default}; write $$ for a dollar sign")
    }
    let value = environment(String(name))
    if rest.isEmpty {
        guard let value else {
            throw SubstitutionError(
                text: "the environment variable \(name) is not set; set it, or write ${\(name):-default}")
        }
        return value
    }
    guard let value, !value.isEmpty else { return String(rest.dropFirst(2)) }
    return value
}
