import Configuration
import Worker

/// A command of `apns-worker`: its name, its summary for the help text, and its function.
struct Command: Sendable {
    var name: String
    var summary: String
    /// Runs the command with the arguments after its name.
    var run: @Sendable ([String]) throws -> ExitCode

    /// All commands in the order of the help.
    static let all: [Command] = [
        Command(name: "run", summary: "run the worker", run: runWorker),
        Command(
            name: "check", summary: "check the configuration, the credentials, Kafka and APNs", run: checkConfiguration),
        Command(name: "health", summary: "ask a running worker whether it is alive", run: askHealth),
        Command(name: "send", summary: "send one notification and print its result", run: send),
        Command(name: "channels", summary: "create, list, read and delete broadcast channels", run: manageChannels),
        Command(name: "tail", summary: "follow results, dead tokens or dead letters", run: tail),
        Command(name: "replay", summary: "request failed notifications again, once each", run: replay),
        Command(name: "feedback", summary: "read the binary protocol's feedback service once", run: readFeedback),
        Command(name: "schema", summary: "print the JSON Schema of a record", run: printSchema),
        Command(name: "demo", summary: "run a broker, a simulator, a producer and the worker together", run: runDemo),
        Command(name: "simulate", summary: "run an APNs server for tests, with faults on demand", run: simulate),
    ]

    /// Runs the command that the first argument names. `arguments` does not include the program's name.
    static func dispatch(_ arguments: [String]) -> ExitCode {
        switch arguments.first {
        case nil:
            let names = all.map(\.name).joined(separator: ", ")
            complain("apns-worker: needs a command, one of \(names) (see apns-worker --help)")
            return .wrongUsage
        case "--version", "-V", "version": say("apns-worker \(BuildInfo.version)\n")
        case "--help", "-h", "help":
            guard arguments.count > 1 else {
                say(help)
                return .fine
            }
            return dispatch([arguments[1], "--help"])
        case let word?:
            if let command = all.first(where: { $0.name == word }) { return command.end(Array(arguments.dropFirst())) }
            complain("apns-worker: \(unknown("command", word, among: all.map(\.name))) (see apns-worker --help)")
            return .wrongUsage
        }
        return .fine
    }

    private func end(_ arguments: [String]) -> ExitCode {
        do {
            return try run(arguments)
        } catch let exit as Exit {
            for line in exit.lines { complain(line) }
            return exit.code
        } catch let error as UsageError {
            complain("apns-worker \(name): \(error) (see apns-worker \(name) --help)")
            return .wrongUsage
        } catch let error as ConfigurationError {
            for line in error.lines { complain(line) }
            return .wrongConfiguration
        } catch let error as StartFailure {
            for line in error.lines { complain(line) }
            return error.isPassing ? .failed : .wrongConfiguration
        } catch {
            complain("apns-worker \(name): \(error)")
            return .failed
        }
    }

    private static var help: String {
        let width = all.map(\.name.count).max() ?? 0
        return """
            Usage: apns-worker COMMAND [OPTIONS]

            Sends push notifications from a Kafka topic to Apple's APNs, and publishes a result for each notification.

            Commands:
            \(all.map { "  \(padded($0.name, to: width))  \($0.summary)\n" }.joined())
              --version, -V  print the version
              --help, -h     print this help; apns-worker COMMAND --help lists a command's options

            Example: apns-worker check --config worker.yaml
            Exit codes: 0 fine, 1 failed, 64 wrong usage, 69 no answer (check --diff), 78 wrong configuration.

            """
    }
}

/// The exit codes of commands. 64, 69 and 78 are those of sysexits.h.
enum ExitCode: Int32 {
    case fine = 0
    case failed = 1
    case wrongUsage = 64
    case unavailable = 69
    case wrongConfiguration = 78
}

/// An error that ends a command with an exit code, and the lines to write to standard error.
struct Exit: Error {
    var code: ExitCode
    var lines: [String] = []
}
