internal import PushRecords

package struct ConfigurationError: Error, Hashable, Sendable {
    /// The errors, one line each: `worker.yaml:12:5: delivery.max_age: …`, or `--key-id: …`.
    package let lines: [String]
}

/// Returns a user's text in quotes, on one line, and cut after 60 characters.
package func quoted(_ text: String) -> String { "\"\(oneLine(text, limit: 60))\"" }

/// Returns untrusted text for one line of a log or terminal: escapes characters that end a line or control a terminal,
/// and cuts the text after `limit` characters.
package func oneLine(_ text: String, limit: Int = .max) -> String {
    let scalars = text.unicodeScalars
    return scalars.prefix(limit).map(oneLine).joined() + (scalars.count > limit ? "…" : "")
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

/// Returns the candidate with the smallest edit distance to a misspelt word. Returns `nil` if that distance is more
/// than 1 and more than a third of the longer word's length.
package func nearest(to word: String, among candidates: some Sequence<String>) -> String? {
    let letters = word.utf8.prefix(64)
    let distances = candidates.map { (candidate: $0, distance: editDistance(letters, $0.utf8.prefix(64))) }
    guard let best = distances.min(by: { $0.distance < $1.distance }),
        best.distance <= max(1, max(letters.count, best.candidate.utf8.count) / 3)
    else { return nil }
    return best.candidate
}
