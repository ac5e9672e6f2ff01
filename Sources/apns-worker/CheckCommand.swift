import Configuration
import Worker

private struct CheckOptions {
    var configuration = ConfigurationOptions()
    var probesCredentials = false
}

/// `apns-worker check`.
func checkConfiguration(_ arguments: [String]) -> ExitCode {
    let probe = OptionTable<CheckOptions>.Option(
        "probe", nil,
        "Send one notification for each bundle id (400 of an app at most, one after the other over one connection) to a device token of zeros, which nobody has: BadDeviceToken proves the credential, any other answer is explained."
    ) { $0.probesCredentials = true }
    let table = OptionTable<CheckOptions>(
        command: "apns-worker check", usage: ConfigurationOptions.usage.map { "\($0) [--probe]" },
        about: [
            "Validates the configuration, loads every credential, reaches Kafka and the topics, and completes a TLS and HTTP/2 handshake with every app's host. Sends nothing, unless --probe is given. Prints what is fine and what is not, a line each."
        ],
        options: ConfigurationOptions.options.map { $0.within(\.configuration) } + [probe],
        notes: "Exit codes: 0 all is fine, 1 something is not, 64 wrong usage.")
    switch parsed(table, arguments, CheckOptions()).flatMap({ options in
        options.configuration.load(command: table.command).map { (options, $0) }
    }) {
    case .failure(let exit):
        // Here a wrong configuration is what was looked for: the answer is "not fine".
        return exit.code == .wrongConfiguration ? .failed : exit.code
    case .success((let options, let loaded)):
        if let failure = startKeyLog(options.configuration.keyLog, command: table.command) { return failure }
        for warning in loaded.warnings { say("warning: \(warning)\n") }
        let check = ConfigurationCheck(
            loaded.configuration, probesCredentials: options.probesCredentials
        ) { finding in
            if finding.kind == .notFine { complain(finding.line) } else { say("\(finding.line)\n") }
        }
        return check.run() ? .fine : .failed
    }
}
