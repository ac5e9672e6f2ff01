import APNsSimulator
import Configuration
import Glibc
import PushRecords

/// `apns-worker simulate`.
func simulate(_ arguments: [String]) throws -> ExitCode {
    var defaults = SimulatorOptions()
    defaults.port = 2197
    defaults.controlPort = 2198
    defaults.managementPort = 0
    defaults.directory = "apns-simulator"
    let options = try parsed(simulateTable, arguments, defaults)
    // Before the simulator's threads, which inherit the mask: the signal has to wake this one.
    let signals = StopSignals()
    let simulator = try Simulator(options)
    say(simulator.instructions)
    say("listening; SIGTERM or Ctrl-C ends it\n")
    signals.wait()
    simulator.stop()
    say(simulator.books.totals.json)
    return .fine
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
        portOption(
            "control", \.controlPort, "the control endpoint is",
            "The control endpoint's port on the same host (default 2198; 0: any free one; HOST:PORT is taken too)."),
        portOption(
            "manage", \.managementPort, "channels are managed",
            "The port on the same host where broadcast channels are managed, as at api-manage-broadcast.push.apple.com (default: any free one, which is printed)."
        ),
        portOption(
            "gateway", \.gatewayPort, "the gateway is",
            "Serve Apple's retired binary gateway too, on this port of the same host (0: any free one, which is printed)."
        ),
        .init(
            "gateway-fault", value: "NAME",
            "A fault (below) of each of the gateway's connections: error-delay=200ms, close@1000; may be given more than once."
        ) { options, text throws(UsageError) in
            do throws(SimulatorError) { try options.gatewayFaults.add(text) } catch {
                throw UsageError(error.description)
            }
        },
        .init(
            "gateway-payload", value: "BYTES", to: \.gatewayPayloadLimit, integer(1...65_535),
            "The gateway's longest payload (default 2048; 256 before 2014)."),
        portOption(
            "feedback", \.feedbackPort, "the feedback service is",
            "Serve Apple's retired feedback service too, on this port of the same host (0: any free one, which is printed)."
        ),
        .init(
            "feedback-token", value: "HEX", each: \.feedback, parsedFeedback,
            "A device token that the feedback service tells of, as one without the app since the start, or since HEX@SECONDS after the epoch; may be given more than once."
        ),
        .init(
            "directory", "d", value: "DIR", to: \.directory,
            "Certificates and keys: read, or made on the first start (default ./apns-simulator)."),
        .init(
            "book", value: "FILE", to: \.book,
            "Keep what the control endpoint tells of requests in this file too, so that a simulator started again, also after kill -9, goes on with it (about 50 bytes a request)."
        ),
        .init(
            "name", value: "NAME", each: \.names, OptionValue.text,
            "A further name or address in the certificate; may be given more than once."),
        .init(
            "key", value: "ID=FILE", each: \.keys, parsedKey,
            "Accept provider tokens of this key too (.p8, or its public half in PEM); may be given more than once."),
        .init("any-token", nil, "Accept every request without looking at its provider token.") {
            $0.wantsProviderToken = false
        },
        .init(
            "environment", value: "NAME", to: \.environment, parsedEnvironment, "production (default) or development."),
        .init(
            "bundle-id", value: "ID", each: \.bundleIDs, OptionValue.text,
            "Accept only this app's topics; may be given more than once (default: any)."),
        .init(
            "any-suffix", nil,
            "Take a push type with any topic (else a voip push wants a topic that ends in .voip, as at Apple)."
        ) { $0.checksTopicSuffixes = false },
        .init(
            "no-broadcast", value: "ID", each: \.withoutBroadcast, OptionValue.text,
            "Broadcast is not set up for this bundle id (FeatureNotEnabled); may be given more than once."),
        .init(
            "streams", value: "N", to: \.streams, integer(1...1_000_000),
            "Streams a connection may have open at once (default 1000)."),
        .init(
            "first-streams", value: "N", to: \.firstStreams, integer(1...1_000_000),
            "The same until its first valid provider token, as Apple does (default 1). Clients that send more at once see REFUSED_STREAM."
        ),
        .init(
            "latency", value: "TIME", to: \.latency, parsedLatency,
            "How long answers take: 50ms, 20ms..80ms (evenly spread) or ~50ms (exponential with this mean)."),
        .init(
            "fault", value: "FAULT@EVERY", each: \.faults, parsedFault,
            "A fault (below) every so many requests or so often in time: goaway@10000, cut-after@5s; may be given more than once."
        ),
        .init(
            "seed", value: "N", to: \.seed, integer(0...Int.max),
            "The same seed gives the same latencies and choices (default 1)."),
    ], notes: Simulator.helpText)

/// Reads a latency.
func parsedLatency(_ text: String) throws(UsageError) -> Latency {
    guard let latency = Latency(text: text) else {
        throw UsageError("expected a time such as 50ms, 20ms..80ms or ~50ms")
    }
    return latency
}

/// Reads a fault and its pace.
func parsedFault(_ text: String) throws(UsageError) -> FaultRule {
    do throws(SimulatorError) { return try FaultRule(text: text) } catch { throw UsageError(error.description) }
}

/// Reads `ID=FILE`.
private func parsedKey(_ text: String) throws(UsageError) -> (keyID: String, path: String) {
    let parts = text.split(separator: "=", maxSplits: 1)
    guard parts.count == 2, text.first != "=" else {
        throw UsageError("expected a key id and a file, such as ABC123DEFG=AuthKey_ABC123DEFG.p8")
    }
    return (String(parts[0]), String(parts[1]))
}

/// Reads `HEX` or `HEX@SECONDS`.
private func parsedFeedback(_ text: String) throws(UsageError) -> SimulatorOptions.FeedbackItem {
    let parts = text.split(separator: "@", omittingEmptySubsequences: false)
    guard parts.count <= 2, let seconds = parts.count == 2 ? UInt32(parts[1]) : UInt32(clamping: time(nil)) else {
        throw UsageError("expected a device token in hex, or with a time: HEX@1700000000")
    }
    do throws(SimulatorError) {
        return try SimulatorOptions.FeedbackItem(token: String(parts[0]), seconds: seconds)
    } catch { throw UsageError(error.description) }
}

/// An option for a port on the host of `--listen`.
private func portOption(
    _ name: String, _ port: any WritableKeyPath<SimulatorOptions, UInt16?> & Sendable, _ subject: String,
    _ help: String
) -> OptionTable<SimulatorOptions>.Option {
    .init(name, value: "PORT", help) { options, text throws(UsageError) in
        let place = try hostAndPort(text)
        guard place.host == nil || place.host == options.host else {
            throw UsageError("\(subject) on the host of --listen, which must stand before it")
        }
        options[keyPath: port] = place.port
    }
}

/// Reads `HOST:PORT`, or a port alone; an IPv6 address stands in brackets.
private func hostAndPort(_ text: String) throws(UsageError) -> (host: String?, port: UInt16) {
    if let port = UInt16(text) { return (nil, port) }
    let address = /(?:\[(.+)\]|([^:]+)):(\d+)/
    guard let match = text.wholeMatch(of: address), let port = UInt16(match.3), let host = match.1 ?? match.2 else {
        throw UsageError("expected HOST:PORT with a port up to 65535 (an IPv6 address in brackets: [::1]:2197)")
    }
    return (String(host), port)
}
