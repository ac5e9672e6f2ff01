import CLinux
import Glibc
import Synchronization

/// Wrong usage of a command; one line, which says what to do.
package struct UsageError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// A command's options: one table that getopt_long reads by and `--help` is printed from.
///
/// Long options may be shortened as far as they stay unique, and take their value as `--name value` or `--name=value`.
package struct OptionTable<Values>: Sendable {
    package struct Option: Sendable {
        /// Without the hyphens.
        var name: String
        var letter: Character?
        /// What stands for its value in the help; `nil`: it takes none.
        var value: String?
        var help: String
        /// Takes the value ("" where it has none); throws what would be right, without the option's name.
        var apply: @Sendable (inout Values, String) throws(UsageError) -> Void

        /// An option that takes a value.
        package init(
            _ name: String, _ letter: Character? = nil, value: String, _ help: String,
            apply: @escaping @Sendable (inout Values, String) throws(UsageError) -> Void
        ) {
            self.name = name
            self.letter = letter
            self.value = value
            self.help = help
            self.apply = apply
        }

        /// An option without a value.
        package init(
            _ name: String, _ letter: Character? = nil, _ help: String,
            apply: @escaping @Sendable (inout Values) -> Void
        ) {
            self.name = name
            self.letter = letter
            self.help = help
            self.apply = { values, _ in apply(&values) }
        }

        /// The same option of a command whose values have these among them.
        package func within<Outer>(
            _ part: any WritableKeyPath<Outer, Values> & Sendable
        ) -> OptionTable<Outer>.Option {
            let apply = apply
            var option = OptionTable<Outer>.Option(name, letter, value: "", help) {
                outer, text throws(UsageError) in try apply(&outer[keyPath: part], text)
            }
            option.value = value
            return option
        }
    }

    package enum Parsed {
        case values(Values)
        /// `--help` stood there; whatever came before it was right.
        case help
    }

    /// As typed: `apns-worker run`.
    package let command: String
    /// Ways to call it, each without the command itself: `--config FILE`.
    let usage: [String]
    /// A paragraph each.
    let about: [String]
    let options: [Option]
    /// Printed after the options, line by line; only one that is too long is broken.
    let notes: String

    package init(
        command: String, usage: [String], about: [String], options: [Option], notes: String = ""
    ) {
        self.command = command
        self.usage = usage
        self.about = about
        self.options =
            options + [Option("help", "h", "Print this and exit.", apply: { _ in })]
        self.notes = notes
    }

    /// What the arguments after the command say; `values` holds the defaults. There are no operands.
    package func parse(_ arguments: [String], _ values: Values) throws(UsageError) -> Parsed {
        var values = values
        do throws(UsageError) {
            for (index, value) in try scan(arguments) {
                if index == options.count - 1 { return .help }
                do throws(UsageError) {
                    try options[index].apply(&values, value)
                } catch {
                    throw UsageError("--\(options[index].name): \(error)")
                }
            }
        } catch {
            throw UsageError(oneLine("\(command): \(error) (see \(command) --help)"))
        }
        return .values(values)
    }

    /// The options in the order they were given, each as its place in `options` and its value.
    private func scan(_ arguments: [String]) throws(UsageError) -> [(index: Int, value: String)] {
        // getopt_long(3) permutes the array it is given, and keeps pointers to the names only while it is called.
        let words = CStrings([command] + arguments)
        let names = CStrings(options.map(\.name))
        // A leading colon: ":" instead of "?" for a missing value.
        var short = ":"
        var long: [option] = unsafe []
        for (index, option) in options.enumerated() {
            if let letter = option.letter { short += "\(letter)\(option.value == nil ? "" : ":")" }
            unsafe long.append(
                .init(
                    name: names[index], has_arg: option.value == nil ? 0 : 1, flag: nil,
                    val: Self.firstValue + Int32(index)))
        }
        unsafe long.append(.init())
        var found: [(index: Int, value: String)] = []
        // getopt_long keeps its state in globals.
        return try getoptGlobals.withLock { _ throws(UsageError) in
            linux_getopt_reset()
            while true {
                let code = unsafe getopt_long(Int32(words.count), words.pointers, short, long, nil)
                if code == -1 { break }
                if code == Int32(UInt8(ascii: "?")) || code == Int32(UInt8(ascii: ":")) {
                    // The word just read; a cluster of letters (`-xc`) is not left before its last one.
                    let word = unsafe String(cString: words[max(1, min(Int(linux_optind()) - 1, words.count - 1))])
                    throw complaint(code == Int32(UInt8(ascii: ":")), option: linux_optopt(), word: word)
                }
                let index = self.index(of: code)
                unsafe found.append((index: index, value: linux_optarg().map { unsafe String(cString: $0) } ?? ""))
            }
            if Int(linux_optind()) < words.count {
                throw UsageError(unsafe "unexpected argument \(quoted(String(cString: words[Int(linux_optind())])))")
            }
            return found
        }
    }

    /// Above every letter.
    private static var firstValue: Int32 { 1_000 }

    private func index(of code: Int32) -> Int {
        if code >= Self.firstValue { return Int(code - Self.firstValue) }
        guard let index = options.firstIndex(where: { $0.letter?.asciiValue.map(Int32.init) == code }) else {
            preconditionFailure("getopt_long returned an option that is not in the table")
        }
        return index
    }

    /// getopt_long(3): `optopt` holds the letter or the value of the option at fault, 0 for an unknown long option.
    private func complaint(_ lacksValue: Bool, option code: Int32, word: String) -> UsageError {
        let known = code >= Self.firstValue ? "--\(options[index(of: code)].name)" : nil
        if lacksValue {
            return UsageError("\(known ?? "-\(Character(Unicode.Scalar(UInt8(code))))") needs a value")
        }
        if let known { return UsageError("\(known) takes no value") }
        if code != 0 {
            return UsageError(
                "unknown option \(quoted("-\(Character(Unicode.Scalar(UInt8(truncatingIfNeeded: code))))"))")
        }
        let name = String(word.drop { $0 == "-" }.prefix { $0 != "=" })
        let candidates = options.map(\.name).filter { $0.hasPrefix(name) }
        if candidates.count > 1 {
            return UsageError(
                "\(quoted("--\(name)")) may be \(candidates.map { "--\($0)" }.joined(separator: " or "))")
        }
        let suggestion = nearest(to: name, among: options.map(\.name)).map { "; did you mean --\($0)?" } ?? ""
        return UsageError("unknown option \(quoted("--\(name)"))\(suggestion)")
    }
}

extension OptionTable {
    /// What `--help` prints; lines of at most 100 columns, a newline at the end.
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

/// The words of a paragraph on lines of at most `width` columns; a longer word has a line of its own.
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

private let getoptGlobals = Mutex(())

/// C copies of strings, for as long as this lives.
@safe private final class CStrings {
    /// With a null pointer at the end.
    private let copies: UnsafeMutableBufferPointer<UnsafeMutablePointer<CChar>?>

    init(_ strings: [String]) {
        unsafe copies = .allocate(capacity: strings.count + 1)
        _ = unsafe copies.initialize(from: strings.map { unsafe strdup($0) } + [nil])
    }

    deinit {
        for index in unsafe copies.indices { unsafe free(copies[index]) }
        unsafe copies.deallocate()
    }

    /// Without the null pointer.
    var count: Int { unsafe copies.count - 1 }

    var pointers: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?> { unsafe copies.baseAddress! }

    subscript(index: Int) -> UnsafeMutablePointer<CChar> { unsafe copies[index]! }
}
