import Foundation
import Kafka
import TestSupport

/// What one end-to-end test plays in: topics of its own on a real broker, a folder, and the programs it starts.
///
/// Everything is a process: the worker, the server it sends to, the producer, the audit. All of them are killed with
/// the test process at the latest.
final class Scene {
    /// How many records the large runs write.
    static let records = Int(ProcessInfo.processInfo.environment["APNS_WORKER_E2E_RECORDS"] ?? "") ?? 60_000

    private let broker: KafkaBroker
    let folder: URL
    let name: String
    /// Of each topic, unless said otherwise.
    let partitions: Int
    /// In the file of the worker: `apps[0]` and what a test adds.
    var configuration: Configuration

    /// On the broker that all scenes share, or on one of the test's own.
    init(_ label: String, partitions: Int = 8, on broker: KafkaBroker? = nil) throws {
        _ = try Tool.worker.path()
        guard let broker = broker ?? KafkaBroker.shared else { throw Unexpected(KafkaBroker.reason) }
        self.broker = broker
        name = KafkaBroker.uniqueName(label)
        self.partitions = partitions
        folder = FileManager.default.temporaryDirectory.appending(path: name)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        configuration = Configuration(servers: broker.bootstrapServers, name: name)
        let plain = [configuration.requests, configuration.results, configuration.retry, configuration.deadLetters]
        let compacted = [KafkaProperty("cleanup.policy", "compact")]
        try broker.create(newTopics(plain) + newTopics([configuration.unregistered], configuration: compacted))
    }

    /// A scene with a folder of its own that has what the other's has, and its topics and server.
    init(sharingTopicsOf other: Scene) throws {
        broker = other.broker
        partitions = other.partitions
        configuration = other.configuration
        name = KafkaBroker.uniqueName("shared")
        folder = FileManager.default.temporaryDirectory.appending(path: name)
        try FileManager.default.copyItem(at: other.folder, to: folder)
    }

    deinit {
        if ProcessInfo.processInfo.environment["APNS_WORKER_E2E_KEEP"] == nil {
            try? FileManager.default.removeItem(at: folder)
        }
    }

    var servers: String { broker.bootstrapServers }

    /// Creates topics, and waits until they can be written to.
    func create(_ names: String..., partitions: Int? = nil, configuration: [KafkaProperty] = []) throws {
        try create(names, partitions: partitions, configuration: configuration)
    }

    func create(_ names: [String], partitions: Int? = nil, configuration: [KafkaProperty] = []) throws {
        try broker.create(newTopics(names, partitions: partitions, configuration: configuration))
    }

    private func newTopics(
        _ names: [String], partitions: Int? = nil, configuration: [KafkaProperty] = []
    ) -> [NewTopic] {
        names.map {
            NewTopic($0, partitions: partitions ?? self.partitions, replicationFactor: 1, configuration: configuration)
        }
    }

    func file(_ name: String) -> String { folder.appending(path: name).path }

    func write(_ text: String, to name: String) throws {
        try text.write(toFile: file(name), atomically: true, encoding: .utf8)
    }

    // MARK: Programs that end

    struct Finished {
        var ending: ChildProcess.Ending
        var text: String
    }

    /// Runs a program to its end; throws, with what it said, when that takes too long.
    @discardableResult
    static func run(
        _ program: String, _ arguments: [String], environment: [String: String] = [:], within seconds: Double = 60
    ) throws -> Finished {
        let process = try ChildProcess(program, arguments, environment: environment)
        let ending = try process.wait(seconds: seconds)
        return Finished(ending: ending, text: process.text)
    }

    static let program = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appending(path: "Books/books.py").path

    /// Runs `Books/books.py COMMAND …`; throws, with its findings, when it does not exit 0.
    @discardableResult
    func books(_ command: String, _ arguments: String..., within seconds: Double = 240) throws -> String {
        try books(command, arguments, within: seconds)
    }

    @discardableResult
    func books(_ command: String, _ arguments: [String], within seconds: Double = 240) throws -> String {
        let ended = try tryBooks(command, arguments, within: seconds)
        guard ended.ending == .exited(0) else {
            throw Unexpected("books.py \(command) \(ended.ending):\n\(ended.text)")
        }
        print(ended.text)
        return ended.text
    }

    func tryBooks(_ command: String, _ arguments: [String], within seconds: Double = 240) throws -> Finished {
        try Self.run(
            Tool.python.path(), [Self.program, command, "--servers", servers] + arguments, within: seconds)
    }

    // MARK: The worker

    /// Writes the configuration file and starts `apns-worker run` (or `check`) with it.
    ///
    /// - Parameters:
    ///   - name: of the file, where several run at once.
    ///   - kafka: keys of the section `kafka`, instead of the configuration's.
    func startWorker(
        _ command: String = "run", named name: String = "worker", kafka: String = "",
        environment: [String: String] = [:]
    ) throws -> ChildProcess {
        var configuration = configuration
        if !kafka.isEmpty { configuration.kafka = kafka }
        try write(configuration.text, to: "\(name).yaml")
        return try ChildProcess(
            Tool.worker.path(), [command, "--config", file("\(name).yaml")], environment: environment)
    }

    /// SIGTERM; the worker must drain and exit 0.
    func stop(_ worker: ChildProcess, within seconds: Double = 40) throws {
        guard try worker.stop(seconds: seconds) == .exited(0) else {
            throw Unexpected("the worker did not stop cleanly:\n\(worker.text.suffix(4000))")
        }
    }

    // MARK: The books' commands, with this scene's names

    func produce(_ count: Int, _ more: String...) throws {
        let ended = try tryBooks(
            "produce",
            ["--topic", configuration.requests, "--count", "\(count)", "--book", file("book.jsonl")] + more)
        guard ended.ending == .exited(0) else { throw Unexpected("produce: \(ended.ending)\n\(ended.text)") }
        print(ended.text)
    }

    /// Writes a file's lines, `KEY:VALUE`, to the request topic.
    func produceWithKcat(_ lines: String) throws {
        let ended = try Self.run(
            Tool.kcat.path(), ["-P", "-b", servers, "-t", configuration.requests, "-K:", "-l", file(lines)])
        guard ended.ending == .exited(0) else { throw Unexpected("kcat: \(ended.text)") }
    }

    /// All results, `KEY HEADERS` each.
    func resultsWithKcat() throws -> [Substring] {
        try Self.run(
            Tool.kcat.path(),
            ["-C", "-q", "-e", "-b", servers, "-t", configuration.results, "-o", "beginning", "-f", "%k %h\n"]
        ).text.split(separator: "\n")
    }

    /// Until the group and its retry group have committed everything.
    func settle(_ worker: ChildProcess, retryTopics: [String] = [], within seconds: Double = 240) throws {
        do {
            try books(
                "settle",
                ["--group", configuration.group, "--topics", configuration.requests, "--retry-topics"]
                    + [configuration.retry] + retryTopics, within: seconds)
        } catch {
            throw Unexpected("\(error)\nthe worker said:\n\(worker.text.suffix(8000))")
        }
    }

    /// Until the result topic holds so many records.
    func awaitResults(_ count: Int) throws {
        try books("count", "--topic", configuration.results, "--at-least", "\(count)", "--timeout", "120")
    }

    var auditArguments: [String] {
        [
            "--topic", configuration.requests, "--book", file("book.jsonl"), "--results", configuration.results,
            "--unregistered", configuration.unregistered, "--dead-letters", configuration.deadLetters, "--group",
            configuration.group, "--retry-topics", configuration.retry,
        ]
    }

    /// The comparison of the books; throws with all its findings when they do not agree.
    @discardableResult
    func audit(_ more: String...) throws -> String { try audit(more) }

    @discardableResult
    func audit(_ more: [String]) throws -> String {
        let ended = try tryBooks("audit", auditArguments + more)
        guard ended.ending == .exited(0) else { throw Unexpected(ended.text) }
        print(ended.text)
        return ended.text
    }
}
