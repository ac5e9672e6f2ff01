// The name that a producer most likely meant by an unknown one, for the detail of a refused request.

/// The nearest of several names to one that is unknown.
struct NearestName {
    private let name: UnsafeRawBufferPointer
    private var distance = Int.max
    /// The nearest name so far, or `nil` if none was near enough.
    private(set) var text: StaticString?

    /// Longer names are near to none.
    private static let longest = 31

    init(to name: UnsafeRawBufferPointer) { self.name = name }

    /// Compares a known name, in any case of its letters.
    ///
    /// At most a third of its letters may differ, not counting its first `prefix` bytes. One letter always may.
    mutating func consider(_ candidate: StaticString, prefix: Int = 0, comparesPrefix: Bool = true) {
        guard name.count <= Self.longest else { return }
        let all = candidate.lentBytes
        let rest = all.part(prefix, all.count)
        let distance = Self.distance(name, comparesPrefix ? all : rest)
        guard distance <= max(1, (rest.count + 2) / 3), distance < self.distance else { return }
        self.distance = distance
        text = candidate
    }

    /// The Levenshtein distance, whatever the case of letters.
    private static func distance(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Int {
        var row = Array(0...b.count)
        for i in 0..<a.count {
            var diagonal = row[0]
            row[0] = i + 1
            for j in 0..<b.count {
                let replaced = diagonal + (a[i] | 0x20 == b[j] | 0x20 ? 0 : 1)
                diagonal = row[j + 1]
                row[j + 1] = min(replaced, min(row[j], diagonal) + 1)
            }
        }
        return row[b.count]
    }
}

extension HeaderName {
    /// The header nearest to an unknown name. In an envelope it may lack the prefix that all have.
    static func nearest(to name: UnsafeRawBufferPointer, inEnvelope: Bool) -> StaticString? {
        var nearest = NearestName(to: name)
        let hasPrefix = hasReservedPrefix(name)
        for header in allCases where inEnvelope ? header.isOfEnvelope : !header.isRetry {
            // "apns-", "push-"
            nearest.consider(header.text, prefix: 5)
            if inEnvelope, !hasPrefix { nearest.consider(header.text, prefix: 5, comparesPrefix: false) }
        }
        return nearest.text
    }
}

extension ParserScratch {
    /// `NAME (did you mean MEANT?)`.
    mutating func suggestion(
        _ meant: StaticString?, of member: StaticString = "", for name: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer {
        guard let meant else { return name }
        return add("\(String(decoding: name, as: UTF8.self)) (did you mean \(member)\(meant)?)") ?? name
    }
}
