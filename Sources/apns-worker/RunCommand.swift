import CLinux
import Configuration
import Glibc
import Kafka
import Observability
import Worker

private struct RunOptions {
    var configuration = ConfigurationOptions()
    var log = LogFlags()

    /// Reads and validates the configuration, and applies the log flags to it.
    func read() throws(ConfigurationError) -> LoadedConfiguration {
        var loaded = try configuration.read()
        loaded.configuration.log = log.applied(to: loaded.configuration.log)
        return loaded
    }
}

/// Returns whether a path is a regular file. A pipe, such as `--config <(…)`, can be read only once.
private func isRegularFile(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
}

func runWorker(_ arguments: [String]) throws -> ExitCode {
    let table = OptionTable<RunOptions>(
        command: "apns-worker run", usage: ConfigurationOptions.usage,
        about: [
            "Reads push requests from Kafka, sends them to APNs, and publishes a result for each notification and a record for each dead token. The worker commits a record's offset once Kafka has acknowledged every result, retry record or dead letter of the record.",
            "Example: apns-worker run --config worker.yaml",
            "SIGTERM or SIGINT drains the worker and exits with 0; a second signal stops the worker immediately. The worker applies changes of the configuration file (apps, credentials, limits, pauses and log levels) within 20 s, or after SIGHUP immediately. If any of the new settings is invalid, all previous settings stay in use. A supervisor process restarts the worker after a crash, and after a change of Kafka's certificates or secrets, unless you set crash: core.",
        ],
        options: ConfigurationOptions.options.map { $0.within(\.configuration) }
            + LogFlags.options.map { $0.within(\.log) },
        notes:
            "Exit codes: 0 stopped, 1 failed, 64 wrong usage, 78 wrong configuration, credentials or topics, 130 or 143 after a second SIGINT or SIGTERM."
    )
    let options = try parsed(table, arguments, RunOptions())
    let role = Supervisor.role()
    if role == .supervisor { exit(Supervisor { complain("\(Timestamp.now().text) apns-worker run: \($0)") }.run()) }
    // Use only two malloc arenas, because each arena keeps the memory of its peak use. An arena for each thread would
    // gain little, because the core, net and librdkafka threads free each other's memory.
    linux_tune_malloc(2)
    try options.configuration.app.requireEither(options.configuration.file)
    let file = options.configuration.file.flatMap { isRegularFile($0) ? $0 : nil }
    let source = ConfigurationSource(file: file, read: options.read)
    let loaded = try options.read()
    let log = loaded.configuration.log
    let logger = Logger(levels: log.levels, format: log.format)
    for warning in loaded.warnings {
        logger.warning(.worker, "configuration warning", about: warning, ["text": .text(warning)])
    }
    DescriptorNeed.raiseLimit(for: loaded.configuration, logger)
    let isSupervised = role == .worker
    if isSupervised, loaded.configuration.crash == .core { Supervisor.leave() }
    try startKeyLog(options.configuration.keyLog)
    let crashes = CrashHistory.ofPage
    if let death = crashes.deaths.last, crash_is_new() != 0 {
        logger.error(
            .worker, "worker crashed and was restarted",
            [
                "signal": "\(death.signalName)", "record": "\(death.record)", "crashes": .count(crashes.total),
                "to_dead_letters": .boolean(death.places.contains(where: crashes.condemned.contains)),
            ])
    }
    let worker = try PushWorker(loaded.configuration, logger: logger, crashes: crashes)
    do throws(StartFailure) {
        let ending = try worker.run(handlesSignals: true, isSupervised: isSupervised, source: source)
        var code = ExitCode.fine
        if case .failed(let reason) = ending {
            complain("apns-worker run: \(reason)")
            code = .failed
        }
        if ending == .restart { _exit(Supervisor.restartCode) }
        // Destructors could wait for threads that do not end, or free memory that these threads still use.
        if !worker.hasEndedWhole { _exit(code.rawValue) }
        return code
    } catch {
        // The worker has already logged details. The lines below are written at any `log.level`.
        for line in error.lines {
            logger.log(.critical, .worker, "cannot start", about: line, ["reason": .text(line)])
        }
        return error.isPassing ? .failed : .wrongConfiguration
    }
}
