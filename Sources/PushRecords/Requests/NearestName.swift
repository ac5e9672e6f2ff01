/// The known name that is closest to an unknown one, as a suggestion in the detail of a rejected request.
struct NearestName {
    private let name: UnsafeRawBufferPointer
    private var distance = Int.max
    /// The closest known name so far, or `nil` if no name was close enough.
    private(set) var text: StaticString?

    /// The maximum length in bytes of an unknown name that gets a suggestion.
    private static let longest = 31

    init(to name: UnsafeRawBufferPointer) { self.name = name }

    /// Makes a known name the suggestion if it is closer than the current suggestion. Ignores the case of letters.
    ///
    /// The edit distance must be at most a third (rounded up) of the candidate's length without its first `prefix`
    /// bytes. A distance of 1 is always allowed.
    mutating func consider(_ candidate: StaticString, prefix: Int = 0, comparesPrefix: Bool = true) {
        guard name.count <= Self.longest else { return }
        let all = candidate.lentBytes
        let rest = all.part(prefix, all.count)
        let distance = editDistance(name, comparesPrefix ? all : rest)
        guard distance <= max(1, (rest.count + 2) / 3), distance < self.distance else { return }
        self.distance = distance
        text = candidate
    }
}

/// Returns the Damerau–Levenshtein distance (optimal string alignment), ignoring the case of letters.
package func editDistance(_ a: some Collection<UInt8>, _ b: some Collection<UInt8>) -> Int {
    let (a, b) = (a.map { $0 | 0x20 }, b.map { $0 | 0x20 })
    var (beforeLast, last) = ([Int](), Array(0...b.count))
    for i in a.indices {
        var row = [i + 1]
        for j in b.indices {
            var distance = min(last[j + 1] + 1, row[j] + 1, last[j] + (a[i] == b[j] ? 0 : 1))
            if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { distance = min(distance, beforeLast[j - 1] + 1) }
            row.append(distance)
        }
        (beforeLast, last) = (last, row)
    }
    return last[b.count]
}

extension HeaderName {
    /// Returns the header closest to an unknown name. In an envelope the name may lack its `apns-` prefix.
    static func nearest(to name: UnsafeRawBufferPointer, inEnvelope: Bool) -> StaticString? {
        var nearest = NearestName(to: name)
        let hasPrefix = hasReservedPrefix(name)
        for header in allCases where inEnvelope ? header.isOfEnvelope : !header.isRetry {
            // Every name begins with `apns-` or `push-`, a prefix of five bytes.
            nearest.consider(header.text, prefix: 5)
            if inEnvelope, !hasPrefix { nearest.consider(header.text, prefix: 5, comparesPrefix: false) }
        }
        return nearest.text
    }
}

extension RequestParser.Scratch {
    /// Returns `NAME (did you mean MEANT?)`, or the name alone if there is no suggestion.
    mutating func suggestion(
        _ meant: StaticString?, of member: StaticString = "", for name: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer {
        guard let meant else { return name }
        return add("\(String(decoding: name, as: UTF8.self)) (did you mean \(member)\(meant)?)") ?? name
    }
}
