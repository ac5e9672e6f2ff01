import PushRecords

/// The numbers of received and accepted requests for each pair of apns-id and device token, in the order of first
/// arrival.
///
/// Guarded by the lock of `Books`.
struct NotificationBook {
    struct Row {
        var id: NotificationUUID
        /// The index of the row's device token in the table of tokens.
        var token: Int
        /// The number of requests with this apns-id and token that were or may have been processed.
        var received: UInt32 = 0
        /// The number of accepted requests with this apns-id and token.
        var accepted: UInt32 = 0
    }

    struct Token {
        var bytes: [UInt8]
        /// The number of requests for this token, including those that were not processed.
        var arrived: UInt32 = 0
        var accepted: UInt32 = 0
    }

    private struct Pair: Hashable {
        var id: NotificationUUID
        var token: Int
    }

    /// The maximum number of rows, and of tokens. `overflow` counts the requests beyond this limit.
    let limit: Int
    private(set) var overflow = 0
    /// The number of duplicates: accepted requests beyond the first of each row.
    private(set) var acceptedAgain = 0
    /// The number of rows with at least one accepted request.
    private(set) var acceptedRows = 0
    private(set) var rows: [Row] = []
    private(set) var tokens: [Token] = []
    private var rowPlaces: [Pair: Int] = [:]
    private var tokenPlaces: [[UInt8]: Int] = [:]

    init(limit: Int) { self.limit = limit }

    /// Registers the arrival of a request for a device token of up to 100 bytes. Returns the token's index (`nil` if
    /// the token is empty or the limit is reached) and the number of earlier requests for the token.
    mutating func arrive(token: UnsafeRawBufferPointer) -> (index: Int?, earlier: UInt32) {
        if token.isEmpty { return (nil, 0) }
        let bytes = Array(token)
        let index = tokenPlaces[bytes] ?? tokens.count
        if index == tokens.count {
            guard index < limit else { return (nil, 0) }
            tokens.append(Token(bytes: bytes))
            tokenPlaces[bytes] = index
        }
        let earlier = tokens[index].arrived
        tokens[index].arrived = earlier &+ 1
        return (index, earlier)
    }

    /// Registers a request that was or may have been processed, under the index of its token. A request without an
    /// index counts as overflow.
    mutating func record(id: NotificationUUID, token: Int?, isAccepted: Bool) {
        guard let token else {
            overflow += 1
            return
        }
        let pair = Pair(id: id, token: token)
        let row = rowPlaces[pair] ?? rows.count
        if row == rows.count {
            guard row < limit else {
                overflow += 1
                return
            }
            rows.append(Row(id: id, token: token))
            rowPlaces[pair] = row
        }
        rows[row].received &+= 1
        guard isAccepted else { return }
        if rows[row].accepted == 0 { acceptedRows += 1 } else { acceptedAgain += 1 }
        rows[row].accepted &+= 1
        tokens[token].accepted &+= 1
    }

    /// Returns how many requests with this apns-id and token were or may have been processed.
    func received(id: NotificationUUID, token: Int?) -> UInt32 {
        token.flatMap { rowPlaces[Pair(id: id, token: $0)] }.map { rows[$0].received } ?? 0
    }

    /// Returns how many requests for the token with these bytes arrived and how many were accepted.
    func counts(of token: [UInt8]) -> (arrived: Int, accepted: Int) {
        guard let index = tokenPlaces[token] else { return (0, 0) }
        return (Int(tokens[index].arrived), Int(tokens[index].accepted))
    }
}
