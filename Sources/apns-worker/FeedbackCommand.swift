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
            "Reads once the feedback service of every app that has binary.feedback, or of the one named, and writes each dead token to the unregistered topic. The service forgets what it told, so nothing is read while Kafka does not answer, and tokens that were read are written for as long as it takes.",
            "SIGTERM or SIGINT: begin nothing, write what was read; a second one gives up what is not written, and says how many tokens that is.",
        ],
        options: [
            .init("config", "c", value: "FILE", to: \.file, "The worker's configuration."),
            .init("app", value: "NAME", to: \.app, "Only this app of the configuration."),
            .init(
                "deadline", value: "TIME", to: \.deadline, OptionValue.duration,
                "How long to go on (default 5m). What Kafka has not acknowledged by then is lost, and a line says so."),
        ],
        notes:
            "Exit codes: 0 all that the services had was acknowledged by Kafka, 1 it was not, 64 wrong usage, 78 wrong configuration."
    )
}

/// `apns-worker feedback`.
func readFeedback(_ arguments: [String]) throws -> ExitCode {
    let options = try parsed(FeedbackOptions.table, arguments, FeedbackOptions())
    let (configuration, cluster) = try loaded(options.file)
    let all = configuration.apps.filter { $0.binary?.feedback != nil }
    guard !all.isEmpty else {
        throw Exit(
            code: .wrongConfiguration,
            lines: ["apns-worker feedback: no app of the configuration has binary.feedback"])
    }
    let apps = all.filter { options.app == nil || $0.name == options.app }
    guard !apps.isEmpty else {
        let names = all.map(\.name).joined(separator: ", ")
        throw UsageError(
            "no app with binary.feedback has the name \(printable(options.app ?? "")); there is \(names)")
    }
    let signals = StopSignals()
    let logger = Logger(levels: LevelTable(.critical), format: configuration.log.format)
    let topic = configuration.unregistered.topic
    var isFine = true
    let run = try FeedbackRun(apps, topic: topic, cluster, logger: logger) { answer in
        let skipped = answer.skipped > 0 ? ", \(answer.skipped) of a length that none has left out" : ""
        say("\(answer.app): \(answer.tokens) dead tokens written to \(topic)\(skipped)\n")
        guard let failure = answer.failure else { return }
        isFine = false
        complain("apns-worker feedback: \(answer.app): it could not be read to its end: \(failure)")
    }
    var stops = 0
    let troubles = Troubles()
    let ending = run.run(
        timeoutNs: options.deadline.nanoseconds,
        stopRequest: {
            if signals.take() { stops += 1 }
            return stops == 0 ? .none : stops == 1 ? .finish : .giveUp
        },
        onDelay: { troubles.say("apns-worker feedback: nothing is read before Kafka can take it: \($0)") })
    for app in ending.unread { complain("apns-worker feedback: \(app): was not read; it has lost nothing") }
    if ending.lost > 0 {
        let trouble = ending.trouble.isEmpty ? "" : ": \(ending.trouble)"
        complain(
            "apns-worker feedback: \(ending.lost) dead tokens are lost: the service told and forgot them, and Kafka did not acknowledge them in time\(trouble)"
        )
    }
    return isFine && ending.unread.isEmpty && ending.lost == 0 ? .fine : .failed
}
