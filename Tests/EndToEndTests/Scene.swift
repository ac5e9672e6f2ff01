import Foundation
import Kafka
import TestSupport

/// What one end-to-end test plays in: topics of its own on a real broker, a folder, and the programs it starts.
///
/// Everything is a process: the worker, the server it sends to, the producer, the audit. All of them are killed with
/// the test process at the latest.
final class Scene {
    /// How many records the large runs write.
    static let records =
        Int(ProcessInfo.processInfo.environment["APNS_WORKER_E2E_RECORDS"] ?? "") ?? (Long.isWanted ? 60_000 : 12_000)

    private let broker: KafkaBroker
    let folder: URL
    let name: String
    /// Of each topic, unless said otherwise.
    let partitions: Int
    /// In the file of the worker: `apps[0]` and what a test adds.
    var configuration: Configuration
    /// They end with the scene.
    private var processes: [ChildProcess] = []

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
        for process in processes { try? process.killNow() }
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

    /// Starts a program that ends with the scene at the latest.
    func start(_ program: String, _ arguments: [String], environment: [String: String] = [:]) throws -> ChildProcess {
        let process = try ChildProcess(program, arguments, environment: environment)
        keep(process)
        return process
    }

    func keep(_ process: ChildProcess) { processes.append(process) }

    /// Starts one of the programs of `Books`, with Python.
    func startBook(_ name: String, _ arguments: [String]) throws -> ChildProcess {
        try start(Tool.python.path(), [Self.book(name)] + arguments)
    }

    /// The port at which a program of `Books` says that it listens.
    func port(of process: ChildProcess) throws -> Int {
        var port: Int?
        try eventually("its port", of: process) {
            port = process.text.firstMatch(of: /listening (\d+)\n/).flatMap { Int($0.1) }
            return port != nil
        }
        return port ?? 0
    }

    // MARK: Programs that end

    struct Finished {
        var ending: ChildProcess.Ending
        var text: String
    }

    /// Runs a program to its end; throws, with what it said, when that takes too long.
    @discardableResult
    static func run(
        _ program: String, _ arguments: [String], environment: [String: String] = [:],
        within seconds: Double = ChildProcess.patience
    ) throws -> Finished {
        let process = try ChildProcess(program, arguments, environment: environment)
        let ending = try process.wait(seconds: seconds)
        return Finished(ending: ending, text: process.text)
    }

    static let program = book("books.py")

    /// Where a program of `Books` is.
    static func book(_ name: String) -> String {
        URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "Books/\(name)").path
    }

    /// Runs `Books/books.py COMMAND …`; throws, with its findings, when it does not exit 0.
    @discardableResult
    func books(_ command: String, _ arguments: String..., within seconds: Double = 300) throws -> String {
        try books(command, arguments, within: seconds)
    }

    @discardableResult
    func books(_ command: String, _ arguments: [String], within seconds: Double = 300) throws -> String {
        let ended = try tryBooks(command, arguments, within: seconds)
        guard ended.ending == .exited(0) else {
            throw Unexpected("books.py \(command) \(ended.ending):\n\(ended.text)")
        }
        print(ended.text)
        return ended.text
    }

    func tryBooks(_ command: String, _ arguments: [String], within seconds: Double = 300) throws -> Finished {
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
        options: [String] = [], environment: [String: String] = [:]
    ) throws -> ChildProcess {
        var configuration = configuration
        if !kafka.isEmpty { configuration.kafka = kafka }
        try write(configuration.text, to: "\(name).yaml")
        return try start(
            Tool.worker.path(), [command, "--config", file("\(name).yaml")] + options, environment: environment)
    }

    /// Starts a worker with admin pages, and waits until it says where they are, or until it has partitions and no
    /// problem.
    func startWorkerWithPages(untilFine: Bool = false, named name: String = "worker") throws -> (ChildProcess, Pages) {
        configuration.admin = "127.0.0.1:0"
        let worker = try startWorker(named: name)
        let pages = try Pages(of: worker)
        if untilFine {
            try pages.await("/readyz") { $0 == (200, "ready\n") }
            try pages.await("/status") { $0.1.contains(#""health":"fine""#) }
        }
        return (worker, pages)
    }

    /// Starts a worker, and waits until it has partitions of the request topic.
    func startAssignedWorker() throws -> ChildProcess {
        let worker = try startWorker()
        try worker.waitFor("partitions assigned group=\(configuration.group) ")
        return worker
    }

    /// SIGTERM; the worker must drain and exit 0.
    func stop(_ worker: ChildProcess) throws {
        // Before its first line it may not be the worker yet, but the program that starts it.
        try eventually("its first line", of: worker) { !worker.text.isEmpty }
        guard try worker.stop() == .exited(0) else {
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

    /// Starts a producer that writes so many records a second.
    func startLoad(_ count: Int, rate: Int, _ more: String...) throws -> ChildProcess {
        try startBook(
            "books.py",
            [
                "produce", "--servers", servers, "--topic", configuration.requests, "--count", "\(count)", "--rate",
                "\(rate)", "--book", file("book.jsonl"),
            ] + more)
    }

    /// Writes lines with kcat, `KEY:VALUE` each, to the request topic or another one.
    ///
    /// - Parameter options: of kcat; `[]`: the lines have no keys.
    func kcat(
        _ lines: [String], to topic: String? = nil, headers: [String] = [], options: [String] = ["-K:"]
    ) throws {
        try write(lines.map { $0 + "\n" }.joined(), to: "lines.txt")
        let ended = try Self.run(
            Tool.kcat.path(),
            ["-P", "-b", servers, "-t", topic ?? configuration.requests] + options + headers.flatMap { ["-H", $0] }
                + ["-l", file("lines.txt")])
        guard ended.ending == .exited(0) else { throw Unexpected("kcat: \(ended.text)") }
    }

    /// Writes a file's lines, `KEY:VALUE`, to the request topic.
    func produceWithKcat(_ lines: String) throws {
        try kcat(String(contentsOfFile: file(lines), encoding: .utf8).split(separator: "\n").map(String.init))
    }

    /// Writes a plain notification for each device token.
    func send(to tokens: [String], headers: [String] = []) throws {
        try kcat(tokens.map { #"\#($0):{"aps":{"alert":"Hi"}}"# }, headers: headers)
    }

    /// Writes so many plain notifications, each for another device.
    func send(_ count: Int, topic: String = "com.example.shop") throws {
        let tokens = (0..<count).map { _ in hex(.random(in: 0..<Int.max), digits: 64) }
        try send(to: tokens, headers: ["apns-topic=\(topic)"])
    }

    /// The records of a topic, in kcat's format.
    func records(of topic: String, _ format: String) throws -> [Substring] {
        try Self.run(
            Tool.kcat.path(), ["-C", "-q", "-e", "-b", servers, "-t", topic, "-o", "beginning", "-f", format + "\n"]
        ).text.split(separator: "\n")
    }

    /// All results, `KEY HEADERS` each.
    func resultsWithKcat() throws -> [Substring] { try records(of: configuration.results, "%k %h") }

    /// All results, as objects.
    func resultObjects() throws -> [[String: Any]] {
        try records(of: configuration.results, "%s").map { try jsonObject($0) }
    }

    /// Until the group and its retry group have committed everything.
    func settle(_ worker: ChildProcess, retryTopics: [String] = []) throws {
        let retries = [configuration.retry] + retryTopics
        try explain(worker) {
            try broker.awaitCommits(
                [(configuration.group, configuration.requests)] + retries.map { (configuration.group + ".retry", $0) })
        }
    }

    /// Until the group has committed all requests, whatever waits in a retry topic.
    func settleRequests(_ worker: ChildProcess) throws {
        try explain(worker) { try broker.awaitCommits([(configuration.group, configuration.requests)]) }
    }

    /// Until the result topic holds so many records.
    func awaitResults(_ count: Int) throws { try broker.await(configuration.results, holds: count) }

    func await(_ topic: String, holds count: Int) throws { try broker.await(topic, holds: count) }

    /// The same; where the wait fails, its error says what the worker said.
    func await(_ topic: String, holds count: Int, of worker: ChildProcess) throws {
        try explain(worker) { try broker.await(topic, holds: count) }
    }

    private func explain(_ worker: ChildProcess, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch {
            throw Unexpected(
                "\(error)\nthe worker (\(worker.ended.map { "\($0)" } ?? "running")) said:\n\(worker.text.suffix(8_000))"
            )
        }
    }

    // MARK: Topics that change (`Books/changes.py`)

    @discardableResult
    func change(_ arguments: String...) throws -> String { try change(arguments) }

    @discardableResult
    private func change(_ arguments: [String]) throws -> String {
        let ended = try Self.run(
            Tool.python.path(), [Self.book("changes.py"), arguments[0], servers] + arguments.dropFirst())
        guard ended.ending == .exited(0) else {
            throw Unexpected("changes.py \(arguments) \(ended.ending):\n\(ended.text)")
        }
        if !ended.text.isEmpty { print(ended.text, terminator: "") }
        return ended.text
    }

    /// Waits until there are results of so many device tokens.
    func awaitTokens(_ count: Int, of worker: ChildProcess) throws {
        try explain(worker) {
            try change("await-tokens", configuration.results, "\(count)", "\(ChildProcess.patience)")
        }
    }

    // MARK: The audit

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

    /// Right after a kill: how many notifications the next worker may send again. What the server saw without a result
    /// in the topic, and what has one but is not settled by the committed offsets and their maps.
    func repeatable(_ simulator: RunningSimulator) throws -> Int {
        let text = try books(
            "repeatable", "--topic", configuration.requests, "--results", configuration.results, "--group",
            configuration.group, "--retry-topics", configuration.retry, "--simulator", simulator.control)
        guard let last = text.split(whereSeparator: \.isWhitespace).last, let number = Int(last) else {
            throw Unexpected("repeatable: \(text)")
        }
        return number
    }
}

/// A line of JSON that is an object.
func jsonObject(_ text: some StringProtocol) throws -> [String: Any] {
    guard let object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] else {
        throw Unexpected("no object: \(text)")
    }
    return object
}
