import Glibc

/// What a worker had used when so many of its results were there.
struct Sample {
    var results: Int
    /// Since the run began, by the monotonic clock.
    var ns: Int64
    var cpuNs: Int64
    var residentBytes: Int
}

/// The built worker at work: a fresh group reads the requests, sends them, and every result is in its topic.
final class WorkerRun {
    let requests: RequestTopic
    let outputs: OutputTopics
    private(set) var samples: [Sample] = []
    /// CPU by thread when all results were there.
    private(set) var threads: [(name: String, ns: Int64)] = []
    /// Wall clock, just before it was started.
    private(set) var startedMs: Int64
    private(set) var child: Child

    private let stage: Stage
    private let words: [String]
    private let ends: TopicEnds
    private let startNs = Clocks.monotonicNs
    private var first: (results: Int, ns: Int64)?
    private var last: (results: Int, ns: Int64) = (0, 0)

    init(_ stage: Stage, _ file: WorkerFile) throws {
        self.stage = stage
        requests = file.requests
        outputs = file.outputs
        words = [
            stage.programs.worker, "run", "--config",
            try stage.scratch.write(file.text(stage.broker), to: "\(outputs.results).yaml"),
        ]
        ends = try TopicEnds(outputs.results, partitions: requests.partitions, of: stage.broker)
        startedMs = Clocks.wallMs
        child = try Child("apns-worker", words, scratch: stage.scratch)
    }

    /// Waits until so many results are in the topic; takes a sample at each tenth of them, and at each million where
    /// there are two million or more.
    func awaitResults(_ wanted: Int, pauseMs: Int = 50) throws {
        let deadline = Deadline(seconds: stage.options.timeoutSeconds)
        var mark = Self.mark(after: 0, of: wanted)
        while last.results < wanted {
            try Interruption.pause(ms: pauseMs)
            if child.hasEnded { throw child.failure }
            guard !deadline.isOver else {
                throw BenchFailure(
                    "the worker published \(last.results) of \(wanted) results in time, and said: "
                        + (child.output.split(separator: "\n").last.map { String($0) } ?? "nothing"))
            }
            last = (try ends.count(), Clocks.monotonicNs)
            if first == nil, last.results > 0 { first = last }
            if last.results >= mark {
                sample()
                mark = Self.mark(after: last.results, of: wanted)
            }
        }
        threads = child.threadTimes()
    }

    /// Waits until no result has come for a second.
    func awaitQuiet() throws {
        var seen = -1
        while seen != last.results {
            seen = last.results
            for _ in 0..<10 { try Interruption.pause(ms: 100) }
            last = (try ends.count(), Clocks.monotonicNs)
        }
    }

    private static func mark(after results: Int, of wanted: Int) -> Int {
        let tenth = max(1, wanted / 10)
        let next = (results / tenth + 1) * tenth
        return wanted < 2_000_000 ? next : min(next, (results / 1_000_000 + 1) * 1_000_000)
    }

    private func sample() {
        samples.append(
            Sample(
                results: last.results, ns: last.ns - startNs, cpuNs: Clocks.cpuNs(of: child.processID) ?? 0,
                residentBytes: child.residentBytes))
    }

    /// Kills it, and starts it again with the same configuration at once.
    ///
    /// - Returns: the wall clock at the kill.
    func killAndRestart() throws -> Int64 {
        let killedMs = Clocks.wallMs
        child.signal(SIGKILL)
        while !child.hasEnded { try Interruption.pause(ms: 1) }
        startedMs = Clocks.wallMs
        child = try Child("apns-worker", words, scratch: stage.scratch)
        return killedMs
    }

    /// Ends it in order.
    func end() throws -> Usage {
        child.signal(SIGTERM)
        return try child.wait(until: Deadline(seconds: 40))
    }

    /// Notifications a second, but for those that were there when it was first looked.
    var ratePerSecond: Double {
        guard let first, last.ns > first.ns else { return 0 }
        return Double(last.results - first.results) * 1e9 / Double(last.ns - first.ns)
    }

    /// The same between the first tenth and the ninth: without start and end.
    var steadyRatePerSecond: Double {
        let inner = samples.filter { $0.results < requests.count }
        guard let from = inner.first, let to = inner.last, to.ns > from.ns else { return ratePerSecond }
        return Double(to.results - from.results) * 1e9 / Double(to.ns - from.ns)
    }
}
