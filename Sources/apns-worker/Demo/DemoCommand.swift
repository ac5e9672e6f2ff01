import APNsSimulator
import Configuration
import EventLoop
import Glibc
import Kafka
import Observability
import PushRecords
import Worker

private struct DemoOptions {
    var count = 100_000
    var rate = 0
    var latency = Latency.zero
    var faults: [FaultRule] = []
    /// Which of the results that are read back to ignore: 1 is the first result, and 0 ignores none.
    var withheld = 0
    var log = LogFlags()

    static let table = OptionTable<DemoOptions>(
        command: "apns-worker demo", usage: ["[OPTIONS]"],
        about: [
            "Runs everything in one process: librdkafka's in-memory Kafka broker, an APNs simulator, a producer, the worker, and a consumer of the worker's results. The command prints its progress every second and ends with three counts that must agree: produced, received by the simulator, and read back.",
            "Example: apns-worker demo --count 10000 --faults goaway@5000",
            "One record in twenty is not accepted at the first send: some have dead or wrong device tokens, some are invalid or expired, some are not requests, and some are accepted at the second send.",
        ],
        options: [
            .init(
                "count", "n", value: "N", to: \.count, integer(1...10_000_000),
                "Send this many notifications (default 100000)."),
            .init(
                "rate", value: "N", to: \.rate, integer(0...1_000_000),
                "Send at most this many notifications a second (default 0: no limit)."),
            .init(
                "latency", value: "TIME", to: \.latency, parsedLatency,
                "Delay the simulator's answers: 50ms, 20ms..80ms (evenly spread) or ~50ms (exponential with this mean)."
            ),
            .init(
                "faults", value: "LIST",
                "Inject these faults, separated by commas: goaway@5000,cut-after@2s (apns-worker simulate --help lists all faults)."
            ) { options, text in
                let words = text.split(separator: ",", omittingEmptySubsequences: false)
                options.faults += try words.map { try FaultRule(text: String($0)) }
            },
            .init(
                "withhold", value: "N", to: \.withheld, integer(1...10_000_000),
                "Ignore the N-th result that is read back, which makes the counts differ."),
        ] + LogFlags.options.map { $0.within(\.log) },
        notes: "Exit codes: 0 the counts agree, 1 the counts differ or the demo failed, 64 wrong usage.")
}

func runDemo(_ arguments: [String]) throws -> ExitCode {
    let options = try parsed(DemoOptions.table, arguments, DemoOptions())
    // The signals are blocked before all other threads are created, because threads inherit the signal mask.
    let signals = StopSignals()
    let broker = try MockCluster()
    var settings = SimulatorOptions()
    settings.controlPort = nil
    settings.bundleIDs = [DemoTraffic.bundleID]
    settings.latency = options.latency
    settings.faults = options.faults
    let simulator = try Simulator(settings)
    defer { simulator.stop() }
    var configuration = try configuration(broker, simulator)
    configuration.log = options.log.applied(to: configuration.log)
    for topic in configuration.requestTopics.map(\.name) + configuration.outputTopics.map(\.name) {
        try broker.create(topic, partitions: 4)
    }
    say(
        "apns-worker demo: \(grouped(options.count)) notifications from Kafka at \(broker.bootstrapServers) "
            + "to the APNs simulator at \(simulator.host):\(simulator.port), both in this process\n")
    var reader = try DemoReader(configuration, configuration.cluster(), withheld: options.withheld)
    let worker = try PushWorker(configuration, logger: Logger(levels: configuration.log.levels))
    let failure = Guarded<String?>(nil)
    let thread = try startThread("core") {
        do throws(StartFailure) {
            if case .failed(let reason) = try worker.run() { failure.withLock { $0 = reason } }
        } catch {
            failure.withLock { $0 = error.description }
        }
    }
    var books = DemoBooks(count: options.count)
    var problem: String?
    do {
        let producer = try DemoProducer(configuration, count: options.count)
        problem = try drive(options, worker, failure, &reader, producer, &books, signals)
    } catch {
        problem = "\(error)"
    }
    books.endedNs = LoopTime.read().monotonicNs
    worker.stop()
    pthread_join(thread, nil)
    // The worker produces a result and its dead-token record independently, so the dead-token record may be read later.
    let limit = Deadline(after: .seconds(10))
    repeat { try reader.read(into: &books, timeoutMs: 300) } while books.lacksDeadTokens && !limit.hasPassed
    simulator.books.forEach { _, token, received, accepted in
        books.update(DemoTraffic.number(inToken: token)) { entry in
            entry.received += received
            entry.accepted += accepted
        }
    }
    problem = problem ?? failure.withLock { $0 }
    let (agree, text) = books.compared(simulator.books.totals, isWhole: problem == nil)
    say(text + "\n")
    if let problem { complain("apns-worker demo: \(problem)") }
    return agree && problem == nil ? .fine : .failed
}

/// Returns the worker's configuration. Its single retry topic has a short delay, so that the demo does not wait for
/// half a minute.
private func configuration(_ broker: MockCluster, _ simulator: Simulator) throws -> WorkerConfiguration {
    let (keyPEM, caPEM) = (simulator.credentials.providerKeyPEM, simulator.credentials.caPEM)
    let text = """
        kafka:
          bootstrap_servers: \(broker.bootstrapServers)
          # Before librdkafka 2.6, the in-process broker delays the first assignment by this time less a second.
          session_timeout: 3s
          # The in-process broker answers an empty fetch only after this wait, even if a producer adds records during
          # the wait.
          consumer: {fetch.wait.max.ms: 10}
        retry: {tiers: {100ms: apns.retry.100ms}}
        apps:
          - name: demo
            bundle_ids: [\(DemoTraffic.bundleID)]
            host: \(simulator.host)
            port: \(simulator.port)
            connections: {min: 2, max: 2}
            token:
              key: \(keyPEM.debugDescription)
              key_id: \(SimulatorCredentials.keyID)
              team_id: \(SimulatorCredentials.teamID)
            tls: {ca: \(caPEM.debugDescription)}
        admin: {listen: off}
        log: {level: warning}
        """
    let loaded = try WorkerConfiguration.load(Array(text.utf8), path: "demo", environment: { _ in nil })
    var result = loaded.configuration
    result.kafka.tellsTopicConfigurations = false
    return result
}

/// The maximum number of notifications that are produced but not read back. The in-process broker stores at most 5 MiB
/// or 100,000 batches per partition, and drops older records.
private let aheadLimit = 9_000
private let stallNs: Int64 = 60_000_000_000

/// Produces requests and reads results back until all have arrived. Returns the problem that ended the demo early, or
/// `nil`.
private func drive(
    _ options: DemoOptions, _ worker: PushWorker, _ failure: Guarded<String?>, _ reader: inout DemoReader,
    _ producer: DemoProducer, _ books: inout DemoBooks, _ signals: borrowing StopSignals
) throws -> String? {
    var shown = (settled: 0, ns: LoopTime.read().monotonicNs)
    var lastMove = (settled: -1, ns: Int64(0))
    while true {
        let nowNs = LoopTime.read().monotonicNs
        let progress = worker.progress
        // The rate limit counts from the time at which the worker has joined its groups, because joining takes a
        // moment.
        if progress.hasJoined {
            let startedNs = books.startedNs ?? nowNs
            books.startedNs = startedNs
            let paced = options.rate == 0 ? .max : Int((nowNs - startedNs) / 1_000) * options.rate / 1_000_000
            producer.produce(upTo: min(books.settled + aheadLimit, paced), &books)
        }
        try reader.read(into: &books, timeoutMs: 5)
        if books.settled != lastMove.settled { lastMove = (books.settled, nowNs) }
        let isComplete = producer.isDone && books.settled + (reader.hasWithheld ? 1 : 0) >= books.produced
        if books.settled > shown.settled, isComplete || nowNs - shown.ns >= 1_000_000_000 {
            let rate = (books.settled - shown.settled) * 1_000_000 / max(1, Int((nowNs - shown.ns) / 1_000))
            say(books.progress(of: options.count, rate: rate, progress) + "\n")
            shown = (books.settled, nowNs)
        }
        if isComplete { return nil }
        if let failure = producer.failure ?? failure.withLock({ $0 }) { return failure }
        if nowNs - lastMove.ns > stallNs { return "no progress for 60 s" }
        if signals.take() { return "interrupted" }
    }
}
