import APNsSimulator
import Configuration
import EventLoop
import Glibc
import Kafka
import Observability
import PushRecords
import Worker

/// What `apns-worker demo` can be told.
private struct DemoOptions {
    /// Notifications, unreadable records included.
    var count = 100_000
    /// Notifications a second; 0 for no limit.
    var rate = 0
    var latency = Latency.none
    var faults: [FaultRule] = []
    /// Which result is left out when results are read back, to see the books differ; 0 for none.
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
                options, text throws(UsageError) in options.count = try OptionValue.integer(text, 1...10_000_000)
            },
            .init("rate", value: "N", "Notifications a second; 0 (default): as fast as they go.") {
                options, text throws(UsageError) in options.rate = try OptionValue.integer(text, 0...1_000_000)
            },
            .init(
                "latency", value: "TIME", to: \.latency, parsedLatency,
                "How long the simulator's answers take: 50ms, 20ms..80ms (evenly spread) or ~50ms (exponential with this mean)."
            ),
            .init(
                "faults", value: "LIST",
                "What goes wrong at the simulator, with commas between: goaway@5000,cut-after@2s (names: apns-worker simulate --help)."
            ) { options, text throws(UsageError) in
                for word in text.split(separator: ",", omittingEmptySubsequences: false) {
                    options.faults.append(try parsedFault(String(word)))
                }
            },
            .init("withhold", value: "N", "Leave out the N-th result when reading back, to see the books differ.") {
                options, text throws(UsageError) in options.withheld = try OptionValue.integer(text, 1...10_000_000)
            },
        ] + LogFlags.options.map { $0.within(\.log) },
        notes: "Exit codes: 0 the books agree, 1 they differ or something failed, 64 wrong usage.")
}

/// `apns-worker demo`.
func runDemo(_ arguments: [String]) -> ExitCode {
    parsed(DemoOptions.table, arguments, DemoOptions()).map { options in
        do {
            return try run(options) ? .fine : .failed
        } catch {
            complain("apns-worker demo: \(error)")
            return .failed
        }
    }.code
}

/// Puts the parts together, watches them, and returns whether the books agree.
private func run(_ options: DemoOptions) throws -> Bool {
    // Before all other threads, which inherit the mask.
    let signals = StopSignals()
    let screen = DemoScreen()
    let broker = try MockCluster()
    var settings = SimulatorOptions()
    settings.controlPort = nil
    settings.bundleIDs = [DemoTraffic.bundleID]
    settings.latency = options.latency
    settings.faults = options.faults
    let simulator = try Simulator(settings)
    defer { simulator.stop() }
    var configuration = configuration(broker, simulator)
    configuration.log = options.log.applied(to: configuration.log)
    for topic in configuration.requestTopics.map(\.name) + configuration.outputTopics.map(\.name) {
        try broker.create(topic, partitions: 4)
    }
    screen.tell(
        "apns-worker demo: \(grouped(options.count)) notifications from Kafka at \(broker.bootstrapServers) "
            + "to the APNs simulator at \(simulator.host):\(simulator.port), both in this process")
    var reader = try DemoReader(configuration, configuration.cluster(), withheld: options.withheld)
    let worker = try DemoWorker(configuration, Logger(levels: configuration.log.levels, sink: screen))
    var books = DemoBooks(count: options.count)
    var clock = DemoBooks.Clock(beganNs: LoopTime.read().monotonicNs)
    var problem: String?
    do {
        problem = try drive(options, screen, worker, &reader, configuration, &books, &clock, signals)
    } catch {
        problem = "\(error)"
    }
    clock.endedNs = LoopTime.read().monotonicNs
    worker.stop()
    // The worker writes the dead-token record of a result beside it, so that it may be read later.
    let limit = Deadline(after: .seconds(10))
    repeat { try reader.read(into: &books, timeoutMs: 300) } while books.lacksDeadTokens && !limit.hasPassed
    simulator.books.forEach { _, token, received, accepted in
        books.noteSimulated(DemoTraffic.number(inToken: token), received: received, accepted: accepted)
    }
    problem = problem ?? worker.failure
    let (agree, text) = books.compared(clock, simulator.books.totals, isWhole: problem == nil)
    screen.tell(text)
    if let problem { complain("apns-worker demo: \(problem)") }
    return agree && problem == nil
}

/// The defaults, but for one short retry tier, so that the demo does not wait for half a minute.
private func configuration(_ broker: MockCluster, _ simulator: Simulator) -> WorkerConfiguration {
    let token = TokenCredential(
        key: .text(simulator.credentials.providerKeyPEM), keyID: SimulatorCredentials.keyID,
        teamID: SimulatorCredentials.teamID)
    var app = AppSettings(
        name: "demo", bundleIDs: [DemoTraffic.bundleID], credential: .token(token), host: simulator.host)
    app.port = Int(simulator.port)
    app.authorities = .text(simulator.credentials.caPEM)
    app.connections.min = 2
    app.connections.max = 2
    var result = WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: broker.bootstrapServers), apps: [app])
    // The in-process broker lets a group wait for its session timeout less a second before it first assigns.
    result.kafka.sessionTimeout = .seconds(3)
    // It answers a fetch that found nothing only after this wait, whatever is written meanwhile.
    result.kafka.consumerProperties = [UserProperty(name: "fetch.wait.max.ms", value: "10", place: "demo")]
    result.kafka.tellsTopicConfigurations = false
    result.retry.tiers = [RetrySettings.Tier(name: "1s", delay: .seconds(1), topic: "apns.retry.1s")]
    result.admin.listen = nil
    result.log.level = .warning
    return result
}

/// Notifications that may be on their way between producer and reader. The in-process broker keeps 5 MiB or 100,000
/// batches of a partition, so that a reader that is further behind loses records.
private let aheadLimit = 9_000
private let stallNs: Int64 = 60_000_000_000

/// Produces and reads back until everything came back; returns what kept it from that.
private func drive(
    _ options: DemoOptions, _ screen: DemoScreen, _ worker: DemoWorker, _ reader: inout DemoReader,
    _ configuration: WorkerConfiguration, _ books: inout DemoBooks, _ clock: inout DemoBooks.Clock,
    _ signals: borrowing StopSignals
) throws -> String? {
    let producer = try DemoProducer(configuration, count: options.count)
    /// Of the last second or a little more.
    var samples: [(ns: Int64, count: Int)] = []
    var nextShowNs: Int64 = 0
    var lastMove = (settled: -1, ns: Int64(0))
    while true {
        let nowNs = LoopTime.read().monotonicNs
        let progress = worker.progress
        // The clock of the pace, and of the stall, starts with the first partition: joining takes a moment.
        if progress.hasJoined {
            let startedNs = clock.startedNs ?? nowNs
            clock.startedNs = startedNs
            let paced = options.rate == 0 ? .max : Int((nowNs - startedNs) / 1_000) * options.rate / 1_000_000
            producer.produce(upTo: min(books.settled + aheadLimit, paced), &books)
        }
        try reader.read(into: &books, timeoutMs: 5)
        if books.settled != lastMove.settled { lastMove = (books.settled, nowNs) }
        if clock.firstTriesNs == nil, producer.isDone, books.areFirstTriesSettled { clock.firstTriesNs = nowNs }
        let isComplete = producer.isDone && books.settled + (reader.hasWithheld ? 1 : 0) >= books.produced
        // The last line is of what settled last, not of a moment in which nothing was left to settle.
        if isComplete ? books.settled != samples.last?.count : nowNs >= nextShowNs {
            nextShowNs = nowNs + screen.intervalNs
            samples.append((nowNs, books.settled))
            while samples.count > 2, nowNs - samples[1].ns >= 1_000_000_000 { samples.removeFirst() }
            let (count, ns) = (books.settled - samples[0].count, nowNs - samples[0].ns)
            screen.show(books, of: options.count, rate: ns > 0 ? count * 1_000_000 / Int(ns / 1_000) : 0, progress)
        }
        if isComplete { return nil }
        if let failure = producer.failure ?? worker.failure { return failure }
        if nowNs - lastMove.ns > stallNs { return "nothing moved for 60 s" }
        if signals.came(withinMs: 0) { return "interrupted" }
    }
}

/// A worker on a thread of its own.
private final class DemoWorker {
    private let worker: PushWorker
    private let thread: pthread_t
    private let box = FailureBox()

    private final class FailureBox: Sendable {
        let text = Guarded<String?>(nil)
    }

    init(_ configuration: WorkerConfiguration, _ logger: Logger) throws {
        let worker = try PushWorker(configuration, logger: logger)
        self.worker = worker
        thread = try startThread("core") { [box] in
            do throws(StartFailure) {
                if case .failed(let reason) = try worker.run() { box.text.withLock { $0 = reason } }
            } catch {
                box.text.withLock { $0 = error.description }
            }
        }
    }

    var failure: String? { box.text.withLock { $0 } }
    var progress: WorkerProgress { worker.progress }

    /// Asks it to drain, and waits until it has; to be called once.
    func stop() {
        worker.stop()
        pthread_join(thread, nil)
    }
}
