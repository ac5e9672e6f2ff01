import Foundation
import Glibc
package import Kafka
import Synchronization

/// A real Kafka broker for tests: the one of KAFKA_BOOTSTRAP_SERVERS, or one started from KAFKA_HOME (../shared/kafka
/// has a README that says how), which lives as long as the test process.
package final class KafkaBroker: @unchecked Sendable {
    /// The broker that all tests of this process share; `nil`: see `reason`.
    package static let shared: KafkaBroker? = {
        if let servers = environment("KAFKA_BOOTSTRAP_SERVERS") { return KafkaBroker(servers: servers) }
        guard let home else { return nil }
        do {
            return try KafkaBroker(home: home, hasRights: true)
        } catch {
            fatalError("KAFKA_HOME is set to \(home), but no broker could be started from it: \(error)")
        }
    }()

    /// One that tests stop and freeze, one test after the other; each leaves it as it found it. A broker takes longer
    /// to start than most of them to run.
    package static let expendable = Result<KafkaBroker, any Error> {
        guard let home else { throw Failure.notStarted("it needs KAFKA_HOME") }
        return try KafkaBroker(home: home, hasRights: true)
    }

    /// Whether tests that need a real broker can run; without starting it.
    package static var isAvailable: Bool {
        environment("KAFKA_BOOTSTRAP_SERVERS") != nil || home != nil
    }

    /// Why such tests are skipped when it is not available.
    package static let reason =
        "needs a real Kafka broker: set KAFKA_HOME (to start one) or KAFKA_BOOTSTRAP_SERVERS (to use one)"

    /// What a broker of a test's own is started from.
    package static var home: String? { environment("KAFKA_HOME") }

    private static func environment(_ name: String) -> String? {
        guard let value = ProcessInfo.processInfo.environment[name], !value.isEmpty else { return nil }
        return value
    }

    package let bootstrapServers: String
    /// Of a broker with rights: the listener at which one is `User:worker` (`workerProperties`), who may do what it was
    /// allowed. On `bootstrapServers` everyone may do everything.
    package let protectedServers: String?
    private let home: String
    private let folder: URL?
    private let process = Mutex<ChildProcess?>(nil)

    private init(servers: String) {
        bootstrapServers = servers
        protectedServers = nil
        home = ""
        folder = nil
    }

    /// Starts a broker of its own (for a test that stops or restarts it, or takes rights away); it is gone with the
    /// object.
    ///
    /// - Parameter hasRights: with an authorizer and a listener for `User:worker`, who has every right to begin with.
    package init(home: String, hasRights: Bool = false) throws {
        self.home = home
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "kafka-\(getpid())-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        self.folder = folder
        // Registered before the process is, so that it runs after the process was killed (atexit(3)).
        Self.removeAtExit
        Self.folders.withLock { _ = $0.insert(folder) }
        let ports = (0..<3).map { _ in Ports.claim() }
        bootstrapServers = "127.0.0.1:\(ports[0])"
        protectedServers = hasRights ? "127.0.0.1:\(ports[2])" : nil
        try Self.properties(
            port: ports[0], controllerPort: ports[1], protectedPort: hasRights ? ports[2] : nil,
            logs: folder.appending(path: "log").path
        )
        .write(to: folder.appending(path: "server.properties"), atomically: true, encoding: .utf8)
        try Self.logging.write(to: folder.appending(path: "log4j2.properties"), atomically: true, encoding: .utf8)
        let format = try ChildProcess(
            "java",
            Self.jvm(folder) + [
                "-cp", "\(home)/libs/*", "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c",
                folder.appending(path: "server.properties").path, "--standalone",
            ])
        guard try format.wait() == .exited(0) else { throw Failure.format(format.text) }
        try start()
        if hasRights { try grantAll() }
    }

    deinit {
        try? process.withLock { try $0?.killNow() }
        if let folder {
            Self.folders.withLock { _ = $0.remove(folder) }
            try? FileManager.default.removeItem(at: folder)
        }
    }

    private static let folders = Mutex<Set<URL>>([])

    private static let removeAtExit: Void = {
        atexit { KafkaBroker.folders.withLock { for folder in $0 { try? FileManager.default.removeItem(at: folder) } } }
    }()

    package enum Failure: Error {
        case format(String)
        case notStarted(String)
        /// What the administrator asked for and did not get.
        case refused(String)
    }

    // MARK: Stopping and starting

    /// Whether it is ours, so that it may be stopped.
    package var isOurs: Bool { folder != nil }

    /// Starts the broker on the ports and data it had, and waits until it answers.
    package func start() throws {
        guard let folder else { return }
        let broker = try ChildProcess(
            "java",
            Self.jvm(folder) + [
                "-cp", "\(home)/libs/*", "kafka.Kafka", folder.appending(path: "server.properties").path,
            ])
        process.withLock { $0 = broker }
        let deadline = Date(timeIntervalSinceNow: ChildProcess.patience)
        let topics = try Topics(ClusterSettings(bootstrapServers: bootstrapServers))
        while (try? topics.all(timeoutMs: 1000)) == nil {
            let ended = broker.ended
            guard ended == nil, Date() < deadline else {
                throw Failure.notStarted(
                    "\(ended.map { "\($0)" } ?? "no answer within \(ChildProcess.patience) s"): \(broker.text)")
            }
        }
    }

    /// Ends the broker: at once (kill -9), or after it wrote its data and told its clients.
    package func stop(kill: Bool) throws {
        guard let broker = process.withLock({ $0 }) else { return }
        if kill { try broker.killNow() } else { try broker.stop() }
    }

    /// Stops it in its tracks (SIGSTOP): connections stay, and nothing answers.
    package func freeze() { process.withLock { $0?.signal(SIGSTOP) } }

    package func unfreeze() { process.withLock { $0?.signal(SIGCONT) } }

    /// What the broker said.
    package var log: String { process.withLock { $0?.text ?? "" } }

    // MARK: Topics

    private static let counter = Mutex(0)

    /// A topic's or group's name that no other test uses.
    package static func uniqueName(_ prefix: String) -> String {
        let number = counter.withLock {
            $0 += 1
            return $0
        }
        return "\(prefix).\(getpid()).\(UInt32.random(in: 0..<UInt32.max)).\(number)"
    }

    /// Creates a topic with a name of its own, and returns the name.
    package func newTopic(
        _ prefix: String, partitions: Int = 1, configuration: [KafkaProperty] = []
    ) throws -> String {
        let name = Self.uniqueName(prefix)
        try create([NewTopic(name, partitions: partitions, replicationFactor: 1, configuration: configuration)])
        return name
    }

    package func create(_ new: [NewTopic]) throws {
        let topics = try Topics(ClusterSettings(bootstrapServers: bootstrapServers))
        for (_, result) in try topics.create(new, timeoutMs: 20_000) where result.code != .none { throw result }
        // The broker answers before every part of it knows the topic.
        let deadline = Date(timeIntervalSinceNow: ChildProcess.patience)
        while true {
            let all = try topics.all(timeoutMs: 5000)
            let isReady = new.allSatisfy { wanted in
                guard let topic = all[wanted.name] else { return false }
                return topic.code == .none && topic.partitions == wanted.partitions
            }
            if isReady { return }
            guard Date() < deadline else { throw Failure.notStarted("topics do not show: \(new.map(\.name))") }
        }
    }

    /// Runs one of Kafka's own programs. Needs a broker of ours.
    func administer(_ program: String, _ arguments: [String]) throws {
        let command = try ChildProcess(
            "java",
            Self.jvm(folder ?? FileManager.default.temporaryDirectory) + [
                "-cp", "\(home)/libs/*", program, "--bootstrap-server", bootstrapServers,
            ] + arguments)
        guard try command.wait() == .exited(0) else { throw Failure.refused(command.text) }
    }

    // MARK: What a broker needs

    private static func jvm(_ folder: URL) -> [String] {
        [
            "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.io.tmpdir=\(folder.path)",
            "-Dlog4j2.configurationFile=\(folder.appending(path: "log4j2.properties").path)",
        ]
    }

    private static let logging = """
        appender.console.type=Console
        appender.console.name=console
        appender.console.layout.type=PatternLayout
        appender.console.layout.pattern=%d{ISO8601} %p %m%n
        rootLogger.level=WARN
        rootLogger.appenderRef.console.ref=console
        """

    private static func properties(port: Int, controllerPort: Int, protectedPort: Int?, logs: String) -> String {
        let protected = protectedPort.map { ",WORKER://127.0.0.1:\($0)" } ?? ""
        let listeners = "PLAINTEXT://127.0.0.1:\(port),CONTROLLER://127.0.0.1:\(controllerPort)\(protected)"
        return """
            \(plainProperties(listeners, controllerPort: controllerPort, logs: logs))
            \(protectedPort == nil ? "" : rights)
            """
    }

    private static func plainProperties(_ listeners: String, controllerPort: Int, logs: String) -> String {
        """
        process.roles=broker,controller
        node.id=1
        controller.quorum.bootstrap.servers=127.0.0.1:\(controllerPort)
        listeners=\(listeners)
        advertised.listeners=\(listeners)
        controller.listener.names=CONTROLLER
        inter.broker.listener.name=PLAINTEXT
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,WORKER:SASL_PLAINTEXT
        log.dirs=\(logs)
        offsets.topic.replication.factor=1
        offsets.topic.num.partitions=4
        transaction.state.log.replication.factor=1
        transaction.state.log.min.isr=1
        share.coordinator.state.topic.replication.factor=1
        share.coordinator.state.topic.min.isr=1
        group.initial.rebalance.delay.ms=0
        num.partitions=8
        log.cleaner.dedupe.buffer.size=2097152
        """
    }
}
