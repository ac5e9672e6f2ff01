import Foundation

/// The Python that `Docker/setup` saw to.
package enum Python {
    /// One that has these modules, or without any named those that the tests need; `nil`: there is none.
    package static func place(with modules: [String] = []) -> String? {
        let chooser = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Docker/python").path
        guard let process = try? ChildProcess(chooser, modules), (try? process.wait(seconds: 60)) == .exited(0) else {
            return nil
        }
        return process.text.split(separator: "\n").last.map(String.init)
    }
}
