import Foundation
import TestSupport
import Testing

@testable import apns_bench

/// The guard as it runs by hand and in CI, on the program that was built with these tests.
@Suite("Guard", .serialized, .waiting, .timeLimit(.minutes(6)), .needsGuard)
struct GuardRunTests {
    static let figures = Repository.path("Tests/GuardTests/figures.json")

    static let program = Repository.product("apns-bench")

    static let isPossible =
        ProcessInfo.processInfo.environment["CI"] == "true"
        || [program, "/usr/bin/valgrind"].allSatisfy(FileManager.default.isExecutableFile)

    static func run(_ arguments: [String]) throws -> (ending: ChildProcess.Ending, text: String) {
        let ended = try ChildProcess.run(program, ["guard"] + arguments, within: 300)
        return (ended.ending, ended.text)
    }

    /// One run over all parts, for the two tests of allocations and instructions.
    static let whole = Result { try run(["--figures", figures]) }

    @Test
    func `No part takes more allocations than committed`() throws {
        let (_, text) = try Self.whole.get()
        print(text)
        #expect(!text.contains(" allocations a notification; "), "\(text)")
        for part in Part.allCases { #expect(text.contains("\n\(part.rawValue) "), "\(part) was not compared: \(text)") }
    }

    @Test
    func `No part takes more instructions than committed`() throws {
        let (ending, text) = try Self.whole.get()
        if let line = text.split(separator: "\n").first(where: { $0.hasPrefix("instructions are not compared") }) {
            try Test.cancel("\(line)")
        }
        #expect(ending == .exited(0), "\(text)")
    }

    @Test
    func `A part that takes 5 % and one allocation more than committed fails, and the output names both`() throws {
        // First take the figures, so that instructions are compared with any toolchain.
        let folder = try TemporaryFolder()
        let file = folder.path("figures.json")
        let (updated, said) = try Self.run(["--update", "--only", "ledger", "--figures", file])
        try #require(updated == .exited(0), "\(said)")
        var lower = try GuardFigures(file)
        lower.parts["ledger"]?["instructions"]? /= 1.05
        lower.parts["ledger"]?["swift_allocations"]? -= 1
        try lower.write(to: file)
        let (ending, text) = try Self.run(["--only", "ledger", "--figures", file])
        print(text)
        #expect(ending == .exited(1))
        #expect(text.contains("FAILED: ledger: "))
        #expect(text.contains(" instructions a notification; "))
        #expect(text.contains(" Swift allocations a notification; "))
        #expect(text.contains("apns-bench guard --only ledger --top"))
    }

    @Test
    func `An unknown part and a missing file each cause an error that names the cause`() throws {
        let (unknown, words) = try Self.run(["--only", "nothing"])
        #expect(unknown == .exited(64))
        #expect(words.contains("invalid choice: 'nothing'"))
        let (absent, line) = try Self.run(["--figures", "/nonexistent/figures.json"])
        #expect(absent == .exited(1))
        #expect(line.contains("the figures cannot be read from /nonexistent/figures.json"))
    }
}

extension Trait where Self == ConditionTrait {
    fileprivate static var needsGuard: Self {
        .enabled(
            if: GuardRunTests.isPossible, "missing: valgrind, or apns-bench beside the tests (Docker/setup --tests)")
    }
}

/// The table in "What it costs" shows the committed figures of the guard's parts.
@Suite struct CostsArticleTests {
    /// The last cell of each row, by part.
    private static func rows() throws -> [String: String] {
        let article = try Repository.text("Sources/Worker/Worker.docc/WhatItCosts.md")
        let section = article.components(separatedBy: "\n## The guard\n")[1].components(separatedBy: "\n## ")[0]
        var rows: [String: String] = [:]
        for line in section.split(separator: "\n") {
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard cells.count == 3, cells[0].hasPrefix("`") else { continue }
            rows[cells[0].trimmingCharacters(in: ["`"])] = cells[2]
        }
        return rows
    }

    @Test func `The table shows the committed figures`() throws {
        let committed = try GuardFigures(GuardRunTests.figures).parts
        let rows = try Self.rows()
        #expect(Set(rows.keys) == Set(committed.keys))
        for (part, figures) in committed {
            let count = Int((figures["instructions"] ?? 0).rounded())
            let text = count < 1_000 ? "\(count)" : "\(count / 1_000),\(String(1_000 + count % 1_000).dropFirst())"
            #expect(rows[part] == text, "\(part): write \(text)")
        }
    }
}

/// The file of committed figures.
struct GuardFigures: Codable {
    var takenWith: [String: String]
    var parts: [String: [String: Double]]

    private enum CodingKeys: String, CodingKey {
        case takenWith = "taken_with"
        case parts
    }

    init(_ path: String) throws {
        self = try JSONDecoder().decode(Self.self, from: Data(contentsOf: URL(fileURLWithPath: path)))
    }

    func write(to path: String) throws { try JSONEncoder().encode(self).write(to: URL(fileURLWithPath: path)) }
}
