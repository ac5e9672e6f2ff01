import APNsSimulator
import Configuration
import Glibc
import PushRecords

func simulate(_ arguments: [String]) throws -> ExitCode {
    var defaults = SimulatorOptions()
    defaults.port = 2197
    defaults.controlPort = 2198
    defaults.managementPort = 0
    defaults.directory = "apns-simulator"
    let options = try parsed(simulateTable, arguments, defaults)
    // The signals are blocked before the simulator creates its threads, because threads inherit the signal mask. This
    // thread then waits for the signals.
    let signals = StopSignals()
    let simulator = try Simulator(options)
    say(simulator.instructions)
    say("listening; stop the simulator with SIGTERM or Ctrl-C\n")
    signals.wait()
    simulator.stop()
    say(simulator.books.totals.json)
    return .fine
}

private let simulateTable = OptionTable<SimulatorOptions>(
    command: "apns-worker simulate", usage: ["[OPTIONS]"],
    about: [
        "Runs an APNs server for tests. The server speaks TLS and HTTP/2, checks requests and answers them as Apple does, and injects faults on demand. The command prints an app entry to paste under apps: in the worker's configuration.",
        "Example: apns-worker simulate --fault goaway@10000",
    ],
    options: [
        .init(
            "listen", value: "HOST:PORT",
            "Serve APNs at this address (default 127.0.0.1:2197). Port 0 chooses a free port."
        ) { options, text in
            guard let address = NetworkAddress(text) ?? NetworkAddress("\(options.host):\(text)") else {
                throw UsageError("expected HOST:PORT (an IPv6 address in brackets: [::1]:2197)")
            }
            options.host = address.host
            options.port = UInt16(address.port)
        },
        portOption(
            "control", \.controlPort,
            "Serve the control endpoint on this port of the --listen host (default 2198; 0 chooses any free port)."),
        portOption(
            "manage", \.managementPort,
            "Manage broadcast channels on this port of the --listen host, as api-manage-broadcast.push.apple.com does (default: any free port, which is printed)."
        ),
        portOption(
            "gateway", \.gatewayPort,
            "Also serve Apple's retired binary gateway on this port of the --listen host (0 chooses any free port and prints it)."
        ),
        .init(
            "gateway-fault", value: "NAME",
            "Inject this fault (see below) into each connection of the gateway: error-delay=200ms, close@1000. Repeat the option for more faults."
        ) { try $0.gatewayFaults.add($1) },
        .init(
            "gateway-payload", value: "BYTES", to: \.gatewayPayloadLimit, integer(1...65_535),
            "The longest payload that the gateway accepts (default 2048; Apple's limit was 256 before 2014)."),
        portOption(
            "feedback", \.feedbackPort,
            "Also serve Apple's retired feedback service on this port of the --listen host (0 chooses any free port and prints it)."
        ),
        .init(
            "feedback-token", value: "HEX", each: \.feedback, parsedFeedback,
            "Report this device token as dead in the feedback service, since the start of the simulator or, with HEX@SECONDS, since that Unix time. Repeat the option for more tokens."
        ),
        .init(
            "directory", "d", value: "DIR", to: \.directory,
            "Store certificates and keys in this folder; the first start creates them (default ./apns-simulator)."),
        .init(
            "book", value: "FILE", to: \.book,
            "Store the received requests in this file, so that the lists and counts of the control endpoint survive a restart or kill -9 (about 50 bytes per request)."
        ),
        .init(
            "name", value: "NAME", each: \.names, OptionValue.text,
            "Add this host name or address to the server certificate. Repeat the option for more names."),
        .init(
            "key", value: "ID=FILE", each: \.keys, parsedKey,
            "Also accept provider tokens of this key (.p8, or the public key in PEM), with any team id. Repeat the option for more keys."
        ),
        .init(
            "any-token", sets: \.wantsProviderToken, to: false,
            "Accept every request without checking its provider token."),
        .init(
            "environment", value: "NAME", to: \.environment, parsedEnvironment,
            "Simulate this environment: production (default) or development."),
        .init(
            "bundle-id", value: "ID", each: \.bundleIDs, OptionValue.text,
            "Accept only the topics of this bundle id (default: all topics). Repeat the option for more bundle ids."),
        .init(
            "any-suffix", sets: \.checksTopicSuffixes, to: false,
            "Accept each push type with any topic. Without this option a voip push needs a topic that ends in .voip, as with Apple."
        ),
        .init(
            "no-broadcast", value: "ID", each: \.withoutBroadcast, OptionValue.text,
            "Answer broadcasts for this bundle id with FeatureNotEnabled. Repeat the option for more bundle ids."),
        .init(
            "streams", value: "N", to: \.streams, integer(1...1_000_000),
            "Allow this many concurrent streams on a connection (default 1000)."),
        .init(
            "first-streams", value: "N", to: \.firstStreams, integer(1...1_000_000),
            "Allow this many concurrent streams until the first valid provider token, as Apple does (default 1)."),
        .init(
            "latency", value: "TIME", to: \.latency, parsedLatency,
            "Delay each answer: 50ms, 20ms..80ms (evenly spread) or ~50ms (exponential with this mean)."),
        .init(
            "fault", value: "FAULT@EVERY", each: \.faults, FaultRule.init(text:),
            "Inject a fault (see below) after every N requests, or at an interval: goaway@10000, cut-after@5s. Repeat the option for more faults."
        ),
        .init(
            "seed", value: "N", to: \.seed, integer(0...Int.max),
            "Use this seed for random latencies and ids (default 1)."),
    ], notes: Simulator.helpText)

func parsedLatency(_ text: String) throws(UsageError) -> Latency {
    try OptionValue.accept(text, "a time such as 50ms, 20ms..80ms or ~50ms", Latency(text: text))
}

/// Parses the value of `--key`: `ID=FILE`.
private func parsedKey(_ text: String) throws(UsageError) -> (keyID: String, path: String) {
    let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    return try OptionValue.accept(
        text, "a key id and a file, such as ABC123DEFG=AuthKey_ABC123DEFG.p8",
        parts.count == 2 && !parts.contains("") ? (parts[0], parts[1]) : nil)
}

private func parsedFeedback(_ text: String) throws -> SimulatorOptions.FeedbackItem {
    let parts = text.split(separator: "@", omittingEmptySubsequences: false)
    guard parts.count <= 2, let seconds = parts.count == 2 ? UInt32(parts[1]) : UInt32(clamping: time(nil)) else {
        throw UsageError("expected a device token in hex, or a token with a time: HEX@1700000000")
    }
    return try SimulatorOptions.FeedbackItem(token: String(parts[0]), seconds: seconds)
}

/// Returns an option for a port on the host of `--listen`.
private func portOption(
    _ name: String, _ port: any WritableKeyPath<SimulatorOptions, UInt16?> & Sendable, _ help: String
) -> OptionTable<SimulatorOptions>.Option {
    .init(name, value: "PORT", to: port, integer(0...65_535, UInt16.self), help)
}
