import Foundation

/// The Python interpreter that `Docker/setup` prepared.
package enum Python {
    /// Returns the path of an interpreter with these modules (by default those that the tests need), or `nil` if none
    /// exists.
    package static func place(with modules: [String] = []) -> String? {
        let chooser = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Docker/python").path
        guard let process = try? ChildProcess(chooser, modules), (try? process.wait(seconds: 60)) == .exited(0) else {
            return nil
        }
        return process.text.split(separator: "\n").last.map(String.init)
    }
}
