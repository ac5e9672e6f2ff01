/// The number of notifications that may be open at once on a connection, adapted to how connections end. A value type.
///
/// If a gateway closes without an error answer, every open notification is in doubt and is sent again. The limit then
/// drops to a quarter of the notifications that were processed on the connection, but not below 100. It doubles each
/// time that as many notifications as the limit were processed. If none was processed on the connection, the limit is
/// halved, and the same notifications are sent first on the next connection. The notification that ends the connections
/// is finally sent alone, and only then does the end count against that notification.
package struct BinaryAdmission: Sendable, Equatable {
    private let most: Int
    package private(set) var limit: Int
    /// The number of notifications processed since the limit changed.
    private var settled = 0

    /// The lower bound of the limit after a connection ended without an answer, if notifications were processed on it.
    package static let leastAfterEnd = 100
    /// The lower bound of the limit after errors that discarded most of the open notifications.
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
    /// were processed on the connection before.
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

    /// Records an error answer after which more notifications were discarded than processed. With fewer open
    /// notifications, an error causes fewer resends.
    package mutating func discarded() {
        guard limit > Self.leastAfterError else { return }
        limit = max(Self.leastAfterError, limit / 2)
        settled = 0
    }
}
