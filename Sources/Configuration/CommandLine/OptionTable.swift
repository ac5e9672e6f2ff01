/// An error in the arguments of a command. The description is one line, which says how to correct the error.
package struct UsageError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// A command's options, used to parse arguments and to print `--help`.
///
/// As with getopt_long(3), long options may be abbreviated to a unique prefix, values are given as `--name value` or
/// `--name=value`, and one-letter options may be combined (`-ab`).
package struct OptionTable<Values>: Sendable {
    package struct Option: Sendable {
        var name: String
        var letter: Character?
        /// The name of the option's value in the help, or `nil` for an option without a value.
        var value: String?
        var help: String
        /// Applies the option's value, or an empty text for an option without a value. Throws a description of valid
        /// values that does not repeat the option's name.
        var apply: @Sendable (inout Values, String) throws -> Void

        package init(
            _ name: String, _ letter: Character? = nil, value: String?, _ help: String,
            apply: @escaping @Sendable (inout Values, String) throws -> Void
        ) {
            self.name = name
            self.letter = letter
            self.value = value
            self.help = help
            self.apply = apply
        }

        /// Returns this option for the table of another command, whose values contain a `Values` in the member `part`.
        package func within<Outer>(
            _ part: any WritableKeyPath<Outer, Values> & Sendable
        ) -> OptionTable<Outer>.Option {
            .init(name, letter, value: value, help) { outer, text in
                try apply(&outer[keyPath: part], text)
            }
        }

        /// Returns a copy of this option that also appends each of its occurrences to a list, as `name=value` or
        /// `name`.
        package func noted(in list: any WritableKeyPath<Values, [String]> & Sendable) -> Self {
            var option = self
            option.apply = { values, text in
                try apply(&values, text)
                values[keyPath: list].append(value == nil ? name : "\(name)=\(text)")
            }
            return option
        }
    }

    package let command: String
    /// The forms of the command's arguments, such as `--config FILE`.
    let usage: [String]
    let about: [String]
    let options: [Option]
    /// Lines that the help prints after the options. Only lines of more than 120 columns are wrapped.
    let notes: String

    package init(
        command: String, usage: [String], about: [String], options: [Option], notes: String = ""
    ) {
        self.command = command
        self.usage = usage
        self.about = about
        self.options =
            options + [Option("help", "h", value: nil, "Print this help and exit.") { _, _ in }]
        self.notes = notes
    }

    /// Parses the arguments after the command. `values` contains the defaults. Throws if an argument is not an
    /// option or has an invalid value. Returns `nil` if `--help` follows valid arguments.
    package func parse(_ arguments: [String], _ values: Values) throws(UsageError) -> Values? {
        var values = values
        var words = arguments[...]
        do throws(UsageError) {
            while let word = words.popFirst() {
                if word == "--", words.isEmpty { break }
                guard word.hasPrefix("-"), word != "-", word != "--" else {
                    throw UsageError("unexpected argument \(quoted(word == "--" ? words.first ?? "" : word))")
                }
                var (option, text) = try word.hasPrefix("--") ? long(word.dropFirst(2)) : lettered(word.dropFirst())
                if option.name == "help" { return nil }
                if option.value == nil {
                    // The text contains further option letters.
                    if let letters = text { words = ["-\(letters)"] + words }
                    text = ""
                }
                guard let text = text ?? words.popFirst() else {
                    throw UsageError("\(word.hasPrefix("--") ? "--\(option.name)" : word) needs a value")
                }
                do {
                    try option.apply(&values, text)
                } catch {
                    throw UsageError("--\(option.name): \(error)")
                }
            }
        } catch {
            throw UsageError(oneLine("\(command): \(error) (see \(command) --help)"))
        }
        return values
    }

    /// Returns a long option, `name` or `name=value`, and its value.
    private func long(_ word: Substring) throws(UsageError) -> (Option, String?) {
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let option = try option(named: parts[0])
        if option.value == nil, parts.count > 1 { throw UsageError("--\(option.name) takes no value") }
        return (option, parts.count > 1 ? parts[1] : nil)
    }

    /// Returns the option of the first letter, and the following text: its value or further option letters.
    private func lettered(_ letters: Substring) throws(UsageError) -> (Option, String?) {
        guard let option = options.first(where: { $0.letter == letters.first }) else {
            throw UsageError("unknown option \(quoted("-\(letters.prefix(1))"))")
        }
        return (option, letters.count > 1 ? String(letters.dropFirst()) : nil)
    }

    /// Returns the option with this name, or the only option whose name begins with `name`.
    private func option(named name: String) throws(UsageError) -> Option {
        if let option = options.first(where: { $0.name == name }) { return option }
        let candidates = options.filter { $0.name.hasPrefix(name) }
        if candidates.count == 1 { return candidates[0] }
        guard candidates.isEmpty else {
            let names = candidates.map { "--\($0.name)" }.joined(separator: " or ")
            throw UsageError("\(quoted("--\(name)")) is ambiguous: it may be \(names)")
        }
        let suggestion = nearest(to: name, among: options.map(\.name)).map { "; did you mean --\($0)?" } ?? ""
        throw UsageError("unknown option \(quoted("--\(name)"))\(suggestion)")
    }
}

extension OptionTable {
    /// The text of `--help`. The descriptions of the command and of its options are wrapped to 100 columns.
    package var help: String {
        var lines = usage.enumerated().map { index, way in
            "\(index == 0 ? "Usage:" : "      ") \(command)\(way.isEmpty ? "" : " \(way)")"
        }
        for paragraph in about { lines += [""] + wrapped(paragraph, width: 100) }
        let labels = options.map { option in
            let letter = option.letter.map { "-\($0), " } ?? "    "
            return "  \(letter)--\(option.name)\(option.value.map { " \($0)" } ?? "")"
        }
        let column = (labels.map(\.count).max() ?? 0) + 2
        lines += ["", "Options:"]
        for (label, option) in zip(labels, options) {
            for (index, line) in wrapped(option.help, width: 100 - column).enumerated() {
                let start = index == 0 ? label : ""
                lines.append(start + String(repeating: " ", count: column - start.count) + line)
            }
        }
        if !notes.isEmpty {
            lines.append("")
            for line in notes.split(separator: "\n", omittingEmptySubsequences: false) {
                lines += line.count > 120 ? wrapped(String(line), width: 100) : [String(line)]
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }
}

/// Returns the lines of a paragraph, each at most `width` columns long. A word longer than `width` gets its own line.
package func wrapped(_ text: String, width: Int) -> [String] {
    var lines: [String] = []
    var line = ""
    for word in text.split(separator: " ") {
        if !line.isEmpty, line.count + 1 + word.count > width {
            lines.append(line)
            line = ""
        }
        line += (line.isEmpty ? "" : " ") + word
    }
    return line.isEmpty ? lines : lines + [line]
}
