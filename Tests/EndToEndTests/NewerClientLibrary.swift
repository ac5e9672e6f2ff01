import Foundation
import TestSupport
import Testing

/// A newer librdkafka than the distribution's, as PyPI's package confluent-kafka carries it: self-contained, and with
/// the same binary interface.
enum NewerClientLibrary {
    private static let package = "confluent-kafka==2.16.0"

    /// The folder with its `librdkafka.so.1`, for LD_LIBRARY_PATH; fetched once. Cancels the test, with the reason,
    /// where it cannot be had.
    static func folder() throws -> String {
        do {
            return try fetched.get()
        } catch {
            try Test.cancel("the newer client library cannot be had: \(error)")
        }
    }

    private static let fetched = Result<String, any Error> {
        if let chosen = ProcessInfo.processInfo.environment["APNS_WORKER_NEWER_LIBRARY"] { return chosen }
        // Beside the built program, to be there the next time.
        let target = try URL(fileURLWithPath: Tool.worker.path()).deletingLastPathComponent()
            .appending(path: package.replacing("==", with: "-"))
        let libraries = target.appending(path: "confluent_kafka.libs")
        let link = libraries.appending(path: "librdkafka.so.1")
        if FileManager.default.fileExists(atPath: link.path) { return libraries.path }
        guard let python = Tool.python(with: "pip") else { throw Unexpected("missing: a Python with pip") }
        let ended = try Scene.run(
            python,
            [
                "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target", target.path,
                package,
            ], within: 120)
        guard ended.ending == .exited(0) else { throw Unexpected(String(ended.text.suffix(300))) }
        let found = try FileManager.default.contentsOfDirectory(atPath: libraries.path)
            .first { $0.hasPrefix("librdkafka-") }
        guard let found else { throw Unexpected("no librdkafka in \(libraries.path)") }
        try FileManager.default.createSymbolicLink(atPath: link.path, withDestinationPath: found)
        return libraries.path
    }
}
