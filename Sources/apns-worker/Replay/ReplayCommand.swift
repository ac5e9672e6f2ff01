import Configuration
import EventLoop
import Kafka
import Replay
import Worker

/// `apns-worker replay`.
func replay(_ arguments: [String]) -> ExitCode {
    let (word, rest) = operand(arguments)
    switch parsed(ReplayOptions.table, rest, ReplayOptions()) {
    case .failure(let exit): return exit.code
    case .success(let options):
        let sources = ReplaySource.allCases.map(\.rawValue)
        guard let source = word.flatMap({ ReplaySource(rawValue: $0) }) else {
            let problem = word.map { "there is no \(printable($0)) to replay" } ?? "what is to be replayed?"
            let suggestion =
                word.flatMap { nearest(to: $0, among: sources) }.map { "did you mean \($0)?" }
                ?? "say one of \(sources.joined(separator: ", ")) first"
            complain("apns-worker replay: \(problem); \(suggestion) (see apns-worker replay --help)")
            return .wrongUsage
        }
        if let complaint = options.complaint(source) {
            complain("apns-worker replay: \(complaint) (see apns-worker replay --help)")
            return .wrongUsage
        }
        switch loaded(options.file ?? "") {
        case .failure(let exit): return exit.code
        case .success(let (configuration, cluster)):
            if let complaint = options.complaint(configuration) {
                complain("apns-worker replay: \(complaint)")
                return .wrongUsage
            }
            return replay(source, configuration, cluster, options)
        }
    }
}

private func replay(
    _ source: ReplaySource, _ configuration: WorkerConfiguration, _ cluster: ClusterSettings, _ options: ReplayOptions
) -> ExitCode {
    // Before librdkafka's threads, which inherit the mask.
    let signals = ReplayStop(StopSignals(), Deadline(after: options.deadline))
    var cluster = cluster
    cluster.clientID += "-replay"
    let began = LoopTime.read()
    let order = options.order(source, configuration, nowMs: began.wallMs)
    let screen = ReplayScreen(order)
    for hint in options.hints(source) { screen.tell("apns-worker replay: \(hint)") }
    var troubles = Troubles()
    let watch = ReplayWatch(isStopped: { signals.came }) { text in
        screen.clear()
        troubles.say(text)
    }
    var last = ReplayReport()
    do throws(ReplayFailure) {
        let run = try ReplayRun(order, cluster, watch) { line in
            screen.tell(line)
        } progressed: { report in
            last = report
            screen.show(report)
        }
        last = try run.run()
        screen.clear()
    } catch {
        screen.clear()
        guard error.isStop else {
            complain("apns-worker replay: \(error)")
            return .failed
        }
        complain(
            "apns-worker replay: \(signals.isOver ? "--deadline came" : "stopped") before all was \(order.isDryRun ? "looked at" : "done; the same command goes on")"
        )
    }
    for place in last.unmatched { screen.tell("\(place): nothing of it matches") }
    let seconds = Double(LoopTime.read().monotonicNs - began.monotonicNs) / 1e9
    say(options.format == .json ? order.json(last, seconds) + "\n" : order.text(last, seconds))
    return last.isDone && last.counts.isComplete && last.unmatched.isEmpty ? .fine : .failed
}

/// When a replay is to end before it is done.
private final class ReplayStop {
    private let signals: StopSignals
    private let deadline: Deadline
    private(set) var isOver = false
    private var isStopped = false

    init(_ signals: consuming StopSignals, _ deadline: Deadline) {
        self.signals = signals
        self.deadline = deadline
    }

    /// For good, once it was so.
    var came: Bool {
        if !isStopped, signals.came(withinMs: 0) { isStopped = true }
        if !isStopped, deadline.hasPassed {
            isStopped = true
            isOver = true
        }
        return isStopped
    }
}
