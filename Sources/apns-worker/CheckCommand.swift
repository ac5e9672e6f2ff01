import Configuration
import Worker

/// `apns-worker check`.
func checkConfiguration(_ arguments: [String]) -> ExitCode {
    let table = OptionTable<ConfigurationOptions>(
        command: "apns-worker check", usage: ConfigurationOptions.usage,
        about: [
            "Validates the configuration, loads every credential, reaches Kafka and the topics, and completes a TLS and HTTP/2 handshake with every app's host. Sends nothing. Prints what is fine and what is not, a line each."
        ], options: ConfigurationOptions.options,
        notes: "Exit codes: 0 all is fine, 1 something is not, 64 wrong usage.")
    switch parsed(table, arguments, ConfigurationOptions()).flatMap({ $0.load(command: table.command) }) {
    case .failure(let exit):
        // Here a wrong configuration is what was looked for: the answer is "not fine".
        return exit.code == .wrongConfiguration ? .failed : exit.code
    case .success(let loaded):
        for warning in loaded.warnings { say("warning: \(warning)\n") }
        let check = ConfigurationCheck(loaded.configuration) { finding in
            if finding.isFine { say("fine: \(finding.text)\n") } else { complain("not fine: \(finding.text)") }
        }
        return check.run() ? .fine : .failed
    }
}
