import Configuration
import Kafka
import TLS
import Worker

/// Where `run` and `check` find their configuration: a file, or flags for one app.
struct ConfigurationOptions {
    var file: String?
    var app = AppFlags()
    var keyLog: String?

    static let usage = [
        "--config FILE",
        "--bootstrap-servers LIST --key-file FILE --key-id ID --team-id ID --bundle-id ID [OPTIONS]",
    ]

    static let options: [OptionTable<Self>.Option] = [
        .init("config", "c", value: "FILE", "The configuration, a YAML file; takes the place of the flags for one app.")
        {
            options, text throws(UsageError) in options.file = try OptionValue.text(text)
        },
        .init("bootstrap-servers", value: "LIST", "Kafka brokers, host:port with commas between.") {
            $0.app.bootstrapServers = $1
        },
        .init("key-file", value: "FILE", "The signing key from Apple (.p8).") { $0.app.keyFile = $1 },
        .init("key-id", value: "ID", "The signing key's 10-character id.") { $0.app.keyID = $1 },
        .init("team-id", value: "ID", "The team's 10-character id.") { $0.app.teamID = $1 },
        .init("bundle-id", value: "ID", "The app's bundle id; may be given more than once.") {
            $0.app.bundleIDs.append($1)
        },
        .init("environment", value: "NAME", "production (default) or development.") { $0.app.environment = $1 },
        .init("host", value: "HOST", "An APNs server other than Apple's, such as the simulator's.") {
            $0.app.host = $1
        },
        .init("port", value: "PORT", "Its port (default 443).") { $0.app.port = $1 },
        .init("ca-file", value: "FILE", "Certificates (PEM) that may sign for it; default: the system's.") {
            $0.app.caFile = $1
        },
        .init("keylog", value: "FILE", keyLogHelp) { options, text throws(UsageError) in
            options.keyLog = try OptionValue.text(text)
        },
    ]

    /// The checked configuration, as it is now. Throws all that is wrong with it.
    func read() throws(ConfigurationError) -> LoadedConfiguration {
        if let file { try WorkerConfiguration.load(file: file) } else { try WorkerConfiguration.load(flags: app) }
    }

    /// The checked configuration, or the exit after all that is wrong with it has been printed.
    func load(command: String) -> Result<LoadedConfiguration, Exit> {
        guard file != nil || app != AppFlags() else {
            complain("\(command): needs --config FILE, or flags for one app (see \(command) --help)")
            return .failure(Exit(code: .wrongUsage))
        }
        guard file == nil || app == AppFlags() else {
            complain("\(command): give either --config or the flags for one app, not both (see \(command) --help)")
            return .failure(Exit(code: .wrongUsage))
        }
        return checked { () throws(ConfigurationError) in try read() }
    }
}

/// The help of `--keylog`.
let keyLogHelp =
    "Append the secrets of TLS connections to APNs to FILE in NSS key log format, with which Wireshark decrypts a capture of them."

/// Starts the key log that `--keylog` asks for.
///
/// - Returns: the exit after it was said why it cannot be written, or `nil` if all is well.
func startKeyLog(_ path: String?, command: String) -> ExitCode? {
    guard let path else { return nil }
    do throws(TLSError) {
        try KeyLog.start(path)
        return nil
    } catch {
        complain("\(command): \(error.text)")
        return .failed
    }
}

/// The checked configuration, or the exit after all that is wrong with it has been printed.
func checked(
    _ read: () throws(ConfigurationError) -> LoadedConfiguration
) -> Result<LoadedConfiguration, Exit> {
    do throws(ConfigurationError) {
        return .success(try read())
    } catch {
        for line in error.lines { complain(line) }
        return .failure(Exit(code: .wrongConfiguration))
    }
}

/// The configuration of a file and its Kafka, or the exit after all that is wrong with them has been printed.
func loaded(_ file: String) -> Result<(WorkerConfiguration, ClusterSettings), Exit> {
    checked { () throws(ConfigurationError) in try WorkerConfiguration.load(file: file) }.flatMap { loaded in
        do throws(StartFailure) {
            return .success((loaded.configuration, try loaded.configuration.cluster()))
        } catch {
            for line in error.lines { complain(line) }
            return .failure(Exit(code: .wrongConfiguration))
        }
    }
}
