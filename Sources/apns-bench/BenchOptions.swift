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
    /// Of each measurement.
    var timeoutSeconds = 600
    var asJSON = false
    var subjects = Subject.usual
    /// Empty: none is kept.
    var historyFile = ""
    /// Of the binary protocol.
    var windowMs = 2_000
    /// How long the requests of `latency` come.
    var latencySeconds = 20

    static let table = OptionTable<BenchOptions>(
        command: "apns-bench", usage: ["[OPTIONS]", "plot FILE"],
        about: [
            "What a notification costs the worker in CPU, beside what it costs C programs that do only half of the work, all in one run against the same servers: h2load and a bare nghttp2 and OpenSSL loop post the same requests over TLS and HTTP/2 (the lower of them is the send floor), a bare librdkafka loop consumes the same records and produces the same results (the Kafka floor), then apns-worker does both, in several forms. On request also its latency, what it carries at 50 ms, its HEADERS and its start. Every result is read back: a run in which a request lacks its one accepted result fails.",
            "Needs nghttpd (Debian: nghttp2-server; h2load is in nghttp2-client), and a Kafka broker: KAFKA_BOOTSTRAP_SERVERS names one, or KAFKA_HOME a folder with Kafka's libs to start one from (with java).",
            "plot draws a history as SVG on standard output.",
        ],
        options: [
            .init("count", "n", value: "N", "Notifications (default 300000).") { options, text throws(UsageError) in
                options.count = try OptionValue.integer(text, 1_000...50_000_000)
            },
            .init(
                "measure", "m", value: "LIST",
                "What, with commas between; all; see below (default floors,payload,envelope,fan-out,binary,parts)."
            ) { options, text throws(UsageError) in options.subjects = try Subject.list(text) },
            .init("devices", value: "N", "Distinct device tokens (default 20000).") {
                options, text throws(UsageError) in
                options.devices = try OptionValue.integer(text, 1...1_000_000)
            },
            .init("partitions", value: "N", "Partitions of the request and result topics (default 8).") {
                options, text throws(UsageError) in
                options.partitions = try OptionValue.integer(text, 1...1_000)
            },
            .init(
                "connections", value: "N",
                "Connections to the server, of floors and worker (default 2; streams and network have their own)."
            ) {
                options, text throws(UsageError) in
                options.connections = try OptionValue.integer(text, 1...64)
            },
            .init(
                "rounds", value: "N",
                "Measure floors and worker so often, and show of each the round that cost least (default 1); for a machine that is busy with other things."
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
            .init("timeout", value: "SECONDS", "The longest each of them may take (default 600).") {
                options, text throws(UsageError) in
                options.timeoutSeconds = try OptionValue.integer(text, 1...86_400)
            },
            .init("latency-seconds", value: "N", "How long latency is measured, at 1,000 a second (default 20).") {
                options, text throws(UsageError) in
                options.latencySeconds = try OptionValue.integer(text, 2...86_400)
            },
            .init(
                "window", value: "MS",
                "After so long a gateway's silence accepts (default 2000, the worker's own): binary has devices / window a second at most."
            ) { options, text throws(UsageError) in
                options.windowMs = try OptionValue.integer(text, 10...600_000)
            },
            .init("history", value: "FILE", "Append the figures to it, as one line of JSON.") {
                options, text throws(UsageError) in
                options.historyFile = try OptionValue.text(text)
            },
            .init("json", nil, "Print the figures as one JSON object.") { $0.asJSON = true },
        ],
        notes: Subject.text + """

            CPU is user and system time of the whole process from start to end, as wait4(2) has it: joining the group,
            the TLS handshakes and the shutdown are included, and are spread over all notifications.
            Exit codes: 0 measured (whatever the figures), 1 something is missing or failed, 64 wrong usage.

            """)

    private static func text(ofVariable name: String) -> String {
        getenv(name).map { String(cString: $0) } ?? ""
    }
}
