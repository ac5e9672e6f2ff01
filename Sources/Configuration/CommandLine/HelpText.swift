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
