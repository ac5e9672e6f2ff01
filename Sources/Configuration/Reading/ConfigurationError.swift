/// Everything that is wrong with a configuration.
package struct ConfigurationError: Error, Hashable, Sendable {
    /// Lines to print: `worker.yaml:12:5: delivery.max_age: …`, or `--key-id: …`.
    package let lines: [String]

    package static let maxLines = 50

    init(lines: [String]) {
        guard lines.count > Self.maxLines else {
            self.lines = lines
            return
        }
        self.lines = lines.prefix(Self.maxLines) + ["and \(lines.count - Self.maxLines) more problems"]
    }
}

/// Quotes a user's text for one line: control characters are escaped, and 60 characters are kept.
func quoted(_ text: String) -> String {
    var result = "\""
    for (count, scalar) in text.unicodeScalars.enumerated() {
        if count == 60 { return result + "…\"" }
        result += oneLine(scalar)
    }
    return result + "\""
}

/// Escapes characters that end a line or control a terminal.
func oneLine(_ text: String) -> String {
    text.unicodeScalars.map(oneLine).joined()
}

private func oneLine(_ scalar: Unicode.Scalar) -> String {
    switch scalar {
    case "\n": "\\n"
    case "\r": "\\r"
    case "\t": "\\t"
    case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}", "\u{2028}", "\u{2029}":
        "\\u{\(String(scalar.value, radix: 16))}"
    default: String(Character(scalar))
    }
}

/// The candidate nearest to a misspelt word, at most a third of its letters away.
package func nearest(to word: String, among candidates: some Sequence<String>) -> String? {
    let letters = Array(word.lowercased().unicodeScalars.prefix(64))
    var best: (candidate: String, distance: Int)?
    for candidate in candidates {
        let distance = editDistance(letters, Array(candidate.lowercased().unicodeScalars.prefix(64)))
        if distance < best?.distance ?? .max { best = (candidate, distance) }
    }
    guard let best, best.distance <= max(1, max(letters.count, best.candidate.unicodeScalars.count) / 3) else {
        return nil
    }
    return best.candidate
}

/// The number of letters to insert, delete, replace, or swap (Damerau's distance, optimal alignment).
func editDistance(_ a: [Unicode.Scalar], _ b: [Unicode.Scalar]) -> Int {
    guard !a.isEmpty, !b.isEmpty else { return max(a.count, b.count) }
    var beforeLast: [Int] = []
    var last = Array(0...b.count)
    for i in 1...a.count {
        var row = [i]
        row.reserveCapacity(b.count + 1)
        for j in 1...b.count {
            var distance = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1))
            if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] {
                distance = min(distance, beforeLast[j - 2] + 1)
            }
            row.append(distance)
        }
        (beforeLast, last) = (last, row)
    }
    return last[b.count]
}
