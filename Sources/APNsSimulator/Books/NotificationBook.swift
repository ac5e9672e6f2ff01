import PushRecords

/// Which notifications came and were accepted, how often, for which device token: the simulator's side of an audit.
///
/// A row is a pair of apns-id and device token, in the order of first arrival. `Books` guards it.
struct NotificationBook {
    struct Row {
        var id: NotificationUUID
        /// The token's place.
        var token: Int
        /// Requests with this pair that were, or may have been, processed.
        var received: UInt32 = 0
        /// Those that were accepted: Apple would have shown them.
        var accepted: UInt32 = 0
    }

    struct Token {
        var bytes: [UInt8]
        /// Requests for it, whatever became of them, those that were not processed included.
        var arrived: UInt32 = 0
        var accepted: UInt32 = 0
    }

    private struct Pair: Hashable {
        var id: NotificationUUID
        var token: Int
    }

    /// Rows and tokens beyond this are only counted in `overflow`.
    let limit: Int
    private(set) var overflow = 0
    /// Acceptances beyond the first of their row.
    private(set) var acceptedAgain = 0
    /// Rows with at least one acceptance.
    private(set) var acceptedRows = 0
    private(set) var rows: [Row] = []
    private(set) var tokens: [Token] = []
    private var rowPlaces: [Pair: Int] = [:]
    private var tokenPlaces: [[UInt8]: Int] = [:]

    init(limit: Int) { self.limit = limit }

    /// A request came for a device token (its bytes, not its digits; 1 to 100). Returns the token's place, `nil` when
    /// the book is full, and how many had come for it before.
    mutating func arrive(token: UnsafeRawBufferPointer) -> (index: Int?, earlier: UInt32) {
        let bytes = Array(token)
        let index: Int
        if let known = tokenPlaces[bytes] {
            index = known
        } else {
            guard tokens.count < limit else { return (nil, 0) }
            index = tokens.count
            tokens.append(Token(bytes: bytes))
            tokenPlaces[bytes] = index
        }
        let earlier = tokens[index].arrived
        tokens[index].arrived = earlier &+ 1
        return (index, earlier)
    }

    /// A request that is or may have been processed: its row, to say what became of it; `nil` once the book is full.
    mutating func receive(id: NotificationUUID, token: Int?) -> Int? {
        guard let token else {
            overflow += 1
            return nil
        }
        let pair = Pair(id: id, token: token)
        let row: Int
        if let known = rowPlaces[pair] {
            row = known
        } else {
            guard rows.count < limit else {
                overflow += 1
                return nil
            }
            row = rows.count
            rows.append(Row(id: id, token: token))
            rowPlaces[pair] = row
        }
        rows[row].received &+= 1
        return row
    }

    /// How many of this pair were, or may have been, processed.
    func received(id: NotificationUUID, token: Int?) -> UInt32 {
        token.flatMap { rowPlaces[Pair(id: id, token: $0)] }.map { rows[$0].received } ?? 0
    }

    /// The request of that row was accepted.
    mutating func accept(row: Int) {
        if rows[row].accepted == 0 { acceptedRows += 1 } else { acceptedAgain += 1 }
        rows[row].accepted &+= 1
        tokens[rows[row].token].accepted &+= 1
    }

    /// The counts of a token, by its bytes.
    func counts(of token: [UInt8]) -> (arrived: Int, accepted: Int) {
        guard let index = tokenPlaces[token] else { return (0, 0) }
        return (Int(tokens[index].arrived), Int(tokens[index].accepted))
    }
}
