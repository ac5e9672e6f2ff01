import YAML

/// A value of the configuration while it is read. Each reader returns `nil` after it has said what is wrong.
struct Value {
    let node: Node
    let path: String
    let reading: Reading

    func refuse(_ text: String) {
        reading.refuse(path, text, at: node.mark)
    }

    /// The scalar's text with the environment's values in it.
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

    private func refuse(found text: String, expected: String) {
        refuse("expected \(expected), found \(quoted(text))")
    }

    /// A text that is not empty.
    func text(_ expectation: String = "a text") -> String? {
        guard let text = scalar(expectation) else { return nil }
        guard !text.isEmpty else {
            refuse("must not be empty")
            return nil
        }
        return text
    }

    func textOrEmpty() -> String? { scalar("a text") }

    /// As `text`, but nothing of it is ever shown.
    func secretText() -> String? { text("the secret's text") }

    func filePath() -> String? { text("a file's path").map(reading.absolute) }

    /// What the file holds that the value names, without the line break at its end.
    func fileText() -> String? {
        guard let path = filePath() else { return nil }
        do throws(FileError) {
            return String(decoding: withoutLineBreak(try readFile(path)), as: UTF8.self)
        } catch {
            refuse("\(error)")
            return nil
        }
    }

    /// A text for which `isValid` holds; `expectation` says what would be right.
    func text(_ expectation: String, where isValid: (String) -> Bool) -> String? {
        guard let text = text(expectation) else { return nil }
        guard isValid(text) else {
            refuse(found: text, expected: expectation)
            return nil
        }
        return text
    }

    func boolean() -> Bool? {
        switch scalar("true or false") {
        case nil: return nil
        case "true": return true
        case "false": return false
        case .some(let text):
            refuse(found: text, expected: "true or false")
            return nil
        }
    }

    func integer(_ range: ClosedRange<Int>) -> Int? {
        let expectation = "a whole number from \(range.lowerBound) to \(range.upperBound)"
        guard let text = scalar(expectation) else { return nil }
        guard let number = Int(text), range.contains(number), text.first != "+" else {
            refuse(found: text, expected: expectation)
            return nil
        }
        return number
    }

    /// `none`: 0 is allowed too and stands for "none".
    func duration(_ range: ClosedRange<Duration>, orZero: Bool = false) -> Duration? {
        let expectation =
            "a duration (ms, s, m or h) from \(Quantity.text(range.lowerBound)) to \(Quantity.text(range.upperBound))"
            + (orZero ? ", or 0" : "")
        guard let text = scalar(expectation) else { return nil }
        guard let duration = Quantity.duration(text), range.contains(duration) || orZero && duration == .zero else {
            refuse(found: text, expected: expectation)
            return nil
        }
        return duration
    }

    /// In bytes.
    func size(_ range: ClosedRange<Int>) -> Int? {
        let expectation =
            "a size (KiB, MiB or GiB) from \(Quantity.text(bytes: range.lowerBound)) to "
            + Quantity.text(bytes: range.upperBound)
        guard let text = scalar(expectation) else { return nil }
        guard let size = Quantity.size(text), range.contains(size) else {
            refuse(found: text, expected: expectation)
            return nil
        }
        return size
    }

    /// One word of a vocabulary.
    func choice<T: RawRepresentable & CaseIterable>(_ type: T.Type = T.self) -> T? where T.RawValue == String {
        choice(of: T.allCases.map { ($0.rawValue, $0) })
    }

    func choice<T>(of words: [(String, T)], expectation: String? = nil) -> T? {
        let expectation = expectation ?? "one of \(words.map(\.0).joined(separator: ", "))"
        guard let text = scalar(expectation) else { return nil }
        guard let word = words.first(where: { $0.0 == text }) else {
            refuse(found: text, expected: expectation)
            return nil
        }
        return word.1
    }

    /// A mapping; nothing at all counts as an empty one, so that all its keys can be commented out.
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

    /// A list of at least one and at most `limit` values.
    func list(limit: Int, orEmpty: Bool = false) -> [Value]? {
        guard case .sequence(let items) = node.content else {
            refuse("expected a list, found \(node.isNull ? "nothing" : kind)")
            return nil
        }
        guard orEmpty || !items.isEmpty else {
            refuse("must name at least one")
            return nil
        }
        guard items.count <= limit else {
            refuse("has \(items.count) values; at most \(limit) are allowed")
            return nil
        }
        return items.enumerated().map { index, item in
            let path = "\(path)[\(index)]"
            reading.noteMark(item.mark, of: path)
            return Value(node: item, path: path, reading: reading)
        }
    }
}
