import Configuration
import EventLoop
import Kafka
import Replay

/// The topics that `tail` follows.
enum TailKind: String, CaseIterable {
    case results, unregistered
    case deadLetters = "dead-letters"

    /// Returns its topic in a configuration.
    func topic(in configuration: WorkerConfiguration) -> String {
        switch self {
        case .results: configuration.results.topic
        case .unregistered: configuration.unregistered.topic
        case .deadLetters: configuration.deadLetters.topic
        }
    }
}

/// The options of `tail`.
struct TailOptions {
    var file: String?
    var servers: String?
    var topic: String?
    var format = OutputFormat.json
    var from: ReadingStart?
    var count: Int?
    var deadline: Duration?
    var search: Search?
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
        .init(
            "format", value: "NAME", choice: \.format, "json (default): a JSON object on each line; text: for people."),
        .init(
            "from", value: "PLACE", to: \.from, parsedStart,
            "Where to start: beginning, end, or a duration ago such as 15m. Default: end; with --device or --group, beginning (a group goes on where it was); with --request or --apns-id, when the request was written."
        ),
        .init(
            "count", "n", value: "N", to: \.count,
            { text throws(UsageError) in try OptionValue.integer(text, 1...Int.max) }, "End after so many records."),
        .init(
            "deadline", value: "TIME", to: \.deadline, OptionValue.duration,
            "End after this time, such as 30s (default: never); a command of --exec that runs then is ended."),
        search(
            "apns-id", "UUID",
            "Look for one notification by its apns-id, or by the place of its request where the worker derived the id; ends when it is found."
        ) { text throws(UsageError) in .id(try parsedUUID(text)) },
        search(
            "request", "PLACE",
            "Look for the notifications of one request record, TOPIC/PARTITION/OFFSET, or for one of them, TOPIC/PARTITION/OFFSET/INDEX; ends when all of them are found."
        ) { text throws(UsageError) in .request(try parsedPlace(text)) },
        search(
            "device", "HEX",
            "Only what is about this device token, or about those that begin with these 8 or more digits; goes on with what comes."
        ) { text throws(UsageError) in
            guard (8...200).contains(text.utf8.count), text.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
                throw UsageError("expected a device token, or its first 8 or more hex digits")
            }
            return .device(text.lowercased())
        },
        .init("group", "g", value: "ID", to: \.group, "Read as a member of this consumer group; needs --exec."),
        .init("exec", value: "COMMAND", to: \.command, "Run by /bin/sh for each batch of records; needs --group."),
        .init(
            "batch", value: "N", to: \.batch, integer(1...100_000), "Most records at a time for --exec (default 500)."),
    ]

    private static func search(
        _ name: String, _ value: String, _ help: String,
        _ read: @escaping @Sendable (String) throws(UsageError) -> Search
    ) -> OptionTable<Self>.Option {
        .init(name, value: value, help) { options, text throws(UsageError) in
            let search = try read(text)
            if let earlier = options.search, earlier != search {
                throw UsageError("one thing is looked for at a time, and \(earlier.option) named one")
            }
            options.search = search
        }
    }

    private static func parsedStart(_ text: String) throws(UsageError) -> ReadingStart {
        if text == "beginning" { return .beginning }
        if text == "end" { return .end }
        guard let age = try? OptionValue.duration(text) else {
            throw UsageError("expected beginning, end, or a duration such as 15m")
        }
        return .time(max(0, LoopTime.read().wallMs - age.milliseconds))
    }

    /// Throws if options are missing or do not fit together.
    func check(_ kind: TailKind) throws {
        if file == nil, servers == nil || topic == nil {
            throw UsageError("needs --config FILE, or --bootstrap-servers with --topic")
        }
        if file != nil, servers != nil { throw UsageError("give either --config or --bootstrap-servers, not both") }
        if (group == nil) != (command == nil) { throw UsageError("--group and --exec belong together") }
        if group != nil, format == .text { throw UsageError("--exec hands over JSON lines: leave out --format text") }
        guard let search else { return }
        if group != nil {
            throw UsageError("\(search.option) looks for some records, and --exec takes all: give one of them")
        }
        switch search {
        case .device: break
        case .id where kind == .unregistered:
            throw UsageError("dead tokens have no apns-id: look among results or dead-letters, or by --device")
        case .request where kind == .unregistered:
            throw UsageError("dead tokens name no request: look among results or dead-letters, or by --device")
        case .id, .request:
            if count != nil { throw UsageError("\(search.option) ends by itself: leave out --count") }
        }
    }
}

/// Reads the place of a request.
func parsedPlace(_ text: String) throws(UsageError) -> ReplaySelection.Place {
    guard let place = ReplaySelection.Place(text) else {
        throw UsageError("expected TOPIC/PARTITION/OFFSET, or TOPIC/PARTITION/OFFSET/INDEX as results have it")
    }
    return place
}
