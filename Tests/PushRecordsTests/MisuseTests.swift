import Foundation
import TestSupport
import Testing

/// Code that must not compile (`Tests/Misuse`) and examples that must, checked against the module of these tests.
@Suite(.waiting) struct MisuseTests {
    static let compiler = ProcessInfo.processInfo.environment["PATH", default: ""].split(separator: ":")
        .map { "\($0)/swiftc" }.first { FileManager.default.isExecutableFile(atPath: $0) }

    /// One error of the compiler.
    private struct Complaint: Hashable {
        var line: Int
        var text: String
    }

    private static func check(_ files: [String], _ options: [String] = []) throws -> (
        isFine: Bool, complaints: [Complaint]
    ) {
        let modules = Repository.product("Modules")
        #expect(FileManager.default.fileExists(atPath: "\(modules)/PushRecords.swiftmodule"), "\(modules)")
        // The files are one module, because otherwise the first file with an error hides the others.
        let words = ["-typecheck", "-wmo", "-swift-version", "6", "-warnings-as-errors", "-I", modules]
        let ended = try ChildProcess.run(try #require(compiler), words + options + files)
        let isFine = ended.ending == .exited(0)
        let complaints = ended.text.split(separator: "\n").compactMap { line -> Complaint? in
            guard let match = line.wholeMatch(of: /.*?\.swift:(\d+):\d+: error: (.*)/) else { return nil }
            return Complaint(line: Int(match.1) ?? 0, text: String(match.2))
        }
        if !isFine && complaints.isEmpty { Issue.record("swiftc: \(ended.text)") }
        return (isFine, complaints)
    }

    /// The compiler rejects each misuse at its line with the expected text. Each corrected twin compiles.
    @Test(.needsCompiler) func `Misuse does not compile`() throws {
        let file = "Tests/Misuse/Misuse.swift"
        let corrected = try Self.check([Repository.path(file)])
        #expect(corrected.isFine && corrected.complaints == [])
        let misused = try Self.check([Repository.path(file)], ["-D", "MISUSE"])
        #expect(!misused.isFine)
        var expected: [Int: String] = [:]
        let lines = try Repository.text(file).components(separatedBy: "\n")
        for (index, line) in lines.enumerated() {
            // The comment describes the error of the next line.
            if let words = line.components(separatedBy: "// error: ").dropFirst().first { expected[index + 2] = words }
        }
        #expect(expected.count >= 20)
        for (line, words) in expected {
            #expect(misused.complaints.contains { $0.line == line && $0.text.contains(words) }, "line \(line)")
        }
        for complaint in misused.complaints {
            #expect(expected[complaint.line] != nil, "line \(complaint.line): \(complaint.text)")
        }
    }

    /// Declarations that examples use without defining them.
    private static let prelude = """
        import Foundation
        import PushRecords

        struct Producer {
            func produce(_ topic: String, _ key: [UInt8]?, _ value: [UInt8], _ headers: [HeaderField]) {}
        }
        let producer = Producer()
        let token = "0a0b"
        let tokens: [DeviceToken] = []
        let channel = "dHN0LXNyY2gtY2hubA=="
        let now = UnixTime(secondsSinceEpoch: 1_790_000_000)
        let value: [UInt8] = []
        let resultValue: [UInt8] = []
        let deadValue: [UInt8] = []

        """

    @Test(.needsCompiler) func `Every example of the articles compiles`() throws {
        let folder = try TemporaryFolder()
        var sources = [try folder.write(Self.prelude, "Prelude.swift")]
        for article in try ["README.md"] + Repository.files(below: "Sources", ".md") {
            for (number, block) in try Repository.blocks("swift", of: article).enumerated() {
                let name = "\(URL(filePath: article).deletingPathExtension().lastPathComponent)\(number + 1)"
                let lines = block.components(separatedBy: "\n").filter { !$0.hasPrefix("import ") }
                let code =
                    "import Foundation\nimport PushRecords\nfunc example\(name)() throws {\n\(lines.joined(separator: "\n"))\n}\n"
                sources.append(try folder.write(code, "\(name).swift"))
            }
        }
        #expect(sources.count > 12)
        // Examples have unused variables, so warnings are suppressed.
        let found = try Self.check(sources, ["-suppress-warnings", "-no-warnings-as-errors"])
        #expect(found.isFine && found.complaints == [])
    }
}

extension Trait where Self == ConditionTrait {
    fileprivate static var needsCompiler: Self {
        .enabled(if: MisuseTests.compiler != nil, "missing: swiftc on PATH, to compile the examples")
    }
}
