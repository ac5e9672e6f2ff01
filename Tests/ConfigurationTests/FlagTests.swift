import Configuration
import Observability
import PushRecords
import Testing

@Suite struct FlagTests {
    private static var good: AppFlags {
        var flags = AppFlags()
        flags.bootstrapServers = "localhost:9092"
        flags.keyFile = "key.p8"
        flags.keyID = "ABC123DEFG"
        flags.teamID = "TEAM123456"
        flags.bundleIDs = ["com.example.shop"]
        return flags
    }

    @Test func `Flags say what the smallest file says`() throws {
        var expected = try load(minimal).configuration
        expected.apps[0].name = "default"
        #expect(try WorkerConfiguration.load(flags: Self.good).configuration == expected)
    }

    @Test func `All flags are read`() throws {
        var flags = Self.good
        flags.bundleIDs.append("com.example.other")
        flags.environment = "development"
        flags.host = "localhost"
        flags.port = "2197"
        flags.caFile = "$HOME/${x}"
        flags.manageHost = "127.0.0.1"
        flags.managePort = "2199"
        let app = try WorkerConfiguration.load(flags: flags).configuration.apps[0]
        #expect(app.bundleIDs == ["com.example.shop", "com.example.other"])
        #expect(app.environment == .development)
        #expect(app.host == "localhost")
        #expect(app.port == 2_197)
        #expect(app.manageHost == "127.0.0.1" && app.managePort == 2_199)
        // The shell has substituted already.
        #expect(app.authorities == .file("$HOME/${x}"))
    }

    @Test func `Errors name the flag`() {
        var flags = AppFlags()
        flags.port = "x"
        flags.bundleIDs = ["a", "/"]
        flags.host = ""
        #expect(throws: ConfigurationError.self) { try WorkerConfiguration.load(flags: flags) }
        do throws(ConfigurationError) {
            _ = try WorkerConfiguration.load(flags: flags)
        } catch {
            #expect(
                Set(error.lines) == [
                    "--bootstrap-servers: is missing", "--key-file: is missing", "--key-id: is missing",
                    "--team-id: is missing", "--host: must not be empty",
                    "--port: expected a whole number from 1 to 65535, found \"x\"",
                    "--bundle-id: expected a bundle id: letters, digits, dots, hyphens, such as com.example.shop, found \"/\"",
                ])
        }
    }
}

/// `--log-level` and `--log-part`.
@Suite struct LogFlagTests {
    private static let table = OptionTable<LogFlags>(
        command: "tool", usage: [""], about: [], options: LogFlags.options)

    private func flags(_ arguments: String...) throws -> LogFlags {
        guard case .values(let flags) = try Self.table.parse(arguments, LogFlags()) else {
            Issue.record("help")
            return LogFlags()
        }
        return flags
    }

    @Test func `Without them the file decides`() throws {
        let loaded = try load(minimal + "log: {level: error, parts: {kafka: debug}}\n")
        #expect(try flags().applied(to: loaded) == loaded)
    }

    @Test func `They are in force without the keys of the file`() throws {
        let log = try flags("--log-level", "debug", "--log-part", "apns=trace", "--log-part=kafka=error")
            .applied(to: load(minimal)).configuration.log
        #expect(log.level == .debug)
        #expect(log.parts == [.apns: .trace, .kafka: .error])
        #expect(log.format == .text)
        #expect(log.levels.writes(.trace, of: .apns) && !log.levels.writes(.warning, of: .kafka))
        #expect(log.levels.writes(.debug, of: .worker) && !log.levels.writes(.trace, of: .worker))
    }

    /// What a reload reads is another file by now; the flags are the same.
    @Test func `They take the place of the files whatever it says`() throws {
        let flags = try flags("--log-level", "notice", "--log-part", "apns=debug")
        for file in [
            "log: {level: error, parts: {apns: error, kafka: trace}}\n", "log: {parts: {kafka: trace}}\n",
            "log: {level: debug, format: json, parts: {apns: info, kafka: trace}}\n",
        ] {
            let log = try flags.applied(to: load(minimal + file)).configuration.log
            #expect(log.level == .notice)
            // One that no flag names keeps the file's.
            #expect(log.parts == [.apns: .debug, .kafka: .trace])
            #expect((log.format == .json) == file.contains("json"))
        }
    }

    @Test func `Of one part the last counts`() throws {
        let log = try flags(
            "--log-part", "apns=debug", "--log-part", "apns=error", "--log-level=info", "--log-level=trace")
        #expect(log.parts == [.apns: .error] && log.level == .trace)
    }

    @Test(arguments: [
        (["--log-level", "debgu"], "--log-level: there is no level \"debgu\"; did you mean debug?"),
        (["--log-level", "DEBUG"], "--log-level: there is no level \"DEBUG\"; did you mean debug?"),
        (["--log-level", "warn"], "--log-level: there is no level \"warn\"; did you mean warning?"),
        (
            ["--log-level", "5"],
            "--log-level: there is no level \"5\"; expected one of trace, debug, info, notice, warning, error, critical"
        ),
        (["--log-part", "apns"], "--log-part: expected PART=LEVEL, such as apns=debug, found \"apns\""),
        (["--log-part", "apn=debug"], "--log-part: there is no part \"apn\"; did you mean apns?"),
        (
            ["--log-part", "=debug"],
            "--log-part: there is no part \"\"; expected one of worker, kafka, delivery, apns, simulator"
        ),
        (["--log-part", "apns=debugg"], "--log-part: there is no level \"debugg\"; did you mean debug?"),
        (["--log-part", "apns=debug=x"], "--log-part: there is no level \"debug=x\"; did you mean debug?"),
        (["--log-leve", "x"], "--log-level: there is no level \"x\"; expected one of "),
        (["--log-lvl", "debug"], "unknown option \"--log-lvl\"; did you mean --log-level?"),
    ])
    func `What is wrong is named with the nearest`(arguments: [String], words: String) throws {
        do throws(UsageError) {
            _ = try Self.table.parse(arguments, LogFlags())
            Issue.record("\(arguments) were taken")
        } catch {
            #expect(error.description.hasPrefix("tool: \(words)"), "\(error)")
        }
    }
}
