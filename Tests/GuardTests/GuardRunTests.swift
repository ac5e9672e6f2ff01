import Foundation
import TestSupport
import Testing

@testable import apns_bench

/// The guard as it runs by hand and in CI, on the program that was built with these tests.
@Suite("Guard", .serialized, .waiting, .timeLimit(.minutes(6)), .needsGuard)
struct GuardRunTests {
    static let figures = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "figures.json")
        .path

    /// SwiftPM puts the program beside the test bundle.
    static let program: String? = {
        let program = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent().appendingPathComponent("apns-bench").path
        return FileManager.default.isExecutableFile(atPath: program) ? program : nil
    }()

    static let isPossible =
        ProcessInfo.processInfo.environment["CI"] == "true"
        || program != nil && FileManager.default.isExecutableFile(atPath: "/usr/bin/valgrind")

    static func run(_ arguments: [String]) throws -> (ending: ChildProcess.Ending, text: String) {
        let program = try #require(program, "there is no apns-bench beside the tests")
        let child = try ChildProcess(program, ["guard"] + arguments)
        return (try child.wait(seconds: 300), child.text)
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
