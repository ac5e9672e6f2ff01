import Configuration

extension OptionTable.Option {
    /// Creates an option whose value is parsed with `read` and stored at the key path `member`.
    init<Value>(
        _ name: String, _ letter: Character? = nil, value: String,
        to member: any WritableKeyPath<Values, Value> & Sendable,
        _ read: @escaping @Sendable (String) throws -> Value, _ help: String
    ) {
        self.init(name, letter, value: value, help) { values, text in
            values[keyPath: member] = try read(text)
        }
    }

    /// Creates an option whose value is any non-empty text.
    init(
        _ name: String, _ letter: Character? = nil, value: String,
        to member: any WritableKeyPath<Values, String?> & Sendable, _ help: String
    ) {
        self.init(name, letter, value: value, to: member, { text in try OptionValue.text(text) }, help)
    }

    /// Creates an option whose value is one of the raw values of `Value`.
    init<Value: RawRepresentable & CaseIterable & SendableMetatype>(
        _ name: String, value: String, choice member: any WritableKeyPath<Values, Value> & Sendable, _ help: String
    ) where Value.RawValue == String {
        self.init(name, value: value, to: member, OptionValue.choice, help)
    }

    /// Creates an option that may be repeated. Each value is appended to the array at the key path `member`.
    init<Value>(
        _ name: String, value: String, each member: any WritableKeyPath<Values, [Value]> & Sendable,
        _ read: @escaping @Sendable (String) throws -> Value, _ help: String
    ) {
        self.init(name, value: value, help) { values, text in
            values[keyPath: member].append(try read(text))
        }
    }

    /// Creates an option without a value. Giving the option sets the property at the key path `member`.
    init(
        _ name: String, sets member: any WritableKeyPath<Values, Bool> & Sendable, to value: Bool = true, _ help: String
    ) {
        self.init(name, value: nil, help) { values, _ in values[keyPath: member] = value }
    }
}

func integer<Value: FixedWidthInteger & SendableMetatype>(
    _ range: ClosedRange<Int>, _: Value.Type = Value.self
) -> @Sendable (String) throws -> Value {
    { text in Value(try OptionValue.integer(text, range)) }
}

enum OutputFormat: String, CaseIterable {
    case json, text
}

/// Parses a command's options. For `--help`, prints the command's help and throws `Exit`.
@discardableResult
func parsed<Values>(_ table: OptionTable<Values>, _ arguments: [String], _ defaults: Values) throws -> Values {
    do throws(UsageError) {
        if let values = try table.parse(arguments, defaults) { return values }
    } catch {
        throw Exit(code: .wrongUsage, lines: [error.description])
    }
    say(table.help)
    throw Exit(code: .fine)
}

/// Returns the word before the options, or `nil` if there is none, and the remaining arguments.
func operand(_ arguments: [String]) -> (word: String?, rest: [String]) {
    guard let first = arguments.first, !first.hasPrefix("-") else { return (nil, arguments) }
    return (first, Array(arguments.dropFirst()))
}

/// Parses the first argument as a case of `Word`, and the others as options. `thing` is the name of the first argument
/// in error messages.
func parsed<Word: RawRepresentable & CaseIterable, Values>(
    _ table: OptionTable<Values>, _ arguments: [String], _ defaults: Values, _ thing: String
) throws -> (word: Word, Values) where Word.RawValue == String {
    let (word, rest) = operand(arguments)
    let values = try parsed(table, rest, defaults)
    let words = Word.allCases.map(\.rawValue)
    guard let word else { throw UsageError("needs the \(thing), one of \(words.joined(separator: ", "))") }
    guard let found = Word(rawValue: word) else { throw unknown(thing, word, among: words) }
    return (found, values)
}

/// Returns the error for a word that is not one of the allowed words.
func unknown(_ thing: String, _ word: String, among words: [String]) -> UsageError {
    let suggestion =
        nearest(to: word, among: words).map { "did you mean \($0)?" }
        ?? "expected one of \(words.joined(separator: ", "))"
    return UsageError("there is no \(thing) \(quoted(word)); \(suggestion)")
}
