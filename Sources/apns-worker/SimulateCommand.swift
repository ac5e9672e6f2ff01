import APNsSimulator
import Configuration
import Glibc
import PushRecords

/// `apns-worker simulate`.
func simulate(_ arguments: [String]) -> ExitCode {
    var defaults = SimulatorOptions()
    defaults.port = 2197
    defaults.controlPort = 2198
    defaults.managementPort = 0
    defaults.directory = "apns-simulator"
    switch parsed(simulateTable, arguments, defaults) {
    case .failure(let exit): return exit.code
    case .success(let options):
        // Before the simulator's threads, which inherit the mask: the signal is to wake this one.
        let signals = StopSignals()
        let simulator: Simulator
        do throws(SimulatorError) {
            simulator = try Simulator(options)
        } catch {
            complain("\(simulateTable.command): \(error)")
            return .failed
        }
        say(simulator.instructions)
        say("listening; SIGTERM or Ctrl-C ends it\n")
        signals.wait()
        simulator.stop()
        say(simulator.books.totals.json)
        return .fine
    }
}

private let simulateTable = OptionTable<SimulatorOptions>(
    command: "apns-worker simulate", usage: ["[OPTIONS]"],
    about: [
        "An APNs server for tests: TLS and HTTP/2, Apple's validation and answers, provider tokens, and every fault on demand. Point an app of the worker's configuration at it with host, port and tls.ca_file; it prints how."
    ],
    options: [
        .init("listen", value: "HOST:PORT", "Where APNs is served (default 127.0.0.1:2197; port 0: any free one).") {
            options, text throws(UsageError) in
            let place = try hostAndPort(text)
            options.host = place.host ?? options.host
            options.port = place.port
        },
        .init(
            "control", value: "PORT",
            "The control endpoint's port on the same host (default 2198; 0: any free one; HOST:PORT is taken too)."
        ) { options, text throws(UsageError) in
            options.controlPort = try portBeside(options, text, "the control endpoint is")
        },
        .init(
            "manage", value: "PORT",
            "The port on the same host where broadcast channels are managed, as at api-manage-broadcast.push.apple.com (default: any free one, which is printed)."
        ) { options, text throws(UsageError) in
            options.managementPort = try portBeside(options, text, "channels are managed")
        },
        .init(
            "gateway", value: "PORT",
            "Serve Apple's retired binary gateway too, on this port of the same host (0: any free one, which is printed)."
        ) { options, text throws(UsageError) in
            options.gatewayPort = try portBeside(options, text, "the gateway is")
        },
        .init(
            "gateway-fault", value: "NAME",
            "A fault (below) of each of the gateway's connections: error-delay=200ms, close@1000; may be given more than once."
        ) { options, text throws(UsageError) in options.gatewayFaults.append(try parsedGatewayFault(text)) },
        .init("gateway-payload", value: "BYTES", "The gateway's longest payload (default 2048; 256 before 2014).") {
            options, text throws(UsageError) in
            options.gatewayPayloadLimit = try OptionValue.integer(text, 1...65_535)
        },
        .init(
            "feedback", value: "PORT",
            "Serve Apple's retired feedback service too, on this port of the same host (0: any free one, which is printed)."
        ) { options, text throws(UsageError) in
            options.feedbackPort = try portBeside(options, text, "the feedback service is")
        },
        .init(
            "feedback-token", value: "HEX",
            "A device token that the feedback service tells of, as one without the app since the start, or since HEX@SECONDS after the epoch; may be given more than once."
        ) { options, text throws(UsageError) in options.feedback.append(try parsedFeedback(text)) },
        .init(
            "directory", "d", value: "DIR", to: \.directory,
            "Certificates and keys: read, or made on the first start (default ./apns-simulator)."),
        .init(
            "book", value: "FILE", to: \.book,
            "Keep what the control endpoint tells of requests in this file too, so that a simulator started again, also after kill -9, goes on with it (some 50 bytes a request)."
        ),
        .init("name", value: "NAME", "A further name or address in the certificate; may be given more than once.") {
            $0.names.append($1)
        },
        .init(
            "key", value: "ID=FILE",
            "Accept provider tokens of this key too (.p8, or its public half in PEM); may be given more than once."
        ) { options, text throws(UsageError) in
            guard let sign = text.firstIndex(of: "="), sign != text.startIndex, text.last != "=" else {
                throw UsageError("expected a key id and a file, such as ABC123DEFG=AuthKey_ABC123DEFG.p8")
            }
            options.keys.append(
                SimulatorOptions.KeyFile(path: String(text[text.index(after: sign)...]), keyID: String(text[..<sign])))
        },
        .init("any-token", nil, "Accept every request without looking at its provider token.") {
            $0.wantsProviderToken = false
        },
        .init(
            "environment", value: "NAME", to: \.environment, parsedEnvironment, "production (default) or development."),
        .init(
            "bundle-id", value: "ID", "Accept only this app's topics; may be given more than once (default: any)."
        ) { $0.bundleIDs.append($1) },
        .init(
            "any-suffix", nil,
            "Take a push type with any topic (else a voip push wants a topic that ends in .voip, as at Apple)."
        ) { $0.checksTopicSuffixes = false },
        .init(
            "no-broadcast", value: "ID",
            "Broadcast is not set up for this bundle id (FeatureNotEnabled); may be given more than once."
        ) { $0.withoutBroadcast.append($1) },
        .init("streams", value: "N", "Streams a connection may have open at once (default 1000).") {
            options, text throws(UsageError) in
            options.streams = UInt32(try OptionValue.integer(text, 1...1_000_000))
        },
        .init(
            "first-streams", value: "N",
            "The same until its first valid provider token, as Apple does (default 1). Clients that send more at once see REFUSED_STREAM."
        ) { options, text throws(UsageError) in
            options.firstStreams = UInt32(try OptionValue.integer(text, 1...1_000_000))
        },
        .init(
            "latency", value: "TIME",
            "How long answers take: 50ms, 20ms..80ms (evenly spread) or ~50ms (exponential with this mean)."
        ) { options, text throws(UsageError) in options.latency = try parsedLatency(text) },
        .init(
            "fault", value: "FAULT@EVERY",
            "A fault (below) every so many requests or so often in time: goaway@10000, cut-after@5s; may be given more than once."
        ) { options, text throws(UsageError) in options.faults.append(try parsedFault(text)) },
        .init("seed", value: "N", "The same seed gives the same latencies and choices (default 1).") {
            options, text throws(UsageError) in
            options.seed = UInt64(try OptionValue.integer(text, 0...Int.max))
        },
    ], notes: Simulator.helpText)

/// A latency as the simulator reads it.
func parsedLatency(_ text: String) throws(UsageError) -> Latency {
    guard let latency = Latency(text: text) else {
        throw UsageError("expected a time such as 50ms, 20ms..80ms or ~50ms")
    }
    return latency
}

/// A fault and its pace as the simulator reads them.
func parsedFault(_ text: String) throws(UsageError) -> FaultRule {
    try said { () throws(SimulatorError) in try FaultRule(text: text) }
}

/// Turns an error of the simulator into one of usage.
private func said<Value>(_ read: () throws(SimulatorError) -> Value) throws(UsageError) -> Value {
    do throws(SimulatorError) {
        return try read()
    } catch {
        throw UsageError(error.description)
    }
}

/// A gateway's fault as the simulator reads it.
private func parsedGatewayFault(_ text: String) throws(UsageError) -> GatewayFault {
    try said { () throws(SimulatorError) in try GatewayFault(text: text) }
}

/// `HEX` or `HEX@SECONDS`.
private func parsedFeedback(_ text: String) throws(UsageError) -> SimulatorOptions.FeedbackItem {
    let parts = text.split(separator: "@", omittingEmptySubsequences: false)
    guard parts.count <= 2, let seconds = parts.count == 2 ? UInt32(parts[1]) : UInt32(clamping: time(nil)) else {
        throw UsageError("expected a device token in hex, or with a time: HEX@1700000000")
    }
    let item = SimulatorOptions.FeedbackItem(token: String(parts[0]), seconds: seconds)
    guard item.bytes != nil else { throw UsageError(SimulatorOptions.FeedbackItem.expectation(of: item.token)) }
    return item
}

/// A port on the host of `--listen`.
private func portBeside(_ options: SimulatorOptions, _ text: String, _ what: String) throws(UsageError) -> UInt16 {
    let place = try hostAndPort(text)
    guard place.host == nil || place.host == options.host else {
        throw UsageError("\(what) on the host of --listen, which must stand before it")
    }
    return place.port
}

/// `HOST:PORT`, or a port alone; an IPv6 address stands in brackets.
private func hostAndPort(_ text: String) throws(UsageError) -> (host: String?, port: UInt16) {
    let expectation = "expected HOST:PORT with a port up to 65535 (an IPv6 address in brackets: [::1]:2197)"
    let colon = text.lastIndex(of: ":")
    let port = colon.map { text[text.index(after: $0)...] } ?? text[...]
    guard let number = UInt16(port) else { throw UsageError(expectation) }
    guard let colon else { return (nil, number) }
    var host = text[..<colon]
    if host.hasPrefix("["), host.hasSuffix("]") {
        host = host.dropFirst().dropLast()
    } else if host.contains(":") {
        throw UsageError(expectation)
    }
    guard !host.isEmpty else { throw UsageError(expectation) }
    return (String(host), number)
}
