import Configuration
import Kafka
import PushRecords
import TLS
import Worker

/// The configuration of `run` and `check`: a file, or flags for one app.
struct ConfigurationOptions {
    var file: String?
    var app = AppFlags()
    var keyLog: String?

    static let usage = [
        "--config FILE",
        "--bootstrap-servers LIST --key-file FILE --key-id ID --team-id ID --bundle-id ID [OPTIONS]",
    ]

    static let options: [OptionTable<Self>.Option] =
        [
            .init(
                "config", "c", value: "FILE", to: \.file,
                "Read the configuration from this YAML file, instead of options for one app."),
            .init(
                "bootstrap-servers", value: "LIST", to: \.app.bootstrapServers,
                "The Kafka brokers, as a comma-separated list of host:port."),
            .init(
                "environment", value: "NAME", to: \.app.environment,
                "The app's environment: production (default) or development."),
        ] + AppFlags.options.map { $0.within(\.app) } + [.init("keylog", value: "FILE", to: \.keyLog, keyLogHelp)]

    func read() throws(ConfigurationError) -> LoadedConfiguration {
        if let file { try WorkerConfiguration.load(file: file) } else { try WorkerConfiguration.load(flags: app) }
    }
}

extension AppFlags {
    static let keyOptions: [OptionTable<Self>.Option] = [
        .init(
            "key-file", value: "FILE", to: \.keyFile, "Your signing key from Apple (.p8), if you do not use --config."),
        .init("key-id", value: "ID", to: \.keyID, "The signing key's 10-character id."),
        .init("team-id", value: "ID", to: \.teamID, "The team's 10-character id."),
    ]

    static let caFileOption = OptionTable<Self>.Option(
        "ca-file", value: "FILE", to: \.caFile,
        "Trust the CA certificates in this PEM file for the server, instead of the system's CA certificates.")

    static let options: [OptionTable<Self>.Option] =
        keyOptions + [
            .init(
                "bundle-id", value: "ID", each: \.bundleIDs, OptionValue.text,
                "The app's bundle id. Repeat the option for more bundle ids."),
            .init("host", value: "HOST", to: \.host, "Send to this server, such as a simulator, instead of Apple's."),
            .init("port", value: "PORT", to: \.port, "The server's port (default 443)."), caFileOption,
        ]

    func requireEither(_ file: String?) throws(UsageError) {
        if file == nil, self == AppFlags() { throw UsageError("needs --config FILE, or options for one app") }
        if file != nil, self != AppFlags() {
            throw UsageError("give either --config or the options for one app, not both")
        }
    }

    /// Loads the configuration of a command that connects to Apple without Kafka, from the given file or from these
    /// flags.
    func load(_ file: String?, _ environment: PushEnvironment?) throws(ConfigurationError) -> WorkerConfiguration {
        if let file { return try WorkerConfiguration.load(file: file).configuration }
        var flags = self
        // A configuration needs brokers, although a command without Kafka does not use them.
        flags.bootstrapServers = "localhost:9092"
        flags.environment = environment?.text.description
        return try WorkerConfiguration.load(flags: flags).configuration
    }
}

func parsedEnvironment(_ text: String) throws(UsageError) -> PushEnvironment {
    try OptionValue.accept(text, "production or development", PushEnvironment(text: text))
}

let keyLogHelp =
    "Append the TLS secrets of connections to APNs to FILE (NSS key log), so that Wireshark can decrypt a capture."

func startKeyLog(_ path: String?) throws {
    if let path { try KeyLog.start(path) }
}

func loaded(_ file: String?) throws -> (WorkerConfiguration, ClusterSettings) {
    guard let file else { throw UsageError("needs --config FILE") }
    let configuration = try WorkerConfiguration.load(file: file).configuration
    return (configuration, try configuration.cluster())
}
