import Configuration
import EventLoop
import Kafka
import Observability
import Worker

private struct FeedbackOptions {
    var file: String?
    var app: String?
    var deadline = Duration.seconds(300)

    static let table = OptionTable<Self>(
        command: "apns-worker feedback", usage: ["--config FILE [--app NAME] [--deadline TIME]"],
        about: [
            "Reads once the feedback service of every app that has binary.feedback, or of the one named, and writes each dead token that it tells to the unregistered topic. The service forgets what it told, so nothing is read while Kafka does not answer, and what was read is written for as long as it takes.",
            "SIGTERM or SIGINT: begin nothing, write what was read; a second one gives up what is not written, and says how many tokens that is.",
        ],
        options: [
            .init("config", "c", value: "FILE", to: \.file, "The worker's configuration."),
            .init("app", value: "NAME", "Only this app of the configuration.") { $0.app = $1 },
            .init(
                "deadline", value: "TIME", to: \.deadline, OptionValue.duration,
                "How long to go on (default 5m). What Kafka has not acknowledged by then is lost, and a line says so."),
        ],
        notes:
            "Exit codes: 0 all that the services had was acknowledged by Kafka, 1 it was not, 64 wrong usage, 78 wrong configuration."
    )

    /// The apps to read, or the exit after what is wrong has been printed.
    func apps(in configuration: WorkerConfiguration) -> Result<[AppSettings], Exit> {
        let all = configuration.apps.filter { $0.binary?.feedback != nil }
        guard !all.isEmpty else {
            complain("apns-worker feedback: no app of the configuration has binary.feedback")
            return .failure(Exit(code: .wrongConfiguration))
        }
        let wanted = all.filter { app == nil || $0.name == app }
        guard !wanted.isEmpty else {
            let names = all.map(\.name).joined(separator: ", ")
            complain(
                "apns-worker feedback: no app with binary.feedback has the name \(printable(app ?? "")); there is \(names)"
            )
            return .failure(Exit(code: .wrongUsage))
        }
        return .success(wanted)
    }
}

/// `apns-worker feedback`.
func readFeedback(_ arguments: [String]) -> ExitCode {
    parsed(FeedbackOptions.table, arguments, FeedbackOptions()) { $0.file == nil ? "needs --config FILE" : nil }.flatMap
    {
        options in
        loaded(options.file ?? "").flatMap { configuration, cluster in
            options.apps(in: configuration).map { read($0, configuration, cluster, options) }
        }
    }.code
}

private func read(
    _ apps: [AppSettings], _ configuration: WorkerConfiguration, _ cluster: ClusterSettings, _ options: FeedbackOptions
) -> ExitCode {
    let signals = StopSignals()
    let logger = Logger(levels: LevelTable(.critical), format: configuration.log.format)
    let topic = configuration.unregistered.topic
    var isFine = true
    var stops = 0
    var saidNs: Int64?
    do throws(StartFailure) {
        let ending = try FeedbackRun.run(
            apps, topic: topic, cluster, logger: logger, timeoutNs: options.deadline.nanoseconds,
            stopRequest: {
                if signals.came(withinMs: 0) { stops += 1 }
                return stops == 0 ? .none : stops == 1 ? .finish : .giveUp
            },
            onOutcome: { outcome in
                isFine = isFine && outcome.failure == nil
                report(outcome, topic: topic)
            },
            onDelay: { reason in
                let nowNs = LoopTime.read().monotonicNs
                guard nowNs - (saidNs ?? .min / 2) >= 10_000_000_000 else { return }
                saidNs = nowNs
                complain("apns-worker feedback: nothing is read before Kafka can take it: \(reason); trying again")
            })
        return isFine && say(ending) ? .fine : .failed
    } catch {
        for line in error.lines { complain(line) }
        return .wrongConfiguration
    }
}

private func report(_ answer: FeedbackOutcome, topic: String) {
    let skipped = answer.skipped > 0 ? ", \(answer.skipped) of a length that none has left out" : ""
    say("\(answer.app): \(answer.tokens) dead tokens written to \(topic)\(skipped)\n")
    if let failure = answer.failure {
        complain("apns-worker feedback: \(answer.app): it could not be read to its end: \(failure)")
    }
}

/// Whether everything was read, and nothing is lost.
private func say(_ ending: FeedbackRun.Ending) -> Bool {
    for app in ending.unread { complain("apns-worker feedback: \(app): was not read; it has lost nothing") }
    if ending.lost > 0 {
        let trouble = ending.trouble.isEmpty ? "" : ": \(ending.trouble)"
        complain(
            "apns-worker feedback: \(ending.lost) dead tokens are lost: the service told and forgot them, and Kafka did not acknowledge them in time\(trouble)"
        )
    }
    return ending.unread.isEmpty && ending.lost == 0
}
