import Testing

@testable import APNs

/// Tests of the feedback service's items in pieces of all sizes.
struct FeedbackParserTests {
    private struct Item: Equatable {
        var seconds: UInt32
        var token: [UInt8]
    }

    private static func bytes(_ item: Item) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: item.seconds >> UInt32(24 - 8 * $0)) }
            + [UInt8(item.token.count >> 8), UInt8(item.token.count & 0xFF)] + item.token
    }

    private static func token(_ length: Int) -> [UInt8] {
        (0..<length).map { UInt8(truncatingIfNeeded: 7 * $0 + length) }
    }

    /// The token lengths of the items: the shortest and the longest valid one, with invalid ones between them.
    private static let items = [1, 32, 0, 101, 100, 0x0120, 2, 32, 0].map {
        Item(seconds: UInt32(truncatingIfNeeded: 0xFFFF_FF00 &+ $0), token: token($0))
    }
    private static let whole = items.filter { (1...100).contains($0.token.count) }

    /// Returns the items parsed from the pieces.
    private static func read(_ pieces: [ArraySlice<UInt8>], _ parser: inout FeedbackParser) -> [Item] {
        var read: [Item] = []
        for piece in pieces {
            piece.withUnsafeBytes { bytes in
                parser.take(bytes) { read.append(Item(seconds: $0, token: Array($1))) }
            }
        }
        return read
    }

    @Test func `The feedback items do not depend on how the bytes are split`() {
        let all = Self.items.flatMap(Self.bytes)
        for split in 0...all.count {
            var parser = FeedbackParser()
            #expect(Self.read([all[..<split], all[split...]], &parser) == Self.whole, "cut at \(split)")
            #expect(parser.skipped == 4 && !parser.isInsideItem)
        }
        for size in 1...9 {
            var parser = FeedbackParser()
            let pieces = stride(from: 0, to: all.count, by: size).map { all[$0..<min($0 + size, all.count)] }
            #expect(Self.read(pieces, &parser) == Self.whole, "pieces of \(size)")
        }
    }

    @Test func `An incomplete feedback item is not reported`() {
        let all = Self.bytes(Item(seconds: 1, token: Self.token(32)))
        for count in 1..<all.count {
            var parser = FeedbackParser()
            #expect(Self.read([all[..<count]], &parser).isEmpty)
            #expect(parser.isInsideItem)
            #expect(Self.read([all[count...]], &parser).count == 1 && !parser.isInsideItem)
        }
        let long = Self.bytes(Item(seconds: 1, token: Self.token(200)))
        var parser = FeedbackParser()
        #expect(Self.read([long.dropLast()], &parser).isEmpty)
        #expect(parser.isInsideItem && parser.skipped == 0)
    }

    @Test func `The longest invalid item is skipped as a whole`() {
        let after = Item(seconds: 3, token: [1])
        let all = Self.bytes(Item(seconds: 2, token: Self.token(0xFFFF))) + Self.bytes(after)
        var parser = FeedbackParser()
        #expect(Self.read([all[..<40_000], all[40_000...]], &parser) == [after])
        #expect(parser.skipped == 1)
    }
}
