import Foundation
import TestSupport

/// Topics that change under a worker (`Books/changes.py`).
extension Scene {
    @discardableResult
    func change(_ arguments: String..., within seconds: Double = 120) throws -> String {
        let program = URL(fileURLWithPath: Self.program).deletingLastPathComponent()
            .appending(path: "changes.py").path
        let words = [program, arguments[0], servers] + arguments.dropFirst()
        let ended = try Self.run(Tool.python.path(), words, within: seconds)
        guard ended.ending == .exited(0) else {
            throw Unexpected("changes.py \(arguments) \(ended.ending):\n\(ended.text)")
        }
        if !ended.text.isEmpty { print(ended.text, terminator: "") }
        return ended.text
    }

    /// Waits until a topic holds so many records; returns how many seconds that took.
    @discardableResult
    func await(_ topic: String, holds count: Int, within seconds: Double, of worker: ChildProcess) throws -> Double {
        let began = Date()
        do {
            try change("await", topic, "\(count)", "\(seconds)", within: seconds + 30)
        } catch {
            throw Unexpected("\(error)\nthe worker said:\n\(worker.text.suffix(6_000))")
        }
        return Date().timeIntervalSince(began)
    }

    /// Waits until there are results of so many device tokens; returns how many seconds that took.
    @discardableResult
    func awaitTokens(_ count: Int, within seconds: Double, of worker: ChildProcess) throws -> Double {
        let began = Date()
        do {
            try change("await-tokens", configuration.results, "\(count)", "\(seconds)", within: seconds + 30)
        } catch {
            throw Unexpected("\(error)\nthe worker said:\n\(worker.text.suffix(6_000))")
        }
        return Date().timeIntervalSince(began)
    }
}
