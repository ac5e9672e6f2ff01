import CLinux
import Configuration
import Glibc
import Kafka
import Observability
import Worker

private struct RunOptions {
    var configuration = ConfigurationOptions()
    var log = LogFlags()

    /// The checked configuration, as it is now, with the flags in force. Throws all that is wrong with it.
    func read() throws(ConfigurationError) -> LoadedConfiguration { log.applied(to: try configuration.read()) }
}

/// `apns-worker run`.
func runWorker(_ arguments: [String]) -> ExitCode {
    EarlySignals.hold()
    // Core, net and librdkafka's threads hand memory to each other: two heaps serve them, and hold far less.
    linux_tune_malloc(2)
    let table = OptionTable<RunOptions>(
        command: "apns-worker run", usage: ConfigurationOptions.usage,
        about: [
            "Reads push requests from Kafka, sends them to APNs, publishes a result for each and every dead token, and commits an offset once all of its notifications are settled.",
            "SIGTERM or SIGINT: stop reading, let what is in flight settle, commit, exit 0; a second one exits at once (130 or 143).",
            "SIGHUP: read the configuration again: apps, credentials, limits, pauses and log levels; all of it or nothing. What --log-level and --log-part say stays in force.",
        ],
        options: ConfigurationOptions.options.map { $0.within(\.configuration) }
            + LogFlags.options.map { $0.within(\.log) },
        notes:
            "Exit codes: 0 stopped, 1 failed, 64 wrong usage, 78 wrong configuration, credentials or topics, 130 and 143 by a second SIGINT or SIGTERM."
    )
    let options: RunOptions
    switch parsed(table, arguments, RunOptions()) {
    case .failure(let exit): return exit.code
    case .success(let given): options = given
    }
    switch options.configuration.load(command: table.command) {
    case .failure(let exit): return exit.code
    case .success(let read):
        let loaded = options.log.applied(to: read)
        let log = loaded.configuration.log
        let logger = Logger(levels: log.levels, format: log.format)
        for warning in loaded.warnings {
            logger.warning(.worker, "the configuration is odd", about: warning, ["text": .text(warning)])
        }
        DescriptorNeed.raiseLimit(for: loaded.configuration, logger)
        let crashes = loaded.configuration.crash == .contain ? CrashContainment.history : CrashHistory()
        if let excess = crashes.excess(nowMs: CrashContainment.nowMs) {
            complain("apns-worker run: \(excess): ending, so that it is seen")
            return .failed
        }
        if let failure = startKeyLog(options.configuration.keyLog, command: table.command) { return failure }
        if loaded.configuration.crash == .contain {
            CrashContainment.begin(crashes, name: "apns-worker run")
        }
        return work(loaded.configuration, logger, crashes, reread: options.read)
    }
}

/// Runs the worker until it is told to stop.
private func work(
    _ configuration: WorkerConfiguration, _ logger: Logger, _ crashes: CrashHistory,
    reread: @escaping PushWorker.Rereading
) -> ExitCode {
    if let death = crashes.deaths.last {
        let place = death.place?.description ?? "none that is known"
        let isCondemned = death.place.map(crashes.condemned.contains) ?? false
        logger.error(
            .worker, "died and replaced itself",
            [
                "signal": "\(death.signalName)", "record": "\(place)", "crashes": .count(crashes.total),
                "to_dead_letters": .boolean(isCondemned),
            ])
    }
    let worker: PushWorker
    do throws(StartFailure) {
        worker = try PushWorker(configuration, logger: logger, crashes: crashes)
    } catch {
        for line in error.lines { complain(line) }
        return error.isPassing ? .failed : .wrongConfiguration
    }
    do throws(StartFailure) {
        let code: ExitCode
        switch try worker.run(handlesSignals: true, reread: reread) {
        case .stopped: code = .fine
        case .failed(let reason):
            complain("apns-worker run: \(reason)")
            code = .failed
        }
        // Destructors would wait for what does not end, or work under its feet.
        if !worker.hasEndedWhole { _exit(code.rawValue) }
        return code
    } catch {
        // It has said lines with their times before. These come whatever `log.level` leaves out.
        for line in error.lines {
            logger.log(.critical, .worker, "cannot start", about: line, ["reason": .text(line)])
        }
        return error.isPassing ? .failed : .wrongConfiguration
    }
}
