import Glibc
import PushRecords

/// Which notifications came and were accepted, how often, for which device token: the simulator's side of an audit.
///
/// A row is a pair of apns-id and device token, in the order of their first arrival. A million rows of a million tokens
/// take about 90 MB: 32 bytes and a slot a row, 16 and the token's bytes and a slot a token. A value machine; `Books`
/// guards it.
struct NotificationBook: ~Copyable {
    struct Row: BitwiseCopyable {
        var high: UInt64
        var low: UInt64
        var token: UInt32
        /// Requests with this pair that were, or may have been, processed.
        var received: UInt32
        /// Those that were accepted: Apple would have shown them.
        var accepted: UInt32
    }

    struct Token: BitwiseCopyable {
        /// Where its bytes begin in `tokenBytes`; their number is the byte before.
        var offset: Int
        /// Requests for it, whatever became of them, those that were not processed included.
        var arrived: UInt32
        var accepted: UInt32
    }

    /// Rows beyond this are only counted in `overflow`.
    let limit: Int
    private(set) var overflow = 0
    /// Acceptances beyond the first of their row.
    private(set) var acceptedAgain = 0
    /// Rows with at least one acceptance.
    private(set) var acceptedRows = 0
    private var rows = Rows<Row>()
    private var tokens = Rows<Token>()
    private var tokenBytes = Rows<UInt8>(capacity: 64 * 1024)
    private var rowIndex = HashIndex()
    private var tokenIndex = HashIndex()

    init(limit: Int) { self.limit = min(limit, Int(UInt32.max) - 1) }

    var rowCount: Int { rows.count }
    var tokenCount: Int { tokens.count }
    func row(_ index: Int) -> Row { rows.memory[index] }
    func token(_ index: Int) -> Token { tokens.memory[index] }

    /// The bytes of a token, as numbers; lent until the book is changed.
    func bytes(ofToken index: Int) -> UnsafeRawBufferPointer {
        let offset = tokens.memory[index].offset
        return UnsafeRawBufferPointer(
            start: tokenBytes.memory + offset, count: Int(tokenBytes.memory[offset - 1]))
    }

    /// A request came for a device token (its bytes, not its digits; 1 to 100). Returns the token's place, `nil` when
    /// the book is full, and how many had come for it before.
    mutating func arrive(token: UnsafeRawBufferPointer) -> (index: Int?, earlier: UInt32) {
        guard let index = index(ofToken: token) else { return (nil, 0) }
        let earlier = tokens.memory[index].arrived
        tokens.memory[index].arrived = earlier &+ 1
        return (index, earlier)
    }

    /// A request that is or may have been processed: its row, to say what became of it; `nil` once the book is full.
    mutating func receive(id: NotificationUUID, token: Int?) -> Int? {
        guard let token, let row = index(of: id, token: UInt32(token)) else {
            overflow += 1
            return nil
        }
        rows.memory[row].received &+= 1
        return row
    }

    /// How many of this pair were, or may have been, processed.
    mutating func received(id: NotificationUUID, token: Int?) -> UInt32 {
        guard let token else { return 0 }
        let rows = rows.memory
        let wanted = UInt32(token)
        let row = rowIndex.find(
            hash: Self.hash(id.high, id.low, wanted), orInsert: nil,
            isSame: {
                let row = rows + Int($0)
                return row.pointee.high == id.high && row.pointee.low == id.low && row.pointee.token == wanted
            }, hashOf: { _ in 0 })
        return row.map { rows[Int($0)].received } ?? 0
    }

    /// The request of that row was accepted.
    mutating func accept(row: Int) {
        if rows.memory[row].accepted == 0 { acceptedRows += 1 } else { acceptedAgain += 1 }
        rows.memory[row].accepted &+= 1
        tokens.memory[Int(rows.memory[row].token)].accepted &+= 1
    }

    @inline(__always)
    private mutating func index(of id: NotificationUUID, token: UInt32) -> Int? {
        let memory = rows.memory
        let count = rows.count
        let new = count < limit ? UInt32(count) : nil
        let hash = Self.hash(id.high, id.low, token)
        let found = rowIndex.find(
            hash: hash, orInsert: new,
            isSame: {
                let row = memory + Int($0)
                return row.pointee.high == id.high && row.pointee.low == id.low && row.pointee.token == token
            },
            hashOf: {
                // The row that is being inserted is not in memory yet.
                if Int($0) == count { return hash }
                let row = memory + Int($0)
                return Self.hash(row.pointee.high, row.pointee.low, row.pointee.token)
            })
        if let found { return Int(found) }
        if new == nil { return nil }
        rows.append(Row(high: id.high, low: id.low, token: token, received: 0, accepted: 0))
        return count
    }

    @inline(__always)
    private mutating func index(ofToken token: UnsafeRawBufferPointer) -> Int? {
        let memory = tokens.memory
        let bytes = tokenBytes.memory
        let count = tokens.count
        let new = count < limit ? UInt32(count) : nil
        let hash = Self.hash(token)
        let found = tokenIndex.find(
            hash: hash, orInsert: new,
            isSame: {
                let start = bytes + memory[Int($0)].offset
                return Int(start[-1]) == token.count && memcmp(start, token.baseAddress!, token.count) == 0
            },
            hashOf: {
                if Int($0) == count { return hash }
                let start = bytes + memory[Int($0)].offset
                return Self.hash(UnsafeRawBufferPointer(start: start, count: Int(start[-1])))
            })
        if let found { return Int(found) }
        if new == nil { return nil }
        tokenBytes.append(UInt8(token.count))
        tokens.append(Token(offset: tokenBytes.count, arrived: 0, accepted: 0))
        tokenBytes.append(bytes: token)
        return count
    }

    @inline(__always) private static func hash(_ high: UInt64, _ low: UInt64, _ token: UInt32) -> UInt64 {
        fold(fold(high, low), UInt64(token))
    }

    @inline(__always) private static func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var hash = UInt64(bytes.count)
        var at = 0
        while at + 8 <= bytes.count {
            hash = fold(hash, bytes.loadUnaligned(fromByteOffset: at, as: UInt64.self))
            at += 8
        }
        var rest: UInt64 = 0
        while at < bytes.count {
            rest = rest << 8 | UInt64(bytes[at])
            at += 1
        }
        return fold(hash, rest)
    }
}
