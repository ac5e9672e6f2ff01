import Configuration
import PushRecords
import Replay

struct ReplayOptions {
    var file: String?
    /// The properties of the order that options set directly. `order(_:_:nowMs:)` sets all other properties.
    private var order = ReplayOrder()
    var since: Moment?
    var until: Moment?
    var isAll = false
    var name: String?
    var deadline: Duration?
    var format = OutputFormat.text
    var conditions: [String] = []

    static let table = OptionTable<Self>(
        command: "apns-worker replay",
        usage: [
            "results --config FILE CONDITION… [OPTIONS]",
            "dead-letters --config FILE CONDITION… [OPTIONS]",
        ],
        about: [
            "Requests failed notifications again. The command reads results or dead letters, fetches each request from its topic, and writes it again with the header push-replay-of, which names the original request. If the request was an envelope, the new request has only the notification of the result.",
            "Example: apns-worker replay results --config worker.yaml --reason Shutdown --dry-run",
            "All conditions must match. A repeated condition matches if one of its values matches. Accepted notifications are only requested with --outcome accepted. Each request is written once, even if you kill the command and run it again, because progress and requests are committed in one transaction. Records that arrive after the start of the job are not read.",
        ],
        options: [
            .init(
                "config", "c", value: "FILE", to: \.file,
                "Read the brokers, the topics and the group from this configuration file.")
        ] + conditionOptions.map { $0.noted(in: \.conditions) } + otherOptions,
        notes:
            "Exit codes: 0 every match was requested again, or skipped as expired or repeated; 1 some matches could not be requested, a --request had no match, or the command was stopped (repeat it to continue);\n64 wrong usage, 78 wrong configuration."
    )

    private static let conditionOptions: [OptionTable<Self>.Option] = [
        .init(
            "reason", value: "REASON", each: \.order.selection.reasons, OptionValue.text,
            "Match this reason: Apple's reason in results, such as BadTopic, or the reason of dead letters, such as worker-crashed."
        ),
        .init(
            "outcome", value: "OUTCOME", each: \.order.selection.outcomes, OptionValue.choice,
            "Match results with this outcome: rejected, abandoned, invalid, expired, unregistered or accepted."),
        .init("app", value: "NAME", each: \.order.selection.apps, OptionValue.text, "Match results of this app."),
        .init(
            "since", value: "TIME", to: \.since, OptionValue.moment,
            "Match results and dead letters from this time on: 2026-01-31T12:00:00Z, 2026-01-31T13:00:00+01:00, or a duration before now such as 48h. For yesterday: --since \"$(date -d yesterday +%FT00:00:00%:z)\" --until \"$(date +%FT00:00:00%:z)\"."
        ),
        .init(
            "until", value: "TIME", to: \.until, OptionValue.moment,
            "Match results and dead letters before this time, in the formats of --since."),
        .init(
            "request", value: "PLACE", each: \.order.selection.places, parsedPlace,
            "Match one request: TOPIC/PARTITION/OFFSET, or with /INDEX one notification of an envelope."),
        .init("all", sets: \.isAll, "Match all results except accepted ones, or all dead letters."),
        .init(
            "to", value: "TOPIC", to: \.order.target, OptionValue.topicName,
            "Write the requests to this topic (default: their original topics)."),
        .init(
            "expired", sets: \.order.expiredToo,
            "Also request notifications whose apns-expiration has passed. Their new results have the outcome expired."),
    ]

    private static let otherOptions: [OptionTable<Self>.Option] = [
        .init(
            "rate", value: "N/s", to: \.order.ratePerSecond, OptionValue.rate,
            "Write at most this many requests a second (default: no limit)."),
        .init(
            "dry-run", sets: \.order.isDryRun,
            "Write nothing, and print the number of matching requests by topic, app, outcome and reason."),
        .init(
            "name", value: "JOB", to: \.name, parsedName,
            "Name the job (default: a hash of the conditions). A completed job does not run again. Repeat the command to resume a job that was stopped."
        ),
        .init(
            "deadline", value: "TIME", to: \.deadline, OptionValue.duration,
            "Stop after this time, such as 10m (default: never)."),
        .init("format", value: "NAME", choice: \.format, "Print text (default), or one JSON object at the end."),
    ]

    private static func parsedName(_ text: String) throws(UsageError) -> String {
        let isName = text.wholeMatch(of: /[A-Za-z0-9._-]{1,100}/) != nil
        return try OptionValue.accept(
            text, "1 to 100 letters, digits, dots, hyphens or underscores", isName ? text : nil)
    }

    func check(_ source: ReplaySource) throws {
        let isOpen = order.selection == ReplaySelection() && since == nil && until == nil
        if isOpen, !isAll {
            throw UsageError(
                "give a condition: --reason, --since, --until, --request, and for results --outcome or --app; or give --all"
            )
        }
        if !isOpen, isAll { throw UsageError("give either --all or conditions") }
        if source == .deadLetters,
            !order.selection.outcomes.isEmpty || !order.selection.apps.isEmpty || order.expiredToo
        {
            throw UsageError(
                "--outcome, --app and --expired apply only to results: dead letters have no outcome, app or expiration")
        }
        if case .at(let since)? = since, case .at(let until)? = until, since >= until {
            throw UsageError("--until must be later than --since")
        }
    }

    /// Returns hints about unknown reasons. Unknown reasons are not errors, because Apple may add reasons.
    func hints(_ source: ReplaySource) -> [String] {
        let known =
            source == .results
            ? ReasonCode.allCases.compactMap(\.text?.description)
            : DeadLetterReason.allCases.map(\.text.description) + ReducedRecord.outputReasons
        let things = source == .results ? "results" : "dead letters"
        return Set(order.selection.reasons).subtracting(known).sorted().map { reason in
            let meant = nearest(to: reason, among: known).map { "; did you mean \($0)?" } ?? ""
            return "\(quoted(reason)) is not a known reason of \(things)\(meant)"
        }
    }

    func order(
        _ source: ReplaySource, _ configuration: WorkerConfiguration, nowMs: Int64
    ) throws(UsageError) -> ReplayOrder {
        if let output = configuration.outputTopics.first(where: { $0.name == self.order.target }) {
            throw UsageError(
                "--to: topic \(output.name) is an output topic (\(output.path)); the worker reads no requests from it")
        }
        var order = order
        order.source = source
        order.topic = source == .results ? configuration.results.topic : configuration.deadLetters.topic
        order.fingerprint = ReplayOrder.fingerprint([source.rawValue, order.topic] + conditions)
        order.job = name ?? order.fingerprint
        order.group = "\(configuration.kafka.groupID).replay.\(source.rawValue)-\(order.job)"
        order.selection.sinceMs = since?.ms(nowMs: nowMs)
        order.selection.untilMs = until?.ms(nowMs: nowMs)
        let (entries, outputs) = (configuration.requestTopics, Set(configuration.outputTopics.map(\.name)))
        order.isRequestTopic = { topic in
            !outputs.contains(topic) && entries.contains { !$0.matching([topic]).isEmpty }
        }
        order.retryTopics = Set(configuration.retry.tiers.map(\.topic))
        order.copyHeaders = configuration.results.copyHeaders
        return order
    }
}
