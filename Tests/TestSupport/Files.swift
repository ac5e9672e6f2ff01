package import Foundation

/// Files of this repository, which tests read or run.
package enum Repository {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardizedFileURL

    package static func path(_ name: String) -> String { root.appending(path: name).path }

    package static func text(_ name: String) throws -> String {
        try String(contentsOfFile: path(name), encoding: .utf8)
    }

    /// Returns the files below a folder whose names end like this, in order.
    package static func files(below folder: String, _ ending: String) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: path(folder)).filter { $0.hasSuffix(ending) }.sorted()
            .map { "\(folder)/\($0)" }
    }

    /// Returns the blocks of code of an article, in order.
    package static func blocks(_ language: String, of article: String) throws -> [String] {
        try text(article).components(separatedBy: "```\(language)\n").dropFirst()
            .map { $0.components(separatedBy: "```")[0] }
    }

    /// Returns the path of a product of the build that these tests belong to. SwiftPM puts it beside the test bundle.
    package static func product(_ name: String) -> String {
        URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent()
            .appending(path: name).path
    }
}

/// The Python interpreter that `Docker/setup` prepared.
package enum Python {
    /// Returns the path of an interpreter with these modules (by default those that the tests need), or `nil` if none
    /// exists.
    package static func place(with modules: [String] = []) -> String? {
        let ended = try? ChildProcess.run(Repository.path("Docker/python"), modules)
        guard let ended, ended.ending == .exited(0) else { return nil }
        return ended.text.split(separator: "\n").last.map(String.init)
    }
}

/// Tests that take minutes or repeat other tests in a larger size. `Docker/test --all` runs them.
package enum Long {
    package static let isWanted = ProcessInfo.processInfo.environment["APNS_WORKER_LONG"] != nil
}

/// A temporary folder, which is deleted with this object.
package final class TemporaryFolder {
    package let path: String

    package init() throws {
        path = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    package func path(_ name: String) -> String { "\(path)/\(name)" }

    @discardableResult
    package func write(_ text: String, _ name: String) throws -> String { try write(Data(text.utf8), name) }

    package func write(_ data: Data, _ name: String) throws -> String {
        try data.write(to: URL(fileURLWithPath: path(name)))
        return path(name)
    }
}

/// A buffer at a fixed address that lives as long as this object.
package final class Lent {
    package let bytes: UnsafeRawBufferPointer
    private let memory: UnsafeMutableRawBufferPointer

    package init(_ text: String) {
        memory = .allocate(byteCount: max(1, text.utf8.count), alignment: 1)
        memory.copyBytes(from: text.utf8)
        bytes = UnsafeRawBufferPointer(rebasing: memory[0..<text.utf8.count])
    }

    deinit { memory.deallocate() }
}
