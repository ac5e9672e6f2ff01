/// Takes the items of the feedback service out of its bytes, in whichever pieces those come.
///
/// An item is big-endian: seconds since 1970 (4 bytes), the token's length (2), the token. Source: Apple, "Local and
/// Remote Notification Programming Guide", "Binary Provider API", "The Feedback Service" (archived).
package struct FeedbackParser {
    /// Bytes of a device token; what is shorter or longer is no token that the worker would take elsewhere.
    package static let tokenLengths = 1...100
    private static let headBytes = 6

    /// The beginning of an item: its head, and of its token what has come.
    private var begun: [UInt8] = []
    /// Bytes of a token of another length that have not come yet.
    private var bytesToSkip = 0
    /// Items with a token.
    package private(set) var tokens = 0
    /// Items with a token of another length.
    package private(set) var skipped = 0

    package init() {}

    /// Whether an item has begun that has not come whole.
    package var isInsideItem: Bool { !begun.isEmpty || bytesToSkip > 0 }

    /// Calls `body` for each item that is whole now; the token is lent for the call.
    package mutating func take(
        _ bytes: UnsafeRawBufferPointer, _ body: (_ seconds: UInt32, _ token: UnsafeRawBufferPointer) -> Void
    ) {
        var place = 0
        while place < bytes.count {
            if bytesToSkip > 0 {
                let skipped = min(bytesToSkip, bytes.count - place)
                bytesToSkip -= skipped
                place += skipped
                continue
            }
            let whole = begun.count < Self.headBytes ? Self.headBytes : Self.headBytes + tokenLength
            let taken = min(whole - begun.count, bytes.count - place)
            begun.append(contentsOf: bytes[place..<place + taken])
            place += taken
            guard begun.count == whole else { return }
            if whole == Self.headBytes { lookAtHead() } else { end(body) }
        }
    }

    private var tokenLength: Int { Int(begun[4]) << 8 | Int(begun[5]) }

    private mutating func lookAtHead() {
        guard !Self.tokenLengths.contains(tokenLength) else { return }
        skipped += 1
        bytesToSkip = tokenLength
        begun.removeAll(keepingCapacity: true)
    }

    private mutating func end(_ body: (UInt32, UnsafeRawBufferPointer) -> Void) {
        tokens += 1
        let seconds = begun[..<4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        begun.withUnsafeBytes { body(seconds, UnsafeRawBufferPointer(rebasing: $0[Self.headBytes...])) }
        begun.removeAll(keepingCapacity: true)
    }
}
