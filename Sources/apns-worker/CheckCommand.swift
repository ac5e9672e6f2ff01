import Configuration
import Worker

private struct CheckOptions {
    var configuration = ConfigurationOptions()
    var probesCredentials = false
    var printsPermissions = false
    var principal: String?
    /// The admin endpoint of the worker to compare with.
    var worker: NetworkAddress?
}

func checkConfiguration(_ arguments: [String]) throws -> ExitCode {
    let probe = OptionTable<CheckOptions>.Option(
        "probe", sets: \.probesCredentials,
        "Also send one notification for each bundle id (up to 400 per app) to a token of zeros, which no device has. The answer BadDeviceToken (from a simulator: 200) proves that the credential works. The command explains other answers."
    )
    let acl = OptionTable<CheckOptions>.Option(
        "acl", sets: \.printsPermissions,
        "Only print the kafka-acls.sh commands that grant the permissions which run needs with this configuration.")
    let principal = OptionTable<CheckOptions>.Option(
        "principal", value: "TYPE:NAME", to: \.principal,
        "With --acl: the Kafka principal of the worker (default User:apns-worker).")
    let diff = OptionTable<CheckOptions>.Option(
        "diff", value: "URL", to: \.worker, { try OptionValue.accept($0, "http://HOST:PORT", adminEndpoint($0)) },
        "Only compare the configuration with the one in use by the worker whose admin pages are at this URL, and print a line for each setting that a reload, or a restart, would change."
    )
    let table = OptionTable<CheckOptions>(
        command: "apns-worker check",
        usage: ConfigurationOptions.usage.map { "\($0) [--probe]" }
            + ["--config FILE --acl [--principal TYPE:NAME]", "--config FILE --diff URL"],
        about: [
            "Checks the configuration, loads every credential, connects to Kafka and to every app's host, and prints a line for each finding. The command changes nothing, and sends no notification without --probe.",
            "Example: apns-worker check --config worker.yaml --probe",
            "Example: apns-worker check --config worker.yaml --acl --principal User:CN=push",
            "Example: apns-worker check --config worker.yaml --diff http://127.0.0.1:9464",
        ],
        options: ConfigurationOptions.options.map { $0.within(\.configuration) } + [probe, acl, principal, diff],
        notes:
            "Exit codes: 0 everything is fine, 1 at least one check failed, 64 wrong usage. With --diff: 0 nothing would change, 1 something would change, 69 the worker's configuration cannot be read, 78 wrong configuration."
    )
    let options = try parsed(table, arguments, CheckOptions())
    try options.configuration.app.requireEither(options.configuration.file)
    if options.principal != nil, !options.printsPermissions { throw UsageError("--principal needs --acl") }
    if options.probesCredentials, options.printsPermissions { throw UsageError("give either --acl or --probe") }
    if options.worker != nil, options.probesCredentials || options.printsPermissions {
        throw UsageError("--diff cannot be combined with --acl or --probe")
    }
    if options.principal?.contains(":") == false { throw UsageError("--principal: expected a type, such as User:NAME") }
    let loaded: LoadedConfiguration
    do throws(ConfigurationError) {
        loaded = try options.configuration.read()
    } catch {
        if options.worker != nil { throw error }
        // `check` reports an invalid configuration like any other finding, with exit code 1.
        throw Exit(code: .failed, lines: error.lines)
    }
    if let worker = options.worker { return try printChanges(to: loaded.configuration, in: worker) }
    if options.printsPermissions {
        // Standard output is a shell script.
        for warning in loaded.warnings { complain("warning: \(warning)") }
        let commands = RequiredPermissions(loaded.configuration).commands(
            grantedTo: options.principal ?? "User:apns-worker", servers: loaded.configuration.kafka.bootstrapServers)
        for command in commands { say("\(command)\n") }
        return .fine
    }
    try startKeyLog(options.configuration.keyLog)
    for warning in loaded.warnings { say("warning: \(warning)\n") }
    let check = ConfigurationCheck(loaded.configuration, probesCredentials: options.probesCredentials) { finding in
        if finding.kind == .notFine { complain(finding.line) } else { say("\(finding.line)\n") }
    }
    return check.run() ? .fine : .failed
}
