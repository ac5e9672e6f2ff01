/// The number of notifications that may be open at once on a connection (`limit`), adapted to how connections end.
///
/// - A connection ends without an answer, and `count` of its notifications were processed: the limit falls to a quarter
///   of `count`, but not below 100. The open notifications are in doubt.
/// - A connection ends without an answer, and none of its notifications was processed: the limit falls to half of the
///   smallest of `limit`, `open` and 200, but not below 1. After several such ends the limit is 1, so the notification
///   that causes them is sent alone. Only ends while it is alone count against it.
/// - The peer stops reading: the limit falls to 100.
/// - An error discards more notifications than it confirms: the limit is halved, but not below 2,000.
/// - At least `limit` notifications were processed since the limit last changed: the limit doubles, up to the maximum.
package struct BinaryAdmission: Sendable, Equatable {
    private let most: Int
    package private(set) var limit: Int
    /// The number of notifications processed since the limit changed.
    private var settled = 0

    /// The lower bound of the limit after a connection ended without an answer, if notifications were processed on it.
    package static let leastAfterEnd = 100
    /// The lower bound of the limit after errors that discarded more notifications than they confirmed.
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

    /// Records that a connection ended without an answer, while `open` notifications were open. `count` notifications
    /// were processed on the connection before it ended.
    package mutating func ended(open: Int, settled count: Int) {
        guard open > 0 else { return }
        limit =
            count > 0
            ? min(limit, max(Self.leastAfterEnd, count / 4)) : max(1, min(limit, open, Self.leastAfterEnd * 2) / 2)
        settled = 0
    }

    /// Records that a connection was given up because its peer stopped reading. The next connections start with a small
    /// limit.
    package mutating func unread() {
        limit = min(limit, Self.leastAfterEnd)
        settled = 0
    }

    /// Halves the limit after an error that discarded more notifications than it confirmed. With fewer open
    /// notifications, the next error causes fewer resends.
    package mutating func discarded() {
        guard limit > Self.leastAfterError else { return }
        limit = max(Self.leastAfterError, limit / 2)
        settled = 0
    }
}
