import HTTPServer
import PushRecords
import Testing

@testable import APNsSimulator

struct BooksTests {
    func arrive(_ books: Books, _ id: UInt64, token: [UInt8], accepted: Bool) {
        books.write { state in
            let token = token.withUnsafeBytes { state.book.arrive(token: $0) }
            state.book.record(id: NotificationUUID(high: 7, low: id), token: token.index, isAccepted: accepted)
        }
    }

    func dump(_ books: Books, _ listing: Books.Listing, from first: Int = 0, room: Int = 300) -> [String] {
        var cursor = Books.Cursor(listing: listing, index: first)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: room, alignment: 1)
        defer { buffer.deallocate() }
        var text = ""
        while case .wrote(let count) = books.dump(&cursor, into: buffer) {
            text += String(decoding: buffer[..<count], as: UTF8.self)
        }
        return text.split(separator: "\n").map(String.init)
    }

    @Test func `Pairs of id and token are counted and listed in order of arrival`() {
        let books = Books()
        arrive(books, 1, token: [0xAB, 0x01], accepted: true)
        arrive(books, 2, token: [0xAB, 0x01], accepted: false)
        arrive(books, 1, token: [0xAB, 0x01], accepted: true)
        arrive(books, 1, token: [0xCD], accepted: true)
        let one = "00000000-0000-0007-0000-000000000001"
        let two = "00000000-0000-0007-0000-000000000002"
        #expect(dump(books, .accepted) == ["\(one) ab01 2", "\(one) cd 1"])
        #expect(dump(books, .received) == ["\(one) ab01 2", "\(two) ab01 1", "\(one) cd 1"])
        #expect(dump(books, .tokens) == ["ab01 3 2", "cd 1 1"])
        #expect(dump(books, .received, from: 1) == ["\(two) ab01 1", "\(one) cd 1"])
        #expect(dump(books, .accepted, from: 3).isEmpty)
        let totals = books.totals
        #expect(totals.acceptedDistinct == 2 && totals.acceptedAgain == 1 && totals.tokens == 2)
        #expect(books.counts(ofToken: "ab01") == (3, 2))
        #expect(books.counts(ofToken: "ffff") == (0, 0))
    }

    @Test func `A full book counts repeated entries and the entries that it cannot add`() {
        let books = Books(limit: 2)
        arrive(books, 1, token: [1], accepted: true)
        arrive(books, 2, token: [1], accepted: true)
        arrive(books, 3, token: [1], accepted: true)
        arrive(books, 1, token: [1], accepted: true)
        arrive(books, 9, token: [2], accepted: true)
        arrive(books, 9, token: [3], accepted: true)
        let totals = books.totals
        #expect(totals.acceptedDistinct == 2 && totals.acceptedAgain == 1)
        #expect(totals.overflow == 3)
    }

    @Test func `A reset empties the books and ends a dump in progress`() {
        let books = Books()
        for id in 0..<50 { arrive(books, UInt64(id), token: [UInt8(id)], accepted: true) }
        var cursor = Books.Cursor(listing: .accepted)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 300, alignment: 1)
        defer { buffer.deallocate() }
        guard case .wrote = books.dump(&cursor, into: buffer) else {
            Issue.record("The dump wrote no lines before the reset")
            return
        }
        books.reset()
        #expect(books.dump(&cursor, into: buffer) == .failed)
        #expect(books.totals == Totals())
        #expect(dump(books, .received).isEmpty)
    }

    @Test func `The longest line of a dump fits the smallest buffer`() {
        let books = Books()
        arrive(books, 1, token: [UInt8](repeating: 0xAB, count: 100), accepted: true)
        #expect(
            dump(books, .accepted, room: Books.longestLine) == [
                "00000000-0000-0007-0000-000000000001 \(String(repeating: "ab", count: 100)) 1"
            ])
    }
}
