/// How many notifications may be open at once on a connection, by how connections end: a value machine.
///
/// Where a gateway closes without a word, all that was open is in doubt, and sent again: so little is to be open next
/// time, a quarter of what the connection had settled, or 100. It doubles with what is settled. Where nothing was
/// settled on it, half as many are admitted each time, the same ones first: so the one that ends the connections is
/// alone at last, and only then is an end held against it.
package struct BinaryAdmission: Sendable, Equatable {
    private let most: Int
    package private(set) var limit: Int
    /// Settled since it changed.
    private var settled = 0

    /// Ends without a word make it no smaller, as long as something is settled between them.
    package static let leastAfterEnd = 100
    /// Errors that discard most of what is open make it no smaller than this.
    package static let leastAfterError = 2_000

    package init(most: Int) {
        self.most = max(1, most)
        limit = self.most
    }

    package mutating func settled(_ count: Int) {
        guard count > 0 else { return }
        settled += count
        guard limit < most, settled >= limit else { return }
        settled = 0
        limit = min(most, limit * 2)
    }

    /// A connection ended without a word while `open` were open on it, after so many had been settled on it.
    package mutating func ended(open: Int, settled count: Int) {
        guard open > 0 else { return }
        limit =
            count > 0
            ? min(limit, max(Self.leastAfterEnd, count / 4)) : max(1, min(limit, open, Self.leastAfterEnd * 2) / 2)
        settled = 0
    }

    /// A connection was given up since its peer read no further: the next ones show first what they take.
    package mutating func unread() {
        limit = min(limit, Self.leastAfterEnd)
        settled = 0
    }

    /// An error discarded more than it settled: what is open costs more than it brings.
    package mutating func discarded() {
        guard limit > Self.leastAfterError else { return }
        limit = max(Self.leastAfterError, limit / 2)
        settled = 0
    }
}
