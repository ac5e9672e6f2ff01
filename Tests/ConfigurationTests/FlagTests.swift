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

    @Test func `Flags give the same configuration as the smallest file`() throws {
        let expected = try load(minimal.replacing("name: shop", with: "name: default")).configuration
        #expect(try WorkerConfiguration.load(flags: Self.good).configuration == expected)
    }

    @Test func `All flags of an app are read`() throws {
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
        // Variables in flags are not replaced, because the shell has already done so.
        #expect(app.authorities == .file("$HOME/${x}"))
    }

    @Test func `The error for a missing or invalid flag names the flag`() {
        var flags = AppFlags()
        flags.port = "x"
        flags.bundleIDs = ["a", "/"]
        flags.host = ""
        let error = #expect(throws: ConfigurationError.self) { try WorkerConfiguration.load(flags: flags) }
        #expect(
            Set(error?.lines ?? []) == [
                "--bootstrap-servers: is missing", "--key-file: is missing", "--key-id: is missing",
                "--team-id: is missing", "--host: must not be empty",
                "--port: expected a whole number from 1 to 65535, found \"x\"",
                "--bundle-id: expected a bundle id: letters, digits, dots, hyphens, such as com.example.shop, found \"/\"",
            ])
    }
}

/// `--log-level` and `--log-part`.
@Suite struct LogFlagTests {
    private static let table = OptionTable<LogFlags>(command: "tool", usage: [""], about: [], options: LogFlags.options)

    private func flags(_ arguments: String...) throws -> LogFlags {
        try #require(try Self.table.parse(arguments, LogFlags()))
    }

    @Test func `Without log flags the file determines the levels`() throws {
        let log = try load(minimal + "log: {level: error, parts: {kafka: debug}}\n").configuration.log
        #expect(try flags().applied(to: log) == log)
    }

    @Test func `Log flags apply if the file has no log section`() throws {
        let log = try flags("--log-level", "debug", "--log-part", "apns=trace", "--log-part=kafka=error")
            .applied(to: load(minimal).configuration.log)
        #expect(log.level == .debug)
        #expect(log.parts == [.apns: .trace, .kafka: .error])
        #expect(log.format == .text)
        #expect(log.levels.writes(.trace, of: .apns) && !log.levels.writes(.warning, of: .kafka))
        #expect(log.levels.writes(.debug, of: .worker) && !log.levels.writes(.trace, of: .worker))
    }

    @Test func `Log flags replace the file's levels after a reload, too`() throws {
        let flags = try flags("--log-level", "notice", "--log-part", "apns=debug")
        for file in [
            "log: {level: error, parts: {apns: error, kafka: trace}}\n", "log: {parts: {kafka: trace}}\n",
            "log: {level: debug, format: json, parts: {apns: info, kafka: trace}}\n",
        ] {
            let log = try flags.applied(to: load(minimal + file).configuration.log)
            #expect(log.level == .notice)
            // A part that no flag names keeps the file's level.
            #expect(log.parts == [.apns: .debug, .kafka: .trace])
            #expect((log.format == .json) == file.contains("json"))
        }
    }

    @Test func `The last flag for a part wins`() throws {
        let log = try flags(
            "--log-part", "apns=debug", "--log-part", "apns=error", "--log-level=info", "--log-level=trace")
        #expect(log.parts == [.apns: .error] && log.level == .trace)
    }

    @Test(arguments: [
        (["--log-level", "warn"], "--log-level: expected one of LEVELS, found \"warn\""),
        (["--log-level", "DEBUG"], "--log-level: expected one of LEVELS, found \"DEBUG\""),
        (["--log-part", "apns"], "--log-part: expected PART=LEVEL, such as apns=debug, found \"apns\""),
        (["--log-part", "=debug"], "--log-part: expected one of worker, kafka, delivery, apns, simulator, found \"\""),
        (["--log-part", "apns=debug=x"], "--log-part: expected one of LEVELS, found \"debug=x\""),
    ])
    func `The error for an invalid log flag lists the expected values`(arguments: [String], words: String) throws {
        let levels = Level.allCases.map(\.rawValue).joined(separator: ", ")
        let expected = "tool: \(words.replacing("LEVELS", with: levels)) (see tool --help)"
        #expect(throws: UsageError(expected)) { try Self.table.parse(arguments, LogFlags()) }
    }
}
