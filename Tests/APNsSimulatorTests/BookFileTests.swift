import Foundation
import PushRecords
import TestSupport
import Testing

@testable import APNsSimulator

/// Books in a file, which remain after their simulator ends. `chaos.py --only "simulator killed"` tests kill -9.
struct BookFileTests {
    private let folder: TemporaryFolder
    private var path: String { folder.path("book") }

    init() throws { folder = try TemporaryFolder() }

    private func rows(_ books: Books) -> [String] {
        var rows: [String] = []
        books.forEach { rows.append("\($0) \($1) \($2) \($3)") }
        return rows
    }

    @Test func `A simulator continues the book file of an earlier one`() throws {
        let simulator = try Simulator.with { $0.book = path }
        let provider = try simulator.provider()
        let id = "123e4567-e89b-12d3-a456-42665544000a"
        let codes = ["fa1741010", "fa17f0010", "fa17f0030", "fa17f0020", "fa17d0010", "00"]
        for (place, code) in codes.enumerated() { try provider.push(UInt32(place), token: token(code)) }
        for user in [10, 11] as [UInt32] { try provider.push(user, id: id) }
        #expect(provider.run { provider.responses.count == 6 && provider.ended.count == 2 })
        // The copy of the open file is what a kill -9 would leave.
        try FileManager.default.copyItem(atPath: path, toPath: path + ".copy")
        let books = try Books(path: path + ".copy")
        #expect(rows(books) == rows(simulator.books))
        #expect(rows(books).count == 7)
        var totals = simulator.books.totals
        #expect(totals.refused == 1 && totals.unanswered == 2 && totals.notProcessed == 1)
        #expect(totals.acceptedAgain == 1 && totals[.unregistered] == 1)
        (totals.connections, totals.openConnections) = (0, 0)
        #expect(books.totals == totals)
        #expect(books.counts(ofToken: token("00")) == (1, 1))

        let error = #expect(throws: SimulatorError.self) { try Simulator.with { $0.book = path + ".copy" } }
        #expect(error?.description.contains("\(path).copy is in use") == true)
    }

    @Test func `A book file grows as needed and is empty after a reset`() throws {
        let count = 400_000
        do {
            let books = try Books(path: path)
            for number in 0..<count {
                withUnsafeBytes(of: UInt64(number % 100)) { token in
                    books.write { state in
                        let index = state.book.arrive(token: token).index
                        let id = NotificationUUID(high: 1, low: UInt64(number))
                        state.note(.accepted, id: id, token: token, index: index)
                    }
                }
            }
        }
        let books = try Books(path: path)
        #expect(books.totals.acceptedDistinct == count && books.totals.tokens == 100)
        books.reset()
        try FileManager.default.copyItem(atPath: path, toPath: path + ".copy")
        #expect(try Books(path: path + ".copy").totals == Totals())
    }

    @Test func `The error of a file that is not a book names the file`() throws {
        func open(_ words: String) {
            let error = #expect(throws: SimulatorError.self) { try Books(path: path) }
            #expect(error?.description.contains(path) == true && error?.description.contains(words) == true)
        }
        for text in [String(repeating: "no book", count: 100), "short"] {
            try folder.write(text, "book")
            open("was not written by a simulator")
        }
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        open("cannot open")
    }
}
