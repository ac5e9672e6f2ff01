import Testing

@testable import apns_bench

@Suite("The guard's comparison")
struct ComparisonTests {
    static let before = PartFigures(instructions: 2_000, swiftAllocations: 0.01, cAllocations: 5)

    static var committed: Figures {
        var figures = Figures(takenWith: Toolchain(versions: ["swift": "6.3.1", "glibc": "2.36"]))
        figures.parts["machine"] = before
        return figures
    }

    struct Case: CustomTestStringConvertible {
        var name: String
        var change: @Sendable (inout PartFigures) -> Void
        /// Of instructions, Swift's allocations, C's.
        var verdicts: [Comparison.Verdict]
        var testDescription: String { name }
    }

    @Test(
        "One more allocation fails, and so do 5 % more instructions; noise does not",
        arguments: [
            Case(name: "the same", change: { _ in }, verdicts: [.ok, .ok, .ok]),
            Case(
                name: "one more Swift allocation", change: { $0.swiftAllocations += 1 }, verdicts: [.ok, .failed, .ok]),
            Case(name: "one more malloc", change: { $0.cAllocations += 1 }, verdicts: [.ok, .ok, .failed]),
            Case(
                name: "one more in four notifications", change: { $0.swiftAllocations += 0.25 },
                verdicts: [.ok, .failed, .ok]),
            Case(name: "one more in a batch", change: { $0.swiftAllocations += 0.01 }, verdicts: [.ok, .ok, .ok]),
            Case(name: "5 % more instructions", change: { $0.instructions *= 1.05 }, verdicts: [.failed, .ok, .ok]),
            Case(name: "1 % more instructions", change: { $0.instructions *= 1.01 }, verdicts: [.ok, .ok, .ok]),
            Case(name: "5 % less instructions", change: { $0.instructions *= 0.95 }, verdicts: [.better, .ok, .ok]),
            Case(name: "one malloc less", change: { $0.cAllocations -= 1 }, verdicts: [.ok, .ok, .better]),
        ])
    func verdicts(_ test: Case) {
        var counted = Self.before
        test.change(&counted)
        let comparison = Comparison([("machine", counted)], committed: Self.committed, comparesInstructions: true)
        #expect(comparison.rows.map(\.verdict) == test.verdicts)
        #expect(comparison.hasFailed == test.verdicts.contains(.failed))
        #expect(comparison.text.contains("FAILED: machine") == test.verdicts.contains(.failed))
        #expect(comparison.text.contains("--update") == test.verdicts.contains { $0 != .ok })
    }

    @Test("A part without committed figures fails, and says how to make them")
    func missing() {
        let comparison = Comparison([("parse", Self.before)], committed: Self.committed, comparesInstructions: true)
        #expect(comparison.hasFailed)
        #expect(comparison.text.contains("parse: FAILED: it has no committed figures; --update writes them"))
    }

    @Test("With another toolchain only allocations are compared")
    func anotherToolchain() {
        var counted = Self.before
        counted.instructions *= 2
        let comparison = Comparison([("machine", counted)], committed: Self.committed, comparesInstructions: false)
        #expect(!comparison.hasFailed)
        #expect(comparison.rows.map(\.figure) == [.swiftAllocations, .cAllocations])
        let here = Toolchain(versions: ["swift": "6.4", "glibc": "2.36", "openssl": "3.5"])
        #expect(here.differences(from: Self.committed.takenWith) == ["swift 6.4 instead of 6.3.1"])
    }

    @Test("A file of figures comes back as it was written, and another file is refused in one line")
    func file() throws {
        #expect(try Figures(text: Self.committed.text, "figures.json") == Self.committed)
        let failure = #expect(throws: BenchFailure.self) { try Figures(text: "{\"parts\": [1]}", "figures.json") }
        #expect(failure?.description.hasPrefix("figures.json is no file of figures: ") == true)
        #expect(throws: BenchFailure.self) { try Figures(file: "/nonexistent/figures.json") }
    }
}
