import APNsSimulator
import Configuration
import EventLoop
import Glibc
import Kafka
import Observability
import PushRecords
import Synchronization
import Worker

/// One run of the demo: the parts are made, put together, watched, and audited.
struct DemoRun {
    /// Something that keeps the demo from running; one line.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    private let options: DemoOptions
    /// The in-process broker keeps 5 MiB or 100,000 batches of a partition: whoever is further ahead loses records.
    private static let aheadLimit = 9_000
    private static let stallNs: Int64 = 60_000_000_000

    init(_ options: DemoOptions) { self.options = options }

    /// True: the books agree.
    func run() throws -> Bool {
        Signals.ignoreBrokenPipes()
        let directory = try TemporaryDirectory(prefix: "apns-worker-demo")
        defer { directory.remove() }

        let broker = try MockCluster()
        for topic in [DemoTopics.requests, "apns.results", "apns.unregistered", "apns.dead-letters", DemoTopics.retry] {
            try broker.create(topic, partitions: DemoTopics.partitions)
        }
        var settings = SimulatorOptions()
        settings.directory = directory.path
        settings.controlPort = nil
        settings.latency = options.latency
        settings.faults = options.faults
        let simulator = try Simulator(settings)
        defer { simulator.stop() }

        let configuration = DemoTopics.configuration(
            bootstrapServers: broker.bootstrapServers, host: simulator.host, port: simulator.port,
            caFile: simulator.credentials.caFile!,
            key: TokenCredential(
                key: .text(simulator.credentials.providerKeyPEM), keyID: SimulatorCredentials.keyID,
                teamID: SimulatorCredentials.teamID), bundleID: SimulatorCredentials.bundleID)
        say(
            "apns-worker demo: \(grouped(options.count)) notifications, Kafka at \(broker.bootstrapServers) (in this "
                + "process), APNs simulator at \(simulator.host):\(simulator.port)\n")

        let logger = Logger(levels: configuration.log.levels)
        let worker = try WorkerThread(configuration, logger)
        var books = DemoBooks()
        let problem = try drive(configuration, worker, &books)
        worker.stop()
        if let problem = problem ?? worker.failure { complain("apns-worker demo: \(problem)") }
        return report(books, simulator.books.totals) && problem == nil
    }

    /// Produces and reads back until everything came back; what went wrong otherwise.
    private func drive(
        _ configuration: WorkerConfiguration, _ worker: WorkerThread, _ books: inout DemoBooks
    ) throws -> String? {
        let producer = try DemoProducer(
            bootstrapServers: configuration.kafka.bootstrapServers, total: options.count)
        let reader = try DemoReader(configuration, withheld: options.withheld)
        let startedNs = LoopTime.read().monotonicNs
        var screen = DemoScreen(total: options.count, nowNs: startedNs)
        var lastReceived = -1
        var lastMovedNs = startedNs
        while true {
            let nowNs = LoopTime.read().monotonicNs
            var limit = books.received + Self.aheadLimit
            if options.rate > 0 {
                limit = min(limit, Int(Double(nowNs - startedNs) / 1e9 * Double(options.rate)))
            }
            producer.produce(upTo: limit)
            producer.serve(&books)
            reader.read(into: &books, timeoutMs: 5)
            let progress = worker.progress
            screen.update(books, progress, nowNs: nowNs)
            if books.received != lastReceived {
                lastReceived = books.received
                lastMovedNs = nowNs
            }
            let isComplete = producer.isDone && books.expected == producer.made && books.received >= books.expected
            let isStalled = nowNs - lastMovedNs > (options.withheld > 0 ? Self.stallNs / 10 : Self.stallNs)
            if let failure = producer.failure ?? reader.failure ?? worker.failure { return failure }
            if isComplete || isStalled {
                // The dead-token records of the last results may still be on their way.
                for _ in 0..<20 { reader.read(into: &books, timeoutMs: 5) }
                screen.finish(books, progress, nowNs: nowNs)
                return isStalled && options.withheld == 0 ? "nothing moved for 60 s" : nil
            }
        }
    }

    private func report(_ books: DemoBooks, _ totals: Totals) -> Bool {
        let rows = books.rows(totals)
        say(table(rows))
        say(
            "\n  \(grouped(books.records)) records; \(grouped(totals.requests)) requests on \(totals.connections) "
                + "connections; accepted twice by the simulator: \(totals.acceptedAgain); results twice: "
                + "\(books.duplicateResults)\n")
        let mayRepeat = !options.faults.isEmpty
        let agrees =
            rows.allSatisfy(\.agrees) && books.duplicateResults == 0 && (mayRepeat || totals.acceptedAgain == 0)
        say(agrees ? "  The books agree.\n" : "  The books differ.\n")
        return agrees
    }
}

/// A worker on a thread of its own.
private final class WorkerThread: @unchecked Sendable {
    private let worker: PushWorker
    private var thread = pthread_t()
    private let failed = Mutex<String?>(nil)

    init(_ configuration: WorkerConfiguration, _ logger: Logger) throws {
        worker = try PushWorker(configuration, logger: logger)
        let result = pthread_create(
            &thread, nil,
            { argument in
                Unmanaged<WorkerThread>.fromOpaque(argument!).takeRetainedValue().run()
                return nil
            }, Unmanaged.passRetained(self).toOpaque())
        guard result == 0 else { throw DemoRun.Failure(description: "no thread for the worker") }
    }

    private func run() {
        do {
            if case .failed(let reason) = try worker.run() { failed.withLock { $0 = reason } }
        } catch {
            failed.withLock { $0 = "\(error)" }
        }
    }

    var failure: String? { failed.withLock { $0 } }
    var progress: WorkerProgress { worker.progress }

    /// Asks it to drain, and waits until it has.
    func stop() {
        worker.stop()
        pthread_join(thread, nil)
    }
}

/// A directory of this run's own, readable by nobody else.
struct TemporaryDirectory {
    let path: String

    init(prefix: String) throws {
        let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(base)/\(prefix)-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw DemoRun.Failure(description: "\(base): \(String(cString: strerror(errno)))")
        }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Removes it with the files in it (it has no folders).
    func remove() {
        guard let directory = opendir(path) else { return }
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { unlink("\(path)/\(name)") }
        }
        closedir(directory)
        rmdir(path)
    }
}
