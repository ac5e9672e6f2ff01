import Configuration
import EventLoop
import Kafka
import Replay

enum TailKind: String, CaseIterable {
    case results, unregistered
    case deadLetters = "dead-letters"

    func topic(in configuration: WorkerConfiguration) -> String {
        switch self {
        case .results: configuration.results.topic
        case .unregistered: configuration.unregistered.topic
        case .deadLetters: configuration.deadLetters.topic
        }
    }
}

struct TailOptions {
    var file: String?
    var servers: String?
    var topic: String?
    var format = OutputFormat.json
    var from: ReadingStart?
    var count: Int?
    var deadline: Duration?
    var search: Search?
    /// The option that set `search`, such as `--device`.
    var searchOption = ""
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
            "Follows the results, dead tokens or dead letters that the workers publish, and prints a line for each record. The output contains full device tokens, so protect it.",
            "Example: apns-worker tail results --config worker.yaml --format text",
            "With --group and --exec the command passes batches of JSON lines to a shell command. A batch is committed if the shell command exits with 0, and is otherwise passed to the shell command again after a pause. Several processes may share a group. After SIGTERM or Ctrl-C, tail waits for the shell command and commits its batch. After a second signal or at --deadline, tail stops the shell command (SIGTERM, after 5 s SIGKILL) and does not commit its batch.",
        ], options: options,
        notes:
            "Exit codes: 0 success; 1 failure, or --deadline passed before every record was found, processed and committed; 64 wrong usage; 78 wrong configuration."
    )

    private static let options: [OptionTable<Self>.Option] = [
        .init("config", "c", value: "FILE", to: \.file, "Read the brokers and the topic from this configuration file."),
        .init(
            "bootstrap-servers", value: "LIST", to: \.servers,
            "Connect to these brokers (a comma-separated list of host:port) without SASL and TLS, instead of --config."),
        .init("topic", value: "NAME", to: \.topic, "Read this topic instead of the one in the configuration."),
        .init(
            "format", value: "NAME", choice: \.format,
            "json (default) prints one JSON object per line; text prints a readable line per record."),
        .init(
            "from", value: "PLACE", to: \.from, parsedStart,
            "Start at beginning, end, or a duration before now such as 15m. The default is end. With --device or --group it is beginning, but a group resumes at its committed offsets. With --request or --apns-id it is the request's time."
        ),
        .init(
            "count", "n", value: "N", to: \.count, integer(1...Int.max, Int.self), "End after this many records."),
        .init(
            "deadline", value: "TIME", to: \.deadline, OptionValue.duration,
            "End after this time, such as 30s (default: never), and stop the command of --exec."),
        search(
            "apns-id", "UUID",
            "Print the records of the notification with this apns-id, then end."
        ) { text in .id(try parsedUUID(text)) },
        search(
            "request", "PLACE",
            "Print the records of the request TOPIC/PARTITION/OFFSET, or with /INDEX the records of one notification of the request, then end."
        ) { text in .request(try parsedPlace(text)) },
        search(
            "device", "HEX",
            "Print only records about this device token, or about tokens that begin with these digits (at least 8)."
        ) { text in
            let isToken = (8...200).contains(text.utf8.count) && text.allSatisfy { $0.isASCII && $0.isHexDigit }
            return try OptionValue.accept(
                text, "a device token, or at least its first 8 hex digits", isToken ? .device(text.lowercased()) : nil)
        },
        .init("group", "g", value: "ID", to: \.group, "Join this consumer group; needs --exec."),
        .init(
            "exec", value: "COMMAND", to: \.command, "Run this shell command for each batch of records; needs --group."),
        .init(
            "batch", value: "N", to: \.batch, integer(1...100_000),
            "Pass at most this many records to --exec at a time (default 500)."),
    ]

    private static func search(
        _ name: String, _ value: String, _ help: String,
        _ read: @escaping @Sendable (String) throws -> Search
    ) -> OptionTable<Self>.Option {
        .init(name, value: value, help) { options, text in
            let search = try read(text)
            if let earlier = options.search, earlier != search {
                throw UsageError("give either this option or \(options.searchOption)")
            }
            (options.search, options.searchOption) = (search, "--\(name)")
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

    func check(_ kind: TailKind) throws {
        if file == nil, servers == nil || topic == nil {
            throw UsageError("needs --config FILE, or --bootstrap-servers with --topic")
        }
        if file != nil, servers != nil { throw UsageError("give either --config or --bootstrap-servers, not both") }
        if (group == nil) != (command == nil) { throw UsageError("give --group and --exec together") }
        if group != nil, format == .text { throw UsageError("--exec passes JSON lines: leave out --format text") }
        guard let search else { return }
        if group != nil { throw UsageError("give either \(searchOption) or --exec, which passes all records") }
        switch search {
        case .device: break
        case .id where kind == .unregistered:
            throw UsageError("dead tokens have no apns-id: read results or dead-letters, or use --device")
        case .request where kind == .unregistered:
            throw UsageError("dead tokens do not contain their request: read results or dead-letters, or use --device")
        case .id, .request:
            if count != nil { throw UsageError("\(searchOption) ends by itself: leave out --count") }
        }
    }
}

func parsedPlace(_ text: String) throws(UsageError) -> ReplaySelection.Place {
    try OptionValue.accept(
        text, "TOPIC/PARTITION/OFFSET, or TOPIC/PARTITION/OFFSET/INDEX as in the member request of a result",
        ReplaySelection.Place(text))
}
