import APNsSimulator
import Configuration

/// What `apns-worker demo` can be told.
struct DemoOptions {
    /// Notifications, unreadable records included.
    var count = 100_000
    /// Notifications a second; 0: as fast as they go.
    var rate = 0
    var latency = Latency.none
    var faults: [FaultRule] = []
    /// The n-th result is left out when results are read back, to see the books differ; 0: none.
    var withheld = 0
    var log = LogFlags()

    static let table = OptionTable<DemoOptions>(
        command: "apns-worker demo", usage: ["[OPTIONS]"],
        about: [
            "Everything in one process: a Kafka broker (librdkafka's own, in memory), an APNs simulator over TLS and HTTP/2, a producer, the worker, and a reader of what it publishes. Shows how far it is, and ends with three books side by side: what was produced, what the simulator accepted, what was read back.",
            "One record in twenty is made to end otherwise than accepted: dead and wrong device tokens, invalid and expired requests, records that are no requests at all; and some are accepted at the second try only.",
        ],
        options: [
            .init("count", "n", value: "N", "Notifications to send (default 100000).") {
                options, text throws(UsageError) in
                options.count = try OptionValue.integer(text, 1...10_000_000)
            },
            .init("rate", value: "N", "Notifications a second; 0 (default): as fast as they go.") {
                options, text throws(UsageError) in
                options.rate = try OptionValue.integer(text, 0...1_000_000)
            },
            .init(
                "latency", value: "TIME",
                "How long the simulator's answers take: 50ms, 20ms..80ms (evenly spread) or ~50ms (exponential with this mean)."
            ) { options, text throws(UsageError) in options.latency = try parsedLatency(text) },
            .init(
                "faults", value: "LIST",
                "What goes wrong at the simulator, with commas between: goaway@5000,cut-after@2s (names: apns-worker simulate --help)."
            ) { options, text throws(UsageError) in
                for word in text.split(separator: ",", omittingEmptySubsequences: false) {
                    options.faults.append(try parsedFault(String(word)))
                }
            },
            .init("withhold", value: "N", "Leave out the N-th result when reading back, to see the books differ.") {
                options, text throws(UsageError) in
                options.withheld = try OptionValue.integer(text, 1...10_000_000)
            },
        ] + LogFlags.options.map { $0.within(\.log) },
        notes: "Exit codes: 0 the books agree, 1 they differ or something failed, 64 wrong usage.")
}

/// `apns-worker demo`.
func runDemo(_ arguments: [String]) -> ExitCode {
    switch parsed(DemoOptions.table, arguments, DemoOptions()) {
    case .failure(let exit): return exit.code
    case .success(let options):
        do {
            return try DemoRun(options).run() ? .fine : .failed
        } catch {
            complain("apns-worker demo: \(error)")
            return .failed
        }
    }
}
