import Configuration
import Kafka
import PushRecords
import Replay

/// What `tail` follows.
enum TailKind: String, CaseIterable {
    case results, unregistered
    case deadLetters = "dead-letters"

    /// Its topic in a configuration.
    func topic(in configuration: WorkerConfiguration) -> String {
        switch self {
        case .results: configuration.results.topic
        case .unregistered: configuration.unregistered.topic
        case .deadLetters: configuration.deadLetters.topic
        }
    }
}

/// What the options of `tail` say.
struct TailOptions {
    /// As given; a time is an age.
    enum From {
        case beginning, end
        case ago(Duration)
    }

    var file: String?
    var servers: String?
    var topic: String?
    var format: OutputFormat?
    var from: From?
    var count: Int?
    var deadline: Duration?
    var sought: Sought?
    var group: String?
    var command: String?
    var batch = 500

    static let table = OptionTable<Self>(
        command: "apns-worker tail",
        usage: [
            "results|unregistered|dead-letters --config FILE [OPTIONS]",
            "results|unregistered|dead-letters --bootstrap-servers LIST --topic NAME [OPTIONS]",
            "... --group ID --exec COMMAND",
        ],
        about: [
            "Follows what the workers publish: a line for each record on standard output, also of partitions that are added and of a topic that is recreated. Device tokens are printed in full, for they are the data: mind where the output goes.",
            "With --group and --exec it hands records, as JSON lines, to the standard input of a shell command: when that exits with 0 they are committed, else the same ones are handed over again after a pause. Several may share a group. SIGTERM or Ctrl-C: hand over nothing more, wait for the command and commit what it took; a second one, and --deadline, end the command (SIGTERM, after 5 s SIGKILL), and nothing of what it was handed last is committed.",
        ], options: options,
        notes:
            "Ends at --count, at --deadline, or with Ctrl-C. Exit codes: 0 done, 1 failed, or --deadline came before what was asked for (--count records, what --apns-id or --request names) or while --exec had not taken what it was handed last, or the last commit is in doubt, 64 wrong usage, 78 wrong configuration."
    )

    private static let options: [OptionTable<Self>.Option] = [
        .init("config", "c", value: "FILE", to: \.file, "The worker's configuration: names Kafka and the topic."),
        .init(
            "bootstrap-servers", value: "LIST", to: \.servers,
            "Kafka brokers instead of a configuration, host:port with commas between."),
        .init("topic", value: "NAME", to: \.topic, "The topic instead of the configuration's."),
        .init("format", value: "NAME", "json (default): a JSON object on each line; text: for people.") {
            options, text throws(UsageError) in options.format = try OptionValue.choice(text)
        },
        .init(
            "from", value: "PLACE",
            "Where to start: beginning, end, or a duration ago such as 15m. Default: end; with --device or --group, beginning (a group goes on where it was); with --request or --apns-id, when the request was written."
        ) { options, text throws(UsageError) in options.from = try from(text) },
        .init("count", "n", value: "N", "End after so many records.") { options, text throws(UsageError) in
            options.count = try OptionValue.integer(text, 1...Int.max)
        },
        .init(
            "deadline", value: "TIME", to: \.deadline, OptionValue.duration,
            "End after this time, such as 30s (default: never); a command of --exec that runs then is ended."),
        .init(
            "apns-id", value: "UUID",
            "Look for one notification by its apns-id, or by the place of its request where the worker derived the id; ends when it is found."
        ) { options, text throws(UsageError) in
            guard let id = NotificationUUID(text: text) else { throw UsageError("expected a UUID") }
            try options.look(for: .id(id))
        },
        .init(
            "request", value: "PLACE",
            "Look for the notifications of one request record, TOPIC/PARTITION/OFFSET, or for one of them, TOPIC/PARTITION/OFFSET/INDEX; ends when all of them are found."
        ) { options, text throws(UsageError) in
            guard let place = ReplaySelection.Place(text) else {
                throw UsageError("expected TOPIC/PARTITION/OFFSET, or TOPIC/PARTITION/OFFSET/INDEX as results have it")
            }
            try options.look(for: .request(place))
        },
        .init(
            "device", value: "HEX",
            "Only what is about this device token, or about those that begin with these 8 or more digits; goes on with what comes."
        ) { options, text throws(UsageError) in
            guard (8...200).contains(text.utf8.count), text.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
                throw UsageError("expected a device token, or its first 8 or more hex digits")
            }
            try options.look(for: .device(text.lowercased()))
        },
        .init("group", "g", value: "ID", to: \.group, "Read as a member of this consumer group; needs --exec."),
        .init("exec", value: "COMMAND", to: \.command, "Run by /bin/sh for each batch of records; needs --group."),
        .init("batch", value: "N", "Most records at a time for --exec (default 500).") {
            options, text throws(UsageError) in options.batch = try OptionValue.integer(text, 1...100_000)
        },
    ]

    private static func from(_ text: String) throws(UsageError) -> From {
        if text == "beginning" { return .beginning }
        if text == "end" { return .end }
        do throws(UsageError) {
            return .ago(try OptionValue.duration(text))
        } catch {
            throw UsageError("expected beginning, end, or a duration such as 15m")
        }
    }

    private mutating func look(for subject: Sought.Subject) throws(UsageError) {
        if let sought, sought.subject != subject {
            throw UsageError("one thing is looked for at a time, and \(sought.option) named one")
        }
        sought = Sought(subject)
    }

    /// What does not fit together; `nil` if everything does.
    func complaint(_ kind: TailKind) -> String? {
        if file == nil, servers == nil || topic == nil {
            return "needs --config FILE, or --bootstrap-servers with --topic"
        }
        if file != nil, servers != nil { return "give either --config or --bootstrap-servers, not both" }
        if (group == nil) != (command == nil) { return "--group and --exec belong together" }
        if group != nil, let sought {
            return "\(sought.option) looks for some records, and --exec takes all: give one of them"
        }
        if group != nil, format == .text { return "--exec hands over JSON lines: leave out --format text" }
        guard let sought else { return nil }
        switch sought.subject {
        case .device: return nil
        case .id where kind == .unregistered:
            return "dead tokens have no apns-id: look among results or dead-letters, or by --device"
        case .request where kind == .unregistered:
            return "dead tokens name no request: look among results or dead-letters, or by --device"
        case .id, .request: return count == nil ? nil : "\(sought.option) ends by itself: leave out --count"
        }
    }
}
