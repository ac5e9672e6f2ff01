/// A message whose parts put names before each other's causes, `kafka: kafka: …`, `localhost:443 cannot be reached:
/// localhost:443: …`, with each name once.
///
/// Who passes an error on names the thing it is about, and so did who found it; neither can know of the other. So this
/// runs where messages leave: what stands before a `: `, but for the last part, is left out when it stood before it
/// already.
package func namesOnce(_ message: String) -> String {
    let separator = ": "
    var kept: [Substring] = []
    var rest = message[...]
    while let found = rest.firstRange(of: separator) {
        let part = rest[..<found.lowerBound]
        rest = rest[found.upperBound...]
        if !kept.contains(where: { $0.names(part) }) { kept.append(part) }
    }
    return (kept + [rest]).joined(separator: separator)
}

extension Substring {
    /// Whether `part` is all of it, its end, or one of its words.
    fileprivate func names(_ part: Substring) -> Bool {
        guard !part.isEmpty else { return false }
        if part.contains(" ") { return self == part || hasSuffix(" \(part)") }
        return split(separator: " ").contains(part)
    }
}
