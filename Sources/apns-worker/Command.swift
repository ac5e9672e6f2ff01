import Configuration

/// A command of `apns-worker`: its name, its line in the help, and what it does.
struct Command: Sendable {
    var name: String
    var summary: String
    var run: @Sendable ([String]) -> ExitCode

    /// In the order of the help.
    static let all: [Command] = [
        Command(name: "run", summary: "the worker: from Kafka to APNs and back", run: runWorker),
        Command(name: "check", summary: "validate the configuration and reach Kafka and APNs", run: checkConfiguration),
        Command(name: "send", summary: "one notification from the command line, and what became of it", run: send),
        Command(
            name: "channels", summary: "make, list, read and delete the channels of broadcasts", run: manageChannels),
        Command(name: "tail", summary: "follow results, dead tokens or dead letters", run: tail),
        Command(name: "replay", summary: "ask again for what failed, by its results or dead letters", run: replay),
        Command(
            name: "feedback", summary: "read the binary protocol's feedback service once", run: readFeedback),
        Command(name: "schema", summary: "print the JSON Schema of a record", run: printSchema),
        Command(name: "demo", summary: "everything in one process, with live progress and a summary", run: runDemo),
        Command(name: "simulate", summary: "an APNs server for tests, with every fault on demand", run: simulate),
    ]

    /// Does what the arguments (without the program's name) say.
    static func dispatch(_ arguments: [String]) -> ExitCode {
        guard let first = arguments.first else {
            complain("apns-worker: which command? One of \(names) (see apns-worker --help)")
            return .wrongUsage
        }
        if let command = all.first(where: { $0.name == first }) { return command.run(Array(arguments.dropFirst())) }
        switch first {
        case "--version", "-V", "version":
            say("apns-worker \(version)\n")
            return .fine
        case "--help", "-h", "help":
            if arguments.count > 1 {
                guard let command = all.first(where: { $0.name == arguments[1] }) else { return unknown(arguments[1]) }
                return command.run(["--help"])
            }
            say(help)
            return .fine
        default: return unknown(first)
        }
    }

    private static func unknown(_ word: String) -> ExitCode {
        let suggestion =
            nearest(to: word, among: all.map(\.name)).map { "did you mean \($0)?" } ?? "expected one of \(names)"
        complain("apns-worker: there is no command \(printable(word)); \(suggestion) (see apns-worker --help)")
        return .wrongUsage
    }

    private static var names: String { all.map(\.name).joined(separator: ", ") }

    private static var help: String {
        let width = all.map(\.name.count).max() ?? 0
        let commands = all.map { command in
            "  \(command.name)\(String(repeating: " ", count: width - command.name.count))  \(command.summary)\n"
        }
        return """
            Usage: apns-worker COMMAND [OPTIONS]

            Sends push notifications from a Kafka topic to Apple's APNs and publishes a result for each.

            Commands:
            \(commands.joined())
              --version, -V  print the version
              --help, -h     print this; apns-worker COMMAND --help tells a command's options

            Exit codes: 0 fine, 1 failed, 64 wrong usage, 78 wrong configuration.

            """
    }
}

/// The text with spaces behind it, up to a width.
func padded(_ text: String, to width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.count))
}

/// A word of the command line, fit for one line.
func printable(_ word: String) -> String {
    "\""
        + String(
            word.prefix(60).map {
                $0.isASCII && ($0.isLetter || $0.isNumber || $0.isPunctuation || $0.isSymbol) ? $0 : "?"
            }) + "\""
}

/// Text that others wrote, on one line of a terminal: no control characters, at most `limit` characters.
func printable(_ text: String, limit: Int) -> String {
    var line = ""
    for scalar in text.unicodeScalars.prefix(limit) {
        let isControl =
            scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value) || [0x2028, 0x2029].contains(scalar.value)
        line.unicodeScalars.append(isControl ? " " : scalar)
    }
    return text.unicodeScalars.count > limit ? line + "…" : line
}

/// How the process ends; 64 and 78 as in sysexits.h.
enum ExitCode: Int32 {
    case fine = 0
    case failed = 1
    case wrongUsage = 64
    case wrongConfiguration = 78
}
