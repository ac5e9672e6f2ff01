import Foundation
import TestSupport
import Testing

/// A folder that is removed with its owner.
final class TemporaryFolder {
    let url = FileManager.default.temporaryDirectory.appending(path: KafkaBroker.uniqueName("commands"))

    init() throws { try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(at: url) }

    /// Writes a configuration file and returns its path.
    func write(_ text: String) throws -> String {
        let file = url.appending(path: "worker.yaml")
        try text.write(to: file, atomically: true, encoding: .utf8)
        return file.path
    }
}

extension EndToEnd.Commands {
    /// Commands without a broker.
    @Suite struct CommandUsageTests {
        private let temporary = try! TemporaryFolder()

        private static func run(_ arguments: [String]) throws -> Scene.Finished {
            try Scene.run(Tool.worker.path(), arguments)
        }

        /// Command lines, with ␣ for a space within an argument.
        private static let mistakes: [(line: String, status: Int32, words: String)] = [
            ("schema reslt", 64, "there is no schema \"reslt\"; did you mean result?"),
            ("schema --all", 64, "unknown option \"--all\""),
            ("tail", 64, "which kind of record? One of results, unregistered, dead-letters"),
            ("tail result --config x", 64, "did you mean results?"),
            ("tail results", 64, "needs --config FILE, or --bootstrap-servers with --topic"),
            ("tail results --topic t", 64, "needs --config FILE, or --bootstrap-servers with --topic"),
            ("tail results -c x --bootstrap-servers y", 64, "give either --config or"),
            ("tail results -c x --group g", 64, "--group and --exec belong together"),
            ("tail results -c x --from yesterday", 64, "expected beginning, end, or a duration"),
            ("tail results -c x --count 0", 64, "expected a whole number from 1"),
            ("tail results -c x --apns-id 7", 64, "--apns-id: expected a UUID"),
            ("tail results -c x --request t/1", 64, "--request: expected TOPIC/PARTITION/OFFSET"),
            ("tail results -c x --device ab", 64, "--device: expected a device token, or its first 8"),
            ("tail results -c x --device abcdefgh", 64, "--device: expected a device token, or"),
            (
                "tail results -c x --device abcdef01 --request t/1/2", 64,
                "--request: give either this or --device"
            ),
            ("tail results -c x --request t/1/2 --count 2", 64, "--request ends by itself: leave out --count"),
            (
                "tail results -c x --device abcdef01 --group g --exec cat", 64,
                "give either --device or --exec, which gets all records"
            ),
            ("tail unregistered -c x --request t/1/2/0", 64, "dead tokens name no request"),
            ("tail results -c x --format xml", 64, "expected one of json, text, found \"xml\""),
            (
                "tail unregistered -c x --apns-id eabeae54-14a8-11e5-b60b-1697f925ec7b", 64,
                "dead tokens have no apns-id"
            ),
            ("tail results --config /nowhere/worker.yaml", 78, "cannot read /nowhere/worker.yaml"),
            ("send", 64, "needs --config FILE"),
            ("send -c x", 64, "needs --token HEX"),
            ("send --direct -t 00 -a Hi", 64, "or --key-file, --key-id, --team-id and --bundle-id"),
            ("send --key-id K -t 00 -a Hi", 64, "a key alone reaches no Kafka"),
            ("send -c x --key-id K -t 00 -a Hi", 64, "give either --config or the flags"),
            ("send -c x -t 00", 64, "needs --alert TEXT or --payload JSON"),
            ("send -c x -t 0g -a Hi", 64, "--token: a device token is 2 to 200 hex digits"),
            ("send -c x -t 00 -a Hi -p {}", 64, "either --payload, or --alert"),
            ("send -c x -t 00 -a Hi --push-type voice", 64, "expected one of alert, "),
            ("send -c x -t 00 -a Hi --priority 7", 64, "--priority: expected 10, 5 or 1"),
            ("send -c x -t 00 -a Hi --expiration soon", 64, "expected a duration such as 1h"),
            (
                "send -c x -t 00 -a Hi --not-before soon", 64,
                "--not-before: expected a delay such as 90s, or seconds since 1970"
            ),
            ("send -c x -t 00 -a Hi --not-before 90", 64, "did you mean 90s?"),
            ("send -c x -t 00 -a Hi --direct --not-before 90s", 64, "--direct sends at once"),
            (
                "send -c x -t 00 -a Hi --not-before 2h --expiration 1h", 1,
                "BadExpirationDate: apns-expiration must be 0, or later than push-not-before"
            ),
            ("send -c x -t 00 -a Hi --environment test", 64, "production or development"),
            ("send -c x -t 00 -a Hi --direct --request-topic r", 64, "is for --via kafka"),
            ("send -c x -t 00 -p {", 1, "BadRequestPayload: the payload is not JSON: ends too early at byte 1"),
            ("send -c x -t 00 -p @/nowhere", 1, "--payload: cannot read /nowhere"),
            (
                "send -c x -t 00 -a Hi --collapse-id \(String(repeating: "x", count: 65))", 1,
                "BadCollapseId: apns-collapse-id must be printable ASCII of 1 to 64 bytes"
            ),
            ("channels", 64, "which action? One of create, list, read, delete"),
            ("channels lst -c x", 64, "did you mean list?"),
            ("channels list", 64, "needs --config FILE, or flags for one app"),
            ("channels list -c x --key-id y", 64, "give either --config or the flags"),
            ("channels list -c x --channel y", 64, "--channel is for read and delete"),
            ("channels create -c x", 64, "needs --storage none or --storage most-recent"),
            ("channels create -c x --storage all", 64, "expected one of none, most-recent"),
            ("channels read -c x", 64, "needs --channel ID"),
            ("channels delete -c x --channel a␣b", 64, "--channel: expected a channel id"),
            ("channels list -c /nowhere/x", 78, "cannot read /nowhere/x"),
            ("feedback", 64, "needs --config FILE"),
            ("feedback -c x --deadline soon", 64, "expected a duration such as"),
            ("feedback -c /nowhere/x", 78, "cannot read /nowhere/x"),
            ("replay", 64, "which kind of record? One of results, dead-letters"),
            ("replay result -c x --all", 64, "did you mean results?"),
            ("replay results --all", 64, "needs --config FILE"),
            (
                "replay results -c x", 64,
                "give a condition: --reason, --outcome, --app, --since, --until or --request; or --all"
            ),
            ("replay dead-letters -c x", 64, "give a condition: --reason, --since, --until or --request; or --all"),
            ("replay results -c x --all --app shop", 64, "give either --all or conditions"),
            ("replay dead-letters -c x --app shop", 64, "--app is for results"),
            ("replay dead-letters -c x --outcome invalid", 64, "--outcome is for results"),
            ("replay dead-letters -c x --all --expired", 64, "--expired is for results"),
            ("replay results -c x --outcome lost", 64, "expected one of accepted, unregistered"),
            ("replay results -c x --reason badtopic", 64, "did you mean BadTopic?"),
            ("replay results -c x --since yesterday", 64, "--since: expected a time such as 2026-01-31T12:00:00Z"),
            (
                "replay results -c x --since 2026-01-02T00:00:00Z --until 2026-01-01T00:00:00Z", 64,
                "--until must be later than --since"
            ),
            ("replay results -c x --request t/1", 64, "--request: expected TOPIC/PARTITION/OFFSET"),
            ("replay results -c x --all --rate 10", 64, "--rate: expected so many a second"),
            ("replay results -c x --all --name a␣b", 64, "--name: expected 1 to 100 letters"),
            ("replay results -c x --all --to a/b", 64, "--to: expected a topic's name"),
            ("replay results -c /nowhere/x --all", 78, "cannot read /nowhere/x"),
            ("simulate --listen [::1]", 64, "an IPv6 address in brackets: [::1]:2197"),
            ("simulate --listen ::1:0", 64, "an IPv6 address in brackets: [::1]:2197"),
            ("versoin", 64, "there is no command \"versoin\""),
            ("", 64, "apns-worker: which command? One of run, check, send, channels, tail, replay"),
            ("rum", 64, "there is no command \"rum\"; did you mean run? (see apns-worker --help)"),
            ("help chek", 64, "there is no command \"chek\"; did you mean check?"),
            ("run --confg x", 64, "apns-worker run: unknown option \"--confg\"; did you mean --config?"),
            ("run --log-level debug", 64, "needs --config FILE, or flags for one app (see apns-worker run --help)"),
            ("run -c x --port 1", 64, "give either --config or the flags for one app, not both"),
            ("run -c /nowhere/x", 78, "cannot read /nowhere/x: No such file or directory"),
            ("run --bootstrap-servers a --key-file k --key-id b --team-id TEAM123456 --bundle-id a", 78, "--key-id: "),
            ("run -c x --log-level debgu", 64, "--log-level: expected one of trace, debug, info, notice, warning"),
            ("check", 64, "needs --config FILE, or flags for one app"),
            ("check -c /nowhere/x", 1, "cannot read /nowhere/x"),
            ("demo --log-part kafka", 64, "--log-part: expected PART=LEVEL, such as apns=debug, found \"kafka\""),
            ("simulate --fault nope@3", 64, "--fault: fault 'nope@3': there is no fault 'nope'"),
            ("simulate --gateway-fault close@0", 64, "'0' is no number of notifications"),
            ("simulate --gateway 10.0.0.1:0", 64, "the gateway is on the host of --listen, which must stand before it"),
            ("simulate --feedback-token 0a@soon", 64, "expected a device token in hex, or with a time: HEX@1700000000"),
            ("send -c /nowhere/x -t 00 -a Hi", 78, "cannot read /nowhere/x"),
        ]

        @Test(.needs(.worker), arguments: mistakes)
        func `Mistakes get one line`(line: String, status: Int32, words: String) throws {
            let ended = try Self.run(line.split(separator: " ").map { String($0).replacing("␣", with: " ") })
            #expect(ended.ending == .exited(status), "\(ended.text)")
            #expect(ended.text.contains(words), "\(ended.text)")
            #expect(ended.text.split(separator: "\n").count == 1, "\(ended.text)")
        }

        /// A closed pipe is no failure, but a truncated file is.
        @Test(
            .needs(.worker),
            arguments: [
                (#""$0" schema result > /dev/full"#, 1, "the output cannot be written: No space left on device"),
                (#""$0" schema asyncapi >&-"#, 1, "the output cannot be written: Bad file descriptor"),
                (#""$0" --help > /dev/full"#, 1, "the output cannot be written: No space left on device"),
                (#""$0" schema result <&- > /dev/null"#, 0, ""),
                (#"{ "$0" schema asyncapi; echo "ended $?" >&2; } | true"#, 0, "ended 0\n"),
            ] as [(String, Int32, String)])
        func `Output that cannot be written is a failure`(command: String, status: Int32, words: String) throws {
            let ended = try Scene.run("sh", ["-c", command, Tool.worker.path()])
            #expect(ended.ending == .exited(status), "\(ended.text)")
            #expect(words.isEmpty ? ended.text == "" : ended.text.contains(words), "\(ended.text)")
        }

        @Test(.needs(.worker)) func `A payload is waited for until the deadline`() throws {
            let pipe = temporary.url.appending(path: "pipe").path
            #expect(mkfifo(pipe, 0o600) == 0)
            let token = String(repeating: "c0", count: 32)
            let ended = try Self.run([
                "send", "-c", "none", "-t", token, "--payload", "@\(pipe)", "--deadline", "300ms",
            ])
            #expect(ended.ending == .exited(1) && ended.text.contains("its end did not come in time"), "\(ended.text)")
        }

        @Test(.needs(.worker)) func `A broker that does not answer is named after two seconds`() throws {
            let ended = try Self.run(
                ["tail", "results", "--bootstrap-servers", "127.0.0.1:1", "--topic", "t", "--from", "end"])
            #expect(ended.ending == .exited(1))
            let lines = ended.text.split(separator: "\n")
            #expect(lines.count == 2, "\(ended.text)")
            #expect(lines.first?.hasPrefix("no broker of 127.0.0.1:1 answers yet: ") == true, "\(ended.text)")
            #expect(lines.last?.contains("t: no broker of 127.0.0.1:1 answers: ") == true, "\(ended.text)")
        }

        @Test(.needs(.worker)) func `The apps that the simulator prints can be used`() throws {
            let simulator = try RunningSimulator(
                in: temporary.url, ["--gateway", "0", "--feedback", "0", "--environment", "development"])
            defer { try? simulator.process.killNow() }
            let printed = simulator.process.text.components(separatedBy: "configuration that uses it:\n")
            let apps = try #require(printed.last?.components(separatedBy: "listening;").first)
            #expect(apps.components(separatedBy: "environment: development").count == 3, "\(apps)")
            let file = try temporary.write("kafka: {bootstrap_servers: '127.0.0.1:1'}\napps:\n\(apps)")
            let checked = try Self.run(["check", "-c", file, "--probe"])
            for app in ["simulated", "simulated-gateway"] {
                #expect(checked.text.contains("fine: app \(app): localhost:"), "\(checked.text)")
            }
            #expect(!checked.text.contains("not fine: app"), "\(checked.text)")
        }

        @Test(.needs(.worker), arguments: ["--version", "-V", "version"])
        func `The version is printed`(word: String) throws {
            let ended = try Self.run([word])
            #expect(ended.ending == .exited(0) && ended.text.hasPrefix("apns-worker 0."), "\(ended.text)")
        }

        private static let commands = [
            "run", "check", "send", "channels", "tail", "replay", "feedback", "schema", "demo", "simulate",
        ]

        @Test(.needs(.worker), arguments: commands)
        func `Help tells its options`(command: String) throws {
            let ended = try Self.run([command, "--help"])
            #expect(ended.ending == .exited(0) && ended.text.hasPrefix("Usage: apns-worker \(command)"))
            #expect(ended.text.contains("\nExample: apns-worker \(command) "), "\(ended.text)")
            #expect(try Self.run(["help", command]).text == ended.text)
            #expect(try Self.run(["--help"]).text.contains("\n  \(command) "))
        }

        @Test(.needs(.worker))
        func `Schemas are JSON`() throws {
            let list = try Self.run(["schema"]).text
            let names = list.split(separator: "\n").compactMap { $0.split(separator: " ").first.map(String.init) }
            #expect(names.contains("request-envelope") && names.contains("result") && names.contains("asyncapi"))
            for name in names {
                let ended = try Self.run(["schema", name])
                let object = try JSONSerialization.jsonObject(with: Data(ended.text.utf8)) as? [String: Any]
                #expect(ended.ending == .exited(0))
                if name == "asyncapi" {
                    #expect(object?["asyncapi"] as? String == "3.0.0")
                } else {
                    #expect(object?["$schema"] as? String == "https://json-schema.org/draft/2020-12/schema")
                }
                #expect(ended.text.split(separator: "\n").allSatisfy { $0.count <= 400 }, "for people, too")
            }
        }
    }
}
