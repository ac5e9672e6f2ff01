import Configuration
import Glibc

/// What `apns-bench` can be told.
struct BenchOptions: Sendable {
    var count = 300_000
    /// Distinct devices. One notification of a device is in flight at a time, so there are as many as the worker holds
    /// open: the order of a device never makes it wait.
    var devices = 20_000
    var partitions = 8
    var connections = 2
    var rounds = 1
    /// Empty: a broker of its own, from `kafkaHome`.
    var bootstrapServers = text(ofVariable: "KAFKA_BOOTSTRAP_SERVERS")
    var kafkaHome = text(ofVariable: "KAFKA_HOME")
    /// Empty: the one beside this program.
    var worker = ""
    /// 0: any free one.
    var serverPort = 0
    /// Of each of the three measurements.
    var timeoutSeconds = 600
    var asJSON = false

    static let table = OptionTable<BenchOptions>(
        command: "apns-bench", usage: ["[OPTIONS]"],
        about: [
            "What a notification costs the worker in CPU, beside what it costs C programs that do only half of the work, all in one run against the same servers: h2load posts the same requests over TLS and HTTP/2 (the send floor), a bare librdkafka loop consumes the same records and produces the same results (the Kafka floor), then apns-worker does both.",
            "Needs nghttpd and h2load (Debian: nghttp2-server, nghttp2-client), and a Kafka broker: KAFKA_BOOTSTRAP_SERVERS names one, or KAFKA_HOME a folder with Kafka's libs to start one from (with java).",
        ],
        options: [
            .init("count", "n", value: "N", "Notifications (default 300000).") { options, text throws(UsageError) in
                options.count = try OptionValue.integer(text, 1_000...50_000_000)
            },
            .init("devices", value: "N", "Distinct device tokens (default 20000).") {
                options, text throws(UsageError) in
                options.devices = try OptionValue.integer(text, 1...1_000_000)
            },
            .init("partitions", value: "N", "Partitions of the request and result topics (default 8).") {
                options, text throws(UsageError) in
                options.partitions = try OptionValue.integer(text, 1...1_000)
            },
            .init("connections", value: "N", "Connections to the server, of h2load and of the worker (default 2).") {
                options, text throws(UsageError) in
                options.connections = try OptionValue.integer(text, 1...64)
            },
            .init(
                "rounds", value: "N",
                "Measure all three so often, and show of each the round that cost least (default 1); for a machine that is busy with other things."
            ) { options, text throws(UsageError) in
                options.rounds = try OptionValue.integer(text, 1...100)
            },
            .init("bootstrap-servers", value: "HOST:PORT", "Use this broker.") { options, text throws(UsageError) in
                options.bootstrapServers = try OptionValue.text(text)
            },
            .init("worker", value: "PATH", "The worker (default: apns-worker beside this program).") {
                options, text throws(UsageError) in
                options.worker = try OptionValue.text(text)
            },
            .init("nghttpd", value: "PORT", "The port nghttpd is started on (default: any free one).") {
                options, text throws(UsageError) in
                options.serverPort = try OptionValue.integer(text, 1...65_535)
            },
            .init("timeout", value: "SECONDS", "The longest each of the three may take (default 600).") {
                options, text throws(UsageError) in
                options.timeoutSeconds = try OptionValue.integer(text, 1...86_400)
            },
            .init("json", nil, "Print the figures as one JSON object.") { $0.asJSON = true },
        ],
        notes: """
            CPU is user and system time of the whole process from start to end, as wait4(2) has it: joining the group,
            the TLS handshakes and the shutdown are included, and are spread over all notifications.
            Exit codes: 0 measured (whatever the figures), 1 something is missing or failed, 64 wrong usage.

            """)

    private static func text(ofVariable name: String) -> String {
        getenv(name).map { String(cString: $0) } ?? ""
    }
}
