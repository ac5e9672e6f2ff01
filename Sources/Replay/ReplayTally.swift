package import PushRecords

/// What matched, by what people look for.
package struct ReplayTally: Sendable {
    package struct Row: Hashable, Sendable {
        /// Of the requests.
        package var topic: String
        /// `nil`: not told, or of dead letters.
        package var app: String?
        /// `nil`: of dead letters.
        package var outcome: Outcome?
        /// `nil`: there is none.
        package var reason: String?
    }

    /// More rows than that are put together in one.
    private static let rowLimit = 1_000
    private static let firstLimit = 10
    /// Of a word, such as it is.
    private static let wordLimit = 256

    private var counts: [Row: Int64] = [:]
    /// Of rows beyond the limit.
    package private(set) var others: Int64 = 0
    /// Where the first of them stand.
    package private(set) var first: [String] = []

    package init() {}

    mutating func add(_ row: Row, at place: String) {
        if first.count < Self.firstLimit { first.append(Self.word(place)) }
        var row = row
        row.topic = Self.word(row.topic)
        row.app = row.app.map(Self.word)
        row.reason = row.reason.map(Self.word)
        if counts[row] == nil, counts.count >= Self.rowLimit {
            others += 1
        } else {
            counts[row, default: 0] += 1
        }
    }

    private static func word(_ text: String) -> String { text.cut(utf8: wordLimit) }

    /// The most frequent first.
    package var rows: [(row: Row, count: Int64)] {
        counts.map { (row: $0.key, count: $0.value) }.sorted {
            if $0.count != $1.count { return $0.count > $1.count }
            func words(_ row: Row) -> [String] {
                [row.topic, row.app ?? "", row.outcome?.rawValue ?? "", row.reason ?? ""]
            }
            return words($0.row).lexicographicallyPrecedes(words($1.row))
        }
    }
}
