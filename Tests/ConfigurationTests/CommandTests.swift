import Foundation
import Testing

/// SwiftPM puts the program beside the test bundle.
private let program: URL? = {
    let place = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        .deletingLastPathComponent().appending(path: "apns-worker")
    return FileManager.default.isExecutableFile(atPath: place.path) ? place : nil
}()

/// The built program's answer to wrong usage and wrong configurations: one line on standard error, sysexits' code.
@Suite(.enabled(if: program != nil, "apns-worker is not built beside the tests"))
struct CommandTests {
    private func run(_ arguments: [String]) throws -> (code: Int32, output: String, errors: String) {
        let process = Process()
        process.executableURL = program
        process.arguments = arguments
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        // Both are far smaller than a pipe's buffer.
        process.waitUntilExit()
        func text(_ pipe: Pipe) -> String {
            String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        }
        return (process.terminationStatus, text(output), text(errors))
    }

    @Test(
        arguments: [
            (
                [], 64,
                "apns-worker: which command? One of run, check, send, channels, tail, replay, feedback, schema, demo, "
                    + "simulate (see apns-worker --help)"
            ),
            (
                ["rum"], 64,
                "apns-worker: there is no command \"rum\"; did you mean run? (see apns-worker --help)"
            ),
            (
                ["help", "chek"], 64,
                "apns-worker: there is no command \"chek\"; did you mean check? (see apns-worker --help)"
            ),
            (
                ["run", "--confg", "x"], 64,
                "apns-worker run: unknown option \"--confg\"; did you mean --config? (see apns-worker run --help)"
            ),
            (
                ["check"], 64,
                "apns-worker check: needs --config FILE, or flags for one app (see apns-worker check --help)"
            ),
            (
                ["run", "-c", "x", "--port", "1"], 64,
                "apns-worker run: give either --config or the flags for one app, not both (see apns-worker run --help)"
            ),
            (["run", "-c", "/nonexistent.yaml"], 78, "cannot read /nonexistent.yaml: No such file or directory"),
            (["check", "-c", "/nonexistent.yaml"], 1, "cannot read /nonexistent.yaml: No such file or directory"),
            (
                [
                    "run", "--bootstrap-servers", "localhost", "--key-file", "k.p8", "--key-id", "short", "--team-id",
                    "TEAM123456", "--bundle-id", "a",
                ], 78, "--key-id: expected Apple's 10 letters and digits, found \"short\""
            ),
            (
                ["run", "-c", "x", "--log-level", "debgu"], 64,
                "apns-worker run: --log-level: expected one of trace, debug, info, notice, warning, error, critical, found "
                    + "\"debgu\" (see apns-worker run --help)"
            ),
            (
                ["run", "--log-level", "debug"], 64,
                "apns-worker run: needs --config FILE, or flags for one app (see apns-worker run --help)"
            ),
            (
                ["demo", "--log-part", "kafka"], 64,
                "apns-worker demo: --log-part: expected PART=LEVEL, such as apns=debug, found \"kafka\" "
                    + "(see apns-worker demo --help)"
            ),
            (
                ["simulate", "--fault", "nope@3"], 64,
                "apns-worker simulate: --fault: fault 'nope@3': there is no fault 'nope' (see apns-worker simulate --help)"
            ),
            (
                ["simulate", "--gateway-fault", "close@0"], 64,
                "apns-worker simulate: --gateway-fault: gateway fault 'close@0': '0' is no number of notifications "
                    + "(see apns-worker simulate --help)"
            ),
            (
                ["simulate", "--gateway", "10.0.0.1:0"], 64,
                "apns-worker simulate: --gateway: the gateway is on the host of --listen, which must stand before it "
                    + "(see apns-worker simulate --help)"
            ),
            (
                ["simulate", "--feedback-token", "0a@soon"], 64,
                "apns-worker simulate: --feedback-token: expected a device token in hex, or with a time: HEX@1700000000 "
                    + "(see apns-worker simulate --help)"
            ),
        ] as [([String], Int32, String)])
    func `Wrong usage is one line`(arguments: [String], code: Int32, line: String) throws {
        let ended = try run(arguments)
        #expect(ended.errors == line + "\n")
        #expect(ended.output.isEmpty)
        #expect(ended.code == code)
    }

    @Test(arguments: [
        ["--help"], ["help"], ["-h"], ["run", "--help"], ["help", "run"], ["check", "-h"], ["simulate", "--help"],
    ])
    func `Help goes to standard output`(arguments: [String]) throws {
        let ended = try run(arguments)
        #expect(ended.output.hasPrefix("Usage: apns-worker "))
        #expect(ended.errors.isEmpty)
        #expect(ended.code == 0)
    }

    @Test(arguments: ["run", "demo"])
    func `Commands that log take levels`(command: String) throws {
        let help = try run([command, "--help"]).output
        #expect(help.contains("--log-level LEVEL ") && help.contains("--log-part PART=LEVEL "))
        #expect(help.contains("critical") && help.contains("simulator;"))
    }

    @Test func `The version is one line`() throws {
        let ended = try run(["--version"])
        #expect(ended.output.split(separator: "\n").count == 1)
        #expect(ended.output.hasPrefix("apns-worker "))
        #expect(ended.code == 0)
    }

    /// Starts, says how to use it, and ends in order when told to.
    @Test func `The simulator starts and stops`() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: folder) }
        let process = Process()
        process.executableURL = program
        process.arguments = ["simulate", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "-d", folder.path]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        // The process ends the pipe if it ends, so this cannot wait for ever.
        var text = ""
        while !text.contains("listening") {
            let more = output.fileHandleForReading.availableData
            if more.isEmpty { break }
            text += String(decoding: more, as: UTF8.self)
        }
        #expect(text.contains("listening"))
        #expect(FileManager.default.fileExists(atPath: folder.appending(path: "ca.pem").path))
        process.terminate()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        #expect(process.terminationReason == .exit)
    }
}
