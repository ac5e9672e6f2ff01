/// What became of the results or dead letters that matched.
package struct ReplayCounts: Hashable, Sendable {
    /// All of them.
    package var matched: Int64 = 0
    /// Of a notification that was taken already.
    package var repeated: Int64 = 0
    /// Asked for again.
    package var produced: Int64 = 0
    /// Left out, since it would only expire.
    package var expired: Int64 = 0
    /// The request is not there any more, or another one is at its place.
    package var gone: Int64 = 0
    /// The request, or the result itself, cannot be read.
    package var unreadable: Int64 = 0
    /// It cannot be asked for again, or the topic refuses its record.
    package var refused: Int64 = 0
    /// Offsets of the results' topic that were gone before they were read.
    package var lost: Int64 = 0

    package init() {}

    /// Whether something that was meant was not asked for again.
    package var isComplete: Bool { gone == 0 && unreadable == 0 && refused == 0 && lost == 0 }

    /// One letter each, as they stand in commits.
    static var letters: [(Character, any WritableKeyPath<ReplayCounts, Int64> & Sendable)] {
        [
            ("m", \.matched), ("a", \.repeated), ("p", \.produced), ("x", \.expired), ("g", \.gone),
            ("u", \.unreadable), ("r", \.refused), ("l", \.lost),
        ]
    }

    static func += (total: inout ReplayCounts, part: ReplayCounts) {
        for (_, count) in letters { total[keyPath: count] += part[keyPath: count] }
    }
}
