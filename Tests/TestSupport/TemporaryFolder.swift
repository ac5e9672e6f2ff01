package import Foundation

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
