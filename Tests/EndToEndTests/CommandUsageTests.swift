import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// Tests of commands without a broker.
    @Suite struct CommandUsageTests {
        /// Each line has the exit code, a command line (with ␣ for a space within an argument), and words of the
        /// output. `<a;b>` stands for two lines, one with `a` and one with `b`.
        private static let mistakes = """
            64 | schema reslt | there is no schema "reslt"; did you mean result?
            64 | schema --all | unknown option "--all"
            64 | tail | needs the kind of record, one of results, unregistered, dead-letters
            64 | <tail result --config x;replay result -c x --all> | did you mean results?
            64 | tail results<; --topic t> | needs --config FILE, or --bootstrap-servers with --topic
            64 | tail results -c x --bootstrap-servers y | give either --config or
            64 | tail results -c x --group g | give --group and --exec together
            64 | tail results -c x --from yesterday | expected beginning, end, or a duration
            64 | tail results -c x --count 0 | expected a whole number from 1
            64 | tail results -c x --apns-id 7 | --apns-id: expected a UUID
            64 | <tail;replay> results -c x --request t/1 | --request: expected TOPIC/PARTITION/OFFSET
            64 | tail results -c x --device <ab;abcdefgh> | --device: expected a device token, or at least its first 8
            64 | tail results -c x --device abcdef01 --request t/1/2 | --request: give either this option or --device
            64 | tail results -c x --request t/1/2 --count 2 | --request ends by itself: leave out --count
            64 | tail results -c x --device abcdef01 --group g --exec cat | give either --device or --exec, which passes all records
            64 | tail unregistered -c x --request t/1/2/0 | dead tokens do not contain their request
            64 | tail results -c x --format xml | expected one of json, text, found "xml"
            64 | tail unregistered -c x --apns-id eabeae54-14a8-11e5-b60b-1697f925ec7b | dead tokens have no apns-id
            78 | tail results --config /nowhere/worker.yaml | cannot read /nowhere/worker.yaml
            64 | <send;feedback;replay results --all> | needs --config FILE
            64 | send -c x | needs --token HEX
            64 | <send --direct -t 00 -a Hi;channels list;check> | needs --config FILE, or options for one app
            64 | send --key-id K -t 00 -a Hi | the options for one app contain no Kafka brokers
            64 | <send -t 00 -a Hi;channels list> -c x --key-id K | give either --config or the options
            64 | send -c x -t 00 | needs --alert TEXT or --payload JSON
            64 | send -c x -t 0g -a Hi | --token: a device token must have an even number of hex digits
            64 | send -c x -t 00 -a Hi -p {} | --payload cannot be combined with --alert
            64 | send -c x -t 00 -a Hi --push-type voice | expected one of alert, 
            64 | send -c x -t 00 -a Hi --priority 7 | --priority: expected 10, 5 or 1
            64 | send -c x -t 00 -a Hi --expiration soon | expected a duration such as 1h
            64 | send -c x -t 00 -a Hi --not-before soon | --not-before: expected a delay such as 90s, or seconds since 1970
            64 | send -c x -t 00 -a Hi --not-before 90 | did you mean 90s?
            64 | send -c x -t 00 -a Hi --direct --not-before 90s | --not-before needs Kafka
            1 | send -c x -t 00 -a Hi --not-before 2h --expiration 1h | BadExpirationDate: apns-expiration must be 0, or later than push-not-before
            64 | send -c x -t 00 -a Hi --environment test | production or development
            64 | send -c x -t 00 -a Hi --direct --request-topic r | needs Kafka: leave out --direct
            1 | send -c x -t 00 -p { | BadRequestPayload: the payload is not JSON: ends too early at byte 1
            1 | send -c x -t 00 -p @/nowhere | --payload: cannot read /nowhere
            64 | channels | needs the action, one of create, list, read, delete
            64 | channels lst -c x | did you mean list?
            64 | channels list -c x --channel y | --channel applies only to read and delete
            64 | channels create -c x | needs --storage none or --storage most-recent
            64 | channels create -c x --storage all | expected one of none, most-recent
            64 | channels read -c x | needs --channel ID
            64 | channels delete -c x --channel a␣b | --channel: expected a channel id
            78 | <channels list;feedback;replay results --all;send -t 00 -a Hi> -c /nowhere/x | cannot read /nowhere/x
            64 | feedback -c x --deadline soon | expected a duration such as
            64 | replay | needs the kind of record, one of results, dead-letters
            64 | replay results -c x | give a condition: --reason, --since, --until, --request, and for results --outcome or --app; or give --all
            64 | replay dead-letters -c x | give a condition: --reason, --since, --until, --request, and for results
            64 | replay results -c x --all --app shop | give either --all or conditions
            64 | replay dead-letters -c x <--app shop;--outcome invalid;--all --expired> | --outcome, --app and --expired apply only to results
            64 | replay results -c x --outcome lost | expected one of accepted, unregistered
            64 | replay results -c x --since yesterday | --since: expected a time such as 2026-01-31T12:00:00Z
            64 | replay results -c x --since 2026-01-02T00:00:00Z --until 2026-01-01T00:00:00Z | --until must be later than --since
            64 | replay results -c x --all --rate 10 | --rate: expected a rate per second
            64 | replay results -c x --all --name a␣b | --name: expected 1 to 100 letters
            64 | replay results -c x --all --to a/b | --to: expected a topic's name
            64 | simulate --listen <[::1];::1:0> | an IPv6 address in brackets: [::1]:2197
            64 | versoin | there is no command "versoin"
            64 |  | apns-worker: needs a command, one of run, check, health, send, channels, tail, replay
            64 | rum | there is no command "rum"; did you mean run? (see apns-worker --help)
            64 | help chek | there is no command "chek"; did you mean check?
            64 | run --confg x | apns-worker run: unknown option "--confg"; did you mean --config?
            64 | run --log-level debug | needs --config FILE, or options for one app (see apns-worker run --help)
            64 | run -c x --port 1 | give either --config or the options for one app, not both
            78 | run -c /nowhere/x | cannot read /nowhere/x: No such file or directory
            78 | run --bootstrap-servers a --key-file k --key-id b --team-id TEAM123456 --bundle-id a | --key-id: 
            64 | run -c x --log-level debgu | --log-level: expected one of trace, debug, info, notice, warning
            1 | check -c /nowhere/x | cannot read /nowhere/x
            64 | check -c x --principal User:push | --principal needs --acl
            64 | check -c x --acl --probe | give either --acl or --probe
            64 | check -c x --diff http://a:1 <--probe;--acl> | --diff cannot be combined with --acl or --probe
            64 | check -c x --diff <a:1;http://a;http://a:1/status;https://a:1> | --diff: expected http://HOST:PORT, found
            78 | check -c /nowhere/x --diff http://127.0.0.1:1 | cannot read /nowhere/x
            64 | check -c x --acl --principal push | --principal: expected a type, such as User:NAME
            64 | demo --log-part kafka | --log-part: expected PART=LEVEL, such as apns=debug, found "kafka"
            64 | simulate --fault nope@3 | --fault: fault 'nope@3': there is no fault 'nope'
            64 | simulate --gateway-fault close@0 | '0' is not a number above 0
            64 | simulate --gateway 10.0.0.1:0 | --gateway: expected a whole number from 0 to 65535
            64 | simulate --feedback-token 0a@soon | expected a device token in hex, or a token with a time: HEX@1700000000
            """.split(separator: "\n").flatMap { line -> [String] in
                guard let choice = line.firstMatch(of: /<(.*)>/) else { return [String(line)] }
                return choice.1.split(separator: ";", omittingEmptySubsequences: false)
                    .map { String(line.replacing(choice.0, with: $0)) }
            }

        @Test(.needs(.worker), arguments: mistakes)
        func `Each usage mistake is reported in one line`(mistake: String) throws {
            let parts = mistake.components(separatedBy: " | ")
            let arguments = parts[1].split(separator: " ").map { String($0).replacing("␣", with: " ") }
            let ended = try Scene.worker("", arguments).expect(try #require(Int32(parts[0])), parts[2])
            #expect(ended.text.split(separator: "\n").count == 1, "\(ended.text)")
        }

        /// Such a member would take partitions away from the workers and commit offsets in their groups.
        @Test(.needs(.worker)) func `Tail refuses the groups of the configured workers`() throws {
            let scene = try Scene(withoutBroker: "groups")
            let kafka = "kafka: {bootstrap_servers: '127.0.0.1:1', group_id: pushes}\n"
            try scene.write(kafka + Self.app, to: "worker.yaml")
            for group in ["pushes", "pushes.retry"] {
                try scene.command("tail results --exec cat --deadline 1s --group \(group)")
                    .expect(64, "the workers use the groups pushes and pushes.retry themselves; choose another")
            }
        }

        private static let app = """
            apps:
              - name: shop
                bundle_ids: [com.example.shop]
                environment: production
                token: {key_file: AuthKey.p8, key_id: SIMULATOR1, team_id: TEAM123456}

            """

        /// A closed pipe is not a failure, but a truncated file is.
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
            let ended = try ChildProcess.run("sh", ["-c", command, Tool.worker.path()]).expect(status, words)
            #expect(!words.isEmpty || ended.text == "", "\(ended.text)")
        }

        @Test(.needs(.worker)) func `Send waits for a payload until the deadline`() throws {
            let scene = try Scene(withoutBroker: "payload")
            #expect(mkfifo(scene.file("pipe"), 0o600) == 0)
            try Scene.worker("send -c none -t 00 --deadline 300ms --payload @\(scene.file("pipe"))")
                .expect(1, "the end of the input did not arrive in time")
        }

        @Test(.needs(.worker)) func `A broker that does not answer is reported after two seconds`() throws {
            let ended = try Scene.worker("tail results --bootstrap-servers 127.0.0.1:1 --topic t --from end").expect(1)
            let lines = ended.text.split(separator: "\n")
            #expect(lines.count == 2, "\(ended.text)")
            #expect(lines.first?.hasPrefix("no broker of 127.0.0.1:1 answers yet: ") == true, "\(ended.text)")
            #expect(lines.last?.contains("t: no broker of 127.0.0.1:1 answers: ") == true, "\(ended.text)")
        }

        @Test(.needs(.worker)) func `The apps that the simulator prints are a valid configuration`() throws {
            let scene = try Scene(withoutBroker: "printed")
            let simulator = try scene.startSimulator(
                "--gateway", "0", "--feedback", "0", "--environment", "development")
            let printed = simulator.process.text.components(separatedBy: "configuration that uses this simulator:\n")
            let apps = try #require(printed.last?.components(separatedBy: "listening;").first)
            #expect(apps.components(separatedBy: "environment: development").count == 3, "\(apps)")
            try scene.write("kafka: {bootstrap_servers: '127.0.0.1:1'}\napps:\n\(apps)", to: "worker.yaml")
            let checked = try scene.command("check --probe").expect(
                1, "fine: app simulated: localhost:", "fine: app simulated-gateway: localhost:")
            #expect(!checked.text.contains("not fine: app"), "\(checked.text)")
        }

        @Test(
            .needs(.worker),
            arguments: [
                "run", "check", "send", "channels", "tail", "replay", "feedback", "schema", "demo", "simulate",
            ])
        func `Help lists the options of each command`(command: String) throws {
            let help = try Scene.worker("\(command) --help").expect(
                0, "Usage: apns-worker \(command)", "\nExample: apns-worker \(command) ")
            #expect(try Scene.worker("help \(command)").text == help.text)
            try Scene.worker("--help").expect(0, "\n  \(command) ")
        }

        @Test(.needs(.worker))
        func `The command schema prints JSON`() throws {
            let list = try Scene.worker("schema").text
            let names = list.split(separator: "\n").compactMap { $0.split(separator: " ").first.map(String.init) }
            #expect(names.contains("request-envelope") && names.contains("result") && names.contains("asyncapi"))
            for name in names {
                let ended = try Scene.worker("schema \(name)").expect(0)
                let (member, version) =
                    name == "asyncapi"
                    ? ("asyncapi", "3.0.0") : ("$schema", "https://json-schema.org/draft/2020-12/schema")
                #expect(try jsonObject(ended.text)[member] as? String == version)
                #expect(
                    ended.text.split(separator: "\n").allSatisfy { $0.count <= 400 },
                    "people must be able to read the schema")
            }
        }
    }

    /// Tests of `apns-worker demo`, which needs no broker because it includes one.
    @Suite struct DemoTests {
        @Test(
            .needs(.worker),
            arguments: [
                ("10000", 0, "10,000 of 10,000 settled"),
                ("3000 --withhold 7", 1, "The counts differ. Differences: 1"),
                ("5000 --faults goaway@1000,cut-inside@3000,refuse-stream@700,Shutdown@2500", 0, "The counts agree."),
            ] as [(String, Int32, String)])
        func `The counts of the demo agree unless a result is withheld`(options: String, status: Int32, words: String)
            throws
        {
            let demo = try Scene.worker("demo --count \(options)").expect(status, words)
            guard options == "10000" else { return }
            demo.expect(0, "The counts agree.")
            // There is no warning, and no line of progress repeats the one before.
            let lines = demo.text.split(separator: "\n")
            #expect(!lines.contains { $0.contains(" warning ") }, "\(demo.text)")
            #expect(!zip(lines, lines.dropFirst()).contains { $0 == $1 }, "\(demo.text)")
        }
    }
}
