/// Dead tokens that were read and that no producer has yet, in the order in which they came. A value: decides nothing.
struct FeedbackQueue {
    struct Item {
        /// The number of the read that brought it.
        var read: UInt64
        var seconds: UInt32
        /// Lent.
        var token: UnsafeRawBufferPointer
    }

    /// One behind the other: read (8), seconds (4), length (1), token.
    private var bytes: [UInt8] = []
    private var start = 0
    private(set) var count = 0

    private static let headBytes = 13
    /// What was taken out is given back in pieces of this size, at least.
    private static let pieceBytes = 1 << 20

    /// What waits, in memory.
    var byteCount: Int { bytes.count - start }

    /// - Parameter token: 1 to 255 bytes.
    mutating func append(_ item: Item) {
        withUnsafeBytes(of: item.read.bigEndian) { bytes.append(contentsOf: $0) }
        withUnsafeBytes(of: item.seconds.bigEndian) { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(item.token.count))
        bytes.append(contentsOf: item.token)
        count += 1
    }

    /// Lends the first one to `body`, and takes it out if that says so; false: it does not, or there is none.
    mutating func takeFirst(if body: (Item) -> Bool) -> Bool {
        guard count > 0 else { return false }
        let length = Int(bytes[start + Self.headBytes - 1])
        let isTaken = bytes.withUnsafeBytes { bytes in
            body(
                Item(
                    read: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: start, as: UInt64.self)),
                    seconds: UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: start + 8, as: UInt32.self)),
                    token: UnsafeRawBufferPointer(rebasing: bytes[(start + Self.headBytes)...].prefix(length))))
        }
        guard isTaken else { return false }
        start += Self.headBytes + length
        count -= 1
        giveBack()
        return true
    }

    private mutating func giveBack() {
        if count == 0 {
            bytes.removeAll(keepingCapacity: bytes.count <= Self.pieceBytes)
            start = 0
        } else if start >= Self.pieceBytes, start > bytes.count / 2 {
            bytes.removeFirst(start)
            start = 0
        }
    }
}
