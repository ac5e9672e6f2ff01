import Delivery
import Foundation
import Kafka
import TestSupport
import Testing

/// The environment of one end-to-end test: its own topics on a real broker, a folder, and the programs that it starts.
///
/// The worker, the server, the producer and the audit are processes. They end with the scene.
final class Scene {
    /// The number of records in the large runs.
    static let records =
        Int(ProcessInfo.processInfo.environment["APNS_WORKER_E2E_RECORDS"] ?? "") ?? (Long.isWanted ? 60_000 : 8_000)

    private let broker: KafkaBroker!
    let folder: URL
    let name: String
    /// The number of partitions of each topic, unless a test sets another number.
    let partitions: Int
    /// The worker's configuration: `apps[0]` and additions of the test.
    var configuration: Configuration
    private var processes: [ChildProcess] = []

    /// - Parameter broker: another broker than the shared one.
    convenience init(_ label: String, partitions: Int = 4, on broker: KafkaBroker? = nil) throws {
        guard let broker = broker ?? KafkaBroker.shared else { throw Unexpected(KafkaBroker.reason) }
        try self.init(label, at: broker, partitions: partitions)
        let plain = [configuration.requests, configuration.results, configuration.deadLetters]
        let compacted = [KafkaProperty("cleanup.policy", "compact")]
        let stamped = [KafkaProperty("message.timestamp.type", "LogAppendTime")]
        try broker.create(
            newTopics(plain) + newTopics([configuration.unregistered], configuration: compacted)
                + newTopics([configuration.retry], configuration: stamped))
        // The group gets a commit, so that records written before its worker starts are not in doubt.
        var map = CommitMapWriter()
        map.start(base: 0, limit: 100)
        map.finish(horizon: 0)
        for role in [ConsumerSettings.Role.requests, .retries] { try commit(role, offset: 0, metadata: map.text) }
    }

    /// Commits offsets for all partitions of a group's topic. The group must have no members.
    func commit(_ role: ConsumerSettings.Role = .requests, offset: Int64, metadata: [UInt8]) throws {
        let consumer = try Consumer(
            ConsumerSettings(
                cluster: ClusterSettings(bootstrapServers: servers), role: role, groupID: configuration.group))
        let topic = role == .requests ? configuration.requests : configuration.retry
        let entries = (0..<Int32(partitions)).map {
            CommitEntry(TopicPartition(topic, $0), offset: offset, metadata: metadata)
        }
        var code: KafkaCode?
        let isCommitted = try waitUntil {
            code = nil
            try consumer.commit(entries, tag: 1)
            return waitUntil(seconds: 5, everyMs: 0) {
                consumer.serve(timeoutMs: 100) { event in
                    if case .committed(let reply) = event { code = reply.code }
                }
                return code != nil
            } && code == KafkaCode.none
        }
        guard isCommitted else { throw Unexpected("the commit is refused: \(code?.name ?? "no answer")") }
    }

    /// Creates a scene without topics, for commands that need no broker.
    convenience init(withoutBroker label: String) throws { try self.init(label, at: nil, partitions: 0) }

    /// Creates a scene with the topics and server of another one, and a copy of its files.
    convenience init(sharingTopicsOf other: Scene) throws {
        try self.init("shared", at: other.broker, partitions: other.partitions)
        configuration = other.configuration
        for name in try FileManager.default.contentsOfDirectory(atPath: other.folder.path) {
            try FileManager.default.copyItem(atPath: other.file(name), toPath: file(name))
        }
    }

    private init(_ label: String, at broker: KafkaBroker?, partitions: Int) throws {
        _ = try Tool.worker.path()
        self.broker = broker
        self.partitions = partitions
        name = KafkaBroker.uniqueName(label)
        folder = FileManager.default.temporaryDirectory.appending(path: name)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        configuration = Configuration(servers: broker?.bootstrapServers ?? "127.0.0.1:1", name: name)
    }

    deinit {
        for process in processes { try? process.killNow() }
        if ProcessInfo.processInfo.environment["APNS_WORKER_E2E_KEEP"] == nil {
            try? FileManager.default.removeItem(at: folder)
        }
    }

    var servers: String { broker.bootstrapServers }

    /// Creates topics, and waits until they are writable.
    func create(_ names: String..., partitions: Int? = nil, configuration: [KafkaProperty] = []) throws {
        try broker.create(newTopics(names, partitions: partitions, configuration: configuration))
    }

    private func newTopics(
        _ names: [String], partitions: Int? = nil, configuration: [KafkaProperty] = []
    ) -> [NewTopic] {
        names.map {
            NewTopic($0, partitions: partitions ?? self.partitions, replicationFactor: 1, configuration: configuration)
        }
    }

    func delete(_ topic: String) throws { try broker.delete([topic]) }

    func setPartitions(of topic: String, to count: Int) throws { try broker.setPartitions(of: topic, to: count) }

    func file(_ name: String) -> String { folder.appending(path: name).path }

    func write(_ text: String, to name: String) throws {
        try text.write(toFile: file(name), atomically: true, encoding: .utf8)
    }

    /// Returns the lines of a file, or none if it does not exist.
    func lines(of name: String) -> [String] {
        ((try? String(contentsOfFile: file(name), encoding: .utf8)) ?? "").split(separator: "\n").map(String.init)
    }

    /// Starts a program that ends with the scene at the latest.
    func start(_ program: String, _ arguments: [String], environment: [String: String] = [:]) throws -> ChildProcess {
        let process = try ChildProcess(program, arguments, environment: environment)
        keep(process)
        return process
    }

    func keep(_ process: ChildProcess) { processes.append(process) }

    /// Starts one of the programs in `Books` with Python.
    func startBook(_ name: String, _ arguments: [String]) throws -> ChildProcess {
        try start(Tool.python.path(), [Self.book(name)] + arguments)
    }

    // MARK: Programs

    typealias Finished = ChildProcess.Finished

    /// Runs `apns-worker` with the words of a line, and with further arguments, which may contain spaces.
    static func worker(_ line: String, _ more: String...) throws -> Finished { try worker(line, more) }

    static func worker(_ line: String, _ more: [String]) throws -> Finished {
        try ChildProcess.run(Tool.worker.path(), line.split(separator: " ").map(String.init) + more)
    }

    /// Runs a command of `apns-worker` with the configuration file that `configure` or `startWorker` has written.
    func command(_ line: String, _ more: String...) throws -> Finished { try command(line, more) }

    func command(_ line: String, _ more: [String]) throws -> Finished {
        try Self.worker(line, more + ["--config", file("worker.yaml")])
    }

    /// Starts a command that runs in parallel with the test.
    func startCommand(_ line: String, _ more: String...) throws -> ChildProcess {
        try start(
            Tool.worker.path(), line.split(separator: " ").map(String.init) + more + ["--config", file("worker.yaml")])
    }

    func configure(named name: String = "worker") throws { try write(configuration.text, to: "\(name).yaml") }

    /// Returns the path of a program in `Books`.
    static func book(_ name: String) -> String { Repository.path("Tests/EndToEndTests/Books/\(name)") }

    /// Compiles a library in `Books` for LD_PRELOAD, once in each scene. Returns its path.
    func compile(_ name: String) throws -> String {
        let library = file(name + ".so")
        if !FileManager.default.fileExists(atPath: library) {
            let arguments = ["-shared", "-fPIC", "-O1", "-w", "-o", library, Self.book(name), "-ldl"]
            let ended = try ChildProcess.run("clang", arguments)
            guard ended.ending == .exited(0) else { throw Unexpected("clang: \(ended.text)") }
        }
        return library
    }

    /// Runs a program in `Books`. Throws an error with its output if the exit code is not 0.
    @discardableResult
    func book(_ name: String, _ arguments: [String]) throws -> String {
        let ended = try ChildProcess.run(Tool.python.path(), [Self.book(name)] + arguments, within: 600)
        guard ended.ending == .exited(0) else {
            throw Unexpected("\(name) \(arguments.first ?? "") \(ended.ending):\n\(ended.text)")
        }
        print(ended.text)
        return ended.text
    }

    /// Runs `Books/books.py COMMAND` with the scene's topics.
    @discardableResult
    func books(_ command: String, _ arguments: [String]) throws -> String {
        try book("books.py", [command] + topicArguments + arguments)
    }

    func tryBooks(_ command: String, _ arguments: [String]) throws -> Finished {
        try ChildProcess.run(
            Tool.python.path(), [Self.book("books.py"), command] + topicArguments + arguments, within: 600)
    }

    private var topicArguments: [String] {
        let names = configuration
        return [
            "--servers", servers, "--topic", names.requests, "--results", names.results, "--unregistered",
            names.unregistered, "--dead-letters", names.deadLetters, "--retry-topics", names.retry, "--group",
            names.group, "--book", file("book.jsonl"),
        ]
    }

    // MARK: The worker

    /// Writes the configuration file, and starts `apns-worker run` with it. Starts a simulator first if the test has
    /// set no APNs port.
    ///
    /// - Parameter name: the name of the configuration file, for several workers at once.
    func startWorker(
        named name: String = "worker", options: [String] = [], environment: [String: String] = [:],
        program: String? = nil
    ) throws -> ChildProcess {
        if configuration.port == 443 { _ = try startSimulator() }
        try configure(named: name)
        return try start(
            program ?? Tool.worker.path(), ["run", "--config", file("\(name).yaml")] + options, environment: environment
        )
    }

    /// Writes the configuration file, and runs `apns-worker check` with it.
    func check(_ options: String...) throws -> Finished {
        try configure()
        return try command("check", options)
    }

    /// Starts a worker with admin pages. Waits until it logs their address, or until it has partitions and no problems.
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

    /// Sends SIGTERM. The worker must drain and exit with 0.
    func stop(_ worker: ChildProcess) throws {
        // Before its first line, the process may still be the program that starts the worker.
        try eventually("its first line", of: worker) { !worker.text.isEmpty }
        guard try worker.stop() == .exited(0) else {
            throw Unexpected("the worker did not stop cleanly:\n\(worker.text.suffix(4000))")
        }
    }

    // MARK: Records

    func produce(_ count: Int, _ more: String...) throws {
        try books("produce", ["--count", "\(count)"] + more)
    }

    /// Starts a producer that writes `rate` records a second.
    func startLoad(_ count: Int, rate: Int, _ more: String...) throws -> ChildProcess {
        try startBook("books.py", ["produce"] + topicArguments + ["--count", "\(count)", "--rate", "\(rate)"] + more)
    }

    /// Writes lines with kcat, each as `KEY:VALUE`, to the request topic or another one.
    ///
    /// - Parameter options: options of kcat. Without options the lines have no keys.
    func kcat(_ lines: [String], to topic: String? = nil, headers: [String] = [], options: [String] = ["-K:"]) throws {
        try write(lines.map { $0 + "\n" }.joined(), to: "lines.txt")
        let ended = try ChildProcess.run(
            Tool.kcat.path(),
            ["-P", "-b", servers, "-t", topic ?? configuration.requests] + options + headers.flatMap { ["-H", $0] }
                + ["-l", file("lines.txt")])
        guard ended.ending == .exited(0) else { throw Unexpected("kcat: \(ended.text)") }
    }

    /// Writes a plain notification for each device token to the request topic or another one.
    func send(to tokens: [String], in topic: String? = nil, headers: [String] = []) throws {
        try kcat(tokens.map { #"\#($0):{"aps":{"alert":"Hi"}}"# }, to: topic, headers: headers)
    }

    /// Writes `count` plain notifications, each for another device.
    func send(_ count: Int, topic: String = "com.example.shop") throws {
        let tokens = (0..<count).map { _ in hex(.random(in: 0..<Int.max), digits: 64) }
        try send(to: tokens, headers: ["apns-topic=\(topic)"])
    }

    /// Returns the records of a topic in kcat's format.
    func records(of topic: String, _ format: String) throws -> [Substring] {
        try ChildProcess.run(
            Tool.kcat.path(), ["-C", "-q", "-e", "-b", servers, "-t", topic, "-o", "beginning", "-f", format + "\n"]
        ).text.split(separator: "\n")
    }

    /// Returns all results, each as `KEY HEADERS`.
    func resultsWithKcat() throws -> [Substring] { try records(of: configuration.results, "%k %h") }

    func resultObjects() throws -> [[String: Any]] {
        try records(of: configuration.results, "%s").map { try jsonObject($0) }
    }

    /// Waits until the group and its retry group have committed all records.
    func settle(_ worker: ChildProcess, retryTopics: [String] = []) throws {
        let retries = ([configuration.retry] + retryTopics).map { (configuration.group + ".retry", $0) }
        try explain(worker) { try broker.awaitCommits([(configuration.group, configuration.requests)] + retries) }
    }

    /// Waits until everything is committed, and stops the worker.
    func finish(_ worker: ChildProcess, retryTopics: [String] = []) throws {
        try settle(worker, retryTopics: retryTopics)
        try stop(worker)
    }

    /// Waits until the group has committed all requests, regardless of the retry topics.
    func settleRequests(_ worker: ChildProcess) throws {
        try explain(worker) { try broker.awaitCommits([(configuration.group, configuration.requests)]) }
    }

    /// Waits until the result topic has `count` records. The error of a failed wait contains the worker's output.
    func awaitResults(_ count: Int, of worker: ChildProcess? = nil) throws {
        try self.await(configuration.results, holds: count, of: worker)
    }

    func await(_ topic: String, holds count: Int, of worker: ChildProcess? = nil) throws {
        try explain(worker) { try broker.await(topic, holds: count) }
    }

    /// Waits until there are results of `count` device tokens that begin with a prefix.
    func awaitTokens(_ count: Int, _ prefix: String = "", of worker: ChildProcess) throws {
        try awaitResults(count, of: worker)
        try eventually("results of \(count) device tokens", of: worker) {
            Set(try records(of: configuration.results, "%k")).count { $0.hasPrefix(prefix) } >= count
        }
    }

    /// Adds the worker's output to an error.
    func explain(_ worker: ChildProcess?, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch {
            let state = worker?.ended.map { "\($0)" } ?? "running"
            throw Unexpected("\(error)\nthe worker (\(state)) said:\n\(worker?.text.suffix(8_000) ?? "")")
        }
    }

    /// Runs `Books/changes.py`.
    func change(_ command: String, _ arguments: String...) throws {
        try book("changes.py", [command, servers] + arguments)
    }

    /// Compares the books. Throws all findings if they do not agree.
    func audit(_ more: String...) throws { try books("audit", more) }
}

extension ChildProcess.Finished {
    /// Expects this exit code, and each of these words in the output.
    @discardableResult
    func expect(_ code: Int32, _ words: String..., at place: SourceLocation = #_sourceLocation) -> Self {
        let missing = words.filter { !$0.isEmpty && !text.contains($0) }
        #expect(ending == .exited(code) && missing.isEmpty, "\(missing) in: \(text)", sourceLocation: place)
        return self
    }
}

/// Parses a line of JSON that must be an object.
func jsonObject(_ text: some StringProtocol) throws -> [String: Any] {
    guard let object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] else {
        throw Unexpected("no object: \(text)")
    }
    return object
}
