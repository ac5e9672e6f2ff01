import Kafka

/// The Kafka broker of a run: the user's, or one of its own that ends with it.
final class Broker {
    let bootstrapServers: String
    /// Whether it goes with the run, and its topics with it.
    let isOwn: Bool
    private let process: Child?

    /// `nil`: somebody else's.
    var processID: Int32? { process?.processID }

    var cluster: ClusterSettings { ClusterSettings(bootstrapServers: bootstrapServers, clientID: "apns-bench") }

    init(_ options: BenchOptions, java: String?, scratch: Scratch) throws {
        guard let java else {
            bootstrapServers = options.bootstrapServers
            isOwn = false
            process = nil
            try awaitAnswer(seconds: 20)
            return
        }
        progress("starting a Kafka broker from \(options.kafkaHome)")
        let ports = try Ports.free(2)
        bootstrapServers = "127.0.0.1:\(ports[0])"
        isOwn = true
        let properties = try scratch.write(
            Self.properties(port: ports[0], controllerPort: ports[1], logs: scratch.makeDirectory("kafka-log")),
            to: "server.properties")
        let logging = try scratch.write(Self.logging, to: "log4j2.properties")
        let jvm = [
            java, "-Xmx512m", "-XX:+UseSerialGC", "-Djava.io.tmpdir=\(scratch.path)",
            "-Dlog4j2.configurationFile=\(logging)", "-cp", "\(options.kafkaHome)/libs/*",
        ]
        let format = try Child(
            "kafka-format",
            jvm + [
                "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", properties, "--standalone",
            ], scratch: scratch)
        _ = try format.wait(until: Deadline(seconds: 60))
        process = try Child("kafka", jvm + ["kafka.Kafka", properties], scratch: scratch)
        try awaitAnswer(seconds: 90)
    }

    private func awaitAnswer(seconds: Int) throws {
        let topics = try Topics(cluster)
        let deadline = Deadline(seconds: seconds)
        while true {
            do {
                _ = try topics.all(timeoutMs: 1_000)
                return
            } catch {
                if let process, process.hasEnded { throw process.failure }
                guard !deadline.isOver else {
                    throw BenchFailure("no Kafka broker answers at \(bootstrapServers): \(error)")
                }
                try Interruption.pause(ms: 50)
            }
        }
    }

    private static let logging = """
        appender.console.type=Console
        appender.console.name=console
        appender.console.layout.type=PatternLayout
        appender.console.layout.pattern=%d{ISO8601} %p %m%n
        rootLogger.level=WARN
        rootLogger.appenderRef.console.ref=console

        """

    /// One node that is broker and controller.
    private static func properties(port: Int, controllerPort: Int, logs: String) -> String {
        """
        process.roles=broker,controller
        node.id=1
        controller.quorum.bootstrap.servers=127.0.0.1:\(controllerPort)
        listeners=PLAINTEXT://127.0.0.1:\(port),CONTROLLER://127.0.0.1:\(controllerPort)
        advertised.listeners=PLAINTEXT://127.0.0.1:\(port),CONTROLLER://127.0.0.1:\(controllerPort)
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
        log.dirs=\(logs)
        offsets.topic.replication.factor=1
        offsets.topic.num.partitions=4
        transaction.state.log.replication.factor=1
        transaction.state.log.min.isr=1
        share.coordinator.state.topic.replication.factor=1
        share.coordinator.state.topic.min.isr=1
        group.initial.rebalance.delay.ms=0
        log.cleaner.dedupe.buffer.size=2097152
        log.retention.ms=-1

        """
    }
}
