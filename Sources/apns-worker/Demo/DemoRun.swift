import APNsSimulator
import Configuration
import EventLoop
import Kafka
import Observability
import PushRecords
import Worker

/// One run of the demo: puts the parts together, watches them, compares the books.
struct DemoRun {
    private let options: DemoOptions
    private let screen = DemoScreen()

    /// Notifications that may be on their way between producer and reader. The in-process broker keeps 5 MiB or 100,000
    /// batches of a partition: whoever gets further behind loses records.
    private static let aheadLimit = 9_000
    private static let stallNs: Int64 = 60_000_000_000

    init(_ options: DemoOptions) { self.options = options }

    /// True: the books agree.
    func run() throws -> Bool {
        // Before all other threads, which inherit the mask.
        let signals = StopSignals()
        let setting = try DemoSetting(options)
        screen.tell(
            "apns-worker demo: \(grouped(options.count)) notifications from Kafka at \(setting.broker.bootstrapServers) "
                + "to the APNs simulator at \(setting.simulator.host):\(setting.simulator.port), both in this process")
        let logger = Logger(levels: setting.configuration.log.levels, sink: screen)
        let reader = try DemoReader(setting.configuration, withheld: options.withheld)
        let worker = try WorkerThread(setting.configuration, logger)
        var books = DemoBooks(count: options.count)
        let problem: String?
        var clock = DemoClock(beganNs: LoopTime.read().monotonicNs)
        do {
            problem = try drive(worker, reader, setting.configuration, &books, &clock, signals)
        } catch {
            problem = "\(error)"
        }
        clock.endedNs = LoopTime.read().monotonicNs
        worker.stop()
        // What it wrote last, such as the dead-token record of a result read already.
        while reader.read(into: &books, timeoutMs: 300) > 0 {}
        setting.simulator.books.forEach { _, token, received, accepted in
            books.noteSimulated(DemoTraffic.number(inToken: token), received: received, accepted: accepted)
        }
        let comparison = books.compared()
        let failure = problem ?? worker.failure ?? reader.failure
        let summary = DemoSummary(
            comparison, books, clock, totals: setting.simulator.books.totals, isWhole: failure == nil)
        screen.tell(summary.text)
        if let problem = failure {
            complain("apns-worker demo: \(problem)")
            return false
        }
        return comparison.agrees
    }

    /// Produces and reads back until everything came back; returns what kept it from that.
    private func drive(
        _ worker: WorkerThread, _ reader: DemoReader, _ configuration: WorkerConfiguration, _ books: inout DemoBooks,
        _ clock: inout DemoClock, _ signals: borrowing StopSignals
    ) throws -> String? {
        let producer = try DemoProducer(
            bootstrapServers: configuration.kafka.bootstrapServers, topic: configuration.requestTopics[0].name,
            count: options.count)
        var pace = DemoPace(rate: options.rate)
        var meter = RateMeter()
        var nextShowNs: Int64 = 0
        var shown = -1
        var lastMove = (settled: -1, ns: Int64(0))
        while true {
            let nowNs = LoopTime.read().monotonicNs
            let progress = worker.progress
            // The clock of the pace, and of the stall, starts with the first partition: joining takes a moment.
            if progress.hasJoined {
                if books.produced == 0 { clock.startedNs = nowNs }
                let limit = min(books.settled + Self.aheadLimit, pace.limit(nowNs: nowNs))
                producer.produce(upTo: limit, &books)
            }
            reader.read(into: &books, timeoutMs: 5)
            if books.settled != lastMove.settled { lastMove = (books.settled, nowNs) }
            if clock.firstTriesNs == nil, producer.isDone, books.areFirstTriesSettled { clock.firstTriesNs = nowNs }
            let isComplete =
                producer.isDone && producer.outstanding == 0
                && books.settled + (reader.hasWithheld ? 1 : 0) >= books.produced
            // The last line is of what settled last, not of a moment in which nothing was left to settle.
            if isComplete ? books.settled != shown : nowNs >= nextShowNs {
                shown = books.settled
                nextShowNs = nowNs + Int64(screen.intervalMs) * 1_000_000
                meter.note(books.settled, nowNs: nowNs)
                show(books, progress, rate: meter.rate)
            }
            if isComplete { return nil }
            if let failure = producer.failure ?? reader.failure ?? worker.failure { return failure }
            if nowNs - lastMove.ns > Self.stallNs { return "nothing moved for 60 s" }
            if signals.came(withinMs: 0) { return "interrupted" }
        }
    }

    private func show(_ books: DemoBooks, _ worker: WorkerProgress, rate: Int) {
        guard worker.hasJoined else { return screen.show(.joining) }
        var progress = DemoProgress(total: options.count)
        progress.settled = books.settled
        progress.rate = rate
        progress.inFlight = worker.inFlight
        progress.connections = worker.connections
        progress.outcomes = books.outcomes
        progress.deadLetters = books.deadLetters
        screen.show(progress)
    }
}

/// When what happened (monotonic).
struct DemoClock {
    /// The parts were put together.
    let beganNs: Int64
    /// The worker had its partitions, and the first record was produced.
    var startedNs: Int64?
    /// All had settled that Apple's stand-in did not put off.
    var firstTriesNs: Int64?
    var endedNs: Int64

    init(beganNs: Int64) {
        self.beganNs = beganNs
        endedNs = beganNs
    }
}

/// How many notifications may have been produced by now.
private struct DemoPace {
    /// A second; 0: no limit.
    let rate: Int
    private var startedNs: Int64?

    init(rate: Int) { self.rate = rate }

    mutating func limit(nowNs: Int64) -> Int {
        guard rate > 0 else { return .max }
        let startedNs = self.startedNs ?? nowNs
        self.startedNs = startedNs
        return Int((nowNs - startedNs) / 1_000 * Int64(rate) / 1_000_000)
    }
}

/// Events a second, over the last second or a little more.
private struct RateMeter {
    private var samples: [(ns: Int64, count: Int)] = []

    mutating func note(_ count: Int, nowNs: Int64) {
        samples.append((nowNs, count))
        while samples.count > 2, nowNs - samples[1].ns >= 1_000_000_000 { samples.removeFirst() }
    }

    var rate: Int {
        guard let first = samples.first, let last = samples.last, last.ns > first.ns else { return 0 }
        return Int(Double(last.count - first.count) / (Double(last.ns - first.ns) / 1e9))
    }
}
