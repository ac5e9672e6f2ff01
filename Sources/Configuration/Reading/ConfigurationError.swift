internal import PushRecords

package struct ConfigurationError: Error, Hashable, Sendable {
    /// Lines to print: `worker.yaml:12:5: delivery.max_age: …`, or `--key-id: …`.
    package let lines: [String]
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
    let letters = word.utf8.prefix(64)
    let distances = candidates.map { (candidate: $0, distance: editDistance(letters, $0.utf8.prefix(64))) }
    guard let best = distances.min(by: { $0.distance < $1.distance }),
        best.distance <= max(1, max(letters.count, best.candidate.utf8.count) / 3)
    else { return nil }
    return best.candidate
}
