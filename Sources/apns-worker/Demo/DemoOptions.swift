import APNsSimulator
import Configuration

/// What `apns-worker demo` can be told.
struct DemoOptions {
    /// Notifications.
    var count = 20_000
    /// Notifications a second; 0: as fast as they go.
    var rate = 0
    var latency = Latency.none
    var faults: [FaultRule] = []
    /// Results that the reader pretends not to have seen, to show that the books notice.
    var withheld = 0

    static let table = OptionTable<DemoOptions>(
        command: "apns-worker demo", usage: ["[OPTIONS]"],
        about: [
            "Everything in one process: a Kafka broker (librdkafka's own, in memory), an APNs simulator over TLS and HTTP/2, a producer, and the worker. Shows what happens, and ends with three books side by side: what was produced, what the simulator accepted, what came back as results. Exits 1 when they differ.",
            "One notification in 50 is made to go wrong in some way: dead tokens, bad tokens, requests that must be retried, invalid ones, records that are no requests at all.",
        ],
        options: [
            .init("count", "n", value: "N", "Notifications to send (default 20000).") {
                options, text throws(UsageError) in
                options.count = try OptionValue.integer(text, 1...10_000_000)
            },
            .init("rate", value: "N", "Notifications a second; 0 (default): as fast as they go.") {
                options, text throws(UsageError) in
                options.rate = try OptionValue.integer(text, 0...1_000_000)
            },
            .init("latency", value: "TIME", "How long the simulator takes to answer, such as 50ms (default none).") {
                options, text throws(UsageError) in
                guard let latency = Latency(text: text) else {
                    throw UsageError("expected a time such as 50ms (see apns-worker simulate --help)")
                }
                options.latency = latency
            },
            .init(
                "faults", value: "LIST",
                "Faults of the simulator, such as goaway@5000,cut-after@3s (see apns-worker simulate --help)."
            ) { options, text throws(UsageError) in
                for word in text.split(separator: ",") {
                    do throws(SimulatorError) {
                        options.faults.append(try FaultRule(text: String(word)))
                    } catch {
                        throw UsageError("\(error)")
                    }
                }
            },
            .init("withhold", value: "N", "Drop N results while reading them back: the books must notice, exit 1.") {
                options, text throws(UsageError) in
                options.withheld = try OptionValue.integer(text, 0...1_000)
            },
        ],
        notes: "Exit codes: 0 the books agree, 1 they differ or nothing moved for 60 s, 64 wrong usage.")
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
