import Configuration
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

    @Test func flagsSayWhatTheSmallestFileSays() throws {
        var expected = try load(minimal).configuration
        expected.apps[0].name = "default"
        #expect(try WorkerConfiguration.load(flags: Self.good).configuration == expected)
    }

    @Test func allFlagsAreRead() throws {
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

    @Test func errorsNameTheFlag() {
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
