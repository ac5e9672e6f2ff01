import APNsSimulator
import Configuration
import Glibc
import Kafka
import Observability

/// Where the demo's traffic flows: the broker, the simulator, and a configuration that joins them.
final class DemoSetting {
    private let directory: TemporaryDirectory
    let broker: MockCluster
    let simulator: Simulator
    let configuration: WorkerConfiguration

    private static let partitions = 4
    private static let fetchWait = UserProperty(name: "fetch.wait.max.ms", value: "10", place: "demo")

    init(_ options: DemoOptions) throws {
        directory = try TemporaryDirectory(prefix: "apns-worker-demo")
        broker = try MockCluster()
        var settings = SimulatorOptions()
        settings.directory = directory.path
        settings.controlPort = nil
        settings.bundleIDs = [DemoTraffic.bundleID]
        settings.latency = options.latency
        settings.faults = options.faults
        simulator = try Simulator(settings)
        var configuration = Self.configuration(broker, simulator)
        configuration.log = options.log.applied(to: configuration.log)
        self.configuration = configuration
        for topic in configuration.requestTopics.map(\.name) + configuration.outputTopics.map(\.name) {
            try broker.create(topic, partitions: Self.partitions)
        }
    }

    deinit { simulator.stop() }

    /// The defaults, but for one short retry tier: nobody wants to wait for half a minute.
    private static func configuration(_ broker: MockCluster, _ simulator: Simulator) -> WorkerConfiguration {
        let token = TokenCredential(
            key: .text(simulator.credentials.providerKeyPEM), keyID: SimulatorCredentials.keyID,
            teamID: SimulatorCredentials.teamID)
        var app = AppSettings(
            name: "demo", bundleIDs: [DemoTraffic.bundleID], credential: .token(token), host: simulator.host)
        app.port = Int(simulator.port)
        app.authorities = simulator.credentials.caFile.map { .file($0) }
        app.connections.min = 2
        app.connections.max = 2
        var result = WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: broker.bootstrapServers), apps: [app])
        // The in-process broker lets a group wait for its session timeout less a second before it first assigns.
        result.kafka.sessionTimeout = .seconds(3)
        // It answers a fetch that found nothing only after this wait, whatever is written meanwhile.
        result.kafka.consumerProperties = [Self.fetchWait]
        result.kafka.tellsTopicConfigurations = false
        result.retry.tiers = [RetrySettings.Tier(name: "1s", delay: .seconds(1), topic: "apns.retry.1s")]
        result.admin.listen = nil
        result.log.level = .warning
        return result
    }
}

/// A directory of this run's own, readable by nobody else; it and the files in it go when this goes.
final class TemporaryDirectory {
    let path: String

    init(prefix: String) throws(DemoFailure) {
        let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(base)/\(prefix)-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw DemoFailure("cannot make a directory in \(base): \(String(cString: strerror(errno)))")
        }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit {
        guard let directory = opendir(path) else { return }
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { unlink("\(path)/\(name)") }
        }
        closedir(directory)
        rmdir(path)
    }
}

/// Something that ends the demo; one line.
struct DemoFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
