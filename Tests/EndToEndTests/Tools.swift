import Foundation
import TestSupport
import Testing

/// A requirement of an end-to-end test in addition to the project's build.
enum Tool: String {
    /// The built `apns-worker`.
    case worker = "apns-worker"
    case broker = "a Kafka broker"
    case python = "a Python with confluent_kafka and jsonschema"
    case kcat, jq, openssl, tinyproxy, clang, swift
    /// Kafka's Java client, which is part of the broker's installation.
    case javaClient = "Kafka's libs, which KAFKA_HOME names, and java"
    /// Go with confluent-kafka-go, and the PostgreSQL server. `Docker/setup` does not install them, so their tests run
    /// only where they are installed by hand.
    case go, postgres

    /// The path (empty for the broker), or `nil` if the tool is missing.
    var place: String? { Self.places[self] }

    private static let places: [Tool: String] = {
        var places: [Tool: String] = [:]
        places[.worker] = Self.builtWorker
        places[.broker] = KafkaBroker.isAvailable ? "" : nil
        places[.python] = Python.place()
        for tool in [Tool.kcat, .jq, .openssl, .tinyproxy, .clang, .swift] {
            places[tool] = Self.command(tool.rawValue)
        }
        places[.javaClient] = KafkaBroker.home == nil ? nil : Self.command("java")
        let goClient = "/usr/share/gocode/src/github.com/confluentinc/confluent-kafka-go"
        places[.go] = FileManager.default.fileExists(atPath: goClient) ? Self.command("go") : nil
        places[.postgres] = Self.postgresServer
        return places
    }()

    /// The program of this build. APNS_WORKER_PROGRAM names another one.
    private static var builtWorker: String? {
        if let chosen = ProcessInfo.processInfo.environment["APNS_WORKER_PROGRAM"] { return chosen }
        let program = Repository.product("apns-worker")
        return FileManager.default.isExecutableFile(atPath: program) ? program : nil
    }

    private static func command(_ name: String) -> String? {
        let path = ProcessInfo.processInfo.environment["PATH", default: ""] + ":/usr/sbin:/usr/local/sbin"
        return path.split(separator: ":").map { "\($0)/\(name)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    /// The newest version of Debian's packages, which is not on PATH.
    private static var postgresServer: String? {
        let root = "/usr/lib/postgresql"
        let versions = ((try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []).compactMap { Int($0) }
        return versions.sorted(by: >).map { "\(root)/\($0)/bin/postgres" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    /// Returns the tool's path. Throws if it is missing.
    func path() throws -> String {
        guard let place else { throw Unexpected("missing: \(rawValue)") }
        return place
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips the test if a tool is missing. With `CI=true` the test runs and fails at the first use of the tool.
    static func needs(_ tools: Tool...) -> Self {
        let missing = tools.filter { $0.place == nil }
        let names = missing.map(\.rawValue).joined(separator: ", ")
        return .enabled(
            if: missing.isEmpty || ProcessInfo.processInfo.environment["CI"] == "true",
            "missing: \(names)\(missing.contains(.broker) ? "; \(KafkaBroker.reason)" : " (Docker/setup --tests)")")
    }

    /// Skips the test if a tool that `Docker/setup` does not install is missing.
    static func needsInstalled(_ tool: Tool, _ packages: String) -> Self {
        .enabled(if: tool.place != nil, "\(tool) is not installed (by hand: apt-get install \(packages))")
    }
}

/// An error of a test as text.
struct Unexpected: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A newer librdkafka than the distribution's, from PyPI's package confluent-kafka.
enum NewerClientLibrary {
    private static let package = "confluent-kafka==2.16.0"

    /// Returns the folder with its `librdkafka.so.1`, for LD_LIBRARY_PATH. Cancels the test if it cannot be downloaded.
    static func folder() throws -> String {
        do {
            return try fetched.get()
        } catch {
            try Test.cancel("the newer client library cannot be had: \(error)")
        }
    }

    private static let fetched = Result<String, any Error> {
        if let chosen = ProcessInfo.processInfo.environment["APNS_WORKER_NEWER_LIBRARY"] { return chosen }
        // The folder is beside the built program, so that it is downloaded only once.
        let target = try URL(fileURLWithPath: Tool.worker.path()).deletingLastPathComponent()
            .appending(path: package.replacing("==", with: "-"))
        let libraries = target.appending(path: "confluent_kafka.libs")
        let link = libraries.appending(path: "librdkafka.so.1")
        if FileManager.default.fileExists(atPath: link.path) { return libraries.path }
        guard let python = Python.place(with: ["pip"]) else { throw Unexpected("missing: a Python with pip") }
        let ended = try ChildProcess.run(
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
