import Configuration
import PushRecords

/// What the options of `tail` say.
struct TailOptions {
    /// As given; a time is an age.
    enum From: Equatable {
        case beginning, end
        case ago(Duration)
    }

    var file: String?
    var servers: String?
    var topic: String?
    var format = OutputFormat.json
    var hasFormat = false
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
            "Follows what the workers publish: a line for each record on standard output, also of partitions that are added, and of the topic made anew. Device tokens are printed in full, for they are the data: mind where the output goes.",
            "With --group and --exec it hands records, as JSON lines, to the standard input of a shell command: when that exits with 0 they are committed, else the same ones are handed over again after a pause. Several may share a group. SIGTERM or Ctrl-C: hand over nothing more, wait for the command and commit what it took; a second one, and --deadline, end the command (SIGTERM, after 5 s SIGKILL), and nothing of what it was handed last is committed.",
        ], options: options,
        notes:
            "Ends at --count, at --deadline, or with Ctrl-C. Exit codes: 0 done, 1 failed, or --deadline came before what was asked for (--count records, what --apns-id or --request names) or while --exec had not taken what it was handed last, or the last commit is in doubt, 64 wrong usage, 78 wrong configuration."
    )

    private static let options: [OptionTable<Self>.Option] = [
        .init("config", "c", value: "FILE", "The worker's configuration: names Kafka and the topic.") {
            options, text throws(UsageError) in options.file = try OptionValue.text(text)
        },
        .init(
            "bootstrap-servers", value: "LIST",
            "Kafka brokers instead of a configuration, host:port with commas between."
        ) {
            options, text throws(UsageError) in options.servers = try OptionValue.text(text)
        },
        .init("topic", value: "NAME", "The topic instead of the configuration's.") {
            options, text throws(UsageError) in options.topic = try OptionValue.text(text)
        },
        .init("format", value: "NAME", "json (default): a JSON object on each line; text: for people.") {
            options, text throws(UsageError) in
            options.format = try OptionValue.choice(text)
            options.hasFormat = true
        },
        .init(
            "from", value: "PLACE",
            "Where to start: beginning, end, or a duration ago such as 15m. Default: end; with --device or --group, beginning (a group goes on where it was); with --request or --apns-id, when the request was written."
        ) { options, text throws(UsageError) in
            switch text {
            case "beginning": options.from = .beginning
            case "end": options.from = .end
            default:
                do throws(UsageError) {
                    options.from = .ago(try OptionValue.duration(text))
                } catch {
                    throw UsageError("expected beginning, end, or a duration such as 15m")
                }
            }
        },
        .init("count", "n", value: "N", "End after so many records.") { options, text throws(UsageError) in
            options.count = try OptionValue.integer(text, 1...Int.max)
        },
        .init(
            "deadline", value: "TIME",
            "End after this time, such as 30s (default: never); a command of --exec that runs then is ended."
        ) {
            options, text throws(UsageError) in options.deadline = try OptionValue.duration(text)
        },
        .init(
            "apns-id", value: "UUID",
            "Look for one notification by its apns-id, or by the place of its request where the worker derived the id; ends when it is found."
        ) { options, text throws(UsageError) in
            guard let id = NotificationUUID(text: text) else { throw UsageError("expected a UUID") }
            try options.look(for: Sought(.id(id)))
        },
        .init(
            "request", value: "PLACE",
            "Look for the notifications of one request record, TOPIC/PARTITION/OFFSET, or for one of them, TOPIC/PARTITION/OFFSET/INDEX; ends when all of them are found."
        ) { options, text throws(UsageError) in try options.look(for: try Sought.request(text: text)) },
        .init(
            "device", value: "HEX",
            "Only what is about this device token, or about those that begin with these 8 or more digits; goes on with what comes."
        ) { options, text throws(UsageError) in try options.look(for: try Sought.device(text: text)) },
        .init("group", "g", value: "ID", "Read as a member of this consumer group; needs --exec.") {
            options, text throws(UsageError) in options.group = try OptionValue.text(text)
        },
        .init("exec", value: "COMMAND", "Run by /bin/sh for each batch of records; needs --group.") {
            options, text throws(UsageError) in options.command = try OptionValue.text(text)
        },
        .init("batch", value: "N", "Most records at a time for --exec (default 500).") {
            options, text throws(UsageError) in options.batch = try OptionValue.integer(text, 1...100_000)
        },
    ]

    private mutating func look(for wanted: Sought) throws(UsageError) {
        if let sought, sought != wanted {
            throw UsageError("one thing is looked for at a time, and \(sought.option) named one")
        }
        sought = wanted
    }

    /// What does not fit together; `nil`: nothing.
    func complaint(_ kind: TailKind) -> String? {
        if file == nil, servers == nil || topic == nil {
            return "needs --config FILE, or --bootstrap-servers with --topic"
        }
        if file != nil, servers != nil { return "give either --config or --bootstrap-servers, not both" }
        if (group == nil) != (command == nil) { return "--group and --exec belong together" }
        if group != nil, let sought {
            return "\(sought.option) looks for some records, and --exec takes all: give one of them"
        }
        if group != nil, hasFormat, format == .text { return "--exec hands over JSON lines: leave out --format text" }
        if kind == .unregistered {
            switch sought?.subject {
            case .id: return "dead tokens have no apns-id: look among results or dead-letters, or by --device"
            case .request: return "dead tokens name no request: look among results or dead-letters, or by --device"
            case .device, nil: break
            }
        }
        if count != nil, let sought, case .device = sought.subject { return nil }
        if count != nil, let sought { return "\(sought.option) ends by itself: leave out --count" }
        return nil
    }
}
