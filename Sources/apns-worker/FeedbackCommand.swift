import Configuration
import Observability
import Worker

private struct FeedbackOptions {
    var file: String?
    var app: String?
    var deadline = Duration.seconds(300)

    static let table = OptionTable<Self>(
        command: "apns-worker feedback", usage: ["--config FILE [--app NAME] [--deadline TIME]"],
        about: [
            "Reads the feedback service of each app that has binary.feedback once, and writes each dead token to the unregistered topic. The service deletes the tokens that it has sent, so the command reads from the service only after Kafka has answered.",
            "Example: apns-worker feedback --config worker.yaml",
            "On SIGTERM or SIGINT the command begins no further read, and writes the tokens that it has read. On a second signal it stops immediately, and prints how many tokens are lost.",
        ],
        options: [
            .init("config", "c", value: "FILE", to: \.file, "Read the worker's configuration from this file."),
            .init("app", value: "NAME", to: \.app, "Read only the feedback service of this app."),
            .init(
                "deadline", value: "TIME", to: \.deadline, OptionValue.duration,
                "Stop after this time (default 5m). Tokens that Kafka has not acknowledged by then are lost and reported."
            ),
        ],
        notes:
            "Exit codes: 0 Kafka acknowledged every token, 1 some tokens were not read or not acknowledged, 64 wrong usage, 78 wrong configuration."
    )
}

func readFeedback(_ arguments: [String]) throws -> ExitCode {
    let options = try parsed(FeedbackOptions.table, arguments, FeedbackOptions())
    let (configuration, cluster) = try loaded(options.file)
    let all = configuration.apps.filter { $0.binary?.feedback != nil }
    guard !all.isEmpty else {
        throw StartFailure(["apns-worker feedback: no app of the configuration has binary.feedback"])
    }
    let apps = all.filter { options.app == nil || $0.name == options.app }
    guard !apps.isEmpty else {
        let names = all.map(\.name).joined(separator: ", ")
        throw UsageError(
            "no app with binary.feedback has the name \(quoted(options.app ?? "")); expected one of \(names)")
    }
    let signals = StopSignals()
    let logger = Logger(levels: LevelTable(.critical), format: configuration.log.format)
    let topic = configuration.unregistered.topic
    var isFine = true
    var stops = 0
    let troubles = Troubles()
    let ending = try FeedbackRun.run(
        apps, topic: topic, cluster, logger: logger, timeoutNs: options.deadline.nanoseconds,
        stopRequest: {
            if signals.take() { stops += 1 }
            return stops == 0 ? .none : stops == 1 ? .finish : .giveUp
        },
        onOutcome: { outcome in
            let skipped = outcome.skipped > 0 ? ", \(outcome.skipped) skipped because of an invalid length" : ""
            say("\(outcome.app): \(outcome.tokens) dead tokens written to \(topic)\(skipped)\n")
            guard let failure = outcome.failure else { return }
            isFine = false
            complain(
                "apns-worker feedback: \(outcome.app): the service's list of tokens could not be read completely: \(failure)"
            )
        },
        onDelay: { troubles.say("apns-worker feedback: waiting for Kafka before reading: \($0)") })
    for app in ending.unread {
        complain("apns-worker feedback: \(app): its feedback service was not read, so no tokens are lost")
    }
    if ending.lost > 0 {
        let trouble = ending.trouble.isEmpty ? "" : ": \(ending.trouble)"
        complain(
            "apns-worker feedback: \(ending.lost) dead tokens are lost: the service has deleted them, and Kafka did not acknowledge them in time\(trouble)"
        )
    }
    return isFine && ending.unread.isEmpty && ending.lost == 0 ? .fine : .failed
}
