import Foundation
import TestSupport
import Testing

/// The library as other programs use it: it does not depend on Linux, and each public declaration has a docstring.
@Suite struct PublicInterfaceTests {
    /// The files of Swift below a folder, by their path there.
    private static func files(_ folder: String) throws -> [(path: String, lines: [String])] {
        let files = try Repository.files(below: folder, ".swift")
        #expect(!files.isEmpty)
        return try files.map { ($0, try Repository.text($0).components(separatedBy: "\n")) }
    }

    /// The library and its modules import only each other: no C library, no kernel, no Foundation.
    @Test(arguments: [("PushRecords", ["Bytes", "JSON"]), ("JSON", []), ("Bytes", [])])
    func `The library imports no system module`(module: String, allowed: [String]) throws {
        var found: Set<String> = []
        for file in try Self.files("Sources/\(module)") {
            for line in file.lines {
                #expect(!line.contains("canImport"), "\(file.path)")
                guard let match = line.firstMatch(of: /^\s*(?:@\w+ )*(?:\w+ )?import (?:\w+ )?([\w.]+)/) else {
                    continue
                }
                found.insert(String(match.1))
            }
        }
        #expect(found.isSubset(of: allowed), "\(found)")
    }

    @Test func `Every public declaration has a docstring`() throws {
        for file in try Self.files("Sources/PushRecords/API") {
            // The cases of a public enum are public, too. They end at the closing brace of the enum.
            var closing: String?
            for (number, line) in file.lines.enumerated() {
                let code = line.trimmingCharacters(in: .whitespaces)
                let indent = String(line.prefix { $0 == " " })
                if code.hasPrefix("public enum ") { closing = indent + "}" }
                if line == closing { closing = nil }
                let isCase = closing.map { code.hasPrefix("case ") && indent.count == $0.count + 3 } ?? false
                guard code.hasPrefix("public ") || isCase else { continue }
                var above = number - 1
                while file.lines[above].trimmingCharacters(in: .whitespaces).hasPrefix("@") { above -= 1 }
                let isExplained = file.lines[above].trimmingCharacters(in: .whitespaces).hasPrefix("///")
                #expect(isExplained, "\(file.path):\(number + 1): \(code)")
            }
        }
    }

    /// All public declarations are in `API` and `Vocabulary`.
    @Test func `The codec is not public`() throws {
        for folder in ["Requests", "Retries", "DeadLetters", "Unregistered"] {
            for file in try Self.files("Sources/PushRecords/\(folder)") {
                for line in file.lines { #expect(!line.contains("public "), "\(file.path): \(line)") }
            }
        }
    }
}
