import Foundation
import TestSupport
import Testing

/// Code that must not compile (`Tests/Misuse`) and examples that must, checked against the module of these tests.
@Suite(.waiting) struct MisuseTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appending(path: "../..").standardizedFileURL

    static let compiler = ProcessInfo.processInfo.environment["PATH", default: ""].split(separator: ":")
        .map { "\($0)/swiftc" }.first { FileManager.default.isExecutableFile(atPath: $0) }

    /// One error of the compiler.
    private struct Complaint: Hashable {
        var line: Int
        var text: String
    }

    /// SwiftPM puts modules beside the test bundle.
    private static func check(_ files: [URL], _ options: [String] = []) throws -> (
        status: Int32, complaints: [Complaint]
    ) {
        let modules = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent().appending(path: "Modules").path
        #expect(FileManager.default.fileExists(atPath: "\(modules)/PushRecords.swiftmodule"), "\(modules)")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try #require(compiler))
        // The files are one module, because otherwise the first file with an error hides the others.
        process.arguments =
            ["-typecheck", "-wmo", "-swift-version", "6", "-warnings-as-errors", "-I", modules] + options
            + files.map(\.path)
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        let complaints = text.split(separator: "\n").compactMap { line -> Complaint? in
            guard let match = line.wholeMatch(of: /.*?\.swift:(\d+):\d+: error: (.*)/) else { return nil }
            return Complaint(line: Int(match.1) ?? 0, text: String(match.2))
        }
        if process.terminationStatus != 0 && complaints.isEmpty { Issue.record("swiftc: \(text)") }
        return (process.terminationStatus, complaints)
    }

    /// The compiler rejects each misuse at its line with the expected text. Each corrected twin compiles.
    @Test(.needsCompiler) func `Misuse does not compile`() throws {
        let file = Self.root.appending(path: "Tests/Misuse/Misuse.swift")
        let corrected = try Self.check([file])
        #expect(corrected.status == 0 && corrected.complaints == [])
        let misused = try Self.check([file], ["-D", "MISUSE"])
        #expect(misused.status != 0)
        var expected: [Int: String] = [:]
        let lines = try String(contentsOf: file, encoding: .utf8).components(separatedBy: "\n")
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
        let articles =
            (FileManager.default.enumerator(at: root(of: "Sources"), includingPropertiesForKeys: nil)?.allObjects
            as? [URL] ?? []).filter { $0.pathExtension == "md" }.sorted { $0.path < $1.path }
        let folder = try TemporaryFolder()
        var sources = [URL(filePath: try folder.write(Self.prelude, "Prelude.swift"))]
        for article in [root(of: "README.md")] + articles {
            let blocks = try String(contentsOf: article, encoding: .utf8).components(separatedBy: "```swift\n")
                .dropFirst()
            for (number, block) in blocks.enumerated() {
                let name = "\(article.deletingPathExtension().lastPathComponent)\(number + 1)"
                let lines = block.components(separatedBy: "```")[0].components(separatedBy: "\n")
                    .filter { !$0.hasPrefix("import ") }
                let code =
                    "import Foundation\nimport PushRecords\nfunc example\(name)() throws {\n\(lines.joined(separator: "\n"))\n}\n"
                sources.append(URL(filePath: try folder.write(code, "\(name).swift")))
            }
        }
        #expect(sources.count > 12)
        // Examples have unused variables, so warnings are suppressed.
        let found = try Self.check(sources, ["-suppress-warnings", "-no-warnings-as-errors"])
        #expect(found.status == 0 && found.complaints == [])
    }

    private func root(of path: String) -> URL { Self.root.appending(path: path) }
}

extension Trait where Self == ConditionTrait {
    fileprivate static var needsCompiler: Self {
        .enabled(if: MisuseTests.compiler != nil, "missing: swiftc on PATH, to compile the examples")
    }
}
