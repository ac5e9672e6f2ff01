import Foundation
import Glibc
package import Kafka
import Synchronization

/// A real Kafka broker for tests: the one in KAFKA_BOOTSTRAP_SERVERS, or one started from KAFKA_HOME (`Docker/broker`)
/// for the lifetime of the test process.
package final class KafkaBroker: @unchecked Sendable {
    /// The broker shared by all tests of this process, or `nil` if none is available (`reason`).
    package static let shared: KafkaBroker? = {
        if let servers = environment("KAFKA_BOOTSTRAP_SERVERS") { return KafkaBroker(servers: servers) }
        guard let home else { return nil }
        do {
            return try KafkaBroker(home: home)
        } catch {
            fatalError("KAFKA_HOME is set to \(home), but no broker could be started from it: \(error)")
        }
    }()

    /// A broker that tests stop and freeze, one test at a time. Each test restores it, because starting a broker takes
    /// longer than most of these tests.
    package static let expendable = Result<KafkaBroker, any Error> {
        guard let home else { throw Failure.notStarted("it needs KAFKA_HOME") }
        return try KafkaBroker(home: home)
    }

    /// Whether tests that need a real broker can run.
    package static var isAvailable: Bool { environment("KAFKA_BOOTSTRAP_SERVERS") != nil || home != nil }

    /// The reason for skipping tests when no broker is available.
    package static let reason =
        "needs a real Kafka broker: set KAFKA_HOME (to start one) or KAFKA_BOOTSTRAP_SERVERS (to use one)"

    package static var home: String? { environment("KAFKA_HOME") }

    private static func environment(_ name: String) -> String? {
        guard let value = ProcessInfo.processInfo.environment[name], !value.isEmpty else { return nil }
        return value
    }

    package let bootstrapServers: String
    /// The listener at which clients authenticate as `User:worker` (`workerProperties`), whose permissions tests deny.
    /// `nil` for a broker that was not started here. Clients of `bootstrapServers` have all permissions.
    package let protectedServers: String?
    /// The listener of a broker with certificates at which clients authenticate with theirs.
    package let certificateServers: String?
    /// The data folder and the command line of the broker.
    private let launch: (folder: URL, words: [String])?
    private let process = Mutex<ChildProcess?>(nil)

    private init(servers: String) {
        bootstrapServers = servers
        protectedServers = nil
        certificateServers = nil
        launch = nil
    }

    /// Starts a broker that ends with the object. `User:worker` has all permissions.
    ///
    /// - Parameter certificates: a folder with `ca.pem`, and with the broker's key and certificate in `broker.pem`. If
    ///   given, `User:worker` has no permissions, and logs in over TLS with SASL or a certificate for CN=worker.
    package init(home: String, certificates: String? = nil) throws {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "kafka-\(getpid())-\(UUID().uuidString.prefix(8))")
        // atexit(3) runs in the reverse order: the process is killed before its folder is removed.
        Self.removeAtExit
        Self.folders.withLock { _ = $0.insert(folder) }
        let ports = (0..<4).map { _ in Ports.claim() }
        bootstrapServers = "127.0.0.1:\(ports[0])"
        protectedServers = "127.0.0.1:\(ports[2])"
        certificateServers = "127.0.0.1:\(ports[3])"
        let security = certificates.map { Self.security(ports, $0) } ?? []
        launch = (folder, [folder.path] + ports.prefix(3).map(String.init) + security)
        try start()
        guard certificates == nil else { return }
        for resource in [Resource.topic("*"), .group("*"), .cluster] { try allow(.all, resource) }
    }

    deinit {
        try? process.withLock { try $0?.killNow() }
        if let folder = launch?.folder {
            Self.folders.withLock { _ = $0.remove(folder) }
            try? FileManager.default.removeItem(at: folder)
        }
    }

    /// Returns the broker's properties for TLS. `Docker/broker` writes them after its own ones, which they replace.
    private static func security(_ ports: [Int], _ certificates: String) -> [String] {
        let listeners = zip(["PLAINTEXT", "CONTROLLER", "WORKER", "CERTIFICATE"], ports)
            .map { "\($0)://127.0.0.1:\($1)" }.joined(separator: ",")
        let modules = "org.apache.kafka.common.security"
        return [
            "listeners=\(listeners)", "advertised.listeners=\(listeners)",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,WORKER:SASL_SSL,CERTIFICATE:SSL",
            "ssl.keystore.type=PEM", "ssl.keystore.location=\(certificates)/broker.pem",
            "ssl.truststore.type=PEM", "ssl.truststore.location=\(certificates)/ca.pem",
            "listener.name.certificate.ssl.client.auth=required",
            "listener.name.certificate.ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/",
            "listener.name.worker.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.worker.scram-sha-512.sasl.jaas.config=\(modules).scram.ScramLoginModule required;",
            "listener.name.worker.oauthbearer.sasl.jaas.config=\(modules).oauthbearer.OAuthBearerLoginModule required "
                + #"unsecuredLoginStringClaim_sub="broker";"#,
        ]
    }

    private static let folders = Mutex<Set<URL>>([])

    private static let removeAtExit: Void = {
        atexit { KafkaBroker.folders.withLock { for folder in $0 { try? FileManager.default.removeItem(at: folder) } } }
    }()

    package enum Failure: Error {
        case notStarted(String)
        case refused(String)
    }

    // MARK: Stopping and starting

    /// Starts the broker with its previous ports and data, and waits until it answers.
    package func start() throws {
        guard let launch else { return }
        let broker = try ChildProcess(Repository.path("Docker/broker"), launch.words)
        process.withLock { $0 = broker }
        let topics = try Topics(ClusterSettings(bootstrapServers: bootstrapServers))
        let isThere = waitUntil { broker.ended != nil || (try? topics.all(timeoutMs: 1000)) != nil }
        guard isThere, broker.ended == nil else { throw Failure.notStarted(broker.text) }
    }

    /// Stops the broker: with SIGKILL, or gracefully.
    package func stop(kill: Bool) throws {
        guard let broker = process.withLock({ $0 }) else { return }
        if kill { try broker.killNow() } else { try broker.stop() }
    }

    /// Stops the process (SIGSTOP). Connections stay open without answers.
    package func freeze() { process.withLock { $0?.signal(SIGSTOP) } }

    package func unfreeze() { process.withLock { $0?.signal(SIGCONT) } }

    // MARK: Topics

    private static let counter = Atomic(0)

    /// Returns a topic or group name that no other test uses.
    package static func uniqueName(_ prefix: String) -> String {
        let number = counter.add(1, ordering: .relaxed).newValue
        return "\(prefix).\(getpid()).\(UInt32.random(in: 0..<UInt32.max)).\(number)"
    }

    /// Creates topics, and waits until every component of the broker knows them.
    package func create(_ new: [NewTopic]) throws {
        let topics = try Topics(ClusterSettings(bootstrapServers: bootstrapServers))
        for (_, result) in try topics.create(new, timeoutMs: 20_000) where result.code != .none { throw result }
        try awaitTopics("topics are not listed: \(new.map(\.name))") { all in
            new.allSatisfy { wanted in
                guard let topic = all[wanted.name] else { return false }
                return topic.code == .none && topic.partitions == wanted.partitions
            }
        }
    }

    func awaitTopics(_ failure: String, until isDone: ([String: TopicDescription]) -> Bool) throws {
        let topics = try Topics(ClusterSettings(bootstrapServers: bootstrapServers))
        guard try waitUntil(everyMs: 20, { isDone(try topics.all(timeoutMs: 5_000)) }) else {
            throw Failure.refused(failure)
        }
    }
}
